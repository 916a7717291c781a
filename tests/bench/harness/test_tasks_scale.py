"""Large clusters, in small."""

import unittest
from pathlib import Path

import ioweave
from harness.tasks import scale
from harness.tasks.scale import Cluster

PACKAGE = Path(ioweave.__file__).parents[1]


class ClusterTest(unittest.TestCase):
    def test_every_policy_writes_all_and_none_beats_the_optimum(self) -> None:
        for device in scale.DEVICES:
            for mode in scale.MODES:
                with self.subTest(device=device, mode=mode):
                    found = scale.run(Cluster(3, device, mode))
                    self.assertEqual(found["tasks"], 2 * 3 * scale.CORES * scale.PHASES)
                    self.assertGreaterEqual(found["total_s"], found["bound_s"])

    def test_the_optimum_is_a_wave_of_computation_and_then_all_io_at_the_peak(self) -> None:
        # 48 x 290 MB at 250 or 450 MB/s of each node, and 3 x 48 of them at 16.7 GB/s.
        seconds = {"ssd": 55.68, "congested": 30.933, "shared": 3 * 48 * 290 / 16_700}
        for device, wave_s in seconds.items():
            found = scale.run(Cluster(3, device))
            self.assertAlmostEqual(found["bound_s"], (1 + scale.PHASES) * wave_s, places=1)

    def test_a_device_that_suffers_from_congestion_needs_a_limit(self) -> None:
        climb, none = (scale.run(Cluster(3, "congested", mode)) for mode in ("climb", "none"))
        self.assertLess(climb["total_s"], 0.7 * none["total_s"])

    def test_ten_thousand_nodes_compute_in_two_waves(self) -> None:
        self.assertEqual([Cluster(nodes, "ssd").waves for nodes in (1_000, 10_000)], [4, 2])

    def test_a_process_of_its_own_finds_the_same_and_what_it_needed(self) -> None:
        found = scale.in_process(Cluster(2, "ssd", "none"), PACKAGE)
        self.assertEqual(found["total_s"], scale.run(Cluster(2, "ssd", "none"))["total_s"])
        self.assertGreater(found["peak_mib"], 10)

    def test_a_simulation_that_fails_says_why(self) -> None:
        with self.assertRaisesRegex(RuntimeError, r"(?s)2 ssd fastest failed: .*'fastest'"):
            scale.in_process(Cluster(2, "ssd", "fastest"), PACKAGE)


if __name__ == "__main__":
    unittest.main()
