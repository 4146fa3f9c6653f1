"""Fresh masters that vote from the beginning, for suites that are not about the guard (D5.3)."""
import pathlib
import subprocess

MARK = pathlib.Path(__file__).resolve().parent / "mark.lua"


def mark_master(*how):
    """`how`: the options by which redis-cli reaches the master, which must answer."""
    command = ["redis-cli", "-e", *map(str, how), "--eval", MARK]
    marked = subprocess.run(
        [*command, "lockagent:marker", "lockagent:votes"],
        capture_output=True,
        text=True,
        check=False,
    )
    if marked.stdout != "OK\n":
        raise RuntimeError(f"a master is not marked: {marked.stdout}{marked.stderr}")
