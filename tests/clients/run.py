#!/usr/bin/env python3
"""The callers of docs/clients.md as they are printed there, beside real agents and masters: run.py
BUILD_DIR [LANGUAGE...]

All languages are played side by side, each with keys of its own: granted after a wait, and released
by its end; refused; taken away; ended by signals; left by an agent that is killed, and by one that
is stopped. The callers with several keys name them in opposite orders, and are refused the last of
them; those of the shell are ended by signals too. A language that is not here is skipped with a
word. The last line is `N passed, N failed`.
"""
import concurrent.futures
import contextlib
import functools
import pathlib
import re
import shutil
import signal
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/hazards"), str(TOP / "tests/faults")]
from stage import MASTERS, RELEASED, Stage, Unseen, await_sight, bucket_of, see

PAGE = (TOP / "docs/clients.md").read_text()
LEASE_S = 5
END_S = 60  # of a caller that does six seconds of work, a second more than its ttl
# language -> fence of the page, required programs, the file, command that makes it ready, command
# that runs it; {} is the program's name
LANGUAGES = {
    "dash": ("sh", ("curl", "setpriv", "dash"), "{}.sh", None, "dash {}.sh"),
    "bash": ("sh", ("curl", "setpriv", "bash"), "{}.sh", None, "bash {}.sh"),
    "python": ("python", (sys.executable,), "{}.py", None, f"{sys.executable} {{}}.py"),
    "go": ("go", ("go",), "{}.go", "go build -o {0} {0}.go", "./{}"),
    "js": ("js", ("node",), "{}.mjs", None, "node {}.mjs"),
    "java": ("java", ("javac",), "{}.java", "javac {}.java", "java -cp . {}"),
}
SHELLS = ("dash", "bash")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
PROGRAMS = ("Report", "Several")  # of each language, in the order of the page


class PatientStage(Stage):
    """A lease without a ttl of its caller outlives a busy machine's pauses."""

    def policies(self, agent):
        return [re.sub(r"\bttl: \w+", f"ttl: {LEASE_S}s", each) for each in super().policies(agent)]


class Caller:
    """One language's programs, and a stage to play on."""

    def __init__(self, stage, language):
        self.stage, self.language = stage, language
        self.fence, tools, self.file, self.ready, self.command = LANGUAGES[language]
        self.is_here = all(map(shutil.which, tools))
        self.folder = pathlib.Path(stage.path(f"client-{language}"))
        self.running = []

    def prepare(self):
        sources = re.findall(rf"^```{self.fence}\n(.*?)^```$", PAGE, re.S | re.M)
        see("each program is there once", len(sources) == len(PROGRAMS))
        self.folder.mkdir()
        for name, source in zip(PROGRAMS, sources):
            file = self.file.format(name)
            (self.folder / file).write_text(source)
            if self.ready:
                words = self.ready.format(name).split()
                made = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
                see(f"{file} compiles: {made.stderr}", made.returncode == 0)

    def key(self, case):
        return f"clients/{self.language}/{case}"

    def begin(self, agent, key):
        return self.start("Report", [f"{self.locks(agent)}/{key}"])

    def begin_several(self, agent, *keys):
        return self.start("Several", [self.locks(agent), *keys])

    def locks(self, agent):
        return f"http://127.0.0.1:{self.stage.ports[agent]}/locks"

    def start(self, name, arguments):
        path = self.folder / f"log{len(self.running)}"
        log = open(path, "w+b")
        process = subprocess.Popen(
            [*self.command.format(name).split(), *arguments],
            cwd=self.folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.running.append((process, log))
        return process, path.read_text

    def close(self):
        for process, log in self.running:
            log.close()
            if process.poll() is None:
                process.kill()
                process.wait()

    def await_end(self, process, said, word, code):
        see(f"it ends: {said()}", self.ends_within(process, END_S))
        see(f"it ends with {word}: {said()}", word in said() and process.returncode == code)

    @staticmethod
    def ends_within(process, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None

    def await_grant(self, said):
        await_sight("it is granted", lambda: "granted" in said())

    def is_free(self, key):
        return not self.stage.masters_with(key)

    # ---- the cases

    def waits_works_and_releases(self):
        key = self.key("good")
        holder = self.stage.holder(key)
        process, said = self.begin(0, key)
        await_sight("it waits", lambda: self.stage.metric(0, "lockagent_waiters"))
        see("nothing was granted", "granted" not in said())
        see("it is released", holder.delete(key) in RELEASED)
        self.await_end(process, said, "done", 0)
        number = re.search(r"granted (\d+)", said())
        see("its number is told", number is not None and int(number[1]) > holder.fence)
        await_sight("no key is left", lambda: self.is_free(key))

    def is_refused(self):
        process, said = self.begin(0, "%01")
        see(f"it ends: {said()}", self.ends_within(process, END_S))
        see(f"it says why: {said()}", "bad_request" in said() and process.returncode == 1)

    def is_taken_away(self):
        key = self.key("taken")
        process, said = self.begin(0, key)
        self.await_grant(said)
        for master in range(MASTERS):
            self.stage.ask_master(master, "SET", f"lock:{key}", "somebody", "PX", "9000")
        self.await_end(process, said, "lost", 1)

    def leaves_nothing_when_it_is_ended(self):
        """By a signal to its process alone, as `kill` sends it."""
        for number in SIGNALS:
            key = self.key(number.name)
            process, said = self.begin(0, key)
            self.await_grant(said)
            process.send_signal(number)
            see(f"{number.name} ends it: {said()}", self.ends_within(process, END_S))
            see(f"it was not done: {said()}", "done" not in said() and process.returncode != 0)
            await_sight(f"{number.name} leaves no key", lambda: self.is_free(key))

    # ---- the cases with several keys

    def awaited(self):
        return {each["key"] for each in self.stage.ask(0, "GET", "/locks?limit=1000")[1]["waiting"]}

    def sorts_its_keys(self):
        """The second key is held. Both callers want the first one first, and end."""
        keys = [self.key(f"two/{number}") for number in (1, 2)]
        holder = self.stage.holder(keys[1], renew="agent")
        one, said_one = self.begin_several(0, *keys, keys[0])
        await_sight("the first waits for the second key", lambda: keys[1] in self.awaited())
        see("it has the first one", self.stage.masters_with(keys[0]))
        other, said_other = self.begin_several(0, *reversed(keys))
        await_sight("the other waits for the first key", lambda: keys[0] in self.awaited())
        see("nothing was granted", "granted" not in said_one() + said_other())
        see("it is released", holder.delete(keys[1]) in RELEASED)
        self.await_end(one, said_one, "done", 0)
        self.await_end(other, said_other, "done", 0)
        await_sight("no key is left", lambda: all(map(self.is_free, keys)))

    def gives_back_its_keys(self):
        keys = [self.key("part/a"), self.key("part/b"), self.key("part/c//d")]
        process, said = self.begin_several(0, *keys)
        see(f"it ends: {said()}", self.ends_within(process, END_S))
        see(f"it says why: {said()}", "bad_request" in said() and process.returncode == 1)
        see("it had the others", all(map(self.was_granted, keys[:2])))
        await_sight("no key is left", lambda: all(map(self.is_free, keys[:2])))

    def gives_back_its_keys_when_it_is_ended(self):
        """The signal comes while the shell waits for its second key, which is granted after it."""
        for number in (signal.SIGINT, signal.SIGTERM) if self.language in SHELLS else ():
            keys = [self.key(f"{number.name}/{part}") for part in (1, 2)]
            holder = self.stage.holder(keys[1], renew="agent")
            process, said = self.begin_several(0, *keys)
            await_sight("it waits for the second key", lambda: keys[1] in self.awaited())
            see("it has the first one", self.stage.masters_with(keys[0]))
            process.send_signal(number)
            see("it is released", holder.delete(keys[1]) in RELEASED)
            see(f"{number.name} ends it: {said()}", self.ends_within(process, END_S))
            see(f"nothing was granted: {said()}", said() == "" and process.returncode == 1)
            see("it had the second key", self.was_granted(keys[1]))
            await_sight("no key is left", lambda keys=keys: all(map(self.is_free, keys)))

    def was_granted(self, key):
        return any(self.stage.ask_all("EXISTS", bucket_of(key)))


CASES = (
    Caller.waits_works_and_releases,
    Caller.is_refused,
    Caller.is_taken_away,
    Caller.leaves_nothing_when_it_is_ended,
    Caller.sorts_its_keys,
    Caller.gives_back_its_keys,
    Caller.gives_back_its_keys_when_it_is_ended,
)


def begin_at(stage, callers, agent, case):
    """(caller, process, its output so far) of each. All are granted at the same time."""
    holders = {key: stage.holder(key, renew="agent") for key in (c.key(case) for c in callers)}
    begun = [(caller, *caller.begin(agent, caller.key(case))) for caller in callers]
    await_sight("all wait", lambda: stage.metric(agent, "lockagent_waiters") == len(callers))
    for key, holder in holders.items():
        see("it is released", holder.delete(key) in RELEASED)
    for caller, _, said in begun:
        caller.await_grant(said)
    return begun


def report(title, play):
    trouble = None
    try:
        play()
    except (Unseen, OSError, ValueError, LookupError) as why:
        trouble = f"{type(why).__name__}: {why}"
    print(f"{'FAILED' if trouble else 'ok':6} {title}", flush=True)
    if trouble:
        print(f"       {trouble}", flush=True)
    return trouble is None


def main():
    build, languages = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:] or list(LANGUAGES)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # A program that inherits an ignored SIGINT, as one of a shell's background does, keeps it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.closing(
        PatientStage(build, durable=True)
    ) as stage, contextlib.ExitStack() as ends:
        callers = [
            ends.enter_context(contextlib.closing(Caller(stage, each))) for each in languages
        ]
        for caller in callers:
            if not caller.is_here:
                print(f"skipped {caller.language}: it is not here")
        callers = [caller for caller in callers if caller.is_here]

        def play(caller):
            sound = [report(f"{caller.language}: prepare", caller.prepare)]
            for case in CASES if sound[0] else ():
                title = f"{caller.language}: {case.__name__.replace('_', ' ')}"
                sound.append(report(title, lambda case=case: case(caller)))
            return sound

        with concurrent.futures.ThreadPoolExecutor() as pool:
            results = [each for sound in pool.map(play, callers) for each in sound]
        # A client works for 6 s, and its agent is ended before the first one is done.
        for agent, case, number in ((1, "killed", signal.SIGKILL), (2, "stopped", signal.SIGSTOP)):
            begun = begin_at(stage, callers, agent, case)
            stage.signal(f"agent{agent}", number)
            for caller, process, said in begun:
                end = functools.partial(caller.await_end, process, said, "lost", 1)
                results.append(report(f"{caller.language}: its agent is {case}", end))
            if case == "stopped":
                stage.signal(f"agent{agent}", signal.SIGCONT)
    passed = sum(results)
    print(f"{passed} passed, {len(results) - passed} failed")
    return 0 if passed and passed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
