#!/usr/bin/env python3
"""The needs of agents from a server, and the Redis versions that brought them: needs.py

The commands are those of deploy/acl/full.acl, of which test_acl.c sees that none is missing and
none too much; the options are the words in capitals beside them in the scripts and in the native
commands of asking.c. Each must be in SINCE. docs/interop.md has a table of all that came with
Redis 5 or later, and names the oldest server; both are compared. So are the commands that scripts
call and the list by which `lockagent check --ask` looks for them (survey.c). The last line is
`N passed, N failed`.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGE = TOP / "docs/interop.md"
TABLE = re.compile(r"(?<=<!-- needs -->\n).*?(?=<!-- end of needs -->)", re.S)
WORD = re.compile(r"(\*\d+\\r\\n)?\$\d+\\r\\n([A-Z]+)\\r\\n")
CALLED = re.compile(r"(?:redis\.p?call|\bask)\('([A-Z]+)'")
# INFO and TIME are asked for by themselves. Without PUBSUB a script tells no waiting agent.
NOT_LISTED = {"INFO", "TIME", "PUBSUB"}
CALL = re.compile(r"(?:redis\.p?call|\bask)\('([A-Z]+)'((?:[^()]|\([^()]*\))*)\)")

SINCE = {
    "1.0": "DEL EXISTS GET INFO MGET PING SET",
    "1.2": "EXEC MULTI ZADD ZRANGE ZRANGE+WITHSCORES ZREM ZREMRANGEBYSCORE ZSCORE",
    "2.0": "HDEL HGET HGETALL HMGET HSET PUBLISH SUBSCRIBE UNSUBSCRIBE ZCOUNT",
    "2.6": "EVAL EVALSHA PEXPIRE PEXPIREAT PTTL SCRIPT|EXISTS SCRIPT|LOAD TIME",
    "2.6.9": "CLIENT|SETNAME",
    "2.6.12": "SET+NX SET+PX SET+XX",
    "2.8": "PUBSUB|NUMSUB",
    "2.8.12": "CLIENT|KILL",
    "3.0": "WAIT",
    "3.0.2": "ZADD+CH",
    "5.0": "CLIENT|ID",
    "6.0": "SET+KEEPTTL",
    "6.2": "SET+PXAT ZADD+GT",
    "7.0": "COMMAND|LIST PEXPIRE+GT PEXPIREAT+GT",
}


def version(text):
    return tuple(map(int, text.split(".")))


def commands_needed():
    rights = (TOP / "deploy/acl/full.acl").read_text(encoding="ascii").split()
    return {right[1:].upper() for right in rights if right.startswith("+")}


def options_needed():
    found = set()
    for script in sorted((TOP / "agent/redis").glob("*.lua")):
        for command, words in CALL.findall(script.read_text(encoding="ascii")):
            found |= {f"{command}+{option}" for option in re.findall(r"'([A-Z]+)'", words)}
    native = (TOP / "agent/redis/asking.c").read_text(encoding="ascii")
    native = native[native.index("struct native asking_native(") :]
    command = ""
    for first, word in WORD.findall(native[: native.index("\n}\n")]):
        command = word if first else command
        if not first:
            found.add(f"{command}+{word}")
    return {each for each in found if each != "PUBSUB+NUMSUB"}  # a command of its own


def scripts_commands():
    called = set()
    for script in sorted((TOP / "agent/redis").glob("*.lua")):
        called |= set(CALLED.findall(script.read_text(encoding="ascii")))
    return called


def commands_surveyed():
    survey = (TOP / "agent/redis/survey.c").read_text(encoding="ascii")
    survey = survey[survey.index("static void look_at_scripts_commands(") :]
    names = survey[survey.index("needed[] = {") : survey.index("};")]
    return {name.upper() for name in re.findall(r'"(\w+)"', names)}


def main():
    since = {each: when for when, line in SINCE.items() for each in line.split()}
    needed = commands_needed() | options_needed()
    apart = sorted(needed ^ set(since))
    rows = sorted((version(since[each]), each) for each in needed & set(since))
    table = "| command | since Redis |\n| --- | --- |\n"
    for when, each in rows:
        if when >= (5,):
            table += f"| `{each.replace('+', '` with `').replace('|', ' ')}` | {since[each]} |\n"
    text = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        text = TABLE.sub(lambda _: table, text)
        PAGE.write_text(text, encoding="utf-8")
    called, rights = scripts_commands(), {each.partition("|")[0] for each in commands_needed()}
    unlisted = sorted((called & rights - NOT_LISTED) ^ commands_surveyed())
    oldest = ".".join(map(str, rows[-1][0]))
    checks = {
        f"not both needed and in SINCE: {', '.join(apart)}": not apart,
        f"called by scripts, and not in full.acl: {', '.join(sorted(called - rights))}": called
        <= rights,
        f"not both called by scripts and in survey.c: {', '.join(unlisted)}": not unlisted,
        f"the table of needs in {PAGE.name} is another one: --write": TABLE.findall(text)
        == [table],
        f"{PAGE.name} does not say **Redis {oldest}**": f"**Redis {oldest}**" in text,
    }
    for what, good in checks.items():
        if not good:
            print(f"FAILED {what}")
    good = list(checks.values())
    print(f"{good.count(True)} passed, {good.count(False)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
