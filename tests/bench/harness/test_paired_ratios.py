import doctest
import unittest

from harness import paired_ratios
from harness.paired_ratios import Effort, Pairs, measure, median_interval


class MedianIntervalTest(unittest.TestCase):
    def test_leaves_out_as_many_as_the_tables_of_order_statistics_say(self) -> None:
        for n, low, high in ((6, 1, 6), (9, 2, 8), (15, 4, 12), (25, 8, 18), (41, 14, 28)):
            with self.subTest(n):
                self.assertEqual(median_interval([float(i + 1) for i in range(n)]), (low, high))

    def test_is_the_whole_range_of_a_few(self) -> None:
        self.assertEqual(median_interval([3.0, 1.0, 2.0]), (1.0, 3.0))
        self.assertEqual(median_interval([7.0]), (7.0, 7.0))

    def test_examples_in_its_documentation_hold(self) -> None:
        self.assertEqual(doctest.testmod(paired_ratios).failed, 0)


class PairsTest(unittest.TestCase):
    def test_the_median_is_that_of_the_paired_ratios(self) -> None:
        # The ratio of the two medians would be 1.
        self.assertEqual(Pairs([1.0, 2.0, 4.0], [2.0, 1.0, 8.0]).median, 2.0)

    def test_least_over_least_takes_each_from_its_own_pair(self) -> None:
        self.assertEqual(Pairs([1.0, 4.0], [3.0, 2.0]).least_over_least, 2.0)

    def test_least_over_least_lies_between_what_it_is_without_either_of_the_two(self) -> None:
        summary = Pairs([1.0, 2.0, 9.0], [3.0, 4.0, 9.0]).least_summary()
        self.assertEqual((summary.low, summary.value, summary.high), (1.5, 3.0, 4.0))

    def test_says_which_kind_of_spread_it_states(self) -> None:
        self.assertEqual(Pairs([1.0] * 5, [1.0] * 5).median_summary().kind, "range")
        self.assertEqual(Pairs([1.0] * 9, [1.0] * 9).median_summary().kind, "ci95")

    def test_a_single_pair_has_no_spread(self) -> None:
        summary = Pairs([2.0], [1.0]).least_summary()
        self.assertEqual((summary.low, summary.value, summary.high), (0.5, 0.5, 0.5))


class MeasureTest(unittest.TestCase):
    def test_ends_with_the_fewest_where_all_agree(self) -> None:
        pairs = measure(lambda: 1.0, lambda: 1.01, Effort(9, 41, 0.03))
        self.assertEqual(len(pairs.plain), 9)

    def test_goes_on_to_the_most_where_the_ratio_has_two_modes_and_discards_nothing(self) -> None:
        slow_and_fast = iter([1.0, 3.0] * 50)
        pairs = measure(lambda: 1.0, lambda: next(slow_and_fast), Effort(9, 41, 0.03))
        self.assertEqual(len(pairs.plain), 41)
        self.assertEqual(set(pairs.woven), {1.0, 3.0})

    def test_goes_on_only_until_the_median_is_known(self) -> None:
        woven = iter([1.0, 2.0, 1.0, 2.0, *[1.0] * 50])
        pairs = measure(lambda: 1.0, lambda: next(woven), Effort(3, 41, 0.03))
        self.assertEqual(len(pairs.plain), 12)
        self.assertLessEqual(pairs.half_width, 0.03)

    def test_runs_the_two_in_turn_and_reverses_the_order(self) -> None:
        calls: list[str] = []

        def contender(name: str) -> float:
            calls.append(name)
            return 1.0

        measure(lambda: contender("p"), lambda: contender("w"), Effort(2, 2, 0.03))
        self.assertEqual(calls, ["p", "w", "w", "p"])
