"""The promises of the guides have tests: docs/promises.md names some that are there, and are run.

In that page a section `## [run.md](run.md)` is about a guide, and `### [Limits](run.md#limits)` in
it about a section of the guide; each section has one (but not of pages outside of docs). A header
in C is the guide that its comments are. A row of its table begins with words of that section, in
quotes, and ends with names of tests, each in backquotes.
"""

import ast
import re
import unittest
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/promises.md"

_HEADING = re.compile(r"^#{2,3} \[(?P<title>.+)\]\((?P<guide>[\w./-]+)(?:#(?P<anchor>[\w-]+))?\)$")
_ROW = re.compile(r'^\| "(?P<quote>.+)" \| (?P<tests>(?:`[^`]+`(?:, )?)+) \|$')


def plain(text: str) -> str:
    """As it is read, in one line: without comments and marks, and links without where they lead."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"[`*]", "", text).split())


def anchor_of(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def sections(guide: str) -> dict[str, str]:
    """By anchor; what stands before the first one has none."""
    found, anchor = {"": ""}, ""
    fenced = False
    for line in guide.splitlines():
        fenced ^= line.startswith("```")
        if line.startswith("## ") and not fenced:
            anchor = anchor_of(line[3:])
            found[anchor] = ""
        else:
            found[anchor] += line + "\n"
    return found


def comments(header: str) -> str:
    """Those of a header in C, as a guide; one like `---- Title ----` begins a section."""
    found = "\n".join(re.findall(r"/\*.*?\*/|//[^\n]*", header, re.DOTALL))
    bare = re.sub(r"^[ \t]*(/\*+|\*/|\*|//+<?) ?|[ \t]*\*/$", "", found, flags=re.MULTILINE)
    return re.sub(r"^-{4} (.+?) -{4,}$", r"## \1", bare, flags=re.MULTILINE)


class Tests:
    """Those of a tree: which are there, and which of them are skipped whatever happens."""

    def __init__(self, root: Path) -> None:
        self.found: set[str] = set()
        self.skipped: set[str] = set()
        for file in root.glob("tests/python/test_*.py"):
            self._add_python(file)
        for file in root.glob("tests/**/*.cpp"):
            self._add_cpp(file.read_text("utf-8"))
        listed = [*root.glob("tests/**/CMakeLists.txt"), *root.glob("examples/**/CMakeLists.txt")]
        names = re.findall(r"add_test\(NAME (\S+)", "".join(map(Path.read_text, listed)))
        self._of_ctest = [re.sub(r"\\\$\\\{\w+\\\}", r"\\w+", re.escape(name)) for name in names]

    def _add_python(self, file: Path) -> None:
        for group in ast.parse(file.read_text("utf-8")).body:
            if not isinstance(group, ast.ClassDef):
                continue
            for test in group.body:
                if isinstance(test, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    name = f"{file.stem}.{group.name}.{test.name}"
                    self.found.add(name)
                    if _is_skipped(group) or _is_skipped(test):
                        self.skipped.add(name)

    def _add_cpp(self, text: str) -> None:
        for suite, name, body in re.findall(
            r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\) \{\s*(.*)", text, re.MULTILINE
        ):
            full = f"{suite}.{name.removeprefix('DISABLED_')}"
            self.found.add(full)
            if name.startswith("DISABLED_") or body.startswith("GTEST_SKIP"):
                self.skipped.add(full)

    def breach(self, name: str) -> str | None:
        if name in self.skipped:
            return f"{name} is always skipped"
        if name in self.found or any(re.fullmatch(each, name) for each in self._of_ctest):
            return None
        return f"there is no test {name}"


def _is_skipped(part: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = part.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and part.body[1:]:
        first = part.body[1]  # behind its docstring
    begins = first if isinstance(first, (ast.Expr, ast.Raise)) else None
    words = [*map(ast.unparse, part.decorator_list), ast.unparse(begins) if begins else ""]
    return any(re.match(r"(raise )?(self|unittest)\.(skip|skipTest|SkipTest)\(", w) for w in words)


def breaches(page: str, guides: Path, tests: Tests) -> Iterator[str]:
    """What is wrong with the page, whose guides are in that folder."""
    section, guide = "", {"": ""}
    title, left = "", set[str]()
    for line in page.splitlines():
        heading = _HEADING.match(line)
        if heading is not None and line.startswith("## "):
            yield from (f"no promises of {title}#{anchor}" for anchor in sorted(left))
            title = heading["guide"]
            text = (guides / title).read_text("utf-8")
            guide = sections(comments(text) if title.endswith(".h") else text)
            left = guide.keys() - {""} if "/" not in title or title.endswith(".h") else set()
            section = guide[""]
        elif heading is not None:
            anchor = heading["anchor"] or ""
            if heading["guide"] != title or anchor not in guide:
                yield f"{title} has no section {line}"
            elif anchor and anchor_of(heading["title"]) != anchor:
                yield f"the title and the link of {line} differ"
            left.discard(anchor)
            section = guide.get(anchor, "")
        elif line.startswith("#") and line[1:2] == "#":
            yield f"not a heading with a link: {line}"
        elif line.startswith("|") and line not in ("| promise | tests |", "|---|---|"):
            row = _ROW.match(line)
            if row is None:
                yield f'not | "words" | `test`, `test` |: {line}'
                continue
            if plain(row["quote"]) not in plain(section):
                yield f"{title} does not say so (any more): {row['quote']}"
            for name in re.findall("`([^`]+)`", row["tests"]):
                breach = tests.breach(name)
                if breach is not None:
                    yield f"{breach}: {row['quote']}"
    yield from (f"no promises of {title}#{anchor}" for anchor in sorted(left))


class Promises(unittest.TestCase):
    tests: Tests

    @classmethod
    def setUpClass(cls) -> None:
        cls.tests = Tests(ROOT)

    def test_of_the_guides_have_tests(self) -> None:
        found = list(breaches(PAGE.read_text("utf-8"), PAGE.parent, self.tests))
        self.assertEqual(found, [], "\n".join(["docs/promises.md:", *found]))

    def check(self, rows: str, *wanted: str) -> None:
        page = "## [python.md](python.md)\n\n### [Tasks](python.md#tasks)\n" + rows
        found = [each for each in breaches(page, PAGE.parent, self.tests) if "no prom" not in each]
        self.assertEqual(len(found), len(wanted), found)
        for each, words in zip(found, wanted, strict=True):
            self.assertIn(words, each)

    def test_what_is_wrong_is_found(self) -> None:
        test = "test_tasks.PlainCalls.test_a_task_is_pickled_by_name"
        said = "slots of the runtime that a call takes"
        self.check(f'| "{said}" | `{test}`, `PolicyBudget.CountsPerNodeOrOverAll` |')
        self.check(f'| "{said}" | `Python.tasks`, `Lint.Promises` |')
        self.check(f'| "never said" | `{test}` |', "does not say so")
        self.check(f'| "{said}" | `{test}_too` |', "there is no test")
        self.check(f'| "{said}" | `Python.tasks.one` |', "there is no test")
        self.check(f"| {said} | {test} |", "not |")
        self.check("### [Nothing](python.md#nothing)\n", "has no section")
        page = "## [python.md](python.md)\n"
        self.assertIn(
            "no promises of python.md#tasks", list(breaches(page, ROOT / "docs", self.tests))
        )

    def test_a_header_is_what_its_comments_say(self) -> None:
        header = "/*\n * It\n * waits.\n */\nint f(int); /* or\n   `fails` */\n"
        header += "/* ---- At an end ---- */\n/// No\n/// *more.\nint g(int);  ///< 0\n"
        found = {anchor: plain(text) for anchor, text in sections(comments(header)).items()}
        self.assertEqual(found, {"": "It waits. or fails", "at-an-end": "No more. 0"})
        link = "../include/ioweave/ioweave.h"
        page = f"## [ioweave.h]({link})\n### [Service]({link}#service)\n"
        for said, wrong in (("Opens a service. `options` may be NULL", 0), ("IOW_API int", 1)):
            rows = f'| "{said}" | `CClose.TakesNull` |\n'
            wrongs = [w for w in breaches(page + rows, PAGE.parent, self.tests) if said in w]
            self.assertEqual(len(wrongs), wrong, wrongs)
        self.assertIn(
            f"no promises of {link}#requests", list(breaches(page, PAGE.parent, self.tests))
        )

    def test_a_test_that_is_always_skipped_backs_nothing(self) -> None:
        for text, skipped in (
            ("class A:\n def test(self):\n  'Why.'\n  self.skipTest('no')\n", True),
            ("class A:\n def test(self):\n  raise unittest.SkipTest('no')\n", True),
            ("@unittest.skip('no')\nclass A:\n def test(self): pass\n", True),
            ("@unittest.skipUnless(x, 'no')\nclass A:\n def test(self): pass\n", False),
            ("class A:\n def test(self):\n  if x: self.skipTest('no')\n", False),
        ):
            group = ast.parse(text).body[0]
            assert isinstance(group, ast.ClassDef)
            test = group.body[0]
            assert isinstance(test, ast.FunctionDef)
            self.assertEqual(_is_skipped(group) or _is_skipped(test), skipped, text)
        tests = Tests(Path("nowhere"))
        tests._add_cpp("TEST(A, DISABLED_B) {\n}\nTEST(A, C) {\n  GTEST_SKIP();\n}\n")
        self.assertEqual(tests.skipped, {"A.B", "A.C"})


if __name__ == "__main__":
    unittest.main()
