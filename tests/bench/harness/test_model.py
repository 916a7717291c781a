"""What the harness hears of the overlap model; its formulas are tested in tests/model."""

import os
import unittest
from pathlib import Path

from harness.model import Chunks, of_totals

PROGRAM = Path(os.environ["IOWEAVE_BENCH_MODEL"])


class ModelTest(unittest.TestCase):
    def test_totals_are_divided_among_the_chunks(self) -> None:
        self.assertEqual(of_totals(PROGRAM, 4, 4.0, 4.0, 2.0), Chunks(4, 1.0, 1.0, 0.5, 7.0, 3.0))

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
