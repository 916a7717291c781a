"""The real runs: what is chosen, compared and judged. No application is started."""

import unittest
from typing import Any

from harness.tasks import applications, curves
from harness.tasks.applications import Effort, Runner, Workload
from harness.tasks.devices import Device

# Seconds of each mode; constraint 32 is the best.
SECONDS = {
    "non-aware": 10.0,
    "16": 6.5,
    "32": 6.0,
    "64": 7.0,
    "unconstrained": 12.0,
    "auto": 8.0,
    "auto(2,256,2)": 9.0,
    "climb": 6.06,
}
SSD = Device("slowfs 450 MB/s", applications.WORKFLOWS, 450, 180, direct=True)
SMALL = Workload("some", "some.py", (), (), ratio=1, executors=(4, 8), saves=0.38)
EFFORT = Effort((SMALL,), statics=(16, 32, 64), autos=True, rounds=3)


class FakeRunner(Runner):
    """Takes the seconds above, and notes what it ran."""

    def run(
        self, workload: Workload, mode: str, checkpoint_mb: float, device: Device
    ) -> dict[str, Any]:
        scale = 450 / device.mb_s
        asked = f"{float(mode) * scale:g}" if mode[0].isdigit() else mode
        # As a device that got slower would have it: results of a round are compared in it.
        drift = 1 + 0.1 * len(self.runs)
        outcome = {
            "mode": mode,
            "seconds": SECONDS.get(asked, 9.0) * (drift if self.python == "drifts" else 1),
            "result": len(self.runs) if self.python == "differs" else 1,
            "checkpoint_bytes": 1000,
        }
        self.runs.append(outcome)
        return outcome


def rows_of(python: str, device: Device = SSD) -> tuple[dict[str, Any], list[str]]:
    runner = FakeRunner(None, python, applications.WORKFLOWS, [])  # type: ignore[arg-type]
    rows = list(applications.compare(runner, SMALL, device, 1.0, EFFORT))
    return {row.metric.partition(": ")[2]: row for row in rows}, [r["mode"] for r in runner.runs]


class CompareTest(unittest.TestCase):
    def test_the_best_of_the_sweep_runs_again_in_turn_with_climb_and_non_aware(self) -> None:
        _, modes = rows_of("steady")
        sweep = ["16", "32", "64", "unconstrained", "auto", "auto(2,256,2)"]
        self.assertEqual(modes[:6], sweep)
        judged = ["non-aware", "32", "climb"]
        self.assertEqual(modes[6:], judged + judged[::-1] + judged)

    def test_climb_is_judged_by_what_the_paper_saves_and_by_the_best_constraint(self) -> None:
        rows, _ = rows_of("steady")
        saved = rows["climb over non-aware"]
        self.assertAlmostEqual(saved.summary.value, 0.606)
        self.assertEqual((str(saved.bar), saved.met), ("<= 0.62", True))
        best = rows["climb over the best constraint, 32"]
        self.assertAlmostEqual(best.summary.value, 1.01)
        self.assertEqual((str(best.bar), best.met), ("<= 1.03", True))

    def test_ratios_are_of_runs_of_the_same_round(self) -> None:
        rows, _ = rows_of("drifts")
        # Rounds of runs 7 to 9, 10 to 12 backwards, 13 to 15.
        pairs = [(1.8, 1.6), (1.9, 2.1), (2.4, 2.2)]
        expected = sorted(0.606 * climb / non_aware for climb, non_aware in pairs)
        summary = rows["climb over non-aware"].summary
        self.assertAlmostEqual(summary.value, expected[1])
        self.assertAlmostEqual(summary.low, expected[0])

    def test_constraints_keep_the_number_of_tasks_on_a_slower_device(self) -> None:
        slower = Device("slowfs 150 MB/s", SSD.folder, 150, 60, direct=True)
        _, modes = rows_of("steady", slower)
        self.assertEqual(modes[:3], ["5.33333", "10.6667", "21.3333"])
        self.assertEqual(modes[5], "auto(0.666667,85.3333,2)")

    def test_on_a_device_without_a_knee_climb_is_only_not_to_be_worse(self) -> None:
        disk = Device("raw disk", SSD.folder, 450, 450, direct=False)
        self.assertEqual(str(applications.bar_of(SMALL, disk)), "<= 1.02")

    def test_runs_that_computed_something_else_are_an_error(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "runs differ"):
            rows_of("differs")


class PictureTest(unittest.TestCase):
    def test_bars_are_medians_in_the_order_of_their_kinds(self) -> None:
        seconds = [("climb", 4), ("16", 6), ("auto(2,256,2)", 9), ("climb", 5), ("non-aware", 10)]
        runs: list[dict[str, Any]] = [
            {"workload": "some", "mode": mode, "seconds": figure, "paper_saves": 0.38}
            for mode, figure in [*seconds, ("climb", 7), ("unconstrained", 8)]
        ]
        bars = applications.bars_of(runs)
        kinds = ["baseline", "unconstrained", "static", "auto", "climb"]
        self.assertEqual([bar.kind for bar in bars], kinds)
        self.assertEqual((bars[-1].low, bars[-1].seconds, bars[-1].high), (4, 5, 7))
        self.assertEqual([bar.reference for bar in bars[:-1]], [None] * 4)
        self.assertAlmostEqual(bars[-1].reference or 0, 6.2)


class RatioTest(unittest.TestCase):
    def test_slots_that_write_get_about_what_those_of_the_paper_get_of_the_best(self) -> None:
        papers = curves.at(curves.SSD_NON_AWARE, 48) / curves.peak(curves.SSD)
        for slots in (1, 2, 8, 48):
            with self.subTest(slots=slots):
                ours = applications.knee(slots)
                self.assertAlmostEqual(curves.at(ours, slots), papers, delta=0.045)
                self.assertEqual(curves.peak(ours), 1)

    def test_a_run_that_hides_all_writing_saves_what_the_paper_saves(self) -> None:
        # HMMER of the paper computes in four waves; the last one's checkpoints, at the best rate,
        # hide behind nothing.
        ratio, part = applications.hmmer_ratio(), 0.39
        saved = 1 - (ratio + part / 4) / (ratio + 1)
        self.assertAlmostEqual(saved, 0.38, delta=0.01)


if __name__ == "__main__":
    unittest.main()
