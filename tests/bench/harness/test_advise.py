"""What `bench/run advise` makes of its runs, and what it is told."""

import unittest
from pathlib import Path
from typing import Any

from harness.benchmarks import advise
from harness.benchmarks.advise import CONFIGURATIONS, Job, Judged, Round, prediction_of
from harness.result import Row
from harness.session import Unsuitable


def rounds(plain_s: float, predicted_s: float, *measured_s: float) -> Judged:
    return Judged([Round(plain_s, predicted_s, each) for each in measured_s])


class JudgedTest(unittest.TestCase):
    def test_the_error_is_that_of_the_median_round(self) -> None:
        judged = rounds(10, 6, 5, 6.25, 8)
        self.assertAlmostEqual(judged.error, 0.04)
        self.assertAlmostEqual(judged.predicted_gain, 0.4)
        self.assertAlmostEqual(judged.real_gain, 0.375)

    def test_a_wrong_word_counts_where_the_gain_is_beyond_5_percent(self) -> None:
        self.assertFalse(rounds(10, 9, 9).is_wrong)  # worth it, and it was
        self.assertTrue(rounds(10, 9.9, 9).is_wrong)  # not worth it, and it was
        self.assertTrue(rounds(10, 9, 11).is_wrong)  # worth it, and it cost time
        self.assertFalse(rounds(10, 9, 9.8).is_wrong)  # worth it, and it hardly mattered
        self.assertFalse(rounds(10, 10, 11).is_wrong)  # not worth it, and it was not

    def test_advice_that_brings_too_little_is_counted_apart(self) -> None:
        self.assertTrue(rounds(10, 9, 9.8).is_in_vain)
        self.assertFalse(rounds(10, 9, 9).is_in_vain)
        self.assertFalse(rounds(10, 9.9, 9.9).is_in_vain)

    def rows(self, *judged: Judged) -> dict[str, Row]:
        return {line.metric: line for line in advise.rows_of_all("all", judged, barred=True)}

    def test_bars_are_on_the_median_the_worst_and_wrong_words(self) -> None:
        good, bad = rounds(10, 5, 5), rounds(10, 9.9, 8)
        found = self.rows(good, good, bad)
        self.assertTrue(found["all: error, median"].met)
        self.assertFalse(found["all: error, worst"].met)
        self.assertFalse(found["all: wrong on whether it is worth it"].met)
        self.assertTrue(all(line.met is not False for line in self.rows(good).values()))


ADVICE: dict[str, Any] = {
    "predictions": [
        {"way": "prefetch", "lookahead_bytes": 1, "seconds": 1.0},
        {"way": "prefetch", "lookahead_bytes": 2, "seconds": 2.0},
        {"way": "write-behind", "buffers": 4, "devices": 1, "seconds": 3.0},
        {"way": "write-behind", "buffers": 4, "devices": 2, "seconds": 4.0},
    ]
}


class PredictionTest(unittest.TestCase):
    def test_is_that_of_the_way_that_is_run(self) -> None:
        self.assertEqual(prediction_of(ADVICE, Job(("p",), "prefetch")), 2.0)
        writer = Job(("p",), "write-behind", buffers=4)
        self.assertEqual(prediction_of(ADVICE, writer), 3.0)

    def test_that_is_missing_is_said(self) -> None:
        with self.assertRaisesRegex(Unsuitable, "no prediction of write-behind for p"):
            prediction_of(ADVICE, Job(("p",), "write-behind", buffers=3))


class ConfigurationsTest(unittest.TestCase):
    def test_have_names_of_their_own_in_each_place(self) -> None:
        named = [(each.place, each.name) for each in CONFIGURATIONS]
        self.assertEqual(len(set(named)), len(named))
        self.assertLessEqual({each.place for each in CONFIGURATIONS}, set(advise.PLACES))

    def test_the_program_that_is_run_beside_them_is_there(self) -> None:
        self.assertTrue(Path(advise.LOOP).is_file())


if __name__ == "__main__":
    unittest.main()
