"""Measuring devices, and keeping what policies learned."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import unittest
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import ioweave
from ioweave import _core, learning, sampling
from ioweave._core import DiskCounter, is_rotational
from ioweave.admission import DeviceState
from ioweave.sampling import (
    OtherThreadsCounter,
    ProcessCounter,
    Sampler,
    TaskCounter,
    counter_of,
)

DISKSTATS = """\
   8       0 sda 100 0 2000 5 200 0 4000 7 0 9 12 0 0 0 0 0 0
   8       1 sda1 10 0 20 5 20 0 40 7 0 9 12 0 0 0 0 0 0
 253       3 dm-3 1 0 6 5 2 0 8 7 0 9 12
"""


class OtherThreads(unittest.TestCase):
    def test_the_io_of_all_threads_but_the_asking_one_counts(self) -> None:
        counter = OtherThreadsCounter()
        with Path(os.devnull).open("wb", buffering=0) as sink:
            before = counter.read()
            sink.write(bytes(1 << 20))
            thread = threading.Thread(target=sink.write, args=(bytes(3 << 20),))
            thread.start()
            thread.join()  # what has ended counts
            moved = counter.read() - before
        # Not to the byte: the thread itself has read how much the process did, which it counts.
        self.assertAlmostEqual(moved, 3 << 20, delta=1 << 19)


class Counters(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.diskstats = self.folder / "diskstats"
        self.diskstats.write_text(DISKSTATS)

    def test_sectors_of_disks_partitions_and_volumes_are_counted(self) -> None:
        for major, minor, sectors in ((8, 0, 6000), (8, 1, 60), (253, 3, 14)):
            with self.subTest(major=major, minor=minor):
                counter = DiskCounter(major, minor, str(self.diskstats))
                self.assertEqual(counter.read(), 512 * sectors)

    def of_path(self, number: int, mountinfo: str = "") -> DiskCounter | None:
        path = self.folder / "mountinfo"
        path.write_text(mountinfo)
        return DiskCounter.of_device(number, str(self.diskstats), str(path))

    def test_the_device_below_a_path_is_found(self) -> None:
        counter = self.of_path(os.makedev(8, 1))
        self.assertIsNotNone(counter)
        self.assertEqual(counter.read() if counter else 0, 512 * 60)

    def test_a_device_without_a_line_has_no_counter(self) -> None:
        self.assertIsNone(self.of_path(os.makedev(9, 9)))

    def test_file_systems_without_a_disk_have_no_counter(self) -> None:
        line = "36 25 0:32 / /data rw - tmpfs tmpfs rw\n"
        self.assertIsNone(self.of_path(os.makedev(0, 32), line))
        self.assertIsNone(self.of_path(os.makedev(0, 33), line))

    def test_what_processes_read_and_write_never_goes_back(self) -> None:
        proc = self.folder
        for pid, text in ((1, "rchar: 10\nwchar: 5\nsyscr: 9\n"), (2, "rchar: 100\nwchar: 0\n")):
            (proc / str(pid)).mkdir()
            (proc / str(pid) / "io").write_text(text)
        pids = [1, 2, 3]
        counter = ProcessCounter(lambda: pids, proc)
        self.assertEqual(counter.read(), 115)
        pids.remove(2)
        (proc / "1" / "io").write_text("rchar: 20\nwchar: 6\n")
        self.assertEqual(counter.read(), 126)

    def test_a_process_that_cannot_be_read_for_a_moment_counts_once(self) -> None:
        """A read of its file fails because no descriptor is left."""
        file = self.folder / "7" / "io"
        file.parent.mkdir()
        file.write_text("rchar: 100\nwchar: 20\n")
        counter = ProcessCounter(lambda: [7], self.folder)
        self.assertEqual(counter.read(), 120)
        short = mock.patch.object(Path, "read_text", side_effect=OSError(24, "too many files"))
        with short, self.assertRaises(OSError):
            counter.read()
        self.assertEqual(counter.read(), 120)

    def test_a_real_write_is_counted_for_the_process(self) -> None:
        counter = counter_of(DeviceState(ioweave.Device("default"), 0), lambda: [os.getpid()])
        before = counter.read()
        self.folder.joinpath("data").write_bytes(bytes(100_000))
        self.assertGreaterEqual(counter.read() - before, 100_000)

    def test_a_path_that_does_not_exist_is_an_error(self) -> None:
        with self.assertRaises(FileNotFoundError):
            missing = ioweave.Device("d", path=self.folder / "missing")
            counter_of(DeviceState(missing, 0), lambda: [])


class FakeCounter:
    def __init__(self) -> None:
        self.moved = 1000

    def read(self) -> int:
        return self.moved


class OfTasks(unittest.TestCase):
    def setUp(self) -> None:
        self.process, self.said = FakeCounter(), 0
        self.counter = TaskCounter(lambda: self.said, self.process)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def task(self, size: int, middle: Callable[[], None] = lambda: None) -> None:
        def run() -> None:
            self.counter.begin()
            self.folder.joinpath("task").write_bytes(bytes(size))
            middle()
            self.counter.end()

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    def test_other_io_of_the_process_does_not_count(self) -> None:
        seen = []

        def middle() -> None:
            self.process.moved += 1 << 20
            self.folder.joinpath("other").write_bytes(bytes(1 << 20))
            seen.append(other.submit(self.counter.read).result())

        with ThreadPoolExecutor(1) as other:
            self.task(100_000, middle)
        self.said = 100_000
        self.task(0)  # in another thread, of which earlier bytes are not
        self.assertGreaterEqual(self.counter.read(), seen[0])
        self.assertGreaterEqual(seen[0], 100_000)
        self.assertLess(self.counter.read(), 100_000 + (1 << 20) + 10_000)

    def test_a_program_that_closes_the_descriptor_loses_no_call(self) -> None:
        def close() -> None:
            os.close(sampling._this_thread()._fd)
            self.addCleanup(os.close, os.open(os.devnull, os.O_RDONLY))  # of the same number

        self.task(100_000, close)
        self.task(100_000)
        self.assertGreaterEqual(self.counter.read(), 100_000)

    def test_a_running_call_counts_once(self) -> None:
        reads: list[int] = []
        with ThreadPoolExecutor(1) as other:
            self.task(50_000, lambda: reads.append(other.submit(self.counter.read).result()))
        reads.append(self.counter.read())
        self.assertGreaterEqual(reads[0], 50_000)
        self.assertLess(reads[1], 55_000)

    def test_the_io_of_the_process_counts_if_tasks_leave_io_to_other_threads(self) -> None:
        self.process.moved += 700
        self.assertEqual(self.counter.read(), 700)
        self.task(100)
        self.said = 1_000_000
        self.process.moved += 500
        self.assertEqual(self.counter.read(), 1200)


class FakeTaskCounter:
    def __init__(self, name: str, said: list[str]) -> None:
        self.name, self.said = name, said

    def begin(self) -> None:
        self.said.append(f"begin {self.name}")

    def end(self) -> None:
        self.said.append(f"end {self.name}")


class OfThreads(unittest.TestCase):
    def test_counters_are_told_when_a_thread_changes_its_device_and_ends(
        self,
    ) -> None:
        said: list[str] = []
        names = ("here", "there", "uncounted")
        devices = [ioweave.Device(name) for name in names]
        sampled = mock.patch("ioweave.runtime.counter_of", lambda _state, _pids: FakeCounter())
        with sampled, ioweave.Runtime(cpus=1, io_threads=1, devices=devices) as runtime:
            calls = [
                ioweave.io(device=name, policy="none" if name == "uncounted" else "climb")(
                    lambda: None
                )
                for name in names
            ]
            for call in calls:
                call().result()
            assert runtime._admission is not None
            for state in runtime._admission.devices:
                counter: Any = FakeTaskCounter(state.device.name, said)
                state.tasks = counter
            for number in (0, 0, 0, 1, 1, 2, 0):
                calls[number]().result()
        self.assertEqual(
            said,
            ["begin here", "end here", "begin there", "end there", "begin here", "end here"],
        )


class Samples(unittest.TestCase):
    def setUp(self) -> None:
        self.busy = [DeviceState(ioweave.Device("d"), 0)]
        self.counter = FakeCounter()
        self.told: list[tuple[float, float]] = []
        self.sampler = Sampler(
            threading.Lock(),
            lambda: self.busy,
            lambda _: self.counter,
            lambda _, rate, seconds: self.told.append((rate, seconds)),
        )

    def test_a_device_in_use_is_measured_between_two_samples(self) -> None:
        self.assertTrue(self.sampler.sample(10.0))
        self.assertEqual(self.told, [])
        self.counter.moved += 500
        self.sampler.sample(12.0)
        self.counter.moved += 300
        self.sampler.sample(13.0)
        self.assertEqual(self.told, [(250.0, 2.0), (300.0, 1.0)])

    def test_the_sample_after_a_failed_one_covers_its_time(self) -> None:
        self.sampler.sample(10.0)
        short = mock.patch.object(self.counter, "read", side_effect=OSError(24, "too many files"))
        with self.assertLogs("ioweave") as logged, short:
            for now in (11.0, 12.0):
                self.assertTrue(self.sampler.sample(now))
        self.assertEqual(len(logged.output), 1)
        self.counter.moved += 600
        self.sampler.sample(13.0)
        self.assertEqual(self.told, [(200.0, 3.0)])

    def test_the_sampler_thread_ends_even_if_asked_at_once(self) -> None:
        self.sampler.begin()
        self.sampler.work_came()
        ends = threading.Thread(target=self.sampler.stop, daemon=True)
        ends.start()
        ends.join(30)
        self.assertFalse(ends.is_alive(), "waits for work")

    def test_time_without_work_is_not_measured(self) -> None:
        self.sampler.sample(10.0)
        busy, self.busy = self.busy, []
        self.assertFalse(self.sampler.sample(11.0))
        self.busy = busy
        self.counter.moved += 500
        self.sampler.sample(100.0)
        self.assertEqual(self.told, [])
        self.counter.moved += 500
        self.sampler.sample(101.0)
        self.assertEqual(self.told, [(500.0, 1.0)])


class FakeGate:
    """Stands before the real gate, as one that learns: it limits each flow to `limit` calls at
    once until it is told a sample, and has learned the number of samples."""

    made: list[FakeGate]

    def __init__(self, log: Callable[[str], object] | None = None) -> None:
        self._core = _core.Gate(log)
        self._devices: dict[int, int] = {}  # of flows
        self.samples: list[float] = []
        self.known: list[str] = []
        FakeGate.made.append(self)

    def add_flow(
        self, name: str, device: int, *, constraint: str, max_in_flight: int, learned: str = ""
    ) -> int:
        if learned == "bad":
            raise ValueError("these are no values of mine")
        self.known.append(learned)
        flow = self._core.add_flow(name, device, max_in_flight=2)
        self._devices[flow] = device
        return flow

    def needs_samples(self, device: int) -> bool:
        flows = [flow for flow, on in self._devices.items() if on == device]
        return any(sum(self._core.flow_counts(flow)) > 0 for flow in flows)

    def sample(self, device: int, rate: float, seconds: float) -> Iterable[object]:
        self.samples.append(rate)
        return [_core.SetLimit(min(self._devices), 2)]

    def explain(self, flow: int) -> str:
        return json.dumps({"flow": flow, "phase": "climbing", "limit": 0})

    def learned(self, flow: int) -> str:
        return f"v{[*self._devices].index(flow)}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)


class Rotational(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.mountinfo = self.folder / "mountinfo"
        self.mountinfo.write_text("")

    def _turns(self) -> bool:
        return is_rotational(
            self.folder, mountinfo=str(self.mountinfo), sys=str(self.folder / "sys")
        )

    def test_an_unknown_disk_is_not_rotational(self) -> None:
        self.assertFalse(self._turns())

    def test_a_path_that_does_not_exist_is_an_error(self) -> None:
        with self.assertRaises(FileNotFoundError):
            is_rotational(self.folder / "missing")

    def test_a_rotational_disk_is_found_unless_it_is_paravirtual(self) -> None:
        for bus, turns in (("ata1", True), ("virtio1", False)):
            disk = self.folder / "devices" / bus / "block"
            (disk / "queue").mkdir(parents=True)
            (disk / "queue/rotational").write_text("1\n")
            (self.folder / "sys").mkdir(exist_ok=True)
            number = self._number()
            link = self.folder / "sys" / f"{os.major(number)}:{os.minor(number)}"
            link.unlink(missing_ok=True)
            link.symlink_to(disk)
            with self.subTest(bus):
                self.assertEqual(self._turns(), turns)

    def _number(self) -> int:
        number = self.folder.stat().st_dev
        if os.major(number) == 0:
            self.skipTest("the temporary folder is on no block device")
        return number


class Learning(unittest.TestCase):
    def setUp(self) -> None:
        FakeGate.made = []
        self.of_process = learning.Learned()
        for patch in (
            mock.patch("ioweave.runtime.Gate", FakeGate),
            mock.patch("ioweave.runtime.of_this_process", self.of_process),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "learned.json"

    def test_learned_values_are_reused_within_a_process(self) -> None:
        for _ in range(2):
            with ioweave.Runtime(cpus=1):
                write()
        self.assertEqual([gate.known for gate in FakeGate.made], [[""], ["v0"]])

    def test_learned_values_are_kept_in_a_file(self) -> None:
        with ioweave.Runtime(cpus=1, learned=self.file):
            write()
        another_process = mock.patch("ioweave.runtime.of_this_process", learning.Learned())
        with another_process, ioweave.Runtime(cpus=1, learned=self.file):
            write()
        self.assertEqual([gate.known for gate in FakeGate.made], [[""], ["v0"]])
        self.assertEqual(list(self.file.parent.iterdir()), [self.file])

    def test_the_learned_file_keeps_its_permissions(self) -> None:
        with ioweave.Runtime(cpus=1, learned=self.file):
            write()
        self.file.with_name("another").touch()
        self.assertEqual(self.file.stat().st_mode, self.file.with_name("another").stat().st_mode)
        self.file.chmod(0o664)
        with ioweave.Runtime(cpus=1, learned=self.file):
            write()
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o664)

    def test_learned_values_that_the_policy_refuses_are_ignored_with_a_warning(self) -> None:
        self.of_process.put(write.key, "default", "bad")
        with self.assertLogs("ioweave") as logged, ioweave.Runtime(cpus=1):
            write()
        self.assertIn("no values of mine", logged.output[0])
        self.assertEqual(FakeGate.made[0].known, [""])

    def test_a_file_of_something_else_is_refused_when_the_runtime_starts(self) -> None:
        for text in ("{", "[]", '{"kind": "x"}', '{"kind": "ioweave-learned/1", "flows": [{}]}'):
            self.file.write_text(text)
            with self.subTest(text), self.assertRaisesRegex(ValueError, "holds no learned values"):
                ioweave.Runtime(learned=self.file).start()
        self.assertEqual(write(), None)  # no runtime is active

    def test_explain_returns_the_account_of_the_policy(self) -> None:
        with ioweave.Runtime(cpus=1) as runtime:
            write()
            self.assertEqual(runtime.explain("write")["phase"], "climbing")
            self.assertEqual(runtime.explain(write)["phase"], "climbing")

    def test_devices_are_sampled_while_something_waits_or_runs(self) -> None:
        go = threading.Event()
        hold = ioweave.io(name="hold")(lambda: go.wait() and None)
        runtime = ioweave.Runtime(cpus=1)
        runtime._sampler._period = 0.01
        with runtime:
            for _ in range(5):
                hold()
            gate = FakeGate.made[0]
            before = len(gate.samples)
            while len(gate.samples) < before + 2:
                pass
            self.assertIsNotNone(runtime.stats().flows[0].device_mb_per_s)
            go.set()
            ioweave.barrier()
            (flow,) = runtime.stats().flows
            self.assertEqual((flow.limit, flow.device_mb_per_s), (2, None))

    def test_flows_that_do_not_climb_are_not_sampled(self) -> None:
        runtime = ioweave.Runtime(cpus=1)
        with runtime:
            ioweave.io(policy="none")(lambda: None)()
        self.assertIsNone(runtime._sampler._thread)


@ioweave.io
def write() -> None: ...


if __name__ == "__main__":
    unittest.main()
