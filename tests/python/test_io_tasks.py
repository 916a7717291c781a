"""I/O tasks: when the policy starts them, and that no admitted task is lost."""

from __future__ import annotations

import contextlib
import errno
import platform
import random
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import ioweave
from ioweave import _core
from runtimes import RuntimeTest


@ioweave.task
def add(*values: int) -> int:
    return sum(values)


class Meter:
    """Counts how many tasks run at once, and can hold them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0
        self.go = threading.Event()

    def run(self, *_: object) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self.go.wait()
        with self._lock:
            self._now -= 1

    def release(self, running: int) -> None:
        """Lets the tasks go when so many run."""
        while self._now < running:
            pass
        self.go.set()


class Admission(unittest.TestCase):
    def most_at_once(self, meter: Meter, runtime: ioweave.Runtime, task: Any, calls: int) -> int:
        """Submits calls that wait, and lets them go when as many run as may."""
        for _ in range(calls):
            task()
        meter.release(runtime.stats().io_running)
        ioweave.barrier()
        return meter.most

    def test_io_tasks_take_no_cpu_slot(self) -> None:
        meter = Meter()
        write = ioweave.io(policy="none")(meter.run)
        with ioweave.Runtime(cpus=1) as runtime:
            for _ in range(5):
                write()
            self.assertEqual(add(1).result(), 1)
            running = runtime.stats().io_running
            meter.release(running)
            self.assertEqual(running, 5)

    def test_a_fixed_constraint_divides_the_budget(self) -> None:
        meter = Meter()
        write = ioweave.io(bandwidth=20, device="ssd")(meter.run)
        with ioweave.Runtime(cpus=1, devices=[ioweave.Device("ssd", bandwidth=70)]) as runtime:
            self.assertEqual(self.most_at_once(meter, runtime, write, 12), 3)

    def test_max_in_flight_and_io_threads_bound_io_tasks(self) -> None:
        for options in (
            {"devices": [ioweave.Device("ssd", max_in_flight=4)]},
            {"devices": [ioweave.Device("ssd")], "io_threads": 4},
        ):
            with self.subTest(options), ioweave.Runtime(cpus=1, **options) as runtime:
                meter = Meter()
                write = ioweave.io(policy="none", device="ssd")(meter.run)
                self.assertEqual(self.most_at_once(meter, runtime, write, 10), 4)

    def test_no_more_threads_are_made_than_may_run_at_once(self) -> None:
        quick = ioweave.io(policy="none")(lambda: None)
        with ioweave.Runtime(cpus=1, io_threads=3) as runtime:
            for _ in range(1000):
                quick()
            ioweave.barrier()
            self.assertLessEqual(runtime.stats().io_threads, 3)

    def test_two_tasks_share_a_device(self) -> None:
        meter = Meter()
        one = ioweave.io(bandwidth=30, device="ssd", name="one")(meter.run)
        two = ioweave.io(bandwidth=20, device="ssd", name="two")(meter.run)
        with ioweave.Runtime(cpus=1, devices=[ioweave.Device("ssd", bandwidth=50)]) as runtime:
            for task in (one, two) * 5:
                task()
            flows = {flow.task: flow for flow in runtime.stats().flows}
            meter.release(2)
            self.assertEqual((flows["one"].running, flows["two"].running), (1, 1))
        self.assertEqual(meter.most, 2)

    def test_bytes_are_given_computed_or_those_of_the_arguments(self) -> None:
        def body(data: bytes, more: list[bytearray]) -> None: ...

        given = ioweave.io(policy="none", bytes=7, name="given")(body)
        computed = ioweave.io(policy="none", bytes=lambda d, m: 3 * len(d), name="computed")(body)
        found = ioweave.io(policy="none", name="found")(body)
        make = ioweave.task(lambda n: bytes(n))
        with ioweave.Runtime(cpus=1) as runtime:
            for task in (given, computed, found):
                task(b"12345", [bytearray(100)])
                task(make(1000), [bytearray(100)])
            ioweave.barrier()
            moved = {flow.task: flow.bytes for flow in runtime.stats().flows}
        self.assertEqual(moved, {"given": 14, "computed": 15 + 3000, "found": 105 + 1100})

    def test_bytes_that_exit_fail_the_task(self) -> None:
        write = ioweave.io(bytes=lambda data: sys.exit("no idea"), name="write")(lambda data: None)
        make = ioweave.task(lambda: 1)
        with ioweave.Runtime(cpus=1), self.assertRaisesRegex(SystemExit, "no idea"):
            write(make()).result(timeout=60)

    def test_bytes_that_are_no_number_fail_the_task(self) -> None:
        sizes = [-1, 2**63] * 2
        write = ioweave.io(bytes=lambda _: sizes.pop(0), name="write")(lambda data: None)
        with ioweave.Runtime(cpus=1):
            for _ in range(2):
                with self.assertRaisesRegex(ValueError, "'write': bytes must give a whole number"):
                    write(b"")
            for _ in range(2):
                with self.assertRaisesRegex(ValueError, "'write': bytes must give a whole number"):
                    write(add(1)).result()

    def test_an_object_with_negative_nbytes_counts_as_empty(self) -> None:
        with ioweave.Runtime(cpus=1) as runtime:
            ioweave.io(policy="none")(id)(_Odd())
            ioweave.barrier()
            self.assertEqual(runtime.stats().flows[0].bytes, 0)

    def test_an_io_task_that_waits_for_another_is_refused(self) -> None:
        begun, go = threading.Event(), threading.Event()

        @ioweave.task
        def slow() -> None:
            begun.set()
            go.wait()

        write = ioweave.io(policy="none", name="write")(lambda box: box[0].result())
        with ioweave.Runtime(cpus=1):
            future = slow()
            # In an object of its own, or the future would be a dependency.
            box = type("Box", (), {"__getitem__": lambda self, _: future})()
            begun.wait()
            with self.assertRaisesRegex(RuntimeError, "hold bandwidth of device 'default'.*pass"):
                write(box).result()
            go.set()

    def test_a_timeout_frees_what_the_task_held(self) -> None:
        go = threading.Event()
        self.addCleanup(go.set)
        hang = ioweave.io(bandwidth=10, device="ssd", timeout=0.05)(lambda: go.wait())
        devices = [ioweave.Device("ssd", bandwidth=10)]
        with self.assertLogs("ioweave"), ioweave.Runtime(devices=devices) as runtime:
            for future in [hang(), hang()]:
                self.assertIsInstance(future.exception(), ioweave.TaskTimeout)
            self.assertEqual(runtime.stats().io_running, 0)

    def test_auto_learns_in_epochs_and_the_next_runtime_continues(self) -> None:
        write = ioweave.io(bandwidth="auto(10,40,2)", device="ssd", name="write")(lambda: None)
        devices = [ioweave.Device("ssd", bandwidth=40)]
        for epochs in ([4, 2, 1], []):
            with ioweave.Runtime(cpus=1, devices=devices) as runtime:
                for _ in range(20):
                    write()
                ioweave.barrier()
                explained = runtime.explain("write")
            self.assertEqual((explained["device"], explained["phase"]), ("ssd", "chosen"))
            self.assertEqual([epoch["tasks"] for epoch in explained["epochs"]], epochs)
            self.assertEqual(len(explained["registry"]), 3)

    def test_climb_is_the_default_and_gets_samples(self) -> None:
        go = threading.Event()
        write = ioweave.io(name="climber")(lambda: go.wait() and None)
        runtime = ioweave.Runtime(cpus=1)
        runtime._sampler._period = 0.01
        with runtime:
            for _ in range(20):
                write()
            while len(runtime.explain(write)["samples"]) < 3:
                pass
            go.set()
            self.assertEqual(runtime.explain("climber")["policy"], "climb")

    def at_once_in_the_beginning(self, device: ioweave.Device) -> int:
        go = threading.Event()
        self.addCleanup(go.set)
        hold = ioweave.io(device="d", name=f"hold {self.id()}")(lambda: go.wait() and None)
        with ioweave.Runtime(cpus=1, devices=[device]) as runtime:
            for _ in range(20):
                hold()
            running = runtime.stats().io_running
            go.set()
        return running

    def test_climb_begins_with_eight_at_once(self) -> None:
        self.assertEqual(self.at_once_in_the_beginning(ioweave.Device("d")), 8)

    def test_climb_begins_with_one_on_a_disk_that_turns(self) -> None:
        device = ioweave.Device("d", path=Path.cwd())
        with mock.patch("ioweave.admission.is_rotational", return_value=True):
            self.assertEqual(self.at_once_in_the_beginning(device), 1)

    def test_the_log_replays_to_the_same_decisions(self) -> None:
        write = ioweave.io(bandwidth=20, device="ssd", name="write")(lambda data: len(data))
        bad = ioweave.io(policy="none", device="ssd", name="bad", retries=1)(lambda: 1 // 0)
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            devices = [ioweave.Device("ssd", bandwidth=50)]
            with ioweave.Runtime(cpus=1, devices=devices, log=log):
                for n in range(20):
                    write(bytes(n))
                    bad().exception()
            replayed = _core.replay(str(log))
            self.assertTrue(replayed.same, replayed.reason)
            self.assertEqual(replayed.decisions, 20 + 2 * 20)


class Refused(RuntimeTest):
    def test_an_unknown_device_names_the_known_ones_and_the_way_out(self) -> None:
        write = ioweave.io(policy="none", device="scrach", name="write")(lambda: None)
        with self.runtime(devices=[ioweave.Device("scratch")]) as runtime:
            with self.assertRaisesRegex(
                ValueError,
                r"task 'write': there is no device 'scrach' \(did you mean 'scratch'\?\); the "
                r"known ones are 'default', 'scratch'.*. Describe it with Runtime\(devices=",
            ):
                write()
            self.assertEqual(runtime.stats().submitted, 0)

    def test_a_device_of_other_nodes_names_them_and_this_one(self) -> None:
        write = ioweave.io(policy="none", device="bb", name="write")(lambda: None)
        here = platform.node()
        elsewhere = ioweave.Device("bb", path="/bb", nodes=["no such node", "bb[0-9]"])
        words = rf"task 'write': device 'bb' is only on nodes 'no such node', .* not on '{here}': "
        with ioweave.Runtime(devices=[elsewhere]) as runtime:
            with self.assertRaisesRegex(ValueError, words):
                write()
            self.assertEqual(runtime.stats().submitted, 0)
        with ioweave.Runtime(devices=[ioweave.Device("bb", nodes=[here, "bb[0-9]"])]):
            write()

    def test_a_constraint_above_the_budget_names_both(self) -> None:
        write = ioweave.io(bandwidth=500, device="ssd", name="write")(lambda: None)
        devices = [ioweave.Device("ssd", bandwidth=450)]
        words = "task 'write' on device 'ssd': .*450.*500"
        with self.runtime(devices=devices), self.assertRaisesRegex(ValueError, words):
            write()

    def test_auto_on_a_device_without_a_budget_is_refused(self) -> None:
        for bandwidth in ("auto", "auto(2,256,2)"):
            write = ioweave.io(bandwidth=bandwidth, device="budgetless", name="write")(lambda: None)
            words = "task 'write' on device 'budgetless': .*auto divides a budget"
            devices = [ioweave.Device("budgetless")]
            with self.runtime(devices=devices), self.assertRaisesRegex(ValueError, words):
                write()

    def test_a_device_whose_path_does_not_exist_is_refused(self) -> None:
        write = ioweave.io(policy="none", device="ssd", name="write")(lambda: None)
        devices = [ioweave.Device("ssd", path="/nowhere/at/all")]
        words = "the path '/nowhere/at/all' of device 'ssd' does not exist"
        with self.runtime(devices=devices), self.assertRaisesRegex(ValueError, words):
            write()

    def test_a_device_given_twice_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "device 'a' is given twice"):
            self.runtime(devices=[ioweave.Device("a"), ioweave.Device("a")])

    def test_explain_names_the_tasks_there_are(self) -> None:
        write = ioweave.io(policy="none", name="write")(lambda: None)
        other = ioweave.io(policy="none", name="write")(lambda: None)
        with self.runtime(cpus=1) as runtime:
            write()
            with self.assertRaisesRegex(ValueError, "'writ' was called .*did you mean 'write'"):
                runtime.explain("writ")
            other()
            with self.assertRaisesRegex(ValueError, "several I/O tasks are called 'write'"):
                runtime.explain("write")


@ioweave.io(bandwidth=50, device="small")
def checkpoint(block: bytes, path: Path) -> int:
    with ioweave.open(path, "w") as file:
        file.pwrite(block, 0)
        file.fsync()
    return len(block)


@ioweave.task
def block_of(size: int) -> bytes:
    return bytes(size)


class FullDisk(RuntimeTest):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "ioweave-test", folder.name]
        mounted = subprocess.run(mount, capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", folder.name], check=True)

    def test_a_full_disk_fails_only_its_task_and_tasks_that_need_it(self) -> None:
        large = self.folder / "large"
        small = ioweave.Device("small", path=self.folder, bandwidth=50)  # for one at a time
        with self.runtime(devices=[small]) as runtime:
            failed = checkpoint(block_of(10**6), large)
            after = [add(failed), checkpoint(block_of(failed), self.folder / "after")]
            error = failed.exception()
            assert isinstance(error, OSError)
            self.assertEqual((error.errno, error.filename), (errno.ENOSPC, str(large)))
            self.assertIn(f", {large!r})", getattr(error, "__notes__", [""])[0])
            for future in after:
                with self.assertRaisesRegex(ioweave.DependencyFailed, "checkpoint") as cancelled:
                    future.result()
                self.assertIn("No space left on device", str(cancelled.exception.__cause__))
            large.unlink()
            self.assertEqual(checkpoint(block_of(9), self.folder / "fits").result(), 9)
            stats = runtime.stats()
        self.assertEqual((stats.failed, stats.cancelled, stats.succeeded), (1, 3, 3))
        self.assertEqual((self.folder / "fits").read_bytes(), bytes(9))


class RandomRuns(unittest.TestCase):
    def test_no_admission_slot_leaks_over_random_failures(self) -> None:
        for seed in range(15):
            with self.subTest(seed=seed):
                self.run_one(random.Random(seed))

    def run_one(self, draw: random.Random) -> None:
        devices = [
            ioweave.Device("ssd", bandwidth=50, max_in_flight=draw.randrange(3)),
            ioweave.Device("disk", bandwidth=10, scope="shared"),
        ]

        def body(chance: float, *_: object) -> int:
            if chance < 0.2:
                raise OSError(28, "disk full")
            return 1

        kinds = [
            ioweave.io(bandwidth=20, device="ssd", name="a", retries=1)(body),
            ioweave.io(policy="none", device="ssd", name="b")(body),
            ioweave.io(bandwidth=10, device="disk", name="c", bytes=_size)(body),
            ioweave.task(body),
        ]
        with ioweave.Runtime(cpus=2, devices=devices) as runtime:
            futures: list[Any] = []
            for _ in range(250):
                needed = draw.sample(futures, min(len(futures), draw.randrange(3)))
                futures.append(draw.choice(kinds)(draw.random(), *needed))
                if draw.random() < 0.15:
                    draw.choice(futures).cancel()
            for future in futures:
                with contextlib.suppress(OSError, ioweave.CancelledError):
                    future.result()
            stats = runtime.stats()
            self.assertEqual((stats.pending, stats.io_waiting, stats.io_running), (0, 0, 0))
            for flow in stats.flows:
                self.assertEqual((flow.waiting, flow.running), (0, 0))
            self.assertEqual(list(runtime._list_devices_to_sample()), [])
            while runtime.stats().cpus_free != 2:
                pass  # a thread gives its slots back after it has told the futures


class _Odd:
    nbytes = -1


def _size(chance: float, *_: object) -> int:
    return int(99 * chance)


if __name__ == "__main__":
    unittest.main()
