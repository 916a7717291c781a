"""The gate of the core: operations that Python carries out, beside the requests of files."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
import unittest
import weakref
from unittest import mock

import ioweave
from ioweave._core import Gate, SetLimit, Start


class Events(unittest.TestCase):
    def setUp(self) -> None:
        self.lines: list[str] = []
        self.gate = Gate(self.lines.append)
        disk = self.gate.add_device("disk", budget_mb_per_s=100, max_in_flight=2)
        self.flow = self.gate.add_flow("saves", disk)

    def test_what_finds_room_starts_at_once_and_the_rest_in_order(self) -> None:
        self.assertEqual(self.gate.ready(1, self.flow, 10), [Start(1, 0)])
        self.assertEqual(self.gate.ready(2, self.flow, 10), [Start(2, 0)])
        self.assertEqual(self.gate.ready(3, self.flow, 10), [])
        self.assertEqual(self.gate.ready(4, self.flow, 10), [])
        self.assertEqual(self.gate.flow_counts(self.flow), (2, 2))
        self.assertEqual(self.gate.finished(1, 10), [Start(3, 0)])
        self.assertEqual(self.gate.failed(2), [Start(4, 0)])
        self.assertEqual(self.gate.flow_counts(self.flow), (0, 2))

    def test_what_is_cancelled_is_forgotten_waiting_or_running(self) -> None:
        for number in (1, 2, 3, 4):
            self.gate.ready(number, self.flow, 10)
        self.assertEqual(self.gate.cancelled(3), [])
        self.assertEqual(self.gate.cancelled(1), [Start(4, 0)])
        self.assertEqual(self.gate.flow_counts(self.flow), (0, 2))

    def test_an_operation_that_waits_cannot_end(self) -> None:
        for number in (1, 2, 3):
            self.gate.ready(number, self.flow, 10)
        with self.assertRaisesRegex(ValueError, "operation 3 is not one that was started"):
            self.gate.finished(3, 10)
        self.assertEqual(self.gate.finished(1, 10), [Start(3, 0)])
        self.assertEqual(self.gate.moved_bytes(self.flow), 10)

    def test_what_cannot_be_is_refused_and_changes_nothing(self) -> None:
        self.gate.ready(1, self.flow, 10)
        for call in (
            lambda: self.gate.ready(1, self.flow, 10),
            lambda: self.gate.ready(2, 99, 10),
            lambda: self.gate.finished(3, 10),
            lambda: self.gate.finished(2, 10),
            lambda: self.gate.cancelled(3),
            lambda: self.gate.flow_counts(99),
            lambda: self.gate.explain(99),
            lambda: self.gate.learned(99),
            lambda: self.gate.needs_samples(99),
            lambda: self.gate.sample(99, 1.0, 1.0),
            lambda: self.gate.sample(0, 1.0, 0.0),
        ):
            with self.assertRaises(ValueError):
                call()
        self.assertEqual(self.gate.flow_counts(self.flow), (0, 1))
        self.assertEqual(self.gate.finished(1, 10), [])

    def test_settings_that_are_wrong_are_named(self) -> None:
        for constraint, what in (
            ("200", "flow 'big': .*between .* and 100 MB/s"),
            ("auto", "max_in_flight"),
            ("fast", "constraint must be none, MB/s as a number, climb"),
        ):
            with self.assertRaisesRegex(ValueError, what):
                self.gate.add_flow("big", 1, constraint=constraint)
        with self.assertRaisesRegex(ValueError, "priority must be 'foreground'"):
            self.gate.add_flow("big", 1, priority="low")
        with self.assertRaisesRegex(ValueError, "device 'x'.*budget_mb_per_s"):
            self.gate.add_device("x", budget_mb_per_s=-1)

    def test_a_limit_that_changes_is_told(self) -> None:
        disk = self.gate.add_device("turning", begins_at=3)
        climbs = self.gate.add_flow("climbs", disk, constraint="climb")
        told: list[SetLimit | Start] = []
        for number in range(20):
            told += self.gate.ready(number, climbs, 10)
        limits = [decision.limit for decision in told if isinstance(decision, SetLimit)]
        self.assertTrue(self.gate.needs_samples(disk))
        for rate in range(1, 60):
            told = self.gate.sample(disk, rate * 1e8, 1.0)
            limits += [decision.limit for decision in told if isinstance(decision, SetLimit)]
        self.assertGreater(max(limits), 3)

    def test_the_log_has_each_event_and_an_exception_in_it_is_not_raised(self) -> None:
        self.gate.ready(1, self.flow, 10)
        self.assertTrue(any(" ready " in line for line in self.lines), self.lines)

        def fail(_: str) -> None:
            raise ZeroDivisionError

        with mock.patch.object(sys, "unraisablehook") as hook:
            gate = Gate(fail)
            flow = gate.add_flow("saves", 0)
            self.assertEqual(gate.ready(1, flow, 1), [Start(1, 0)])
        self.assertTrue(hook.called)

    def test_it_is_collected_with_its_log(self) -> None:
        class Owner:
            def __init__(self) -> None:
                self.gate = Gate(self.tell)

            def tell(self, line: str) -> None: ...

        owner = weakref.ref(Owner())
        gc.collect()
        self.assertIsNone(owner())


class OnOtherThreads(unittest.TestCase):
    def test_room_that_a_file_makes_is_told_to_who_waits(self) -> None:
        gate = Gate()
        disk = gate.add_device("disk", max_in_flight=1)
        flow = gate.add_flow("saves", disk)
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(4 << 20))
            file.flush()
            descriptor = ioweave._core.Descriptor(
                os.open(file.name, os.O_RDONLY), gate.service, file.name, False, flow
            )
            started: list[object] = []

            def take() -> None:
                # ready() may have taken itself what the end of a request let start.
                while not started and gate.wait():
                    started.extend(gate.take())

            waits = threading.Thread(target=take, daemon=True)
            waits.start()
            for number in range(1000):  # one of them asks before the request has ended
                read = descriptor.apread(4 << 20, 0)
                if not gate.ready(number, flow, 1):
                    break
                read.result()
                gate.finished(number, 1)
            else:
                self.fail("no operation had to wait for the end of a request")
            self.assertEqual(read.result(), bytes(4 << 20))
            waits.join()
            self.assertEqual(started, [Start(number, 0)])
            gate.finished(number, 1)
            descriptor.close()

    def test_who_waits_is_let_go_at_the_end(self) -> None:
        gate = Gate()
        answers: list[bool] = []
        waits = threading.Thread(target=lambda: answers.append(gate.wait()))
        waits.start()
        gate.stop()
        waits.join()
        self.assertEqual(answers, [False])

    def test_a_gate_may_go_with_operations_and_before_its_service(self) -> None:
        gate = Gate(lambda line: None)
        disk = gate.add_device("disk", max_in_flight=1)
        flow = gate.add_flow("saves", disk)
        gate.ready(1, flow, 1)
        gate.ready(2, flow, 1)
        service = gate.service
        del gate
        self.assertEqual(ioweave._core.flow_counts(service, flow), (0, 0))

    def test_a_forked_child_ends_without_it(self) -> None:
        gate = Gate()
        flow = gate.add_flow("saves", gate.add_device("disk", max_in_flight=1))
        gate.ready(1, flow, 1)
        pid = os.fork()
        if pid == 0:
            del gate
            os._exit(7)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)


if __name__ == "__main__":
    unittest.main()
