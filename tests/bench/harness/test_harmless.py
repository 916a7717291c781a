import doctest
import tempfile
import unittest
from pathlib import Path

from harness import packages, programs
from harness.benchmarks import harmless
from harness.benchmarks.harmless import SPOTS, Cell, cells_of, rows_of, summary_rows
from harness.build import PROGRAMS, Build
from harness.paired_ratios import Effort, Pairs
from harness.places import Place
from harness.programs import Program, command, selected
from harness.session import Selection, Session

READER = Program("reader-1m", command("reader"), gains=True)
HASH = Program("sha256sum", command("sha256sum"), light=False)
RAW = SPOTS[0]


def pairs(ratio: float) -> Pairs:
    return Pairs([1.0] * 9, [ratio] * 9)


class SelectedTest(unittest.TestCase):
    def test_a_word_stands_for_whole_parts_of_a_name(self) -> None:
        places = ["raw", "slowfs-400", "slowfs-3000"]
        self.assertEqual(selected(places, ["slowfs"]), ["slowfs-400", "slowfs-3000"])
        self.assertEqual(selected(places, ["slowfs-300"]), [])

    def test_a_whole_name_stands_for_nothing_else(self) -> None:
        names = ["reader-1m", "reader-1m-more", "reader-4m-more"]
        self.assertEqual(selected(names, ["reader-1m"]), ["reader-1m"])
        self.assertEqual(selected(names, ["reader"]), names)

    def test_examples_in_its_documentation_hold(self) -> None:
        for module in (programs, packages):
            results = doctest.testmod(module)
            self.assertGreater(results.attempted, 0)
            self.assertEqual(results.failed, 0)


class CellsTest(unittest.TestCase):
    def test_every_program_meets_every_place_cold_and_cached(self) -> None:
        cells = cells_of([READER, HASH], (), (), ("cold", "cached"))
        self.assertEqual(len({cell.name for cell in cells}), 2 * len(SPOTS) * 2)

    def test_only_some_programs_are_measured_half_in_the_cache(self) -> None:
        cells = cells_of([READER, HASH], (), ("raw",), ("half",))
        self.assertEqual([cell.program.name for cell in cells], ["reader-1m"])

    def test_programs_that_write_have_places_and_a_cache_of_their_own(self) -> None:
        writer = Program("write-sync", command("writer"), gains=True, writes=True, files=0)
        cells = cells_of([READER, writer], (), (), ("cold", "written"))
        self.assertEqual(
            [cell.name for cell in cells if cell.program is writer],
            ["write-sync, raw, written", "write-sync, slowfs-400, written"],
        )
        self.assertEqual([cell.gains for cell in cells if cell.program is writer], [True, False])
        self.assertNotIn("reader-1m, raw, written", [cell.name for cell in cells])

    def test_words_choose_a_part(self) -> None:
        cells = cells_of([READER, HASH], ("sha256sum",), ("slowfs",), ("cold",))
        self.assertEqual(
            [cell.name for cell in cells],
            ["sha256sum, slowfs-400, cold", "sha256sum, slowfs-3000, cold"],
        )

    def test_what_is_cached_or_computes_little_has_the_larger_file(self) -> None:
        cold, cached = (
            Cell(READER, RAW, cache).size_mib(quick=False) for cache in ("cold", "cached")
        )
        self.assertGreater(cached, cold)
        self.assertGreater(cold, Cell(HASH, RAW, "cold").size_mib(quick=False))


class RunTest(unittest.TestCase):
    """The whole on one small file that is cached, with a script in the place of `ioweave`."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(dir=Path(__file__).parent)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.data = self.folder / "data.bin"
        self.data.write_bytes(b"x" * 4096)
        (self.folder / "place").mkdir()

    def measure(self, script: str, *, null: bool = False) -> Pairs:
        ioweave = self.folder / PROGRAMS["ioweave"]
        ioweave.parent.mkdir(parents=True, exist_ok=True)
        ioweave.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        ioweave.chmod(0o700)
        session = Session(
            *(Build(self.folder), self.folder, self.folder, self.folder),
            quick=True,
            selection=Selection(null=null),
        )
        place = Place("here", self.folder / "place", self.folder / "place")
        cell = Cell(Program("cat", command("cat")), RAW, "cached")
        return harmless._measure(session, place, cell, [self.data], Effort(2, 2, 0.03))

    def test_a_program_that_does_the_same_is_measured(self) -> None:
        pairs = self.measure('while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
        self.assertEqual((len(pairs.plain), len(pairs.woven)), (2, 2))

    def test_ioweave_has_no_part_in_the_measure_of_noise(self) -> None:
        pairs = self.measure("exit 3", null=True)
        self.assertEqual((len(pairs.plain), len(pairs.woven)), (2, 2))

    def test_a_program_that_fails_only_with_ioweave_is_harmed(self) -> None:
        with self.assertRaisesRegex(harmless.Harmed, "status 3"):
            self.measure("exit 3")

    def test_a_program_that_prints_something_else_is_harmed(self) -> None:
        with self.assertRaisesRegex(harmless.Harmed, "differs"):
            self.measure("echo y")


class RowsTest(unittest.TestCase):
    def test_both_ratios_of_a_cell_have_the_bar(self) -> None:
        rows = list(rows_of(Cell(HASH, RAW, "cold"), pairs(1.04)))
        self.assertEqual([line.met for line in rows], [False, False, None, None])

    def test_a_plain_cold_reader_on_the_raw_disk_is_to_gain_as_well(self) -> None:
        rows = list(rows_of(Cell(READER, RAW, "cold"), pairs(0.95)))
        self.assertEqual([line.met for line in rows], [True, True, False, None, None])
        for cell in (Cell(READER, SPOTS[1], "cold"), Cell(READER, RAW, "cached")):
            self.assertEqual(len(list(rows_of(cell, pairs(0.95)))), 4)

    def test_the_summary_counts_a_cell_that_misses_either_bar_and_names_the_worst(self) -> None:
        quickest_lost = Pairs([1.0] * 8 + [0.5], [1.0] * 9)  # median 1, least over least 2
        rows = list(
            summary_rows(
                [
                    (Cell(READER, RAW, "cold"), pairs(0.8)),
                    (Cell(HASH, RAW, "cold"), quickest_lost),
                    (Cell(HASH, RAW, "cached"), pairs(1.2)),
                ]
            )
        )
        by_name = {line.metric: line for line in rows}
        self.assertEqual(by_name["all: cells without harm, of 3"].summary.value, 1)
        self.assertIs(by_name["all: cells without harm, of 3"].met, False)
        self.assertEqual(by_name["all: cells with harm, of 3"].summary.value, 2)
        gain = by_name["all: plain cold readers on the raw disk that gain, of 1"]
        self.assertIs(gain.met, True)
        self.assertIn("all: worst median (sha256sum, raw, cached)", by_name)
        self.assertIn("all: worst least over least (sha256sum, raw, cold)", by_name)

    def test_a_program_that_broke_counts_as_harmed(self) -> None:
        rows = list(summary_rows([(Cell(HASH, RAW, "cold"), pairs(1.0))], broken=1))
        by_name = {line.metric: line for line in rows}
        self.assertIs(by_name["all: cells without harm, of 2"].met, False)
        self.assertEqual(by_name["all: cells with harm, of 2"].summary.value, 1)

    def test_the_summary_stands_where_every_program_broke(self) -> None:
        rows = list(summary_rows([], broken=2))
        self.assertIn("all: cells with harm, of 2", [line.metric for line in rows])

    def test_there_is_no_summary_of_nothing(self) -> None:
        self.assertEqual(list(summary_rows([])), [])
