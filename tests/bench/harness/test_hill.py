import doctest
import unittest

from harness import hill
from harness.hill import fit_key_size


class FitKeySizeTest(unittest.TestCase):
    def test_takes_the_computation_just_above_the_target(self) -> None:
        seconds = {4: 0.2, 8: 0.9, 12: 0.5, 16: 0.7, 20: 0.8}
        self.assertEqual(fit_key_size(seconds.__getitem__, 0.6, list(seconds)), 16)

    def test_takes_the_longest_where_the_device_is_slower_than_any(self) -> None:
        seconds = {4: 0.2, 8: 0.9, 12: 0.5}
        self.assertEqual(fit_key_size(seconds.__getitem__, 10.0, list(seconds)), 8)

    def test_does_not_try_sizes_far_beyond(self) -> None:
        tried = []

        def compute_s(size: int) -> float:
            tried.append(size)
            return float(size)

        fit_key_size(compute_s, 20.0, range(4, 1025, 4))
        self.assertEqual(tried[-1], 44)

    def test_examples_in_its_documentation_hold(self) -> None:
        self.assertEqual(doctest.testmod(hill).failed, 0)
