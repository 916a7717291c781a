import unittest
from dataclasses import dataclass

from harness.tasks import curves, measures, paper


@dataclass(frozen=True)
class Record:
    start_s: float
    end_s: float
    ready_s: float = 0.0
    node: int = 0
    io: bool = True
    bytes: int = 1_000_000


def rate(streams: int) -> float:
    return {0: 0.0, 1: 1.0, 2: 2.0, 3: 1.5}[streams]


class ShareBelowTest(unittest.TestCase):
    def test_bytes_moved_slowly_while_others_wait_count(self) -> None:
        # One alone for 1 s while a second waits; then two at once for 3 s: 1 MB of 7.
        records = [Record(0, 4), Record(1, 4)]
        self.assertAlmostEqual(measures.share_below(records, rate, 2.0), 1 / 7)

    def test_slow_because_nothing_waits_does_not_count(self) -> None:
        self.assertEqual(measures.share_below([Record(0, 4)], rate, 2.0), 0)

    def test_too_many_at_once_count_too(self) -> None:
        records = [Record(0, 2), Record(0, 2), Record(0, 2), Record(2, 4), Record(2, 4)]
        self.assertAlmostEqual(measures.share_below(records, rate, 2.0), 3 / 7)

    def test_nodes_count_by_themselves(self) -> None:
        records = [Record(0, 2), Record(0, 2), Record(0, 2, node=1), Record(2, 3, node=1)]
        self.assertAlmostEqual(measures.share_below(records, rate, 2.0), 2 / 7)

    def test_nothing_moved_is_no_share(self) -> None:
        self.assertEqual(measures.share_below([Record(0, 4, io=False)], rate, 2.0), 0)


class BackTest(unittest.TestCase):
    def until_back(self, records: list[Record]) -> int | None:
        return measures.tasks_until_back(records, 10, rate, 2.0, window=2)

    def test_tasks_that_end_before_the_best_is_reached_count(self) -> None:
        one_by_one = [Record(10 + i, 11 + i) for i in range(3)]
        two_at_once = [Record(13 + i // 2, 14 + i // 2) for i in range(8)]
        self.assertEqual(self.until_back([*one_by_one, *two_at_once]), 3)

    def test_passing_through_the_best_is_not_back(self) -> None:
        alone = [Record(10 + i, 11 + i) for i in range(12)]
        passing = Record(10.5, 10.6)
        self.assertIsNone(self.until_back([*alone, passing]))

    def test_what_was_before_does_not_count(self) -> None:
        records = [Record(i // 2, 1 + i // 2) for i in range(40)]
        self.assertEqual(self.until_back(records), 2)  # those that ended right then


class ThroughputTest(unittest.TestCase):
    def test_is_of_the_time_in_which_a_node_moves_anything(self) -> None:
        records = [Record(0, 2), Record(1, 3), Record(9, 10), Record(0, 4, node=1)]
        self.assertAlmostEqual(measures.throughput_mb_per_s(records), 4 / 8)
        self.assertAlmostEqual(measures.mean_task_s(records), 9 / 4)


class BoundTest(unittest.TestCase):
    def test_no_overlap_can_beat_computing_alone_first_and_writing_alone_last(self) -> None:
        # Four equal waves of C = W: (4 + 1) / (4 + 4) of the time, the paper's 38 % nearly.
        bound = measures.overlap_bound_s(waves=4, compute_s=10, wave_bytes=100e6, mb_per_s=10)
        self.assertEqual(measures.improvement(bound, 4 * (10 + 10)), 0.375)


class PaperTest(unittest.TestCase):
    def test_two_applications_imply_the_same_stream(self) -> None:
        # 1099.10 - 932.06 s for four tasks of 290 MB, one after the other.
        found = paper.stream_mb_per_s()
        self.assertAlmostEqual(found["HMMER"], 1160 / 167.04)
        self.assertAlmostEqual(found["K-means"] / found["HMMER"], 1, delta=0.1)
        self.assertGreater(curves.at(curves.SSD, 1), found["K-means"])
        self.assertLess(curves.at(curves.SSD, 1), found["HMMER"])

    def test_two_applications_imply_the_same_non_aware_rate(self) -> None:
        for implied in paper.non_aware_mb_per_s().values():
            rate = curves.at(curves.SSD_NON_AWARE, paper.CORES)
            self.assertAlmostEqual(implied / rate, 1, delta=0.05)

    def test_the_time_of_a_variants_step_gives_the_printed_improvement(self) -> None:
        step_s = paper.variants_compute_s(100)
        waves = paper.VARIANTS_INPUTS / paper.NODES / paper.CORES
        written = 162 + 2 * 290 + 330 + 596 + 615  # MB of a pipeline: two steps write "mapped"
        computing_s = waves * 7 * step_s
        non_aware_s = computing_s + waves * paper.CORES * written / 100
        self.assertAlmostEqual(measures.improvement(computing_s, non_aware_s), 0.43)

    def test_the_fitted_device_is_fastest_with_56_at_once_as_in_figure_12(self) -> None:
        by_epoch = [curves.at(curves.SSD, group) for group in (225, 112, 56, 28)]
        self.assertEqual(max(by_epoch), by_epoch[2])
        self.assertLess(by_epoch[0], by_epoch[1])


class CurveTest(unittest.TestCase):
    def test_is_joined_by_lines_from_nothing_on_and_flat_at_the_end(self) -> None:
        curve = [(2, 100), (4, 50)]
        found = [curves.at(curve, streams) for streams in (0, 1, 2, 3, 4, 9)]
        self.assertEqual(found, [0, 50, 100, 75, 50, 50])

    def test_the_congested_device_is_best_where_it_says(self) -> None:
        at = {n: curves.at(curves.CONGESTED, n) for n in range(1, 500)}
        self.assertEqual(max(at, key=lambda n: at[n]), curves.CONGESTED_PEAK)
        self.assertAlmostEqual(max(at.values()), paper.BUDGET)

    def test_the_measured_device_has_its_knee_at_eight_and_loses_half_with_512(self) -> None:
        curve = curves.scaled(curves.HARD_DISK, 450)
        self.assertEqual([curves.at(curve, n) for n in (1, 8)], [450, 450])
        self.assertLess(curves.at(curve, 16), 450)
        self.assertAlmostEqual(curves.at(curve, 512) / 450, 0.47, delta=0.005)
        self.assertLess(curves.scalability(512, 8, 1), 0.03)
