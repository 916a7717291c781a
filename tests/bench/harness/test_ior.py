"""What `bench/run ior` runs, how it sums up, and what it draws."""

import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.benchmarks import ior
from harness.benchmarks.ior import JUDGED, OTHERS, Measured, Phase, Result, Round
from harness.build import Build
from harness.ior_cells import CELLS, GIB, KIB, MIB, QUICK, SEGMENTS, Cell
from harness.ior_pictures import charts_of
from harness.result import Row
from harness.session import Selection, Session


def cell(access: str = "direct", place: str = "raw", pattern: str = "write") -> Cell:
    return Cell(place, pattern, 4 * KIB, access, 1)


def measured(seconds: float, wall_s: float = 1.0) -> Measured:
    return Measured({"write": Phase(10**6, seconds)}, wall_s)


def rounds(**speeds: Sequence[float]) -> list[Round]:
    """By contender, MB/s of each round."""
    return [
        {name: measured(1 / speed) for name, speed in zip(speeds, each, strict=True)}
        for each in zip(*speeds.values(), strict=True)
    ]


def found(judged: float, plain: float = 1.0) -> list[Round]:
    """The first of the others is at plain's speed, the second a tenth above it."""
    first, second = OTHERS
    speeds = {"plain": plain, first: plain, second: 1.1 * plain, JUDGED: judged}
    return rounds(**{name: [speed] * 3 for name, speed in speeds.items()})


class CellsTest(unittest.TestCase):
    def test_blocks_of_whole_transfers_fill_the_file(self) -> None:
        for each in CELLS:
            with self.subTest(each.word):
                moved = each.block_bytes * each.segments * each.processes
                self.assertEqual(moved, each.file_bytes)
                self.assertEqual(each.block_bytes % each.transfer_bytes, 0)
                self.assertLessEqual(moved, GIB)

    def test_there_are_16_segments_unless_the_file_would_be_too_large(self) -> None:
        fewer = {each for each in CELLS if each.segments != SEGMENTS}
        self.assertEqual({(each.transfer_bytes, each.processes) for each in fewer}, {(64 * MIB, 4)})

    def test_small_direct_transfers_move_less(self) -> None:
        self.assertEqual(cell("direct").file_bytes, 16 * MIB)
        self.assertEqual(cell("buffered").file_bytes, 512 * MIB)

    def test_names_and_words_are_unique(self) -> None:
        self.assertEqual(len({each.name for each in CELLS}), len(CELLS))
        self.assertEqual(len({each.word for each in CELLS}), len(CELLS))
        self.assertIn("raw-write-4k-direct-1p", {each.word for each in CELLS})
        self.assertLess(set(QUICK), set(CELLS))

    def test_a_reader_has_nothing_to_sync(self) -> None:
        self.assertFalse([each for each in CELLS if each.reads_only and each.access == "fsync"])

    def test_the_driver_takes_numbers_and_words(self) -> None:
        each = Cell("raw", "random", 64 * KIB, "direct", 4)
        self.assertEqual(each.shape(), ("65536", str(4 * MIB), "16", "4"))
        self.assertEqual(each.how(), ("direct", "random", "write"))


class SumsTest(unittest.TestCase):
    def test_the_bandwidth_of_two_phases_is_that_of_what_both_move(self) -> None:
        both = Measured({"write": Phase(10**6, 1.0), "read": Phase(10**6, 3.0)}, 4.0)
        self.assertEqual((both.mb_s(), both.mb_s("write")), (0.5, 1.0))

    def test_the_best_has_the_greatest_median_and_not_the_greatest_round(self) -> None:
        three = rounds(sync=[1.0, 1.0, 9.0], writes=[2.0, 2.0, 2.0])
        self.assertEqual(ior.best_of(three, ("sync", "writes")), "writes")

    def test_ratios_are_those_of_a_round(self) -> None:
        result = ior.result_of(cell(), found(2.2))
        self.assertEqual([round(each, 6) for each in result.over_plain], [2.2] * 3)
        self.assertEqual([round(each, 6) for each in result.over_best], [2.0] * 3)

    def test_a_cell_misses_its_bars_by_either_ratio(self) -> None:
        self.assertFalse(ior.misses(ior.result_of(cell(), found(1.1))))
        self.assertTrue(ior.misses(ior.result_of(cell(), found(1.05))))  # 0.95 of the best
        self.assertTrue(ior.misses(ior.result_of(cell(), found(0.9))))

    def test_pairs_bound_all_rounds_of_a_cell(self) -> None:
        def rounds_of(pairs: int | None, *, quick: bool = False) -> tuple[int, int]:
            here = Path("/nowhere")
            chosen = Selection(pairs=pairs)
            return ior.rounds_of(
                Session(Build(here), here, here, here, quick=quick, selection=chosen)
            )

        self.assertEqual([rounds_of(pairs) for pairs in (None, 1, 4)], [(3, 2), (1, 0), (3, 1)])
        self.assertEqual(rounds_of(None, quick=True), (1, 0))

    def test_a_cell_has_rows_of_contenders_and_phases(self) -> None:
        read_back = cell(pattern="mixed")
        phases = {"write": Phase(10**6, 1.0), "read": Phase(10**6, 0.5)}
        both = [{name: Measured(phases, 2.0) for name in ("plain", *ior.POLICIES)}]
        names = {row.metric for row in ior.rows_of_cell(both, ior.result_of(read_back, both))}
        self.assertIn(f"{read_back.name}: plain", names)
        self.assertIn(f"{read_back.name}: {JUDGED}, read", names)
        self.assertIn(f"{read_back.name}: speed of {JUDGED} over plain", names)

    def rows_of(self, *results: Result) -> Mapping[str, Row]:
        return {row.metric: row for row in ior.rows_of_all(results)}

    def test_the_worst_cell_is_judged(self) -> None:
        results = [ior.result_of(cell(), found(judged)) for judged in (2.0, 0.9)]
        worst = self.rows_of(*results)[f"worst cell: speed of {JUDGED} over plain"]
        self.assertAlmostEqual(worst.summary.value, 0.9)
        self.assertIs(worst.met, False)

    def test_a_cell_below_in_every_round_is_told_from_one_that_is_below_at_times(self) -> None:
        always, at_times = found(0.9), found(0.9)
        at_times[0] = found(1.3)[0]
        results = [ior.result_of(cell(), each) for each in (always, at_times, found(1.2))]
        values = {name: each.summary.value for name, each in self.rows_of(*results).items()}
        speed = f"speed of {JUDGED} over plain"
        self.assertAlmostEqual(values[f"part of the cells with 0.97 and more: {speed}"], 1 / 3)
        self.assertAlmostEqual(
            values[f"part of the cells below 0.97 in every round: {speed}"], 1 / 3
        )

    def test_gains_are_of_cells_that_wait_for_the_device(self) -> None:
        name = "part of the cells by O_DIRECT or on slowfs with 1.2 and more"
        metric = f"{name}: speed of {JUDGED} over plain"
        slow = ior.result_of(cell("buffered", "slowfs"), found(1.3))
        cached = ior.result_of(cell("buffered"), found(1.0))
        direct = ior.result_of(cell(), found(1.1))
        gains = self.rows_of(slow, cached, direct)[metric]
        self.assertEqual((gains.summary.value, gains.met), (0.5, True))
        self.assertNotIn(metric, self.rows_of(cached))


class PicturesTest(unittest.TestCase):
    def values(self, each: Cell, *endings: str) -> dict[str, float]:
        return {f"{each.name}: {ending}": 1.0 * each.transfer_bytes for ending in endings}

    def test_lines_are_contenders_over_sizes(self) -> None:
        values: dict[str, float] = {}
        for size in (1 * MIB, 4 * KIB):
            each = Cell("raw", "write", size, "fsync", 4)
            values |= self.values(each, "plain", "sync", "speed of auto over plain")
        charts = charts_of(values)
        self.assertEqual(list(charts), ["ior-raw-write-fsync-4p"])
        self.assertEqual(charts["ior-raw-write-fsync-4p"].x, ["4 KiB", "1 MiB"])
        lines = charts["ior-raw-write-fsync-4p"].lines
        self.assertEqual(lines["sync"], [4.0 * KIB, 1.0 * MIB])
        self.assertEqual(set(lines), {"plain", "sync"})

    def test_what_is_written_and_read_back_has_two_charts(self) -> None:
        values: dict[str, float] = {}
        for size in (4 * KIB, 1 * MIB):
            each = Cell("slowfs", "mixed", size, "direct", 1)
            values |= self.values(each, "plain", "plain, write", "plain, read")
        names = [f"ior-slowfs-mixed-direct-1p-{phase}" for phase in ("read", "write")]
        self.assertEqual(sorted(charts_of(values)), names)

    def test_one_size_is_no_line(self) -> None:
        self.assertEqual(charts_of(self.values(cell(), "plain", "sync")), {})


if __name__ == "__main__":
    unittest.main()
