#!/usr/bin/env python3
"""Refuses bent English in pages and comments: words.py TOP [--write] [--list FILE...]

One table (REFUSED) names each construct: its regular expression and the plain form. Pages are the
*.md files, without their code and without tables that the program prints. Of C, Lua and Python
files the comments are read, and the docstrings of Python. Of the string literals of C and Python
only the constructs of REFUSED_IN_STRINGS are refused.

words.txt allows a count of findings per file. A file may not have more than its count, and a count
that has fallen must be lowered: --write lowers counts, drops files without findings, and never
raises a count. Without words.txt, --write begins it with the counts of today. --list prints each
finding of the files that are named, allowed or not.
"""
import bisect
import io
import os
import re
import sys
import tokenize

LIST = "tests/lint/words.txt"
PLACES = (".ci", "agent", "api", "config", "deploy", "docs", "tests")  # and the files at the top
LEFT_OUT = ("tests/fuzz/corpus", "tests/fuzz/dict")
WORDS_SHOWN = ("tests/lint/words.py", "tests/lint/lints_test.py")  # bent words are in their strings
PLAIN = re.compile(r".*\.md")  # the list may not name a page

PLACE = (
    "address|at|column|connection|file|folder|from|header|host|is|knows?|line|machine|named?|page|"
    "path|places?|point|records?|says?|section|see|server|shows?|table|to|of|and"
)
MACHINE = (
    "agent|client|container|core|daemon|kernel|kubelet|library|loop|machine|master|node|process|"
    "program|replica|script|server|sidecar|simulator|watchdog"
)
BEGINS = (
    r"(?:^|[.;:,(|] |- |\b(?:so|and|but|for|as|than|if|when|while|because|that|of|with|to|by|nor|or"
    r"|only) )"
)
# A verb before "what" that makes it a question in another sentence.
ASKED = "".join(
    rf"(?<!\b{verb} )" for verb in "say says said know knows known show shows lists states".split()
)
# (name, regular expression, the plain form)
REFUSED = [
    ("where", rf"(?<![\w-])(?<!\w )where\b|\b(?!(?:{PLACE}) )\w+ where\b", "if, when"),
    ("can not", r"\bcan not\b", "cannot"),
    ("for ever", r"\bfor ever\b", "forever"),
    ("else", r"(?:[,;:(.] |\bor )else\b(?! if\b)", "otherwise"),
    (
        "free relative",
        r"\bwhat (?:is|it|its|was|are|were|they|has|had|have|must|may|can|cannot|no|comes?|came|"
        r"stands?|stood|runs?|ran|does|did|one|this|we|he|she|each|nothing|needs?|follows|"
        r"remains?|remained|holds?|held|begins?|began|ends?|ended|waits?|waited|asks?|asked|"
        r"gives?|gave|makes?|made|takes?|took|keeps?|kept)\b",
        "name the subject",
    ),
    (
        "free relative",
        rf"{ASKED}\bwhat (?:the|a|an|another|others?|all|most|java|redis|agents?|masters?|callers?"
        r"|clients?|scripts?|tests?|libmicrohttpd)\b",
        "name the subject",
    ),
    ("free relative of persons", rf"{BEGINS}who\b", "name the subject: a caller that"),
    (
        "one who",
        r"\b(?:ones?|those|others?|all|any|each|some|many|callers?|holders?|owners?|readers?|"
        r"waiters?|writers?|beside) who\b",
        "name the subject: a caller that",
    ),
    ("whoever", r"\b(?:who|what|which|when)(?:so)?ever\b", "name the subject"),
    ("that which", r"\bthat which\b", "name the subject"),
    ("who of a machine", rf"\b(?:{MACHINE})s?,? who\b", "which, that"),
    ("somebody", r"\b(?:no|some|every|any)body\b", "name the subject: no caller, another agent"),
    ("stands", r"\b(?:stands?|stood|standing)\b", "is, is written, is stopped"),
    ("in line", r"\bin line\b(?! with\b)", "waits, is queued"),
    ("errand", r"\berrands?\b", "pending operation"),
    ("contest", r"\bcontests?\b", "contention"),
    ("heir", r"\bheirs?\b", "next holder"),
    ("under way", r"\bunder way\b", "in flight"),
    ("heard", r"\b(?:hears?|heard)\b", "receives, learns, is reported"),
    (
        "turn of the loop",
        r"\bturns? of (?:the |its |a |one )?(?:event )?loop\b",
        "iteration of the loop",
    ),
]
# Of each comment of a C file.
REFUSED_IN_C = [
    ("begins in the middle", r"^(?:and|or|of|but|nor)\b", "a comment is a whole sentence"),
    ("ends in the middle", r",$", "a comment is a whole sentence"),
]

# Of each string literal of C and Python files: of texts that people read, and of names of checks.
REFUSED_IN_STRINGS = [
    ("one who", r"\b(?:ones?|those|others?|all|callers?|owners?) who\b", "name the subject"),
    ("whoever", r"\bwho(?:so)?ever\b", "name the subject"),
    ("stands", r"\b(?:stands?|stood|standing)\b(?! (?:for|still)\b)", "is, is written, waits"),
]

STRINGS = r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
COMMENT_OF_C = re.compile(rf"(?P<comment>/\*.*?\*/|//[^\n]*)|{STRINGS}", re.S)
COMMENT_OF_LUA = re.compile(rf"(?P<comment>--\[\[.*?\]\]|--[^\n]*)|{STRINGS}", re.S)
FENCE = re.compile(r" *```")
QUOTED = re.compile(
    r"`[^`]*`|<!--.*?-->|\[[^\]]*\]\(#[^)]*\)"
)  # `code`, and links to headings of the page
PRINTED = re.compile(r"<!-- table: \w+ -->\n.*?<!-- end -->\n", re.S)


def _compiled(table):
    return [(name, re.compile(regex, re.I), plain) for name, regex, plain in table]


EVERYWHERE, IN_C = _compiled(REFUSED), _compiled(REFUSED_IN_C)
IN_STRINGS = _compiled(REFUSED_IN_STRINGS)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def page(text):
    """The blocks of a page: each a list of (line number, text of the line)."""
    block, is_code = [], False
    for number, line in enumerate(PRINTED.sub(_blank, text).splitlines(), 1):
        is_fence = FENCE.match(line) is not None
        is_code ^= is_fence
        if is_fence or is_code or not line.strip():
            yield block
            block = []
        else:
            if re.match(r" *(?:[-*] |\d+\. |\||#)", line):
                yield block
                block = []
            if not line.startswith("#"):  # a heading may be a question, and links name it
                block.append((number, re.sub(r"^ *(?:[-*] |\d+\. )", "", line)))
    yield block


def _comments(pattern, text):
    """(line number, comment) of a text; two line comments below each other are one block."""
    for match in pattern.finditer(text):
        if match["comment"] is not None:
            yield text.count("\n", 0, match.start()) + 1, match["comment"]


def _joined(comments):
    """Blocks of line comments: lines below each other are one."""
    block = []
    for number, text in comments:
        if block and number != block[-1][0] + 1:
            yield block
            block = []
        for offset, line in enumerate(text.splitlines()):
            block.append((number + offset, re.sub(r"^ *(?:#!?|--(?:\[\[)?)", "", line)))
    yield block


def c_source(text):
    for number, comment in _comments(COMMENT_OF_C, text):
        bare = re.sub(r"^/\*+|\*/$|^//", "", comment)
        lines = enumerate(bare.split("\n"), number)
        yield [(at, re.sub(r"^ *\*(?= |$)", "", line)) for at, line in lines]


def lua_source(text):
    yield from _joined(_comments(COMMENT_OF_LUA, text))


def python_source(text):
    comments = []
    try:
        before = None
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comments.append((token.start[0], token.string))
            elif token.type == tokenize.STRING and before in (None, tokenize.INDENT):
                yield list(enumerate(token.string.strip("\"'").splitlines(), token.start[0]))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                before = token.type if token.type != tokenize.NEWLINE else tokenize.INDENT
    except (tokenize.TokenError, IndentationError):
        pass
    yield from _joined(comments)


READERS = {".md": page, ".c": c_source, ".h": c_source, ".lua": lua_source, ".py": python_source}


def strings(reader, text):
    """(line number, string literal) of a source. Docstrings are read as comments."""
    if reader is c_source:
        for match in COMMENT_OF_C.finditer(text):
            if match["comment"] is None:
                yield text.count("\n", 0, match.start()) + 1, match.group()
    elif reader is python_source:
        before = None
        try:
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                is_text = tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE")
                if is_text and before not in (None, tokenize.INDENT, tokenize.NEWLINE):
                    yield token.start[0], token.string
                if token.type not in (tokenize.COMMENT, tokenize.NL):
                    before = token.type
        except (tokenize.TokenError, IndentationError):
            pass


def files(top):
    """(path relative to top, reader) of all that the lint reads."""
    found = [name for name in os.listdir(top) if os.path.isfile(os.path.join(top, name))]
    for place in PLACES:
        for folder, _, names in os.walk(os.path.join(top, place)):
            found += [os.path.relpath(os.path.join(folder, name), top) for name in names]
    for path in sorted(found):
        reader = READERS.get(os.path.splitext(path)[1])
        if reader and not path.startswith(LEFT_OUT):
            yield path, reader


def look(reader, text):
    """Findings of one text, in order: (line, construct, words, plain form)."""
    table = EVERYWHERE + IN_C if reader is c_source else EVERYWHERE
    found = []
    for block in reader(text):
        prose, starts = "", []
        for _, line in block:
            starts.append(len(prose))
            prose += re.sub(r"\s+", " ", line.strip()) + " "
        prose = QUOTED.sub(lambda match: "`" * len(match.group()), prose).rstrip()
        for name, regex, plain in table:
            for match in regex.finditer(prose):
                line = block[bisect.bisect_right(starts, match.start()) - 1][0]
                found.append((line, name, match.group().strip(), plain))
    return sorted(found)


def look_at_strings(reader, text):
    """The same of its string literals."""
    return [
        (line, name, match.group(), plain)
        for line, literal in strings(reader, text)
        for name, regex, plain in IN_STRINGS
        for match in regex.finditer(literal)
    ]


def findings(top):
    """{path: findings} of the files that have any; None if there is nothing to read."""
    found, count = {}, 0
    for path, reader in files(top):
        with open(os.path.join(top, path), encoding="utf-8") as file:
            text = file.read()
        seen = look(reader, text)
        if path not in WORDS_SHOWN:
            seen = sorted(seen + look_at_strings(reader, text))
        count += 1
        if seen:
            found[path] = seen
    return found if count else None


def allowed(top):
    """{path: count} of words.txt; None if there is no such file."""
    try:
        with open(os.path.join(top, LIST), encoding="utf-8") as file:
            lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    except FileNotFoundError:
        return None
    return {path: int(count) for path, count in lines}


def judge(found, counts):
    """The faults of the tree, as lines."""
    wrong = []
    for path in sorted(found.keys() | counts.keys()):
        seen, count = found.get(path, []), counts.get(path, 0)
        if path in counts and PLAIN.fullmatch(path):
            wrong.append(f"{LIST}: {path} may not be in the list")
        if len(seen) > count:
            wrong += [
                f'{path}:{line}: {name}, "{words}": {plain}' for line, name, words, plain in seen
            ]
            wrong.append(f"{path}: {len(seen)} findings; allowed: {count}")
        elif len(seen) < count:
            wrong.append(
                f"{LIST}: {path} has {len(seen)} findings, not {count}: lower it (--write)"
            )
    return wrong


def lowered(found, counts):
    """The counts that --write writes."""
    now = {path: len(seen) for path, seen in found.items() if not PLAIN.fullmatch(path)}
    if counts is None:
        return now
    return {path: min(count, now[path]) for path, count in counts.items() if path in now}


def write(top, counts):
    os.makedirs(os.path.dirname(os.path.join(top, LIST)), exist_ok=True)
    lines = [
        "# Findings of tests/lint/words.py that a file may have: words.py TOP --write lowers.\n"
    ]
    lines += [f"{path} {count}\n" for path, count in sorted(counts.items())]
    with open(os.path.join(top, LIST), "w", encoding="utf-8") as file:
        file.writelines(lines)


def main(arguments):
    top, options = arguments[0], arguments[1:]
    found, counts = findings(top), allowed(top)
    if found is None:
        print("no files found")
        return 1
    if "--list" in options:
        for path in options[options.index("--list") + 1 :] or sorted(found):
            for line, name, words, plain in found.get(path, []):
                print(f'{path}:{line}: {name}, "{words}": {plain}')
        return 0
    if "--write" in options:
        counts = lowered(found, counts)
        write(top, counts)
    wrong = judge(found, counts or {})
    total = sum(len(seen) for seen in found.values())
    print(*wrong, f"{total} findings, {len(wrong)} complaints", sep="\n")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
