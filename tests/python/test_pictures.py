"""Pictures: what they draw is in the file; nothing else needs matplotlib."""

import contextlib
import io
import itertools
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ioweave
from ioweave import pictures
from ioweave.pictures import Bar, Point
from ioweave.records import TaskRecord
from ioweave.simulated import SimulatedRuntime

try:
    import matplotlib as mpl
    import numpy as np
except ModuleNotFoundError:
    print("SKIP: no matplotlib (tools/requirements-dev.txt)")
    sys.exit(77)


def record(task: str, node: int, start_s: float, end_s: float, io: bool = False) -> TaskRecord:
    return TaskRecord(task, "ssd" if io else None, node, 0, start_s, end_s, 10**8 if io else 0)


def explained(policy: str, tasks: int = 1500) -> dict[str, Any]:
    """Returns the explanation of a simulated node whose device is best at 6 to 24 streams."""

    @ioweave.task
    def simulate(i: int) -> None: ...

    bandwidth = None if policy == "climb" else policy

    @ioweave.io(bandwidth=bandwidth, device="ssd", bytes=290_000_000)
    def checkpoint(block: Any) -> None: ...

    ssd = ioweave.Device("ssd", bandwidth=450)
    curves = {"ssd": [(1, 200), (6, 450), (24, 450), (48, 300), (225, 60)]}
    runtime = SimulatedRuntime(
        "sim://1x48", costs={"simulate": 20.0}, curves=curves, devices=[ssd], io_threads=50
    )
    with runtime:
        for i in range(tasks):
            checkpoint(simulate(i))
    explanation: dict[str, Any] = runtime.explain("checkpoint")
    return explanation


class Pictures(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def texts(self, draw: Callable[[Path], None]) -> list[str]:
        """Returns the texts of the picture that `draw` writes."""
        path = self.folder / "picture.svg"
        draw(path)
        found = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))
        return [text.strip() for text in found]

    def test_a_timeline_draws_each_of_a_few_calls(self) -> None:
        records = [record("simulate", node, i, i + 1) for node in (0, 1) for i in range(5)]
        records += [record("save", 1, 3.0, 3.5, io=True)]
        texts = self.texts(lambda path: pictures.timeline(records, path, title="two nodes"))
        for text in ("two nodes", "simulate", "save (I/O)", "I/O (MB/s)", "time (s)", "0", "1"):
            self.assertIn(text, texts)
        drawn = re.findall('id="PolyCollection_1".*?</g>', self.svg(), re.S)[0]
        self.assertEqual(drawn.count("<path"), len(records))

    def svg(self) -> str:
        return (self.folder / "picture.svg").read_text("utf-8")

    def test_a_timeline_of_many_calls_and_nodes_stays_small(self) -> None:
        records = [record("simulate", i % 1000, i // 1000, i // 1000 + 1) for i in range(50_000)]
        texts = self.texts(lambda path: pictures.timeline(records, path))
        self.assertIn("0-41", texts)
        self.assertLess(len(self.svg()), 5_000_000)

    def test_calls_at_once_and_throughput_are_exact_means(self) -> None:
        start, end = np.array([0.0, 0.5, 1.25]), np.array([2.0, 1.0, 1.25])
        at_once = pictures._average_at_once(start, end, np.ones(3), np.array([0.0, 1.0, 2.0, 3.0]))
        np.testing.assert_allclose(at_once, [1.5, 1.0, 0.0])
        moved = pictures._average_at_once(
            start, end, np.array([1.0, 8.0, 0.0]), np.array([0.0, 3.0])
        )
        self.assertAlmostEqual(moved[0] * 3, 2 * 1 + 0.5 * 8)

    def test_lanes_hold_one_call_at_a_time_and_are_as_few_as_ran_at_once(self) -> None:
        lanes, count = pictures._assign_lanes(
            np.array([0.0, 0.0, 1, 1, 2]), np.array([2.0, 1, 3, 2, 3])
        )
        self.assertEqual((lanes, count), ([0, 1, 1, 2, 0], 3))

    def test_totals_say_what_each_mode_saved(self) -> None:
        bars = [
            Bar("non-aware", 200, "baseline", "HMMER"),
            Bar("climb", 100, "climb", "HMMER", low=95, high=110, reference=124),
            Bar("8", 120, group="variants"),
        ]
        texts = self.texts(lambda path: pictures.totals(bars, path, reference="printed"))
        for text in ("non-aware", "HMMER", "variants", "printed", "climb", "baseline"):
            self.assertIn(text, texts)
        self.assertIn("-50%", self.svg().replace("\N{MINUS SIGN}", "-"))
        self.assertNotIn("-40%", self.svg())  # there is no baseline in that group

    def test_a_bar_that_would_flatten_the_others_is_broken_off_with_its_number(self) -> None:
        bars = [Bar("non-aware", 200, "baseline"), Bar("8", 120), Bar("256", 86280)]
        texts = self.texts(lambda path: pictures.totals(bars, path, most_s=250))
        self.assertTrue({"86280", "100", "200"} <= set(texts), texts)
        ticks = [float(text) for text in texts if re.fullmatch(r"\d+", text)]
        self.assertLess(max(tick for tick in ticks if tick != 86280), 400)

    def test_names_of_points_that_are_hardly_apart_do_not_cover_each_other(self) -> None:
        points = [Point("8", 8, 450, 35), Point("climb", 7.03, 446, 36, "climb")]
        points += [Point(f"auto_{i}", 8, 440 + i, 36 - 0.1 * i, "auto") for i in (1, 2, 3)]
        self.texts(lambda path: pictures.against_constraint(points, path))
        at = re.findall(r'(?: y="|translate\(\S+ )([\d.]+)[^>]*>(auto_\d|climb)<', self.svg())
        for axes in (at[:4], at[4:]):
            self.assertEqual({name for _, name in axes}, {"auto_1", "auto_2", "auto_3", "climb"})
            heights = sorted(float(y) for y, _ in axes)
            apart = [above - below for below, above in itertools.pairwise(heights)]
            self.assertGreater(min(apart), 8, "the font has 7.5")

    def test_throughput_and_task_time_are_drawn_against_the_constraint(self) -> None:
        points = [
            Point("none", None, 60, 300, "unconstrained"),
            Point("2", 2, 60, 300),
            Point("8", 8, 450, 35),
            Point("auto", 8, 440, 36, "auto"),
        ]
        texts = self.texts(lambda path: pictures.against_constraint(points, path))
        for text in ("none", "2", "8", "auto", "I/O throughput (MB/s)", "I/O task time (s)"):
            self.assertIn(text, texts)

    def test_learning_of_auto_shows_epochs_and_choice(self) -> None:
        explanation = explained("auto")
        texts = self.texts(lambda path: pictures.learning(explanation, path))
        tasks = sum(epoch["tasks"] for epoch in explanation["epochs"])
        self.assertIn(f"learning: {tasks} tasks", texts)
        last = explanation["choices"][-1]["constraint_mb_per_s"]
        self.assertIn(f"choosing: at last {last:g} MB/s", texts)

    def test_learning_of_climb_shows_samples_and_limit(self) -> None:
        explanation = explained("climb")
        texts = self.texts(lambda path: pictures.learning(explanation, path))
        self.assertIn(f"limit at last: {explanation['limit']}", texts)
        self.assertIn("throughput (MB/s)", texts)

    def test_a_picture_is_the_same_file_each_time_in_each_format(self) -> None:
        for suffix in (".png", ".svg", ".pdf"):
            first, second = (self.folder / f"{name}{suffix}" for name in "ab")
            for path in (first, second):
                pictures.totals([Bar("8", 100)], path)
            self.assertEqual(first.read_bytes(), second.read_bytes(), suffix)

    def test_settings_of_matplotlib_stay_as_they_were(self) -> None:
        def settings() -> dict[str, Any]:
            return {key: mpl.rcParams[key] for key in mpl.rcParams if not key.startswith("backend")}

        before = settings()
        pictures.totals([Bar("8", 100)], self.folder / "a.png")
        self.assertEqual(settings(), before)

    def test_what_cannot_be_drawn_is_refused_by_name(self) -> None:
        path = self.folder / "a.png"
        nothing = {"flow": "save", "policy": "none", "epochs": [], "choices": [], "samples": []}
        cases: list[tuple[str, Callable[[], None]]] = [
            ("a.bmp.*'*.png, .svg, .pdf", lambda: pictures.totals([Bar("8", 1)], "a.bmp")),
            ("'fast' is not known", lambda: pictures.totals([Bar("8", 1, "fast")], path)),
            ("nothing to draw", lambda: pictures.timeline([], path)),
            ("nothing to draw", lambda: pictures.totals([], path)),
            ("most_s must be above 0", lambda: pictures.totals([Bar("8", 1)], path, most_s=0)),
            ("nothing to draw", lambda: pictures.against_constraint([], path)),
            ("'save' with policy 'none'", lambda: pictures.learning(nothing, path)),
            ("above 0", lambda: pictures.against_constraint([Point("a", 0, 1, 1)], path)),
            (
                "several baselines",
                lambda: pictures.totals([Bar(c, 1, "baseline") for c in "ab"], path),
            ),
        ]
        for message, draw in cases:
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                draw()

    def test_without_matplotlib_the_error_names_what_to_install(self) -> None:
        hidden = unittest.mock.patch.dict(sys.modules, {"matplotlib": None})
        with hidden, self.assertRaisesRegex(ModuleNotFoundError, r"ioweave\[pictures\]"):
            pictures.totals([Bar("8", 1)], self.folder / "a.png")

    def test_matplotlib_is_imported_by_who_draws_only(self) -> None:
        code = "import ioweave.pictures, sys; sys.exit('matplotlib' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)


class Command(unittest.TestCase):
    """python -m ioweave.pictures"""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def simulate(self, name: str, policy: str | None, bandwidth: float | str | None = None) -> str:
        """Writes the run file of a simulated program."""

        @ioweave.task
        def simulate(i: int) -> None: ...

        @ioweave.io(bandwidth=bandwidth, policy=policy, device="ssd", bytes=290_000_000)
        def checkpoint(block: Any) -> None: ...

        path = self.folder / f"{name}.jsonl"
        ssd = ioweave.Device("ssd", bandwidth=450)
        runtime = SimulatedRuntime(
            "sim://1x8",
            costs={"simulate": 9.0},
            curves={"ssd": [(1, 200), (6, 450)]},
            devices=[ssd],
            run_file=path,
            io_threads=12,
        )
        with runtime:
            for i in range(120):
                checkpoint(simulate(i))
        return str(path)

    def draw(self, *arguments: str) -> tuple[int, list[str], str]:
        """Runs the command; returns exit code, names of the drawn files, and complaints."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = pictures.main([*arguments, "--out", str(self.folder / "out")])
        drawn = [Path(line) for line in out.getvalue().splitlines()]
        for path in drawn:
            self.assertGreater(path.stat().st_size, 1000)
        names = [str(path.relative_to(self.folder / "out")) for path in drawn]
        return code, names, err.getvalue()

    def test_a_run_becomes_a_timeline_and_what_was_learned(self) -> None:
        code, names, _ = self.draw(self.simulate("climb", None), "--format", "svg")
        self.assertEqual((code, names), (0, ["timeline.svg", "learning-checkpoint.svg"]))

    def test_several_runs_are_compared_and_each_is_drawn(self) -> None:
        paths = [
            self.simulate("none", "none"),
            self.simulate("45", None, 45),
            self.simulate("auto", None, "auto"),
        ]
        code, names, _ = self.draw(*paths)
        self.assertEqual(code, 0)
        self.assertEqual(names[:2], ["totals.png", "against_constraint.png"])
        self.assertIn("auto/learning-checkpoint.png", names)

    def test_the_policy_of_a_run_gives_its_mode(self) -> None:
        for policy, kind in (("none", "unconstrained"), ("fixed", "static"), ("climb", "climb")):
            self.assertEqual(pictures._find_kind(policy), kind)
        self.assertEqual(pictures._find_kind("auto(2,256,2)"), "auto")

    def test_a_run_that_is_cut_off_is_drawn_but_not_compared(self) -> None:
        whole = self.simulate("whole", "none")
        cut = self.folder / "cut.jsonl"
        cut.write_text(Path(whole).read_text("utf-8")[:20_000], "utf-8")
        self.assertEqual(self.draw(str(cut))[1], ["timeline.png"])
        code, _, err = self.draw(whole, str(cut))
        self.assertEqual(code, 1)
        self.assertIn("'cut' is cut off", err)

    def test_what_cannot_be_read_is_named(self) -> None:
        code, names, err = self.draw(str(self.folder / "missing.jsonl"))
        self.assertEqual((code, names), (1, []))
        self.assertIn("missing.jsonl", err)

    def test_the_calls_in_the_documentation_work(self) -> None:
        mb_per_s, task_s = 450.0, 3.9
        pictures.totals([Bar("8", 132.5)], self.folder / "b.pdf")
        pictures.against_constraint([Point("8", 8, mb_per_s, task_s)], self.folder / "a.png")


if __name__ == "__main__":
    unittest.main()
