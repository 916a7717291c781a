"""The real runs: what is chosen, compared and judged. No application is started."""

import unittest
from pathlib import Path
from typing import Any

from harness.build import Build
from harness.session import Session
from harness.tasks import applications, curves
from harness.tasks.applications import Effort, Runner, Workload
from harness.tasks.devices import Device

# Seconds of each mode; constraint 32 is the best, and 45 that of the device's best number.
SECONDS = {
    "non-aware": 10.0,
    "16": 6.5,
    "32": 6.0,
    "45": 6.2,
    "64": 7.0,
    "unconstrained": 12.0,
    "auto": 8.0,
    "auto(2,256,2)": 9.0,
    "climb": 6.06,
}
SSD = Device("slowfs 450 MB/s", applications.WORKFLOWS, 450, 180, direct=True, best_streams=10)
SMALL = Workload("some", "some.py", (), (), ratio=1, executors=(4, 8), saves=0.38)
EFFORT = Effort((SMALL,), statics=(16, 32, 64), autos=True, rounds=3, finalists=2)


class FakeRunner(Runner):
    """Takes the seconds above, and notes what it ran."""

    def run(
        self,
        workload: Workload,
        mode: str,
        checkpoint_mb: float,
        device: Device,
        *,
        trial: bool = False,
    ) -> dict[str, Any]:
        scale = 450 / device.mb_s
        asked = f"{float(mode) * scale:g}" if mode[0].isdigit() else mode
        # As a device that got slower would have it: results of a round are compared in it.
        drift = 1 + (0.1 * len(self.runs) if self.python == "drifts" else 0)
        if self.python == "was lucky" and asked == "32" and len(self.runs) > 6:
            drift = 1.1
        computing_s = 7.0 if self.python == "slow at times" and len(self.runs) % 3 else 6.0
        begun_s = 2.0 if self.python == "slow to begin" else 0.0
        outcome = {
            "mode": mode,
            "seconds": SECONDS.get(asked, 9.0) * drift + computing_s - 6.0,
            "result": len(self.runs) if self.python == "differs" else 1,
            "checkpoints": 192,
            "checkpoint_bytes": round(1e6 * checkpoint_mb),
            # In seconds of all slots; computing got slower than it was for the first guess.
            "computing_s": computing_s * applications.SLOTS,
            "writing_s": (begun_s + checkpoint_mb / device.non_aware_mb_s) * applications.SLOTS,
            "trial": trial,
        }
        self.runs.append(outcome)
        return outcome


def rows_of(python: str, device: Device = SSD) -> tuple[dict[str, Any], list[str]]:
    runner = FakeRunner(None, python, applications.WORKFLOWS, [])  # type: ignore[arg-type]
    rows = list(applications.compare(runner, SMALL, device, 1080.0, EFFORT))
    return {row.metric.partition(": ")[2]: row for row in rows}, [r["mode"] for r in runner.runs]


class CompareTest(unittest.TestCase):
    def test_the_best_of_the_sweep_run_again_in_turn_with_climb_and_non_aware(self) -> None:
        _, modes = rows_of("steady")
        sweep = ["16", "32", "45", "64", "unconstrained", "auto", "auto(2,256,2)"]
        self.assertEqual(modes[:7], sweep)
        judged = ["non-aware", "32", "45", "climb"]
        self.assertEqual(modes[7:], judged + judged[::-1] + judged)

    def test_the_best_constraint_is_that_of_the_rounds_and_not_of_the_sweep(self) -> None:
        rows, _ = rows_of("was lucky")
        self.assertIn("climb over the best constraint, 45", rows)

    def test_what_the_runs_without_io_tasks_computed_and_wrote_is_told(self) -> None:
        # 6 s of computing and 1080 MB at 180 MB/s; at best 6 s and the last of 192 checkpoints.
        rows, _ = rows_of("steady")
        ratio = rows["computing over writing without I/O tasks (wanted: 1.00)"]
        self.assertEqual((ratio.summary.value, ratio.summary.n), (1, 3))
        most = rows["the most that overlapping could save of non-aware"].summary.value
        last_s = 1080 / 450 / 192 * applications.SLOTS
        self.assertAlmostEqual(most, 100 * (1 - (6 + last_s) / 10))

    def test_climb_is_judged_by_what_the_paper_saves_and_by_the_best_constraint(self) -> None:
        rows, _ = rows_of("steady")
        saved = rows["climb over non-aware"]
        self.assertAlmostEqual(saved.summary.value, 0.606)
        self.assertEqual((str(saved.bar), saved.met), ("<= 0.62", True))
        best = rows["climb over the best constraint, 32"]
        self.assertAlmostEqual(best.summary.value, 1.01)
        self.assertEqual((str(best.bar), best.met), ("<= 1.03", True))

    def test_at_one_speed_of_computing_only_the_rest_of_a_run_counts(self) -> None:
        rows, _ = rows_of("slow at times")
        rest = rows["climb, beyond computing"].summary
        for value in (rest.low, rest.high):
            self.assertAlmostEqual(value, SECONDS["climb"] - 6)
        name = "climb over the best constraint, {}, at one speed of computing"
        best = "32" if name.format("32") in rows else "45"
        expected = (7 + SECONDS["climb"] - 6) / (7 + SECONDS[best] - 6)
        self.assertAlmostEqual(rows[name.format(best)].summary.value, expected)

    def test_ratios_are_of_runs_of_the_same_round(self) -> None:
        rows, _ = rows_of("drifts")
        # Rounds of runs 8 to 11, 12 to 15 backwards, 16 to 19.
        pairs = [(2.0, 1.7), (2.1, 2.4), (2.8, 2.5)]
        expected = sorted(0.606 * climb / non_aware for climb, non_aware in pairs)
        summary = rows["climb over non-aware"].summary
        self.assertAlmostEqual(summary.value, expected[1])
        self.assertAlmostEqual(summary.low, expected[0])

    def test_constraints_keep_the_number_of_tasks_on_a_slower_device(self) -> None:
        slower = Device("slowfs 150 MB/s", SSD.folder, 150, 60, direct=True)
        _, modes = rows_of("steady", slower)
        self.assertEqual(modes[:3], ["5.33333", "10.6667", "21.3333"])
        self.assertEqual(modes[5], "auto(0.666667,85.3333,2)")

    def test_checkpoints_are_sized_by_the_ratio_in_which_a_run_computes_and_writes(self) -> None:
        runner = FakeRunner(self.session(), "steady", applications.WORKFLOWS, [])
        # Computing alone took 5 s, by which 900 MB would be written; on the device it takes 6 s.
        runner.computing["some"] = (5.0, 1.0)
        self.assertAlmostEqual(runner.checkpoint_mb(SMALL, SSD, trials=1), 1080)
        self.assertEqual([run["trial"] for run in runner.runs], [True])

    def test_more_trials_come_nearer_where_writing_is_not_in_proportion_to_the_size(self) -> None:
        runner = FakeRunner(self.session(), "slow to begin", applications.WORKFLOWS, [])
        runner.computing["some"] = (5.0, 1.0)
        self.assertAlmostEqual(runner.checkpoint_mb(SMALL, SSD, trials=3), 720, delta=10)
        self.assertEqual([run["trial"] for run in runner.runs], [True] * 3)

    @staticmethod
    def session() -> Session:
        here = Path.cwd()
        return Session(Build(here), here, here, here, quick=True)

    def test_on_a_device_without_a_knee_climb_is_only_not_to_be_worse(self) -> None:
        disk = Device("raw disk", SSD.folder, 450, 450, direct=False)
        self.assertEqual(str(applications.bar_of(SMALL, disk)), "<= 1.02")

    def test_the_most_that_could_be_saved_is_by_what_a_disk_did_if_that_is_more(self) -> None:
        disk = Device("raw disk", SSD.folder, 100, 100, direct=False)
        rows, _ = rows_of("steady", disk)
        most = rows["the most that overlapping could save of non-aware"].summary.value
        # 6 s of computing and 1080 MB, which a run wrote in 6 s.
        self.assertAlmostEqual(most, 100 * (1 - (6 + 6 / 192 * applications.SLOTS) / 10))

    def test_runs_that_computed_something_else_are_an_error(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "runs differ"):
            rows_of("differs")


class DevicesTest(unittest.TestCase):
    def efforts(self, *, quick: bool = False, long: bool = False) -> list[Effort]:
        here = Path.cwd()
        session = Session(Build(here), here, here, here, quick=quick, long=long)
        return [effort for _, effort in applications._devices(session)]

    def test_the_disk_is_left_out_of_the_quick_form_only(self) -> None:
        self.assertEqual(self.efforts(quick=True), [applications.QUICK])
        normal = [applications.NORMAL, applications.CONGESTED, *[applications.DISK] * 2]
        self.assertEqual(self.efforts(), normal)
        elsewhere = [applications.ELSEWHERE] * 3
        long = [applications.LONG, applications.CONGESTED, *elsewhere]
        self.assertEqual(self.efforts(long=True), long)


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

    def test_on_the_steep_device_slots_get_all_and_many_writers_a_fifth(self) -> None:
        for slots in (2, 8, 48):
            with self.subTest(slots=slots):
                steep = applications.steep(slots)
                self.assertEqual(curves.best_streams(steep), slots)
                self.assertAlmostEqual(curves.at(steep, slots), 1)
                self.assertAlmostEqual(curves.at(steep, 500), 0.22, delta=0.03)

    def test_a_run_that_hides_all_writing_saves_what_the_paper_saves(self) -> None:
        # HMMER of the paper computes in four waves; the last one's checkpoints, at the best rate,
        # hide behind nothing.
        ratio, part = applications.hmmer_ratio(), 0.39
        saved = 1 - (ratio + part / 4) / (ratio + 1)
        self.assertAlmostEqual(saved, 0.38, delta=0.01)


if __name__ == "__main__":
    unittest.main()
