"""The Python binding ioweave._core.Simulation; tests/simulator tests what it simulates."""

import gc
import threading
import unittest

from ioweave._core import Policy, Simulation


class SimulationTest(unittest.TestCase):
    def setUp(self) -> None:
        self.log: list[str] = []
        self.policy = Policy(self.log.append)
        self.setUpPolicy()

    def setUpPolicy(self) -> None:
        self.device = self.policy.add_device("ssd", budget_mb_per_s=100)
        self.flow = self.policy.add_flow("checkpoint", self.device, constraint="fixed:50")

    def simulation(self, nodes: int = 1, cores: int = 1) -> Simulation:
        simulation = Simulation(self.policy, nodes=nodes, cores=cores)
        simulation.set_curve(self.device, [(1, 100)])
        return simulation

    def test_tasks_run_in_virtual_time(self) -> None:
        simulation = self.simulation()
        computed = simulation.compute(2)
        written = simulation.io(self.flow, 100_000_000, after=[computed], beside=computed)
        blocking = simulation.blocking_io(self.device, 100_000_000, seconds=1, after=[written])
        self.assertEqual(simulation.record(written).state, "waiting")
        self.assertEqual(simulation.run(), "ended")
        self.assertEqual(simulation.record(computed).end_s, 2)
        self.assertAlmostEqual(simulation.record(written).start_s, 2)
        self.assertAlmostEqual(simulation.record(written).end_s, 3)
        self.assertAlmostEqual(simulation.record(blocking).end_s, 5)
        self.assertEqual(simulation.record(blocking).state, "ended")
        self.assertAlmostEqual(simulation.now_s, 5)
        self.assertEqual(simulation.tasks, 3)

    def test_the_simulation_runs_until_a_task_has_ended(self) -> None:
        simulation = self.simulation()
        first = simulation.compute(1)
        second = simulation.compute(1)
        self.assertEqual(simulation.run(first), "ended")
        self.assertEqual(simulation.record(second).state, "running")

    def test_the_simulation_stops_when_a_watched_task_has_ended(self) -> None:
        simulation = self.simulation()
        first, second = simulation.compute(1), simulation.compute(1)
        simulation.watch(first)
        self.assertEqual(simulation.run(), "watched")
        self.assertEqual((simulation.now_s, simulation.unfinished), (1, 1))
        simulation.watch(first)  # it has ended: nothing comes of it
        self.assertEqual(simulation.run(second), "ended")

    def test_the_simulation_counts_transfers_and_cores(self) -> None:
        simulation = self.simulation(cores=2)
        for _ in range(3):
            simulation.io(self.flow, 100_000_000)
        end = simulation.compute(0.5)
        counts = simulation.counts_of(self.flow)
        self.assertEqual((counts.waiting, counts.running, counts.ended, counts.bytes), (1, 2, 0, 0))
        self.assertEqual(simulation.free_cores, 1)
        simulation.run(end)
        self.assertEqual(simulation.free_cores, 2)
        simulation.run()
        counts = simulation.counts_of(self.flow)
        self.assertEqual((counts.waiting, counts.running), (0, 0))
        self.assertEqual((counts.ended, counts.bytes), (3, 300_000_000))

    def test_the_policy_decides_and_its_log_has_everything(self) -> None:
        simulation = self.simulation(nodes=2)
        for _ in range(5):
            simulation.io(self.flow, 50_000_000)
        self.assertEqual(simulation.run(), "ended")
        self.assertEqual(sum("ready" in line for line in self.log), 5)
        self.assertEqual(sum("start" in line for line in self.log), 5)
        self.assertEqual({simulation.record(task).node for task in range(5)}, {0, 1})

    def test_a_curve_can_change_at_a_later_time(self) -> None:
        simulation = self.simulation()
        task = simulation.io(self.flow, 200_000_000)
        simulation.set_curve(self.device, [(1, 50)], at_s=1)
        self.assertEqual(simulation.run(), "ended")
        self.assertAlmostEqual(simulation.record(task).end_s, 3)

    def test_nodes_differ_in_cores_and_devices(self) -> None:
        simulation = Simulation(self.policy, cores_of=[1, 4])
        fast = self.policy.add_device("fast", everywhere=False)
        flow = self.policy.add_flow("drain", fast)
        simulation.set_curve(fast, [(1, 100)])
        simulation.device_up(fast, 1)
        wide = simulation.compute(1, cpus=4)
        drained = simulation.io(flow, 100_000_000)
        self.assertEqual(simulation.run(), "ended")
        self.assertEqual([simulation.record(task).node for task in (wide, drained)], [1, 1])
        self.assertIn("0 device_up device=1 node=1", self.log)

    def test_the_simulation_keeps_its_policy_alive(self) -> None:
        simulation = self.simulation()
        del self.policy
        gc.collect()
        simulation.io(self.flow, 1)
        self.assertEqual(simulation.run(), "ended")

    def test_one_thread_at_a_time_may_use_it_and_its_policy(self) -> None:
        refused: list[str] = []

        def ask() -> None:
            for question in (
                lambda: simulation.now_s,
                lambda: simulation.record(0),
                lambda: simulation.compute(1),
                lambda: simulation.run(),
                lambda: simulation.counts_of(self.flow),
                lambda: self.policy.node_up(9, 0),
            ):
                try:
                    question()
                except RuntimeError as error:
                    refused.append(str(error))

        def curious(line: str) -> None:
            if " ready " in line:
                other = threading.Thread(target=ask)
                other.start()
                other.join()

        self.policy = Policy(curious)
        self.setUpPolicy()
        simulation = self.simulation()
        simulation.io(self.flow, 1)
        self.assertEqual(simulation.run(), "ended")
        self.assertEqual(len(refused), 6)
        self.assertIn("or a Simulation of it, is being used by another thread", refused[0])
        self.assertEqual(simulation.record(0).state, "ended")

    def test_an_impossible_argument_is_named(self) -> None:
        simulation = self.simulation()
        bb = self.policy.add_device("bb", everywhere=False)
        self.policy.node_up(5, 0)  # behind the back of the simulation
        for says, call in (
            ("2 cpus: a node has 1", lambda: simulation.compute(1, cpus=2)),
            ("flow 7 does not exist", lambda: simulation.io(7, 1)),
            ("does not wait for", lambda: simulation.compute(1, beside=simulation.compute(1))),
            ("must be above 0", lambda: Simulation(self.policy, nodes=0)),
            ("must be above 0", lambda: Simulation(self.policy, cores_of=[1, 0])),
            ("'ssd' is on every node", lambda: simulation.device_up(self.device, 0)),
            ("node 5: the simulation has 1 nodes", lambda: simulation.device_up(bb, 5)),
            ("device 9 does not exist", lambda: simulation.set_curve(9, [(1, 1)])),
            ("streams must ascend", lambda: simulation.set_curve(0, [(1, 1), (1, 1)])),
            ("at_s has passed", lambda: simulation.set_curve(0, [(1, 1)], at_s=-1)),
        ):
            with self.assertRaisesRegex(ValueError, says):
                call()
        for bad in (lambda: simulation.record(99), lambda: simulation.run(99)):
            with self.assertRaisesRegex(IndexError, "no task 99"):
                bad()


if __name__ == "__main__":
    unittest.main()
