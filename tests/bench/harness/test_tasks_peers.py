"""What runs beside the peers, in small, and what is made of their figures."""

import argparse
import dataclasses
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import ClassVar

from harness.build import Build
from harness.session import Session
from harness.tasks import contender, peers


def _count(_needed: int, folder: str, _size: int) -> None:
    """Leaves in "most" how many ran at once, which wait for each other half a second at most."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="running-"):
        most = Path(folder, "most")
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            running = sum(path.name.startswith("running-") for path in Path(folder).iterdir())
            if not most.exists() or int(most.read_text("utf-8") or 0) < running:
                most.write_text(str(running), "utf-8")
            time.sleep(0.01)


def _fails(number: int) -> int:
    raise ValueError(f"task {number}")


class ContenderTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(dir=Path.cwd())
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def options(self, tasks: int) -> argparse.Namespace:
        return argparse.Namespace(
            cpus=2,
            iterations=1,
            pieces=2,
            tasks=tasks,
            folder=self.folder,
            slots=2,
            curve=[[1, 100.0], [2, 200.0], [4, 150.0]],
        )

    def test_pools_and_ioweave_write_every_checkpoint_and_remove_it(self) -> None:
        for name in ("pools", "ioweave", "ioweave-measured", "ioweave-fixed"):
            options = self.options(5)
            with self.subTest(name), contender.CONTENDERS[name](options) as running:
                found = contender.checkpoints(running, options)
                self.assertEqual(found["bytes"], 5 * 2 * contender.PIECE)
                self.assertEqual(list(Path(self.folder).iterdir()), [])

    def test_rates_are_told_for_each_round_but_the_first(self) -> None:
        with contender.pools(self.options(1)) as running:
            found = list(contender.rate(running, 10, 3))
        self.assertEqual(len(found), 3)
        self.assertTrue(all(each["tasks_per_s"] > 0 for each in found))

    def test_what_fails_in_a_pool_is_raised_by_the_wait(self) -> None:
        with contender.pools(self.options(1)) as running:
            failing = running.submit(_fails, 1)
            written = running.submit_io(contender.nothing, failing)
            with self.assertRaisesRegex(ValueError, "task 1"):
                running.wait([written])
            written = running.submit_io(_fails, running.submit(contender.nothing, 2))
            with self.assertRaisesRegex(ValueError, "task 2"):
                running.wait([written])

    def test_fixed_runs_as_many_at_once_as_the_peers_have_slots(self) -> None:
        with contender.fixed(self.options(1)) as running:
            meeting = [running.submit(contender.nothing, 1) for _ in range(6)]
            running.wait([running.submit_io(_count, one, self.folder, 0) for one in meeting])
        self.assertEqual(Path(self.folder, "most").read_text("utf-8"), "2")


class RunnerTest(unittest.TestCase):
    def setUp(self) -> None:
        self.session = Session(Build(Path.cwd()), Path.cwd(), Path.cwd(), Path.cwd(), quick=True)

    def test_a_contender_that_cannot_start_is_noted_once_and_left_out(self) -> None:
        runner = peers.Runner(self.session, "/no/such/python", {})
        self.assertEqual(runner.run("dask", "rate", "--tasks=1"), [])
        self.assertEqual(runner.run("dask", "rate", "--tasks=1"), [])
        (note,) = self.session.notes
        self.assertIn("Dask is left out: cannot run /no/such/python", note)

    def test_a_contender_runs_on_the_python_of_the_peers(self) -> None:
        runner = peers.Runner(self.session, sys.executable, {})
        found = runner.run("pools", "rate", "--tasks=10", "--rounds=2")
        self.assertEqual([each.keys() for each in found], [{"tasks_per_s"}] * 2)


class TuningTest(unittest.TestCase):
    # Seconds of full and of short runs by slots.
    SECONDS: ClassVar[dict[tuple[int, int], float]] = {
        **{(4, 128): 9.0, (8, 128): 7.5, (16, 128): 7.4, (32, 128): 7.7},
        **{(8, 256): 14.0, (16, 256): 15.0},
    }

    def tuned(self, slots: tuple[int, ...], *, failing: tuple[int, ...] = ()) -> int:
        self.ran: list[tuple[int, int]] = []

        def seconds(number: int, tasks: int) -> float | None:
            self.ran.append((number, tasks))
            return None if number in failing else self.SECONDS[number, tasks]

        return peers.tuned(seconds, dataclasses.replace(peers.NORMAL, slots=slots))

    def test_the_two_best_of_the_sweep_are_tried_at_full_length(self) -> None:
        self.assertEqual(self.tuned((4, 8, 16, 32)), 8)
        self.assertEqual(self.ran[4:], [(16, 256), (8, 256)])

    def test_slots_of_runs_that_fail_are_not_the_best(self) -> None:
        self.assertEqual(self.tuned((4, 8, 16), failing=(4, 8)), 16)
        self.assertEqual(self.tuned((4, 8, 16), failing=(4, 8, 16)), 4)

    def test_one_number_of_slots_needs_no_run(self) -> None:
        self.assertEqual(self.tuned((8,)), 8)
        self.assertEqual(self.ran, [])


if __name__ == "__main__":
    unittest.main()
