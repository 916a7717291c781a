"""shrink() finds the steps that a difference needs."""

import unittest

from shrink import shrink, to_text


class Shrink(unittest.TestCase):
    def test_keeps_only_the_steps_that_are_needed(self) -> None:
        needed = {3, 700, 701}
        kept = shrink(lambda steps: needed <= set(steps), list(range(1000)))
        self.assertEqual(kept, [3, 700, 701])

    def test_keeps_one_of_several_causes(self) -> None:
        kept = shrink(lambda steps: 5 in steps or 90 in steps, list(range(100)))
        self.assertIn(kept, ([5], [90]))

    def test_asks_far_less_often_than_there_are_steps(self) -> None:
        asked = []

        def shows(steps: list[int]) -> bool:
            asked.append(len(steps))
            return {17, 2900} <= set(steps)

        self.assertEqual(shrink(shows, list(range(3000))), [17, 2900])
        self.assertLess(len(asked), 150)

    def test_names_runs_of_steps_by_their_ends(self) -> None:
        self.assertEqual(to_text([0, 1, 2, 5, 7, 8]), "0-2,5,7-8")


if __name__ == "__main__":
    unittest.main()
