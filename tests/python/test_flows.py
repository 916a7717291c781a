"""Flows of the program's own: beside the I/O tasks of a runtime, and without one."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import ioweave
from ioweave import _core, flows

DISK = ioweave.Device("disk", bandwidth=100)


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.001)


class Beside:
    """An operation of a flow on a thread of its own, which holds until it is let go."""

    def __init__(self, test: unittest.TestCase, flow: ioweave.Flow) -> None:
        self.began = threading.Event()
        self._go = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(flow,))
        self._thread.start()
        test.addCleanup(self.end)

    def _run(self, flow: ioweave.Flow) -> None:
        with flow.admitted(1):
            self.began.set()
            self._go.wait()

    def end(self) -> None:
        self._go.set()
        self._thread.join()


class InARuntime(unittest.TestCase):
    def test_an_operation_and_io_tasks_share_the_budget_of_the_device(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk", bandwidth=60)
        save = ioweave.io(bandwidth=60, device="disk")(lambda: None)
        with ioweave.Runtime(cpus=1, devices=[DISK]) as runtime:
            with flow.admitted():
                saved = save()
                self.assertEqual(runtime.stats().io_waiting, 1)
                self.assertFalse(saved.done())
            saved.result()  # its end made room, and told the runtime

    def test_an_operation_waits_for_an_io_task_that_holds_the_budget(self) -> None:
        go = threading.Event()
        flow = ioweave.Flow("hdf5", device="disk", bandwidth=60)
        save = ioweave.io(bandwidth=60, device="disk")(go.wait)
        with ioweave.Runtime(cpus=1, devices=[DISK]) as runtime:
            save()
            until(lambda: runtime.stats().io_running == 1)
            waiting = Beside(self, flow)
            service, number = flow.place()
            until(lambda: _stats(service, number) == (1, 0))
            self.assertFalse(waiting.began.is_set())
            go.set()
            waiting.began.wait()
            waiting.end()

    def test_prefetching_yields_to_io_tasks(self) -> None:
        go = threading.Event()
        ahead = ioweave.Flow("ahead", device="disk", priority="prefetch")
        save = ioweave.io(policy="none", device="disk")(go.wait)
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"x" * 8192)
            file.flush()
            with ioweave.Runtime(cpus=1, devices=[DISK]) as runtime:
                save()
                until(lambda: runtime.stats().io_running == 1)
                with ioweave.open(file.name, flow=ahead) as reader:
                    request = reader.apread(4096, 0)
                    with self.assertRaises(TimeoutError):
                        request.result(timeout=0.05)
                    go.set()
                    self.assertEqual(request.result(), b"x" * 4096)

    def test_requests_of_a_file_hold_the_budget_of_their_flow(self) -> None:
        whole = ioweave.Flow("whole", device="disk", bandwidth=100)
        with (
            tempfile.TemporaryDirectory() as folder,
            ioweave.Runtime(cpus=1, devices=[DISK]),
            ioweave.open(Path(folder) / "data", "w+", flow=whole) as file,
        ):
            with whole.admitted():
                request = file.apwrite(b"abc", 0)
                with self.assertRaises(TimeoutError):
                    request.result(timeout=0.05)
            self.assertEqual(request.result(), 3)
            self.assertEqual(file.pwrite(b"def", 3), 3)  # blocking ones take their turn, too
            file.fsync()
            self.assertEqual(file.pread(6, 0), b"abcdef")
            buffer = bytearray(3)
            self.assertEqual(file.pread_into(buffer, 3), 3)
            self.assertEqual(buffer, b"def")

    def test_an_exception_ends_the_operation(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk", bandwidth=100)
        with ioweave.Runtime(cpus=1, devices=[DISK]):
            with self.assertRaises(ZeroDivisionError), flow.admitted():
                _ = 1 // 0
            with flow.admitted():
                pass

    def test_climb_hears_of_operations_that_no_io_task_goes_with(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk", policy="climb")
        runtime = ioweave.Runtime(cpus=1, devices=[DISK])
        with runtime, flow.admitted():
            assert runtime._admission is not None
            (device,) = runtime._admission.devices
            until(lambda: device.mb_per_s is not None)

    def test_a_device_that_the_runtime_does_not_know_is_named(self) -> None:
        flow = ioweave.Flow("hdf5", device="dusk")
        with ioweave.Runtime(cpus=1, devices=[DISK]):
            with self.assertRaisesRegex(ValueError, "flow 'hdf5': .*'dusk'.*did you mean 'disk'"):
                flow.place()
            flow = ioweave.Flow("hdf5", bandwidth=20)
            with self.assertRaisesRegex(ValueError, "'hdf5' on device 'default'.*budget"):
                flow.place()

    def test_an_io_task_on_the_device_has_its_turn_already(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk", priority="prefetch")

        def ask() -> None:
            with flow.admitted():
                self.fail("it would wait for the task itself")

        def read(path: str) -> None:
            with ioweave.open(path, flow=flow) as file:
                file.pread(1, 0)

        save = ioweave.io(policy="none", device="disk")(ask)
        load = ioweave.io(policy="none", device="disk")(read)
        elsewhere = ioweave.io(policy="none")(lambda: flow.admitted().__enter__())
        with ioweave.Runtime(cpus=1, devices=[DISK]):
            with self.assertRaisesRegex(RuntimeError, "has its turn on device 'disk' already"):
                save().result()
            with self.assertRaisesRegex(RuntimeError, "has its turn on device 'disk' already"):
                load(__file__).result()
            elsewhere().result()

    def test_flows_that_are_described_alike_are_one(self) -> None:
        with ioweave.Runtime(cpus=1, devices=[DISK]):
            numbers = {ioweave.Flow("a", device="disk").place()[1] for _ in range(5000)}
            self.assertEqual(len(numbers), 1)
            self.assertNotIn(ioweave.Flow("b", device="disk").place()[1], numbers)

    def test_the_log_has_what_others_than_tasks_did(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk")
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            with ioweave.Runtime(cpus=1, devices=[DISK], log=log):
                for _ in range(100):
                    with flow.admitted(7):
                        pass
            self.assertEqual(log.read_text().count(" finished "), 100)
            self.assertTrue(_core.replay(log).same)

    def test_climb_counts_what_the_flow_says_that_it_moved(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk", policy="climb")
        with ioweave.Runtime(cpus=1, devices=[DISK]) as runtime:
            assert runtime._admission is not None
            flow.place()
            (device,) = runtime._admission.devices
            rates: list[float] = []
            with flow.admitted():  # the device is measured while one runs
                while not any(rate > 1e3 for rate in rates):  # MB/s that no system call moved
                    with flow.admitted(10**9):
                        pass
                    rates.append(device.mb_per_s or 0)

    def test_a_runtime_that_is_interrupted_twice_does_not_hang(self) -> None:
        go = threading.Event()
        self.addCleanup(go.set)
        save = ioweave.io(policy="none", device="disk")(go.wait)
        runtime = ioweave.Runtime(cpus=1, devices=[DISK]).start()
        future = save()
        until(lambda: runtime.stats().io_running == 1)
        admission = runtime._admission
        assert admission is not None
        with runtime._lock:
            admission.close()  # as an interrupt of close() may leave it
        go.set()
        self.assertTrue(future.result())
        self.assertEqual(runtime.stats().succeeded, 1)
        runtime.close()

    def test_after_the_runtime_a_flow_belongs_to_the_process(self) -> None:
        flow = ioweave.Flow("hdf5")
        with ioweave.Runtime(cpus=1):
            of_runtime, _ = flow.place()
        of_process, _ = flow.place()
        self.assertIsNot(of_runtime, of_process)
        with flow.admitted():
            pass

    def test_operations_of_many_threads_all_take_their_turn(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk", bandwidth=50)
        save = ioweave.io(bandwidth=50, device="disk")(lambda: None)
        now, most = [0], [0]
        lock = threading.Lock()

        def run() -> None:
            for _ in range(50):
                with flow.admitted():
                    with lock:
                        now[0] += 1
                        most[0] = max(most[0], now[0])
                    with lock:
                        now[0] -= 1

        with ioweave.Runtime(cpus=1, devices=[DISK]) as runtime:
            threads = [threading.Thread(target=run) for _ in range(4)]
            for thread in threads:
                thread.start()
            for _ in range(200):
                save()
            for thread in threads:
                thread.join()
        self.assertLessEqual(most[0], 2)
        self.assertEqual(runtime.stats().succeeded, 200)


class Operations(unittest.TestCase):
    def test_one_whose_bytes_are_no_number_has_ended_all_the_same(self) -> None:
        flow = ioweave.Flow("a")
        for wrong in (1.5, -1, 2**63, "x"):
            with self.assertRaisesRegex(ValueError, "nbytes must be"), flow.admitted() as operation:
                operation.nbytes = wrong  # type: ignore[assignment]
            with self.assertRaisesRegex(ValueError, "nbytes must be"), flow.admitted(wrong):  # type: ignore[arg-type]
                self.fail("it is refused")
        self.assertEqual(_stats(*flow.place()), (0, 0))

    def test_one_that_nobody_holds_any_more_has_ended(self) -> None:
        service, number = ioweave.Flow("b").place()
        admitted = _core.admit(service, number, 1)
        self.assertEqual(_stats(service, number), (0, 1))
        del admitted
        self.assertEqual(_stats(service, number), (0, 0))

    def test_threads_that_come_first_at_once_get_one_service(self) -> None:
        def place(flow: ioweave.Flow, places: list[tuple[ioweave.Service, int]]) -> None:
            places.append(flow.place())

        for _ in range(20):
            with (
                mock.patch("ioweave._service._default", None),
                mock.patch("ioweave.flows._of_process", flows.ProcessFlows()),
            ):
                places: list[tuple[ioweave.Service, int]] = []
                arguments = (ioweave.Flow("c"), places)
                threads = [threading.Thread(target=place, args=arguments) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(len(set(places)), 1)


class WithoutARuntime(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = Path(folder.name) / "ioweave" / "ioweave.toml"
        config.parent.mkdir()
        config.write_text('[[device]]\nname = "disk"\nbandwidth = 100\n')
        for patch in (
            mock.patch("ioweave.flows._of_process", flows.ProcessFlows()),
            mock.patch.dict(os.environ, {"XDG_CONFIG_HOME": folder.name}),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def test_operations_take_their_turn_on_the_devices_of_the_configuration(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk", bandwidth=100)
        with flow.admitted():
            waiting = Beside(self, flow)
            service, number = flow.place()
            until(lambda: _stats(service, number) == (1, 1))
        waiting.began.wait()
        waiting.end()

    def test_a_signal_interrupts_the_wait_and_takes_no_turn(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk", bandwidth=100)

        def interrupt(*_: object) -> None:
            raise InterruptedError

        old = signal.signal(signal.SIGUSR1, interrupt)
        self.addCleanup(signal.signal, signal.SIGUSR1, old)
        service, number = flow.place()
        main = threading.main_thread().ident
        assert main is not None

        def send() -> None:
            until(lambda: _stats(service, number) == (1, 1))
            signal.pthread_kill(main, signal.SIGUSR1)

        with flow.admitted():
            sender = threading.Thread(target=send)
            sender.start()
            with self.assertRaises(InterruptedError), flow.admitted():
                self.fail("there is no room")
            sender.join()
            self.assertEqual(_stats(service, number), (0, 1))

    def test_climb_goes_by_the_bytes_that_operations_say(self) -> None:
        flow = ioweave.Flow("hdf5", policy="climb")
        with flow.admitted(1) as operation:
            operation.nbytes = 4096
        self.assertEqual(_stats(*flow.place()), (0, 0))

    def test_a_forked_child_has_a_gate_of_its_own(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk", bandwidth=100)
        with flow.admitted():
            pid = os.fork()
            if pid == 0:
                with flow.admitted():
                    pass
                os._exit(7)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)


class Refused(unittest.TestCase):
    def test_arguments_that_cannot_be_meant(self) -> None:
        for options, what in (
            ({"priority": "low"}, "priority must be one of 'foreground', 'write_behind'"),
            ({"max_in_flight": -1}, "max_in_flight must be a whole number"),
            ({"bandwidth": 0}, "must be above 0 MB/s"),
            ({"policy": "climbs"}, "did you mean 'climb'"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, what):
                ioweave.Flow("hdf5", **options)

    def test_auto_says_what_it_needs(self) -> None:
        flow = ioweave.Flow("hdf5", device="disk", bandwidth="auto")
        with (
            ioweave.Runtime(cpus=1, devices=[DISK]),
            self.assertRaisesRegex(ValueError, "max_in_flight"),
        ):
            flow.place()

    def test_a_file_has_a_flow_or_a_service(self) -> None:
        with self.assertRaisesRegex(ValueError, "leave service out"):
            ioweave.open("/dev/null", service=ioweave.Service(), flow=ioweave.Flow("hdf5"))


def _stats(service: ioweave.Service, flow: int) -> tuple[int, int]:
    return _core.flow_counts(service, flow)


if __name__ == "__main__":
    unittest.main()
