"""How `bench/run characterise` sums up what `ioweave bench` tells."""

import json
import unittest

from harness.benchmarks.characterise import Load, rates_of, ratios_by_group


def _load(way: str, read_percent: int, depth: int = 1) -> Load:
    return Load(way, "direct", "random", read_percent, 4096, depth)


class Characterise(unittest.TestCase):
    def test_rates_are_those_of_loads_with_samples(self) -> None:
        load = _load("psync", 100)
        measured = {**vars(load), "samples": [{}], "mb_per_s": 12.5}
        failed = {**vars(_load("psync", 0)), "samples": [], "failure": "Input/output error"}
        profile = json.dumps({"results": [measured, failed]})
        self.assertEqual(rates_of(profile), {load: 12.5})

    def test_ratios_are_medians_of_loads_that_both_have(self) -> None:
        ours = {_load("io_uring", 100, depth): 10.0 * depth for depth in (1, 2, 3)}
        theirs = {_load("io_uring", 100, depth): 10.0 for depth in (1, 2, 3, 4)}
        ours[_load("psync", 0)] = 1.0
        self.assertEqual(ratios_by_group(ours, theirs), {"direct, io_uring, reads": 2.0})


if __name__ == "__main__":
    unittest.main()
