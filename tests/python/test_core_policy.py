"""The Python binding of the policy core; tests/policy tests its decisions."""

import gc
import json
import sys
import tempfile
import threading
import unittest
import weakref
from pathlib import Path
from unittest import mock

from ioweave._core import Policy, SetLimit, Start, replay, sample_part


class Operations(unittest.TestCase):
    def test_operations_wait_for_bandwidth_and_start_when_it_is_free(self) -> None:
        policy = Policy()
        disk = policy.add_device("disk", budget_mb_per_s=40)
        flow = policy.add_flow("checkpoints", disk, constraint="fixed:20")
        self.assertEqual(policy.ready(10, flow, 0, 1 << 20, 1), [Start(10, 0)])
        self.assertEqual(policy.ready(11, flow, None, 1 << 20, 2), [Start(11, 0)])
        self.assertEqual(policy.ready(12, flow, None, 1 << 20, 3), [])
        self.assertEqual((policy.running, policy.waiting), (2, 1))
        self.assertEqual(policy.flow_counts(flow), (1, 2))
        self.assertEqual(policy.running_on(0), 2)
        self.assertEqual(policy.finished(10, 0.5, 1 << 20, 4), [Start(12, 0)])
        self.assertEqual(policy.failed(11, 5), [])
        self.assertEqual(policy.cancelled(12, 6), [])
        self.assertEqual((policy.running, policy.waiting), (0, 0))

    def test_operations_are_forgotten_when_their_node_goes_down(self) -> None:
        policy = Policy()
        disk = policy.add_device("disk", max_in_flight=1, scope="node")
        flow = policy.add_flow("results", disk, priority="write_behind")
        self.assertEqual(policy.ready(1, flow, None, 0, 1), [Start(1, 0)])
        self.assertEqual(policy.ready(2, flow, None, 0, 1), [])
        self.assertEqual(policy.node_up(7, 2), [Start(2, 7)])
        self.assertEqual(policy.sample(disk, 7, 1e8, 3), [])
        self.assertEqual(policy.node_down(7, 5), [])
        self.assertEqual(policy.running, 1)

    def test_an_operation_may_have_the_largest_id(self) -> None:
        policy = Policy()
        flow = policy.add_flow("f", policy.add_device("d"))
        self.assertEqual(policy.ready(2**64 - 1, flow, 0, 2**64 - 1, 2**63), [Start(2**64 - 1, 0)])


class Samples(unittest.TestCase):
    def test_samples_are_needed_while_operations_with_climb_wait_or_run(self) -> None:
        policy = Policy()
        disk = policy.add_device("disk")
        plain = policy.add_flow("plain", disk)
        climbing = policy.add_flow("climbing", disk, constraint="climb")
        policy.ready(1, plain, 0, 0, 1)
        self.assertFalse(policy.needs_samples(disk))
        policy.ready(2, climbing, 0, 0, 1)
        self.assertTrue(policy.needs_samples(disk))
        policy.ready(3, climbing, None, 0, 1)
        self.assertEqual(policy.flow_counts(climbing), (1, 1))
        policy.cancelled(2, 2)
        policy.finished(3, 1.0, 0, 3)
        self.assertFalse(policy.needs_samples(disk))


class Learning(unittest.TestCase):
    def learn(self, policy: Policy, flow: int) -> None:
        """Runs a hundred operations that are ready at once."""
        started = [
            decision.operation
            for operation in range(100)
            for decision in policy.ready(operation, flow, 0, 1, 0)
            if isinstance(decision, Start)
        ]
        for now, operation in enumerate(started):  # it grows
            started += [
                decision.operation
                for decision in policy.finished(operation, 1.0, 1, now)
                if isinstance(decision, Start)
            ]
        self.assertEqual(len(started), 100)

    def test_what_was_learned_is_explained_and_can_be_given_to_a_later_policy(self) -> None:
        policy = Policy()
        flow = policy.add_flow(
            "f", policy.add_device("d", budget_mb_per_s=40), constraint="auto:10,40,2"
        )
        self.assertEqual(policy.learned(flow), "")
        self.learn(policy, flow)
        explained = json.loads(policy.explain(flow))
        self.assertEqual((explained["policy"], explained["phase"]), ("auto(10,40,2)", "chosen"))
        self.assertEqual([epoch["tasks"] for epoch in explained["epochs"]], [4, 2, 1])
        later = Policy()
        flow = later.add_flow(
            "f",
            later.add_device("d", budget_mb_per_s=40),
            constraint="auto:10,40,2",
            learned=policy.learned(flow),
        )
        again = json.loads(later.explain(flow))
        self.assertEqual((again["phase"], again["epochs"]), ("chosen", []))
        self.assertEqual(again["registry"], explained["registry"])

    def test_asking_for_an_unknown_flow_is_refused(self) -> None:
        policy = Policy()
        for question in (policy.explain, policy.learned):
            with self.assertRaisesRegex(ValueError, "flow 3 does not exist"):
                question(3)


class Devices(unittest.TestCase):
    def test_a_device_is_on_the_nodes_that_device_up_names(self) -> None:
        policy = Policy()
        disk = policy.add_device("disk")
        fast = policy.add_device("fast", everywhere=False)
        flow = policy.add_flow("write", fast)
        policy.node_up(1, 1)
        on = [[policy.has(node, device) for node in (0, 1)] for device in (disk, fast)]
        self.assertEqual(on, [[True, True], [False, False]])
        self.assertEqual(policy.ready(1, flow, None, 1, 2), [])
        self.assertEqual(json.loads(policy.explain(flow))["nodes"], 0)
        self.assertEqual(policy.device_up(fast, 1, 3), [Start(1, 1)])
        self.assertTrue(policy.has(1, fast))
        self.assertFalse(policy.has(0, fast))
        with self.assertRaisesRegex(ValueError, "node 0 does not have device 'fast'"):
            policy.ready(2, flow, 0, 1, 4)
        with self.assertRaisesRegex(ValueError, "device 7 does not exist"):
            policy.has(0, 7)


class Values(unittest.TestCase):
    def test_devices_and_flows_are_numbered_from_0(self) -> None:
        policy = Policy()
        self.assertEqual([policy.add_device(name) for name in "ab"], [0, 1])
        self.assertEqual([policy.add_flow(name, 1) for name in "cde"], [0, 1, 2])
        self.assertEqual((policy.devices, policy.flows), (2, 3))

    def test_decisions_compare_hash_match_and_print(self) -> None:
        self.assertEqual(Start(1, 2), Start(1, 2))
        self.assertNotEqual(Start(1, 2), Start(1, 3))
        self.assertNotEqual(Start(1, 2), SetLimit(1, 2))
        self.assertEqual(len({Start(1, 2), Start(1, 2), SetLimit(1, 2)}), 2)
        self.assertEqual(repr(Start(1, 2)), "Start(operation=1, node=2)")
        self.assertEqual(repr(SetLimit(1, 2)), "SetLimit(flow=1, limit=2)")
        match SetLimit(3, 4):
            case SetLimit(flow, limit):
                self.assertEqual((flow, limit), (3, 4))


class SamplesOfDevices(unittest.TestCase):
    def test_samples_come_four_times_as_often_at_first(self) -> None:
        self.assertEqual((sample_part(0), sample_part(1), sample_part(1000)), (0.25, 0.25, 1))


class BadInput(unittest.TestCase):
    def setUp(self) -> None:
        self.policy = Policy()
        self.disk = self.policy.add_device("disk", budget_mb_per_s=450)

    def test_a_wrong_device_setting_names_the_device_and_the_known_words(self) -> None:
        with self.assertRaisesRegex(ValueError, r"'ssd': .*scope=node\|shared, found 'rack'"):
            self.policy.add_device("ssd", scope="rack")
        with self.assertRaisesRegex(ValueError, r"device 'ssd': .*none\|strict\|weighted"):
            self.policy.add_device("ssd", scheduling="fair")
        with self.assertRaisesRegex(ValueError, "device 'ssd': .*weights"):
            self.policy.add_device("ssd", weights=(0, 1, 1))
        with self.assertRaisesRegex(ValueError, "device 'ssd': budget_mb_per_s"):
            self.policy.add_device("ssd", budget_mb_per_s=-1)
        self.assertEqual(self.policy.devices, 1)

    def test_a_wrong_flow_setting_names_the_flow_and_the_bounds(self) -> None:
        with self.assertRaisesRegex(ValueError, r"flow 'f': .*450 MB/s \(the budget of .*'disk'"):
            self.policy.add_flow("f", self.disk, constraint="fixed:451")
        with self.assertRaisesRegex(ValueError, "flow 'f': .*device 1 does not exist"):
            self.policy.add_flow("f", 1)
        with self.assertRaisesRegex(ValueError, "flow 'f': .*class=foreground"):
            self.policy.add_flow("f", self.disk, priority="urgent")
        for text in ("", "fast", "fixed:", "fixed:x", "fixed:20 ", "fixed:2 max_in_flight=1", "\n"):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "flow 'f': expected "):
                self.policy.add_flow("f", self.disk, constraint=text)
        self.assertEqual(self.policy.flows, 0)

    def test_an_impossible_event_changes_nothing(self) -> None:
        policy = self.policy
        flow = policy.add_flow("f", self.disk)
        with self.assertRaisesRegex(ValueError, "flow 5 does not exist"):
            policy.ready(1, 5, 0, 0, 1)
        with self.assertRaisesRegex(ValueError, "node 3 is not up"):
            policy.ready(1, flow, 3, 0, 1)
        with self.assertRaisesRegex(ValueError, "None stands for any node"):
            policy.ready(1, flow, 2**32 - 1, 0, 1)
        with self.assertRaisesRegex(ValueError, "operation 1 is not known"):
            policy.finished(1, 0.1, 0, 1)
        with self.assertRaisesRegex(ValueError, "flow 5 does not exist"):
            policy.flow_counts(5)
        with self.assertRaisesRegex(ValueError, "device 5 does not exist"):
            policy.needs_samples(5)
        with self.assertRaisesRegex(ValueError, "node 3 is not up"):
            policy.running_on(3)
        self.assertEqual((policy.running, policy.waiting), (0, 0))
        self.assertEqual(policy.ready(1, flow, 0, 0, 9), [Start(1, 0)])
        with self.assertRaisesRegex(ValueError, "time goes back from 9 to 8"):
            policy.failed(1, 8)
        with self.assertRaisesRegex(ValueError, "already known"):
            policy.ready(1, flow, 0, 0, 9)


class Log(unittest.TestCase):
    def record(self) -> list[str]:
        lines: list[str] = []
        policy = Policy(lines.append)
        disk = policy.add_device("scratch disk", budget_mb_per_s=30)
        flow = policy.add_flow("results", disk, constraint="fixed:20.5")
        for operation in range(3):
            policy.ready(operation, flow, None, 4096, operation)
        policy.finished(0, 0.25, 4096, 10)
        return lines

    def replayed(self, lines: list[str]) -> tuple[bool, int, str, int, int]:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("".join(line + "\n" for line in lines))
            file.flush()
            result = replay(Path(file.name))
        return result.same, result.line, result.reason, result.events, result.decisions

    def test_a_log_replays_to_the_same_decisions(self) -> None:
        lines = self.record()
        self.assertIn("> start operation=1 node=0", lines)
        self.assertEqual(self.replayed(lines), (True, len(lines), "", 4, 2))

    def test_a_changed_log_does_not_replay(self) -> None:
        lines = [line.replace("fixed:20.5", "fixed:10") for line in self.record()]
        same, line, reason, *_ = self.replayed(lines)
        self.assertFalse(same)
        self.assertEqual(line, lines.index("> start operation=0 node=0") + 3)
        self.assertIn("start operation=1", reason)

    def test_an_unreadable_log_is_an_oserror_with_its_path(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(FileNotFoundError) as missing:
                replay(f"{folder}/none")
            self.assertEqual(missing.exception.filename, f"{folder}/none")
            with self.assertRaises(IsADirectoryError):
                replay(folder)

    def test_a_log_function_that_raises_loses_no_decision(self) -> None:
        def full(line: str) -> None:
            raise OSError(f"no space for {line}")

        with mock.patch.object(sys, "unraisablehook") as hook:
            policy = Policy(full)
            flow = policy.add_flow("f", policy.add_device("d"))
            self.assertEqual(policy.ready(1, flow, 0, 0, 1), [Start(1, 0)])
        self.assertEqual(hook.call_count, 5)  # header, device, flow, event, decision

    def test_a_log_function_must_not_call_the_policy(self) -> None:
        refused: list[str] = []

        def curious(line: str) -> None:
            try:
                policy.node_up(2, 0)
            except RuntimeError as error:
                refused.append(str(error))
            except NameError:  # the header, before there is a policy
                pass

        policy = Policy(curious)
        policy.node_up(1, 1)
        self.assertEqual(len(refused), 1)
        self.assertIn("its own log function", refused[0])

    def test_a_log_function_that_refers_to_the_policy_is_collected(self) -> None:
        class Runtime:
            def __init__(self) -> None:
                self.policy = Policy(self.log)

            def log(self, line: str) -> None: ...

        gone = weakref.ref(Runtime())
        gc.collect()
        self.assertIsNone(gone())


class Threads(unittest.TestCase):
    def test_two_threads_that_use_a_policy_at_once_are_refused(self) -> None:
        inside, leave = threading.Event(), threading.Event()

        def slow(line: str) -> None:
            if line.endswith("node_up node=1"):
                inside.set()
                leave.wait()

        policy = Policy(slow)
        other = threading.Thread(target=policy.node_up, args=(1, 1))
        other.start()
        inside.wait()
        with self.assertRaisesRegex(RuntimeError, "hold a lock"):
            policy.node_up(2, 2)
        leave.set()
        other.join()
        self.assertEqual(policy.node_up(3, 3), [])


if __name__ == "__main__":
    unittest.main()
