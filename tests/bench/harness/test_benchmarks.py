import unittest

from harness.benchmarks import BENCHMARKS


class BenchmarksTest(unittest.TestCase):
    def test_every_name_leads_to_a_run_function(self) -> None:
        for name, entry in BENCHMARKS.items():
            with self.subTest(name):
                self.assertTrue(callable(entry.load()))
