#!/usr/bin/env python3
"""Shows that each lint (names, sizes, circles, assertions, words) can fail, and only then."""
import contextlib
import io
import json
import os
import subprocess
import tempfile
import unittest

import asserts
import circles
import names
import sizes
import words


class Lints(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = folder.name

    def write(self, path, text):
        os.makedirs(os.path.dirname(os.path.join(self.top, path)), exist_ok=True)
        with open(os.path.join(self.top, path), "w", encoding="utf-8") as file:
            file.write(text)

    def build(self):
        """Compiles the written files, as a build folder of Meson's would have it."""
        build = os.path.join(self.top, "build")
        commands = []
        for path in circles.sources.files(self.top):
            if path.endswith(".c"):
                output = path.replace("/", "_") + ".o"
                os.makedirs(build, exist_ok=True)
                source, target = os.path.join(self.top, path), os.path.join(build, output)
                subprocess.check_call(
                    [os.environ.get("CC", "cc"), "-I", self.top, "-c", source, "-o", target]
                )
                commands.append({"directory": build, "file": "../" + path, "output": output})
        with open(os.path.join(build, "compile_commands.json"), "w", encoding="utf-8") as file:
            json.dump(commands, file)
        return circles.findings(self.top, build)

    # ---- names ----

    def test_a_tree_without_sources_is_not_well(self):
        self.assertEqual(names.findings(self.top), ["no sources found"])
        self.assertEqual(sizes.findings(self.top), ["no sources found"])

    def test_a_static_function_in_two_rooms_is_refused(self):
        self.write("agent/core/a.c", "static int\n*decide(int x,\n        int y)\n{\n}\n")
        self.write("api/b.c", "/* { */\n\nstatic void decide(void)\n{\n}\n")
        self.assertEqual(names.findings(self.top), ["function decide: agent/core/a.c:1, api/b.c:3"])

    def test_a_struct_that_is_defined_twice_is_refused(self):
        self.write("agent/a.h", "struct master {\n    int x;\n};\n")
        self.write("config/b.c", "static struct master {\n    int y;\n} all;\nstruct master *it;\n")
        self.assertEqual(names.findings(self.top), ["struct master: agent/a.h:1, config/b.c:1"])

    def test_uses_declarations_comments_and_weak_defaults_are_no_definitions(self):
        self.write("agent/a.h", "struct one;\nint ask(struct one *one);\n")
        self.write("agent/a.c", '#include "agent/a.h"\n\nint ask(struct one *one)\n{\n}\n')
        self.write(
            "api/b.c",
            "/* struct one { int x; };\nint ask(struct one *one)\n{\n}\n*/\n"
            "struct one { int x; };\n\n"
            "__attribute__((weak)) int ask(struct one *one)\n{\n    return one->x;\n}\n",
        )
        self.assertEqual(names.findings(self.top), [])

    def test_what_stands_on_both_sides_of_an_if_is_defined_once(self):
        self.write(
            "api/a.c",
            "#if X\nstatic void x(void)\n{\n}\n" "#else\nstatic void x(int y)\n{\n}\n#endif\n",
        )
        self.assertEqual(names.findings(self.top), [])

    # ---- sizes ----

    def test_a_file_of_501_lines_is_refused_and_one_of_500_is_not(self):
        self.write("api/long.c", "\n" * 801)
        self.write("api/fits.c", "\n" * 800)
        self.assertEqual(sizes.findings(self.top), ["api/long.c: 801 lines; allowed: 800"])

    def test_a_function_of_61_lines_is_refused_and_one_of_60_is_not(self):
        self.write(
            "config/a.c",
            "static void fits(void)\n{\n" + "    ;\n" * 57 + "}\n\n"
            "static void long_(int a,\n        int b)\n{\n" + "    ;\n" * 57 + "}\n",
        )
        self.assertEqual(
            sizes.findings(self.top), ["config/a.c:62: long_() has 61 lines; allowed: 60"]
        )

    # ---- circles ----

    def test_modules_that_call_each_other_are_refused(self):
        self.write("agent/core/core.h", "void a(void);\nvoid b(void);\nvoid c(void);\n")
        for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
            self.write(
                f"agent/core/{name}.c",
                f'#include "agent/core/core.h"\nvoid {name}(void)\n{{\n    {other}();\n}}\n',
            )
        found = self.build()
        self.assertEqual(found[0], "circle of 3 modules: agent/core/a, agent/core/b, agent/core/c")
        self.assertIn("  agent/core/c -> agent/core/a: a", found)

    def test_headers_that_include_each_other_are_refused(self):
        self.write("api/a.h", '#ifndef A\n#define A\n#include "api/b.h"\n#endif\n')
        self.write("api/b.h", '#ifndef B\n#define B\n#include "a.h"\nvoid b(void);\n#endif\n')
        self.write("api/a.c", '#include "api/a.h"\nvoid a(void)\n{\n    b();\n}\n')
        self.write("api/b.c", '#include "api/b.h"\nvoid b(void)\n{\n}\n')
        self.assertEqual(self.build()[0], "circle of 2 headers: api/a.h, api/b.h")

    def test_rooms_that_include_each_other_are_refused(self):
        self.write("config/types.h", "enum { ONE };\n")
        self.write("agent/core/types.h", "enum { TWO };\n")
        self.write("config/a.c", '#include "agent/core/types.h"\nint a = TWO;\n')
        self.write("agent/core/b.c", '#include "config/types.h"\nextern int c;\nint *b = &c;\n')
        self.write("agent/core/c.c", "int c;\n")
        self.assertEqual(
            self.build(),
            [
                "circle of 2 rooms: agent/core, config",
                "  agent/core -> config: agent/core/b.c includes config/types.h",
                "  config -> agent/core: config/a.c includes agent/core/types.h",
            ],
        )

    def test_one_way_down_a_report_by_pointer_and_a_weak_default_are_no_circles(self):
        self.write("agent/low/low.h", "void low(void (*report)(void));\nvoid fail(void);\n")
        self.write(
            "agent/low/low.c",
            '#include "low.h"\n'
            "void low(void (*report)(void))\n{\n    report();\n    fail();\n}\n",
        )
        self.write(
            "agent/low/fail.c", '#include "low.h"\n' "__attribute__((weak)) void fail(void)\n{\n}\n"
        )
        self.write(
            "agent/main.c",
            '#include "agent/low/low.h"\n'
            "void report(void)\n{\n}\nvoid fail(void)\n{\n}\n"
            "int main(void)\n{\n    low(report);\n}\n",
        )
        self.assertEqual(self.build(), [])

    # ---- assertions ----

    def test_work_inside_an_assertion_is_refused(self):
        self.write(
            "agent/a.c",
            "void a(void)\n{\n    CORE_ASSERT(read(0, b,\n        1) == 1);\n"
            "    CORE_ASSERT(i++ < 3);\n    CORE_ASSERT(last = 3);\n}\n",
        )
        self.assertEqual(
            asserts.findings(self.top),
            [
                "agent/a.c:3: read() inside an assertion",
                "agent/a.c:5: something is changed inside an assertion",
                "agent/a.c:6: something is changed inside an assertion",
            ],
        )

    def test_questions_and_comparisons_are_no_work(self):
        self.write(
            "agent/a.c",
            "bool is_full(void)\n{\n}\nvoid a(void)\n{\n    CORE_ASSERT(!is_full() && a <= b);\n"
            '    CORE_ASSERT(strlen(a) == (b != c) && !"a = b()");\n    read(0, b, 1);\n}\n',
        )
        self.assertEqual(asserts.findings(self.top), [])

    # ---- words ----

    def constructs(self, path):
        """(line, construct) of each finding of a file."""
        return [(line, name) for line, name, *_ in words.findings(self.top).get(path, [])]

    def words(self, *options):
        """(exit code, output) of the program."""
        with contextlib.redirect_stdout(io.StringIO()) as output:
            return words.main([self.top, *options]), output.getvalue()

    def test_each_construct_of_the_table_is_refused(self):
        bent = {
            "where": "It is renewed where nobody looks",
            "can not": "It can not fail.",
            "for ever": "It waits for ever.",
            "else": "It is granted, else refused.",
            "free relative": "It deletes what is left.",
            "free relative of persons": "So who waits is granted.",
            "whoever": "A grant for whoever asks.",
            "one who": "It is for those who wait.",
            "that which": "A lease of that which ended.",
            "who of a machine": "An agent who waits.",
            "somebody": "A lock that nobody holds.",
            "stands": "The number stands in the value.",
            "in line": "A caller in line.",
            "errand": "The errand of a lock.",
            "contest": "The contest of a key.",
            "heir": "The heir of a hold.",
            "turn of the loop": "One turn of the event loop.",
            "under way": "A round is under way.",
            "heard": "A vote that was heard.",
        }
        for text in (
            "agent who waits",
            "It shows\nwhat\nis left.",
            "The caller, whatever it is.",
            "It deletes what the master has.",
            "Turns of a loop.",
        ):
            self.write("docs/a.md", text + "\n")
            self.assertNotEqual(self.constructs("docs/a.md"), [], text)
        self.assertEqual(set(bent), {name for name, *_ in words.REFUSED})
        for name, text in bent.items():
            self.write("docs/a.md", text + "\n")
            self.assertIn((1, name), self.constructs("docs/a.md"), text)

    def test_plain_words_places_code_and_questions_are_not_refused(self):
        self.write(
            "docs/a.md",
            "# What is promised\n\nThe file from where it is read, and the folder where it is.\n"
            "A caller that waits says who has it, and it shows what the master has.\n"
            "`what is where` is code, and so is\n\n```\nnobody stands in line\n```\n"
            "- [What is kept](#what-is-kept), by somebodyelse\n"
            "<!-- table: metrics -->\n| what is lost |\n<!-- end -->\n",
        )
        self.assertEqual(self.constructs("docs/a.md"), [])

    def test_comments_of_each_language_are_read_and_code_is_not(self):
        self.write(
            "agent/a.c",
            'char *at = "what is it"; /* A key\n * that nobody holds. */\n'
            "int what_is; // It can not be.\nint a; /* of those, */\nint b; /* Of a, b or c. */\n",
        )
        self.assertEqual(
            self.constructs("agent/a.c"),
            [
                (2, "somebody"),
                (3, "can not"),
                (4, "begins in the middle"),
                (4, "ends in the middle"),
                (5, "begins in the middle"),
            ],
        )
        self.write("agent/a.lua", "local a = 'what is it' -- a key that\n-- nobody holds\n")
        self.assertEqual(self.constructs("agent/a.lua"), [(2, "somebody")])
        self.write(
            "tests/a.py",
            '"""A test for\nwhoever reads."""\n\n\ndef a():\n    """Nobody."""\n'
            '    return "what is it"  # what it is\n',
        )
        self.assertEqual(
            self.constructs("tests/a.py"),
            [(2, "whoever"), (6, "somebody"), (7, "free relative")],
        )

    def test_strings_that_people_read_are_checked_for_a_few_constructs(self):
        self.write(
            "tests/a.c",
            'fail("the core stands elsewhere");\nfail("granted to one who came later");\n'
            'say("numbers rise, "\n    "whoever is granted");\nsay(\'"\', "nobody stands still");\n'
            'say("`*` stands for any key"); /* "A key that stands here" */\nint stands;\n',
        )
        self.assertEqual(
            self.constructs("tests/a.c"),
            [(1, "stands"), (2, "one who"), (4, "whoever"), (6, "stands")],
        )
        self.write(
            "tests/b.py",
            'class A:\n    """A test."""\n\n    stands = see("it stands in line", "nobody")\n'
            '    see(f"{a}: those who wait")\n',
        )
        self.assertEqual(self.constructs("tests/b.py"), [(4, "stands"), (5, "one who")])

    def test_two_lines_make_one_sentence_and_two_paragraphs_do_not(self):
        self.write("docs/a.md", "A lock that it gives to what\nis next.\n\nIt asks what\n\nis.\n")
        self.assertEqual(self.constructs("docs/a.md"), [(1, "free relative")])

    def test_the_list_is_a_ratchet(self):
        self.write("agent/a.c", "/* Nobody. */\n/* Somebody. */\n")
        self.assertEqual(self.words()[0], 1)
        self.assertEqual(self.words("--write")[0], 0)  # the first list has today's counts
        self.assertEqual(words.allowed(self.top), {"agent/a.c": 2})
        self.assertEqual(self.words()[0], 0)
        self.write("agent/a.c", "/* Nobody. */\n")
        code, output = self.words()
        self.assertEqual(code, 1)
        self.assertIn("agent/a.c has 1 findings, not 2: lower it (--write)", output)
        self.assertEqual(self.words("--write")[0], 0)
        self.assertEqual(words.allowed(self.top), {"agent/a.c": 1})
        self.write("agent/a.c", "/* Nobody. */\n/* Somebody. */\n")
        self.write("agent/b.c", "/* Nobody. */\n")
        self.assertEqual(self.words("--write")[0], 1)  # no count is raised, and none is added
        self.assertEqual(words.allowed(self.top), {"agent/a.c": 1})
        self.write("agent/a.c", "/* A caller. */\n")
        self.write("agent/b.c", "/* A caller. */\n")
        self.assertEqual(self.words("--write")[0], 0)
        self.assertEqual(words.allowed(self.top), {})

    def test_a_page_is_never_in_the_list(self):
        self.write("docs/a.md", "Nobody.\n")
        self.assertEqual(self.words("--write")[0], 1)
        self.assertEqual(words.allowed(self.top), {})
        self.write("tests/lint/words.txt", "docs/a.md 1\n")
        code, output = self.words()
        self.assertEqual(code, 1)
        self.assertIn("docs/a.md may not be in the list", output)

    def test_a_tree_without_pages_and_sources_is_not_well(self):
        self.assertEqual(self.words(), (1, "no files found\n"))

    def test_a_build_without_objects_is_not_well(self):
        self.write("build/compile_commands.json", "[]")
        self.assertEqual(
            circles.findings(self.top, os.path.join(self.top, "build")),
            ["no objects or no sources found"],
        )


if __name__ == "__main__":
    unittest.main()
