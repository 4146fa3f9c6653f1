"""Chance that is the same for the same committed tree."""
import pathlib
import secrets
import shutil
import subprocess

ROOT = pathlib.Path(__file__).parent.parent


def number_of_tree():
    """A number below 2^48: the hash of the committed tree, or by chance."""
    tree = ""
    if shutil.which("git") and (ROOT / ".git").exists():
        git = ["git", "-C", ROOT, "rev-parse", "HEAD^{tree}"]
        tree = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return int(tree[:12], 16) if tree else secrets.randbelow(1 << 48)
