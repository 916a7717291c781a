"""Figures of the documentation are those of docs/results: numbers that carry a mark are compared.

A mark is a comment right behind a number and its unit, `2.1 %<!-- advise.json: all: error, median
-->`. It names a document of docs/results and the metric of exactly one row, in which `*` stands for
any words (a comment must not contain two hyphens). What has no metric, or is not its value, is
named by fields of the row (one that it lacks is empty) and the way to the number:
`<!-- tiom-costs.json: runtime=coroutines; block_bytes=4096; speed_up.nonblocking.median -->`.

The number must be the row's, rounded to the digits that are shown; a half may go either way. A
percentage is a hundred times a ratio; one with a sign is how far a ratio is from 1. A number
without a unit has the row's, but in `76 to 87 %` each has the unit behind.
"""

import json
import re
import unittest
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs/results"
PAGES = ("README.md", "bench/README.md", "docs/*.md", "docs/decisions/*.md")

_MARK = re.compile(r"<!--(?P<text>.*?)-->", re.DOTALL)
_UNIT = r"%|times|ns|us|ms|s|MB/s|GB/s|MiB|GiB"
_NUMBER = re.compile(
    rf"(?<![\w./])(?P<number>(?:(?<!\d)[+-])?\d+(?:,\d{{3}})*(?:\.\d+)?)(?: (?P<unit>{_UNIT}))?\**$"
)
_RANGE = re.compile(rf"\**\s(?:to|and)\s[\d.]+(?:<!--.*?-->)? (?P<unit>{_UNIT})(?!\w)", re.DOTALL)

#: Of each quantity the units, and what one of them is.
_SCALES: tuple[dict[str, Decimal], ...] = (
    {"ns": Decimal("1e-9"), "us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1)},
    {"MB/s": Decimal(1), "GB/s": Decimal(1000)},
    {"MiB": Decimal(1), "GiB": Decimal(1024)},
    {"ratio": Decimal(1), "times": Decimal(1), "%": Decimal("0.01")},
)


def rows_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = document["rows"] if "rows" in document else document["results"]
    return rows


def _is_like(pattern: str, text: object) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), str(text)) is not None


def _unit_of(row: dict[str, Any], way: str) -> str:
    if way == "value" or way.startswith("spread."):
        unit = row.get("unit") or ""
        return "ratio" if unit in ("part", "") else str(unit)
    for part, unit in (("mb_per_s", "MB/s"), ("us_per", "us"), ("_ns", "ns"), ("_bytes", "B")):
        if part in way:
            return unit
    return "ratio"


class Figure:
    """That of the one row which a mark names. ValueError where there is none, or are several."""

    def __init__(self, rows: list[dict[str, Any]], selector: str) -> None:
        if not selector:
            raise ValueError("no row is named")
        *fields, last = selector.split("; ")
        pairs = [field.partition("=") for field in fields] or [("metric", "=", last)]
        found = [
            row
            for row in rows
            if all(_is_like(wanted, row.get(key, "")) for key, _, wanted in pairs)
        ]
        if len(found) != 1:
            raise ValueError(f"{len(found)} rows are {'; '.join(map(''.join, pairs))}")
        way = last if fields else "value"
        value: Any = found[0]
        for step in way.split("."):
            try:
                value = value[int(step)] if isinstance(value, list) else value[step]
            except (KeyError, IndexError, TypeError, ValueError):
                raise ValueError(f"the row has no {way}") from None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{way} of the row is no number")
        self.value = Decimal(repr(value))
        self.unit = _unit_of(found[0], way)

    def in_unit(self, unit: str, is_signed: bool) -> Decimal:
        """ValueError where it has no such unit. The value may be more than is shown of it."""
        if unit in ("", self.unit):
            return self.value
        for scale in _SCALES:
            if unit in scale and self.unit in scale:
                is_distance = unit == "%" and is_signed and self.value > 0
                return (self.value - is_distance) * scale[self.unit] / scale[unit]
        raise ValueError(f"the row has {self.unit}, not {unit}")


def breaches(
    page: str, documents: dict[str, list[dict[str, Any]]], named: set[str]
) -> Iterator[tuple[int, str]]:
    """Lines of a page, and what is wrong there. Adds the documents that marks name to `named`."""
    for mark in _MARK.finditer(page):
        line = page.count("\n", 0, mark.start()) + 1
        name, _, selector = " ".join(mark["text"].split()).partition(": ")
        if "--" in mark["text"]:
            yield line, f"two hyphens in a comment end it elsewhere: {mark['text']}"
            continue
        if name not in documents:
            yield line, f"no document of docs/results: {name}"
            continue
        named.add(name)
        before = re.sub(r"\s+", " ", page[max(0, mark.start() - 80) : mark.start()])
        quoted = _NUMBER.search(before)
        if quoted is None:
            yield line, f"no number stands before the mark {name}: {selector}"
            continue
        behind = _RANGE.match(page, mark.end())
        unit = quoted["unit"] or (behind["unit"] if behind else "")
        number = quoted["number"].replace(",", "")
        try:
            figure = Figure(documents[name], selector)
            value = figure.in_unit(unit, number[0] in "+-")
        except ValueError as error:
            yield line, f"{name}: {selector}: {error}"
            continue
        digits = len(number.partition(".")[2])
        if abs(Decimal(number) - value) > Decimal(5).scaleb(-digits - 1):
            shown = f"{value.normalize():f}" + (f" {unit}" if unit else "")
            yield line, f"{quoted[0].strip('*')}, but {name}: {selector} is {shown}"


def unnamed(documents: set[str], named: set[str], readme: str) -> Iterator[str]:
    """Documents that no mark names, and that are not said to be kept for the record."""
    for name in sorted(documents - named):
        row = re.search(rf"^\| \[{re.escape(name)}\]\(.*$", readme, re.MULTILINE)
        if row is None or "for the record" not in row[0]:
            yield f"no mark names docs/results/{name}, nor is it kept for the record"


class Figures(unittest.TestCase):
    def test_of_the_documentation_are_those_of_the_results(self) -> None:
        documents = {
            file.name: rows_of(json.loads(file.read_text("utf-8")))
            for file in sorted(RESULTS.glob("*.json"))
        }
        named = set[str]()
        found = [
            f"{file.relative_to(ROOT)}:{line}: {breach}"
            for pattern in PAGES
            for file in sorted(ROOT.glob(pattern))
            for line, breach in breaches(file.read_text("utf-8"), documents, named)
        ]
        readme = (RESULTS / "README.md").read_text("utf-8")
        found += unnamed(documents.keys() - set[str](), named, readme)
        self.assertEqual(found, [], "\n".join(["", *found]))

    ROWS = (
        {"metric": "a: time", "value": 2.0449, "unit": "s", "spread": [1.9, 2.1]},
        {"metric": "a: speed", "value": 1.0249, "unit": "ratio"},
        {"metric": "a: gain", "value": -0.0125, "unit": "ratio"},
        {"metric": "a: start", "value": 1571.8, "unit": "us"},
        {"metric": "a: disk", "value": 1289.5, "unit": "MB/s"},
        {"metric": "twice", "value": 1, "unit": "s", "series": 1},
        {"metric": "twice", "value": 2, "unit": "s", "series": 2},
        {"metric": "twice", "value": 3, "unit": "s"},
        {"metric": "a: failed", "value": None, "unit": "s"},
        {"runtime": "R 1", "block_bytes": 4096, "speed_up": {"blocking": {"median": 0.978}}},
        {"runtime": "R 2", "block_bytes": 4096, "us_per_read": {"blocking": {"median": 62.5}}},
    )

    def check(self, page: str, wanted: str | None = None) -> None:
        """That the page has no breach, or one, with the wanted words."""
        found = list(breaches(page, {"d.json": [*self.ROWS]}, set()))
        self.assertEqual(len(found), 0 if wanted is None else 1, f"{page}: {found}")
        if wanted is not None:
            self.assertIn(wanted, found[0][1])

    def test_a_number_is_the_row_rounded_to_its_digits(self) -> None:
        for right in ("2 s", "2.0 s", "2.04 s", "2.0449 s", "2045 ms", "2.04", "**2.04 s**"):
            self.check(f"It takes {right}<!-- d.json: a: time -->.")
        for wrong in ("3 s", "2.1 s", "2.05 s", "2.03 s", "2.0448 s", "2046 ms", "2.04 ms", "0"):
            self.check(f"It takes {wrong}<!-- d.json: a: time -->.", f"{wrong}, but d.json: a: ti")
        self.check("It takes **2.05 s**<!-- d.json: a: time -->.", "is 2.0449 s")
        self.check("1.6 ms<!-- d.json: a: start --> or 1,572<!-- d.json: a: start -->")
        self.check("1.5 ms<!-- d.json: a: start -->", "is 1.5718 ms")
        self.check("1.29 GB/s<!-- d.json: a: disk -->, 1289<!-- d.json: a: disk -->")
        self.check("1290<!-- d.json: a: disk -->")  # a half goes either way
        self.check("1288<!-- d.json: a: disk -->", "is 1289.5")

    def test_a_percentage_is_of_a_ratio(self) -> None:
        for right in ("102 %", "+2 %", "+2.5 %", "1.02 times", "1.02"):
            self.check(f"| {right}<!-- d.json: a: speed --> |")
        for wrong in ("2 %", "-2 %", "+3 %", "103 %", "1.03 times", "1.03"):
            self.check(f"| {wrong}<!-- d.json: a: speed --> |", f"{wrong}, but")
        self.check("-1.2 %<!-- d.json: a: gain -->, -1 %<!-- d.json: a: gain -->")
        self.check("1 %<!-- d.json: a: gain -->", "is -1.25 %")
        self.check("98<!-- d.json: runtime=R 1; speed_up.blocking.median --> to 99 %")
        self.check("97<!-- d.json: runtime=R 1; speed_up.blocking.median --> to 99 %", "97, but")

    def test_units_must_be_those_of_the_row(self) -> None:
        self.check("1.02 s<!-- d.json: a: speed -->", "has ratio, not s")
        self.check("2.04 %<!-- d.json: a: time -->", "has s, not %")
        self.check("62 us<!-- d.json: runtime=R 2; us_per_read.blocking.median -->")
        self.check("62 %<!-- d.json: runtime=R 2; us_per_read.blocking.median -->", "has us")

    def test_a_mark_names_one_row(self) -> None:
        self.check("1.02<!-- d.json:\na: *ed -->", "2 rows are metric=a: *ed")
        self.check("1.02<!-- d.json:\na: sp* -->")
        self.check("1.03<!-- d.json:\na: sp* -->", "1.03, but")
        self.check("1.02<!-- d.json: a: spee -->", "0 rows are metric=a: spee")
        self.check("2<!-- d.json: twice -->", "3 rows are metric=twice")
        self.check("3 s<!-- d.json: metric=twice; series=; value -->")
        self.check("2 s<!-- d.json: metric=twice; series=2; value -->")
        self.check("1 s<!-- d.json: metric=twice; series=2; value -->", "is 2 s")
        self.check("2.1 s<!-- d.json: metric=a: time; spread.1 -->")
        self.check("2.1 s<!-- d.json: metric=a: time; spread.0 -->", "is 1.9 s")
        self.check("2.1 s<!-- d.json: metric=a: time; spread.2 -->", "has no spread.2")
        self.check("0.98<!-- d.json: block_bytes=4096; speed_up.blocking.median -->", "2 rows")
        self.check("0.98<!-- d.json: runtime=R 1; speed_up.blocking -->", "is no number")
        self.check("0.98<!-- d.json: runtime=R 1; speed_up.best -->", "has no speed_up.best")
        self.check("2 s<!-- d.json: a: failed -->", "is no number")
        self.check("2 s<!-- e.json: a: time -->", "no document of docs/results: e.json")
        self.check("2 s<!-- any other comment -->", "no document of docs/results")
        self.check("2 s<!-- d.json -->", "no row is named")

    def test_the_number_stands_right_before_the_mark(self) -> None:
        self.check("2.04 s in all<!-- d.json: a: time -->", "no number stands before")
        self.check("2.04 s\n<!-- d.json: a: time -->", "no number stands before")
        self.check("1/2<!-- d.json: metric=twice; series=2; value -->", "no number stands before")
        self.check("2.04\ns<!-- d.json:\na: time -->")
        self.check("1.9-2.1<!-- d.json: metric=a: time; spread.1 -->")
        self.check("3.14, 2.04<!-- d.json: a: time -->")
        self.check("2.04<!-- d.json: a: time -->, 3.14<!-- d.json: a: time -->", "3.14, but")
        self.check("2.04<!-- d.json: a*--time -->", "two hyphens")

    def test_a_breach_has_its_line(self) -> None:
        page = "2.04<!-- d.json: a: time -->\n\n| 1<!-- d.json: a: time --> |\n"
        self.assertEqual([line for line, _ in breaches(page, {"d.json": [*self.ROWS]}, set())], [3])

    def test_a_document_is_marked_or_for_the_record(self) -> None:
        named = set[str]()
        list(breaches("2<!-- d.json: a: time -->", {"d.json": [*self.ROWS]}, named))
        self.assertEqual(named, {"d.json"})
        readme = "| [e.json](e.json) | is |\n| [f.json](f.json) | is kept for the record |\n"
        found = list(unnamed({"d.json", "e.json", "f.json", "g.json"}, named, readme))
        self.assertEqual(
            [each.split()[3] for each in found], [f"docs/results/{n}.json," for n in "eg"]
        )


if __name__ == "__main__":
    unittest.main()
