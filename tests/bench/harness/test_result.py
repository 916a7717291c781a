import doctest
import json
import tempfile
import unittest
from pathlib import Path

from harness import result
from harness.result import Outcome, at_least, at_most, below, document, row, table, write


class RowTest(unittest.TestCase):
    def test_a_value_on_the_bar_meets_it(self) -> None:
        self.assertTrue(row("m", "ratio", [0.99], at_least(0.99)).met)
        self.assertTrue(row("m", "ns", [150], at_most(150)).met)

    def test_a_value_on_the_wrong_side_misses_it(self) -> None:
        self.assertFalse(row("m", "ratio", [0.98], at_least(0.99)).met)
        self.assertFalse(row("m", "ns", [151], at_most(150)).met)

    def test_a_bar_that_is_to_be_gone_below_is_not_met_by_a_value_on_it(self) -> None:
        self.assertFalse(row("m", "ratio", [1.0], below(1)).met)
        self.assertTrue(row("m", "ratio", [0.999], below(1)).met)
        self.assertEqual(str(below(1)), "< 1")

    def test_without_a_bar_there_is_no_verdict(self) -> None:
        self.assertIsNone(row("m", "s", [1]).met)

    def test_json_holds_every_field_a_reader_is_promised(self) -> None:
        line = row("m", "ratio", [1.0, 2.0, 3.0], at_most(2.5)).to_json("engine")
        self.assertEqual(
            line,
            {
                "benchmark": "engine",
                "metric": "m",
                "value": 2.0,
                "unit": "ratio",
                "spread": [1.0, 3.0],
                "spread_kind": "range",
                "n": 3,
                "bar": "<= 2.5",
                "met": True,
            },
        )

    def test_examples_in_its_documentation_hold(self) -> None:
        self.assertEqual(doctest.testmod(result).failed, 0)


class TableTest(unittest.TestCase):
    def test_columns_line_up_and_a_missed_bar_stands_out(self) -> None:
        lines = table(
            [row("short", "ns", [3.0], at_most(1)), row("a longer name", "ratio", [0.5])]
        ).splitlines()
        self.assertEqual(
            len({line.index("ratio" if "ratio" in line else "ns") for line in lines[1:]}), 1
        )
        self.assertTrue(lines[1].endswith("MISSED"))

    def test_is_only_a_heading_without_rows(self) -> None:
        self.assertEqual(len(table([]).splitlines()), 1)


class DocumentTest(unittest.TestCase):
    def test_gathers_the_rows_of_all_benchmarks_and_what_went_wrong(self) -> None:
        outcomes = [
            Outcome("engine", [row("m", "ns", [1.0])], ["a note"], 1.23),
            Outcome("demo", [], [], 0.1, "broke off"),
        ]
        content = document(outcomes, {"kernel": "6.18"}, quick=True)
        self.assertEqual([line["benchmark"] for line in content["rows"]], ["engine"])
        self.assertEqual(content["benchmarks"]["demo"]["error"], "broke off")
        self.assertEqual(content["environment"]["kernel"], "6.18")
        self.assertTrue(content["quick"])

    def test_is_written_whole_and_leaves_nothing_else(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "new", "r.json")
            write(path, {"schema": result.SCHEMA})
            self.assertEqual(json.loads(path.read_text("utf-8")), {"schema": result.SCHEMA})
            self.assertEqual([entry.name for entry in path.parent.iterdir()], ["r.json"])
