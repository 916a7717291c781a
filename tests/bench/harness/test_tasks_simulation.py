"""Tiny simulations: they need the Python package of the build."""

import unittest

from harness.tasks import paper, simulation, workloads

FLAT = [(10, 100.0)]  # 10 MB/s for each of ten


class WorkloadTest(unittest.TestCase):
    def test_non_aware_checkpoints_keep_their_cores_and_io_tasks_do_not(self) -> None:
        # A node of 48 cores, two waves of 10 s, 10 at once in 290 MB / 10 MB/s.
        small = workloads.hmmer(tasks=96, compute_s=1000)
        non_aware = workloads.simulate(small, workloads.NON_AWARE, FLAT, nodes=1)
        self.assertAlmostEqual(non_aware.total_s, 2000 + 96 * 290 / 100, delta=1)
        static = workloads.simulate(small, workloads.static(45), FLAT, nodes=1)
        self.assertAlmostEqual(static.total_s, 2000 + 5 * 290 / 10, delta=1)

    def test_a_pipeline_has_seven_steps_and_six_checkpoints(self) -> None:
        run = workloads.simulate(
            workloads.variants(compute_s=1, inputs=3), workloads.CLIMB, FLAT, nodes=1, with_log=True
        )
        self.assertEqual(len(run.records), 3 * (7 + 6))
        self.assertEqual(sum(record.bytes for record in run.records), 3 * 2283 * paper.MB)
        self.assertEqual(sum(run.started.values()), 3 * 6)
        self.assertEqual(len(run.explained), 5)

    def test_an_iteration_of_kmeans_begins_when_the_one_before_is_merged(self) -> None:
        workload = workloads.kmeans(iterations=3, begin_s=100, iteration_s=10)
        run = workloads.simulate(workload, workloads.static(45), FLAT)
        computing = [record for record in run.records if not record.io]
        self.assertAlmostEqual(max(record.end_s for record in computing), 130)
        self.assertEqual(sum(record.io for record in run.records), 1500)

    def test_what_climb_started_under_low_limits_is_counted(self) -> None:
        run = workloads.simulate(
            workloads.hmmer(tasks=48, compute_s=1), workloads.CLIMB, FLAT, nodes=1, with_log=True
        )
        self.assertGreaterEqual(run.started_below, 8)  # it begins at 1 and doubles
        self.assertLess(run.started_below, 48)


class RowsTest(unittest.TestCase):
    def test_the_best_static_constraints_are_named_where_several_are(self) -> None:
        runs = simulation.Runs(
            workloads.hmmer(tasks=48, compute_s=1),
            [workloads.NON_AWARE, *map(workloads.static, (45, 41, 9))],
            curve=FLAT,
        )
        self.assertEqual(runs.best_static()[1], "45 or 41")  # ten at once, both

    def test_auto_stands_in_figure_11_at_what_it_has_learned_is_best(self) -> None:
        # 225, 112, 56 and 28 at once; of the last wave few are waiting when it chooses for them.
        auto = simulation.Runs(workloads.hmmer(), [workloads.auto()])["auto_225"]
        self.assertEqual(simulation.constraint_of(auto), 8)
        (explained,) = auto.explained.values()
        self.assertEqual(explained["constraint_mb_per_s"], 4)

    def test_where_nothing_was_chosen_the_constraint_is_that_at_the_end(self) -> None:
        modes = [workloads.static(45), workloads.unconstrained(20), workloads.CLIMB]
        runs = simulation.Runs(workloads.hmmer(tasks=96, compute_s=1), modes, curve=FLAT)
        found = {mode: simulation.constraint_of(run) for mode, run in runs.by_mode.items()}
        self.assertEqual((found["45"], found["unconstrained"]), (45, None))
        self.assertGreater(found["climb"] or 0, 0)

    def test_climb_is_back_with_the_first_task_where_nothing_changes(self) -> None:
        change = simulation.Change("the same", (4, 100), (4, 100))
        self.assertEqual(simulation.tasks_to_come_back(change, tasks=100, at_s=60), 1)
