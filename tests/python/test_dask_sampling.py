"""How samples of a device come from what the workers of a cluster measure."""

from __future__ import annotations

import sys
import unittest
from typing import Any

from ioweave._core import Policy

try:
    from ioweave.dask.admission import Admission, Device, DeviceSettings, Operation
    from ioweave.dask.sampling import Samples
except ModuleNotFoundError as missing:
    print(f"SKIP: no Dask: {missing}")
    sys.exit(77)


class HeardSamples:
    """The policy core, and the samples that it is told."""

    def __init__(self) -> None:
        self._core = Policy()
        self.samples: list[tuple[Any, ...]] = []

    def sample(self, *what: Any) -> Any:
        self.samples.append(what[:3])
        return self._core.sample(*what)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)


class Sampling(unittest.TestCase):
    def setUp(self) -> None:
        self.policy = HeardSamples()
        self.admission = Admission(None)
        self.admission.policy = self.policy  # type: ignore[assignment]
        self.policy.add_device("default")
        self.samples = Samples(self.admission, {0: {"a", "b"}, 1: {"c"}})
        self.policy.node_up(1, 1)

    def _device(self, scope: str) -> Device:
        self.admission.add_device("disk", DeviceSettings(scope, 0, 1))
        self.admission.add_flow("f", "disk", "none")
        device = self.admission.devices["disk"]
        for node in (0, 1):
            self.assertTrue(self.samples.begin(device, node))
            self.assertFalse(self.samples.begin(device, node))
        return device

    def test_a_sample_of_a_node_is_complete_when_all_its_workers_reported(self) -> None:
        disk = self._device("node")
        self.samples.add_measurement(disk, 0, "a", "process 1", 10, 1)
        self.assertEqual(self.policy.samples, [])
        self.samples.add_measurement(disk, 0, "b", "process 2", 5, 1)
        self.samples.add_measurement(disk, 1, "c", "process 1", 7, 1)
        self.assertEqual(self.policy.samples, [(disk.id, 0, 15), (disk.id, 1, 7)])

    def test_a_disk_that_several_workers_see_counts_once(self) -> None:
        disk = self._device("node")
        for worker in "ab":
            self.samples.add_measurement(disk, 0, worker, "disk 8:1", 10, 1)
        self.assertEqual(self.policy.samples[0][:3], (disk.id, 0, 10))

    def test_a_sample_does_not_wait_for_a_silent_worker(self) -> None:
        disk = self._device("node")
        self.samples.add_measurement(disk, 0, "a", "process 1", 10, 1)
        self.samples.add_measurement(disk, 0, "a", "process 1", 20, 1)
        self.assertEqual(self.policy.samples[0][:3], (disk.id, 0, 10))

    def test_late_measurements_are_ignored(self) -> None:
        disk = self._device("shared")
        self.samples.add_measurement(disk, 0, "a", "process 1", 10, 1)
        self.samples.end(disk)
        climbing = self.admission.flows[self.admission.add_flow("g", "disk", "climb")]
        self.admission.ready(Operation("x", climbing, 0, None))  # and has no thread yet
        self.assertEqual(self.samples.add_measurement(disk, 1, "c", "process 1", 7, 1), [])
        self.assertEqual(self.policy.samples, [])

    def test_measurements_over_different_times_are_combined(self) -> None:
        disk = self._device("node")
        for _ in range(3):
            self.samples.add_measurement(disk, 0, "a", "process 1", 20, 0.25)
        self.assertEqual(self.policy.samples, [])
        self.samples.add_measurement(disk, 0, "b", "process 2", 5, 1)
        self.assertEqual(self.policy.samples[0][:3], (disk.id, 0, 25))

    def test_samples_of_a_shared_device_are_sums_over_its_nodes(self) -> None:
        disk = self._device("shared")
        self.samples.add_measurement(disk, 0, "a", "process 1", 10, 1)
        self.samples.add_measurement(disk, 1, "c", "process 1", 20, 1)
        self.samples.add_measurement(disk, 0, "b", "process 2", 30, 1)
        self.assertEqual(self.policy.samples, [(disk.id, 0, 60)])

    def test_the_measured_throughput_is_the_sum_over_all_nodes(self) -> None:
        disk = self._device("node")
        climbing = self.admission.add_flow("g", "disk", "climb")
        operation = Operation("x", self.admission.flows[climbing], 0, 1)
        self.admission.ready(operation)
        for node, worker in enumerate("ac"):
            for _ in range(2):
                self.samples.add_measurement(disk, node, worker, "process", (1 + node) * 10**6, 1)
        described = map(self.admission.describe, self.admission.flows)
        self.assertEqual([flow["device_mb_per_s"] for flow in described], [3, 3])
        self.admission.node_down(0)
        self.assertEqual(self.admission.measured_mb_per_s(disk), 2)
        self.admission.finished(operation, 1.0)
        self.assertIsNone(self.admission.measured_mb_per_s(disk))

    def test_sampling_of_a_device_can_begin_again(self) -> None:
        disk = self._device("node")
        self.samples.end(disk)
        self.assertTrue(self.samples.begin(disk, 1))
