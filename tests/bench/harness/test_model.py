"""What the harness hears of the overlap model; its formulas are tested in tests/model."""

import os
import unittest
from pathlib import Path

from harness.model import Chunks, of_totals, write_behind_s

PROGRAM = Path(os.environ["IOWEAVE_BENCH_MODEL"])


class ModelTest(unittest.TestCase):
    def test_totals_are_divided_among_the_chunks(self) -> None:
        self.assertEqual(
            of_totals(PROGRAM, 4, 4.0, 4.0, 2.0), Chunks(4, 1.0, 1.0, 0.5, 7.0, 3.0, 7.0)
        )

    def test_one_chunk_has_nothing_to_overlap_with(self) -> None:
        only = of_totals(PROGRAM, 1, 2.0, 3.0, 1.0)
        self.assertEqual(only.overlapped_s, 2.0 + 3.0 + 1.0)
        self.assertEqual(only.hideable_s, 0)

    def test_at_equal_read_and_compute_the_speed_up_is_2n_over_n_plus_1(self) -> None:
        for n in (1, 4, 100):
            chunks = of_totals(PROGRAM, n, n * 1.0, n * 1.0, 0.0)
            self.assertAlmostEqual(n * 2.0 / chunks.overlapped_s, 2 * n / (n + 1))

    def test_what_it_saves_is_the_shorter_of_read_and_compute(self) -> None:
        for read_s, compute_s in ((5.0, 10.0), (10.0, 5.0)):
            chunks = of_totals(PROGRAM, 5, read_s, compute_s, 1.5)
            self.assertAlmostEqual(5.0 + 10.0 + 1.5 - chunks.overlapped_s, 4 * 1.0)

    def test_write_behind_waits_for_the_slower_of_computing_and_writing(self) -> None:
        self.assertEqual(write_behind_s(PROGRAM, 5, 2.0, 1.0, buffers=2), 2 + 1 + 4 * 2)
        self.assertEqual(write_behind_s(PROGRAM, 5, 1.0, 2.0, buffers=2), 1 + 2 + 4 * 2)

    def test_write_behind_with_one_buffer_is_synchronous(self) -> None:
        self.assertEqual(write_behind_s(PROGRAM, 5, 2.0, 1.0, buffers=1), 5 * (2 + 1))

    def test_write_behind_to_two_devices_writes_twice_as_fast(self) -> None:
        self.assertEqual(
            write_behind_s(PROGRAM, 5, 1.0, 4.0, buffers=4, devices=2), 1 + 4 + 4 * 2.0
        )
