"""What is made of the runs of the contenders of `bench/run streams`, and what they are told."""

import unittest
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from unittest import mock

from harness import model, process
from harness.benchmarks import streams
from harness.build import Build
from harness.process import ProgramFailed
from harness.session import Session
from harness.stream_runs import (
    MIB,
    OURS,
    READERS,
    SPREAD,
    WRITING,
    Cell,
    Figures,
    ReadBack,
    Round,
    Runner,
    Spot,
)

ONE = Spot("one device", (Path("a"),), 100.0)
FOUR = Spot("four devices", tuple(map(Path, "abcd")), 100.0)


def figures(durable_s: float, compute_s: float = 1.0, alone_s: float = 0.0) -> Figures:
    return Figures(durable_s - 0.1, durable_s, compute_s, alone_s, 50.0)


def one_round(bound_s: float = 2.0, **durable_s: float) -> Round:
    return Round({name: figures(seconds) for name, seconds in durable_s.items()}, bound_s)


class CellTest(unittest.TestCase):
    def test_takes_as_many_items_as_take_the_wanted_time(self) -> None:
        writes = Cell(100, Fraction(1, 8), 4)
        self.assertAlmostEqual(writes.write_s(ONE), 1.048576)
        self.assertEqual(writes.items(ONE, 20.0), round(20 / 1.048576))
        computes = Cell(100, Fraction(2), 4)
        self.assertEqual(computes.items(ONE, 20.0), round(10 / 1.048576))

    def test_several_devices_take_more_items_in_the_time(self) -> None:
        cell = Cell(100, Fraction(1, 8), 8)
        self.assertEqual(cell.items(FOUR, 20.0), round(4 * 20 / 1.048576))

    def test_has_more_items_than_buffers_and_an_end(self) -> None:
        self.assertEqual(Cell(1000, Fraction(8), 4).items(ONE, 1.0), 6)
        self.assertEqual(Cell(1, Fraction(1, 8), 4).items(ONE, 1000.0), 512)

    def test_has_several_requests_to_a_file_only_where_buffers_fill_up(self) -> None:
        self.assertTrue(Cell(1, Fraction(1, 2), 4).several_to_one_file)
        self.assertFalse(Cell(1, Fraction(2), 4).several_to_one_file)
        self.assertFalse(Cell(1, Fraction(1, 2), 4, file_each=True).several_to_one_file)
        self.assertFalse(Cell(1, Fraction(1, 2), 1).several_to_one_file)

    def test_every_cell_of_an_effort_has_its_own_name(self) -> None:
        for effort in (streams.FULL, streams.QUICK):
            names = [cell.name for cell in streams.cells_of(effort)]
            self.assertEqual(len(names), len(set(names)))

    def test_the_full_effort_covers_what_issue_15_asks_for(self) -> None:
        ratios = {cell.ratio for cell in streams.cells_of(streams.FULL)}
        sizes = {cell.mib for cell in streams.cells_of(streams.FULL)}
        self.assertEqual((min(ratios), max(ratios)), (Fraction(1, 8), Fraction(8)))
        self.assertEqual((min(sizes), max(sizes)), (1, 128))
        self.assertEqual(streams.FULL.targets, (2, 4))

    def test_targets_are_as_fast_as_the_computation_and_half_as_fast(self) -> None:
        self.assertEqual([cell.ratio for cell in streams.target_cells(4)], [1 / 4, 1 / 8])
        self.assertTrue(all(cell.buffers > 4 for cell in streams.target_cells(4)))


class RowsTest(unittest.TestCase):
    def test_the_best_peer_is_neither_ours_nor_one_that_computes_nothing(self) -> None:
        rounds = [one_round(**{OURS: 1.0, WRITING: 0.5, "aio": 3.0, "pool": 2.0})]
        self.assertEqual(streams.best_peer(rounds), "pool")

    def test_the_best_peer_is_chosen_by_its_median(self) -> None:
        rounds = [
            one_round(aio=aio, pool=pool) for aio, pool in ((1.0, 2.0), (3.0, 2.0), (3.0, 2.0))
        ]
        self.assertEqual(streams.best_peer(rounds), "pool")

    def test_who_dropped_out_is_not_the_best(self) -> None:
        rounds = [one_round(aio=3.0, caio=1.0), one_round(aio=3.0)]
        self.assertEqual(streams.best_peer(rounds), "aio")

    def test_rows_compare_within_a_round(self) -> None:
        rounds = [
            one_round(bound, **{OURS: ours, "aio": aio})
            for bound, ours, aio in ((2.0, 2.2, 4.4), (4.0, 4.0, 4.0), (1.0, 1.5, 2.0))
        ]
        rows = {
            line.metric: line for line in streams.grid_rows("here", Cell(1, Fraction(1), 4), rounds)
        }
        prefix = "here, 1 MiB, C/W 1"
        model = rows[f"{prefix}: time over the model's"]
        self.assertAlmostEqual(model.summary.value, 1.1)
        self.assertFalse(model.met)
        best = rows[f"{prefix}: time over the best peer's (glibc AIO)"]
        self.assertAlmostEqual(best.summary.value, 0.75)
        self.assertTrue(best.met)
        self.assertEqual(str(rows[f"{prefix}: time over glibc AIO's"].bar), "< 1")
        self.assertEqual(rows[f"{prefix}: Ioweave: time to durable"].summary.n, 3)

    def test_glibc_aio_is_no_bar_where_one_request_at_a_time_is_under_way(self) -> None:
        rows = streams.grid_rows(
            "here", Cell(1, Fraction(2), 4), [one_round(**{OURS: 1.0, "aio": 1.0})]
        )
        (line,) = [line for line in rows if line.metric.endswith("glibc AIO's")]
        self.assertIsNone(line.bar)

    def test_inflation_is_told_of_those_that_computed_alone_too(self) -> None:
        measured: Mapping[str, Figures] = {
            OURS: figures(2.0, compute_s=1.03, alone_s=1.0),
            "pool": figures(2.0, compute_s=1.1, alone_s=1.0),
            "synchronous": figures(2.0),
        }
        lines = list(streams.inflation_rows("here", [Round(measured, 2.0)]))
        self.assertEqual([line.summary.value for line in lines], [1.03, 1.1])
        self.assertEqual([line.met for line in lines], [False, None])

    def test_several_devices_have_a_bar_of_their_own(self) -> None:
        rounds = [one_round(**{OURS: 3.0, SPREAD: 2.1, "aio": 4.2})]
        rows = list(streams.target_rows("2 x slowfs", Cell(8, Fraction(1, 2), 4), rounds))
        self.assertEqual(str(rows[0].bar), "<= 1.1")
        self.assertTrue(rows[0].met)
        self.assertAlmostEqual(rows[1].summary.value, 1.5)
        self.assertIsNone(rows[1].bar)
        self.assertAlmostEqual(rows[2].summary.value, 0.5)

    def test_reading_back_is_compared_with_the_bound_and_with_plain_reads(self) -> None:
        times = {"plain": 4.0, "cached": 1.5, "stream": 2.1}
        ones = dict.fromkeys(READERS, 1.0)
        rows = list(
            streams.read_rows(
                "2 x slowfs", Cell(8, Fraction(1, 2), 4), [ReadBack(times, ones, ones, 2.0)]
            )
        )
        self.assertEqual([line.met for line in rows[:3]], [True, True, False])
        self.assertIn("read back, 8 MiB, C/R 1/2: time over the bound", rows[0].metric)


class RunnerTest(unittest.TestCase):
    """With programs that are not there: what they are called with, and what becomes of failures."""

    def setUp(self) -> None:
        self.session = Session(Build(Path("b")), Path("f"), Path("d"), Path("r"), quick=True)
        self.commands: list[list[str]] = []
        for target, replacement in (
            (process, {"run": self._run}),
            (Session, {"program": lambda _, name: Path(name)}),
            (model, {"write_behind_s": lambda *_args, **_options: 2.0}),
        ):
            patched = mock.patch.multiple(target, **replacement)
            patched.start()
            self.addCleanup(patched.stop)
        self.fails: set[str] = set()

    def _run(self, command: list[str]) -> process.Finished:
        self.commands.append([str(word) for word in command])
        if self.fails & set(self.commands[-1]):
            raise ProgramFailed("words\nit cannot be")
        said = (
            '{"work": 7, "return_s": 1, "durable_s": 2, "compute_s": 1, "peak_mib": 3, "time_s": 4}'
        )
        return process.Finished(1.0, 1.0, 1, said, "")

    def rounds(self, spot: Spot, cell: Cell) -> list[Round]:
        runner = Runner(self.session, "python", ("synchronous", "aio", OURS, SPREAD))
        return list(runner.rounds(spot, cell, 8, 2))

    def test_contenders_have_the_same_work_and_buffers(self) -> None:
        self.rounds(ONE, Cell(2, Fraction(1, 2), 3))
        runs = [words for words in self.commands if "--calibrate" not in words]
        self.assertTrue(all({"--buffers=3", f"--bytes={2 * MIB}"} < set(words) for words in runs))
        computing = [words for words in runs if "--write-only" not in words]
        self.assertTrue(all("--work=7" in words for words in computing))
        self.assertFalse(any(word.startswith("--alone") for words in runs for word in words))

    def test_computing_alone_is_measured_where_c_is_w(self) -> None:
        self.rounds(ONE, Cell(2, Fraction(1), 3))
        alone = [words for words in self.commands if "--alone=2" in words]
        self.assertEqual(len(alone), 4)  # two rounds of aio and ours

    def test_a_peer_that_fails_is_left_out_with_a_note(self) -> None:
        self.fails = {"adios2"}
        found = self.rounds(ONE, Cell(2, Fraction(1), 3))
        self.assertNotIn("adios2", found[0].figures)
        self.assertIn("caio", found[1].figures)
        self.assertEqual(self.session.notes, ["ADIOS2 BP5 is left out: it cannot be"])

    def test_ours_failing_is_no_result(self) -> None:
        self.fails = {f"--how={OURS}"}
        with self.assertRaises(ProgramFailed):
            self.rounds(ONE, Cell(2, Fraction(1), 3))

    def test_only_those_that_pass_the_page_cache_by_go_where_that_counts(self) -> None:
        limited = Spot("limited", (Path("a"),), 100.0, ("limit",), buffered=False)
        found = self.rounds(limited, Cell(2, Fraction(1), 3))
        self.assertNotIn("caio", found[0].figures)
        self.assertIn("tensorstore", found[0].figures)
        runs = [words for words in self.commands if "--calibrate" not in words]
        self.assertTrue(all(words[0] == "limit" for words in runs))

    def test_peers_write_to_one_device(self) -> None:
        found = self.rounds(FOUR, Cell(2, Fraction(1), 3))
        self.assertEqual(set(found[0].figures), {WRITING, "synchronous", "aio", OURS, SPREAD})

    def test_a_spread_is_for_several_devices(self) -> None:
        self.assertNotIn(SPREAD, self.rounds(ONE, Cell(2, Fraction(1), 3))[0].figures)

    def test_readers_have_the_same_work_and_buffers(self) -> None:
        runner = Runner(self.session, None, (OURS,))
        (found,) = runner.read_rounds(FOUR, Cell(2, Fraction(1), 3), 8, 1)
        self.assertEqual(set(found.time_s), set(READERS))
        self.assertEqual(found.bound_s, 2.0)
        runs = [words for words in self.commands if "bench_read_back" in words]
        self.assertEqual(len(runs), 1 + len(READERS))
        self.assertTrue(all({"--buffers=3", "--items=8"} < set(words) for words in runs))
        self.assertEqual(["--work=7" in words for words in runs], [False, True, True, True])
        self.assertIn("--read-only", runs[0])


if __name__ == "__main__":
    unittest.main()
