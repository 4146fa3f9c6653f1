#!/usr/bin/env python3
"""Compares the completions with the arguments that the program says that it takes: completions.py
LOCKAGENT.

The program's own help is the table. Bash is asked for real; of zsh, which need not be installed,
the text is read.
"""
import pathlib
import re
import subprocess
import sys
import unittest

DEPLOY = pathlib.Path(__file__).parent.parent.parent / "deploy" / "completions"
COMMANDS = ("serve", "check", "trust", "unlock", "layouts", "healthcheck", "run", "capacity")
LONG = re.compile(r"--[a-z-]+[a-z]")


def said(*args):
    return subprocess.run([LOCKAGENT, *args], check=True, capture_output=True, text=True).stdout


def options_of(command):
    """The long options that the help names for a command."""
    if command in ("run", "capacity"):
        lines = re.findall(r"^ {2,}(?:-\w, +)?--.*", said(command, "--help"), re.M)
        return {LONG.search(line).group() for line in lines}
    usages = re.findall(rf"^  lockagent \[?{command}\b.*", said("--help"), re.M)
    return {word for usage in usages for word in LONG.findall(usage.split("   ")[0])}


def bash_offers(*words):
    """What bash completes behind these words."""
    script = f"""
        . {DEPLOY}/lockagent.bash
        COMP_WORDS=(lockagent "$@" '') COMP_CWORD=$(($# + 1))
        _lockagent
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    ended = subprocess.run(
        ["bash", "-c", script, "bash", *words], check=True, capture_output=True, text=True
    )
    return set(ended.stdout.split())


def zsh_text(command):
    """The part of zsh's completion that is for a command, with the arrays that it names."""
    text = (DEPLOY / "_lockagent").read_text(encoding="utf-8")
    part = re.search(rf"^  (?:\w+ \| )?{command}(?: \| \w+)?\)(.*?);;", text, re.M | re.S).group(1)
    for _ in range(2):  # an array may name the other one
        for name, items in re.findall(r"^(\w+_options)=\(\n(.*?)^\)", text, re.M | re.S):
            part = part.replace("$" + name, items)
    return part


class Completions(unittest.TestCase):
    def test_commands(self):
        named = set(re.findall(r"^  lockagent \[?(\w+)", said("--help"), re.M))
        self.assertEqual(named, set(COMMANDS))
        self.assertEqual({word for word in bash_offers() if word[0] != "-"}, named)
        text = (DEPLOY / "_lockagent").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r'(\w+)\\:"', text)), named)

    def test_bash_options(self):
        for command in ("serve", "trust", "unlock", "layouts", "healthcheck", "run", "capacity"):
            offered = {word for word in bash_offers(command) if LONG.fullmatch(word)}
            self.assertEqual(offered, options_of(command), command)

    def test_zsh_options(self):
        for command in ("serve", "trust", "unlock", "layouts", "healthcheck", "run", "capacity"):
            self.assertEqual(set(LONG.findall(zsh_text(command))), options_of(command), command)

    def test_files_follow_check_trust_unlock_and_layouts(self):
        for command in ("check", "trust", "unlock", "layouts"):
            self.assertTrue(bash_offers(command).isdisjoint(bash_offers("serve")))
            self.assertIn("_files", zsh_text(command))

    def test_actions(self):
        actions = re.search(r"--on-lost ACTION +(\w+):.*\n +(\w+):.*\n +(\w+):", said("run", "-h"))
        self.assertEqual(bash_offers("run", "--on-lost"), set(actions.groups()))
        self.assertIn(f"action:({' '.join(actions.groups())})", zsh_text("run"))


if __name__ == "__main__":
    LOCKAGENT = sys.argv.pop(1)
    unittest.main()
