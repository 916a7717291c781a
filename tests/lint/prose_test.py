"""Prose in Markdown is at most 100 columns wide. Tables, code and lone links are as wide as they
must be; so is a mark of a figure (figures_test.py)."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDEST = 100

_NO_PROSE = re.compile(r"\s*(\||#|<|!?\[[^\]]*\](\(|:)\S*\)?[.,;:]?\s*$)")
_MARK = re.compile(r"<!--.*?-->")


def too_wide(text: str) -> list[int]:
    """The numbers of the lines of prose that are too wide."""
    found = []
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        opening = re.match(r"\s*(```|~~~)", line)
        if opening and not fence:
            fence = opening[1]
        elif fence:
            fence = "" if line.strip().startswith(fence) else fence
        elif (
            len(_MARK.sub("", line)) > WIDEST
            and not _NO_PROSE.match(line)
            and len(line.split()) > 2  # a word longer than the line could not go elsewhere
        ):
            found.append(number)
    return found


class ProseTest(unittest.TestCase):
    def test_no_line_of_this_tree_is_too_wide(self) -> None:
        names = subprocess.run(
            ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if names.returncode != 0:
            self.skipTest("not in a git repository")
        found = [
            f"{name}:{number}"
            for name in names.stdout.splitlines()
            if (ROOT / name).is_file()
            for number in too_wide((ROOT / name).read_text("utf-8"))
        ]
        self.assertEqual(found, [], f"lines of prose over {WIDEST} columns")

    def test_tells_prose_from_tables_code_and_links(self) -> None:
        wide = "word " * 21
        self.assertEqual(too_wide(f"short\n{wide}\n"), [2])
        self.assertEqual(too_wide(f"- {wide}"), [1])
        self.assertEqual(too_wide(f"| {wide} |"), [])
        self.assertEqual(too_wide(f"```\n{wide}\n```\n{wide}"), [4])
        self.assertEqual(too_wide(f"[a page](docs/{'x' * 100}.md)"), [])
        self.assertEqual(too_wide(f"2.1<!-- {wide} --> of it"), [])


if __name__ == "__main__":
    unittest.main()
