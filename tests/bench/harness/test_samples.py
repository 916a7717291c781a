import doctest
import unittest

from harness import samples
from harness.samples import alternate, summarize


class SummarizeTest(unittest.TestCase):
    def test_is_the_median_not_the_mean(self) -> None:
        self.assertEqual(summarize([1.0, 1.0, 100.0]).value, 1.0)

    def test_states_the_range_where_quartiles_would_be_made_up(self) -> None:
        summary = summarize([4.0, 1.0, 3.0, 2.0])
        self.assertEqual((summary.low, summary.high, summary.kind), (1.0, 4.0, "range"))

    def test_states_quartiles_of_many(self) -> None:
        summary = summarize([5.0, 1.0, 3.0, 2.0, 4.0])
        self.assertEqual((summary.low, summary.high, summary.kind), (2.0, 4.0, "iqr"))
        self.assertEqual(summary.n, 5)

    def test_takes_a_single_sample(self) -> None:
        self.assertEqual(summarize([7.0]).low, 7.0)

    def test_examples_in_its_documentation_hold(self) -> None:
        self.assertEqual(doctest.testmod(samples).failed, 0)


class AlternateTest(unittest.TestCase):
    def test_reverses_the_order_every_round_and_keeps_pairs_together(self) -> None:
        calls: list[str] = []

        def contender(name: str) -> str:
            calls.append(name)
            return f"{name}{len(calls)}"

        rounds = list(
            alternate({"a": lambda: contender("a"), "b": lambda: contender("b")}, rounds=3)
        )
        self.assertEqual(calls, ["a", "b", "b", "a", "a", "b"])
        self.assertEqual(rounds[1], {"a": "a4", "b": "b3"})
