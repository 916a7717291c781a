import doctest
import unittest

from harness import model
from harness.model import Chunks, of_totals


class ModelTest(unittest.TestCase):
    def test_one_chunk_has_nothing_to_overlap_with(self) -> None:
        only = Chunks(1, 2.0, 3.0, 1.0)
        self.assertEqual(only.overlapped_s, only.synchronous_s)
        self.assertEqual(only.hideable_s, 0)

    def test_at_equal_read_and_compute_the_speed_up_is_2n_over_n_plus_1(self) -> None:
        for n in (1, 4, 100):
            chunks = Chunks(n, 1.0, 1.0, 0.0)
            self.assertAlmostEqual(chunks.synchronous_s / chunks.overlapped_s, 2 * n / (n + 1))

    def test_what_it_saves_is_the_shorter_of_read_and_compute(self) -> None:
        for read_s, compute_s in ((1.0, 2.0), (2.0, 1.0)):
            chunks = Chunks(5, read_s, compute_s, 0.3)
            self.assertAlmostEqual(chunks.synchronous_s - chunks.overlapped_s, 4 * 1.0)

    def test_totals_are_divided_among_the_chunks(self) -> None:
        self.assertEqual(of_totals(4, 4.0, 8.0, 2.0), Chunks(4, 1.0, 2.0, 0.5))

    def test_examples_in_its_documentation_hold(self) -> None:
        self.assertEqual(doctest.testmod(model).failed, 0)
