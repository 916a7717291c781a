"""What is made of the runs of cube_remap by `bench/run cube`, and what it is told."""

import itertools
import json
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from unittest import mock

from harness import model, process
from harness.benchmarks import cube
from harness.benchmarks.cube import (
    AIO,
    OURS,
    SYNCHRONOUS,
    WRITING,
    Cell,
    Contender,
    Figures,
    Runner,
)
from harness.build import Build
from harness.result import Bar, Row
from harness.session import Session
from harness.stream_runs import MIB, Spot

PLAIN = SYNCHRONOUS.name
FAST = Spot("fast", (Path("fast"),), 400.0)
LIMITED = Spot("limited", (Path("disk"),), 400.0, ("limit",), False, 96)


def figures(durable_s: float, compute_s: float = 2.0, peak_mib: float = 20.0) -> Figures:
    return Figures(10, durable_s, durable_s, compute_s, 1.1, 1.0, int(peak_mib * MIB), 16 * MIB)


class RowsTest(unittest.TestCase):
    def rows(
        self, found: Sequence[Mapping[str, Figures]], bars: Mapping[str, Bar]
    ) -> dict[str, Row]:
        own_bytes = {name: 8 * MIB for name in found[0]}
        made = cube.rows_of("p", found, [2.0] * len(found), own_bytes, bars)
        return {line.metric: line for line in made}

    def test_times_are_compared_within_a_round(self) -> None:
        found = [
            {OURS.name: figures(ours), PLAIN: figures(plain)}
            for ours, plain in ((2.0, 3.0), (4.0, 5.0), (2.2, 3.0))
        ]
        rows = self.rows(found, cube.LADDER_BARS)
        over = rows[f"p: {OURS.name}: time over the model's"]
        self.assertAlmostEqual(over.summary.value, 1.1)
        self.assertEqual(str(over.bar), "<= 1.1")
        gain = rows[f"p: {OURS.name}: speed-up over synchronous"]
        self.assertAlmostEqual(gain.summary.value, 3.0 / 2.2)
        self.assertTrue(gain.met)

    def test_memory_counts_beyond_the_program_s_own(self) -> None:
        for peak_mib, met in ((20.0, True), (24.0, True), (25.0, False)):
            found = [{OURS.name: figures(2.0, peak_mib=peak_mib), PLAIN: figures(3.0)}]
            name = f"p: {OURS.name}: peak memory beyond that over the budget"
            line = self.rows(found, cube.LADDER_BARS)[name]
            self.assertAlmostEqual(line.summary.value, (peak_mib - 8) / 16)
            self.assertEqual(line.met, met)

    def test_only_ours_is_judged_and_only_where_bars_hold(self) -> None:
        found = [{OURS.name: figures(2.0), AIO.name: figures(2.0), PLAIN: figures(3.0)}]
        judged = self.rows(found, cube.LADDER_BARS)
        self.assertEqual(
            {m for m in judged if OURS.name in m}, {m for m in judged if "ioweave" in m}
        )
        self.assertTrue(all(OURS.name in name for name, line in judged.items() if line.bar))
        self.assertFalse([line for line in self.rows(found, {}).values() if line.bar])

    def test_what_was_asked_for_is_told_beside_what_came_of_it(self) -> None:
        found = [{OURS.name: figures(2.0), PLAIN: figures(3.0, compute_s=2.0)}]
        self.assertAlmostEqual(self.rows(found, {})["p: C/W"].summary.value, 2.0)

    def test_writing_alone_tells_w_where_it_was_measured(self) -> None:
        writing = figures(4.0, compute_s=0.0)
        found = [{OURS.name: figures(4.0), PLAIN: figures(3.0), WRITING.name: writing}]
        rows = self.rows(found, {})
        self.assertAlmostEqual(rows["p: C/W"].summary.value, 0.5)
        self.assertAlmostEqual(rows[f"p: {WRITING.name}"].summary.value, 4.0)
        self.assertFalse([name for name in rows if name.startswith(f"p: {WRITING.name}:")])


class CellsTest(unittest.TestCase):
    def test_the_ladder_has_each_step_of_the_study(self) -> None:
        words = [one.words[1:] for one in cube.AIO_LADDER if not one.allocator]
        self.assertEqual(words[:4], [(), ("--pin",), ("--pin", "--align"), (*words[2], "--pool")])
        for ladder in (cube.AIO_LADDER, cube.OUR_LADDER):
            allocators = [one.allocator for one in ladder if one.allocator]
            self.assertEqual(allocators, list(cube.ALLOCATORS))
            names = [one.name for one in ladder]
            self.assertEqual(len(names), len(set(names)))

    def test_bars_hold_for_the_largest_profile_at_the_study_s_ratio(self) -> None:
        judged = [
            cell
            for part in cube.PARTS
            for cell, contenders, bars in cube.cells_of(part, cube.FULL)
            if cube.SPEED_UP in bars and OURS in contenders
        ]
        self.assertEqual(judged, [Cell(262143, Fraction(2))])

    def test_inflation_is_judged_where_one_thread_computes_as_long_as_it_writes(self) -> None:
        judged = [
            cell
            for part in cube.PARTS
            for cell, contenders, bars in cube.cells_of(part, cube.FULL)
            if cube.INFLATION in bars and OURS in contenders
        ]
        self.assertEqual(judged, [Cell(262143, Fraction(1))])

    def test_the_full_effort_has_all_sizes_of_the_study(self) -> None:
        cells = [cell for part in cube.PARTS for cell, *_ in cube.cells_of(part, cube.FULL)]
        self.assertEqual({cell.threads for cell in cells}, {65535, 131071, 262143})
        ratios = {cell.ratio for cell in cells}
        self.assertEqual(ratios, {Fraction(1, 2), Fraction(1), Fraction(2)})


class RunnerTest(unittest.TestCase):
    """With programs that are not there: what they are called with."""

    def setUp(self) -> None:
        self.session = Session(Build(Path("b")), Path("f"), Path("d"), Path("r"), quick=True)
        self.commands: list[list[str]] = []
        self.environments: list[Mapping[str, str] | None] = []
        self.compute_s: Callable[[float], float] = lambda _work: 2.0
        self.write_s: Iterator[float] = itertools.repeat(1.0)
        for target, replacement in (
            (process, {"run": self._run}),
            (Session, {"program": lambda _, name: Path(name)}),
            (Path, {"unlink": lambda *_arguments, **_options: None}),
            (cube, {"library_of": lambda name: Path(f"lib{name}")}),
        ):
            patched = mock.patch.multiple(target, **replacement)
            patched.start()
            self.addCleanup(patched.stop)

    def _run(
        self, command: list[str], environment: Mapping[str, str] | None = None
    ) -> process.Finished:
        self.commands.append([str(word) for word in command])
        self.environments.append(environment)
        works = [float(word[len("--work=") :]) for word in command if word.startswith("--work=")]
        compute_s = self.compute_s(works[0] if works else 1.0)
        durable_s = compute_s + next(self.write_s)
        report = {
            "items": 10,
            "durable_s": durable_s,
            "total_s": durable_s,
            "compute_s": compute_s,
            "beside_s": 1.0,
            "alone_s": 1.0,
            "peak_bytes": 1 << 20,
            "budget_bytes": 1 << 24,
        }
        return process.Finished(1.0, 1.0, 1, json.dumps(report, indent=1), "")

    def test_work_is_what_the_wanted_ratio_takes(self) -> None:
        # C is 2 ms for each unit of work, W is 0.1 s, and 0.2 s in the first run.
        self.compute_s = lambda work: 0.02 * work
        self.write_s = iter((2.0, 1.0))
        work = Runner(self.session, FAST).work_for(Cell(16383, Fraction(2)))
        self.assertAlmostEqual(work, 100.0)

    def test_a_device_that_banks_credit_tells_w_by_writing_alone_in_long_items(self) -> None:
        # C is 2 ms for each unit of work; W is 0.1 s alone, and nothing beside computation.
        self.compute_s = lambda work: 0.02 * work if work > 1 else 0.0
        self.write_s = itertools.cycle((0.0, 1.0))
        runner = Runner(self.session, LIMITED)
        self.assertAlmostEqual(runner.work_for(Cell(16383, Fraction(2))), 100.0)
        self.write_s = itertools.repeat(1.0)
        (found,) = runner.rounds(Cell(16383, Fraction(2)), [OURS], 1)
        self.assertEqual(set(found), {OURS.name, PLAIN, WRITING.name})
        items = {word for words in self.commands for word in words if "--item=" in word}
        self.assertEqual(items, {f"--item={cube.LONG_ITEM_MIB}M"})

    def test_memory_of_its_own_is_that_with_a_small_buffer(self) -> None:
        own_bytes = Runner(self.session, LIMITED).own_bytes(OURS, Cell(16383, Fraction(1), 2))
        self.assertEqual(own_bytes, (1 << 20) - (64 << 10))
        (words,) = self.commands
        small = {"--mode=ioweave", "--item=64K", "--buffers=1", "--compute-threads=2"}
        self.assertLess(small, set(words))

    def test_a_limit_that_counts_past_the_page_cache_has_all_go_past_it(self) -> None:
        runner = Runner(self.session, LIMITED)
        for one in (SYNCHRONOUS, AIO, OURS):
            runner.measure(one, Cell(16383, Fraction(1)), 5.0)
        spends = [words for words in self.commands if "dd" in words]
        runs = [words for words in self.commands if "dd" not in words]
        self.assertEqual(len(spends), 3)
        self.assertTrue(all(words[0] == "limit" for words in spends + runs))
        direct = ["--path=direct" in words and "--align" in words for words in runs]
        self.assertEqual(direct, [True, True, False])  # ours does so by itself

    def test_computing_alone_takes_about_as_long_whatever_the_ratio(self) -> None:
        runner = Runner(self.session, FAST)
        for ratio in (Fraction(1, 2), Fraction(1), Fraction(2)):
            runner.measure(OURS, Cell(16383, ratio), 5.0)
        alone = [word for words in self.commands for word in words if "--alone=" in word]
        self.assertEqual(alone, ["--alone=192", "--alone=96", "--alone=48"])

    def test_allocators_are_preloaded(self) -> None:
        runner = Runner(self.session, FAST)
        for one in (AIO, Contender("a", ("--mode=aio",), "mimalloc")):
            runner.measure(one, Cell(16383, Fraction(1)), 5.0)
        self.assertEqual(self.environments, [None, {"LD_PRELOAD": "libmimalloc"}])

    def test_rounds_have_the_synchronous_mode_with_one_computing_thread(self) -> None:
        runner = Runner(self.session, FAST)
        found = list(runner.rounds(Cell(16383, Fraction(2), 2), [OURS], 2))
        self.assertEqual([set(each) for each in found], [{OURS.name, PLAIN}] * 2)
        plain = [words for words in self.commands if "--mode=synchronous" in words]
        self.assertTrue(all("--compute-threads=1" in words for words in plain))
        ours = [words for words in self.commands if "--mode=ioweave" in words]
        self.assertEqual(["--compute-threads=2" in words for words in ours], [True, True])
        works = [word for words in plain[2:] + ours for word in words if word.startswith("--work=")]
        self.assertEqual((len(works), len(set(works))), (4, 1))  # behind the calibration

    def test_several_threads_share_the_computation_in_the_bound(self) -> None:
        asked: list[tuple[object, ...]] = []

        def write_behind_s(*arguments: object, **_options: object) -> float:
            asked.append(arguments)
            return 1.0

        with mock.patch.object(model, "write_behind_s", write_behind_s):
            Runner(self.session, FAST).bound_s({PLAIN: figures(3.0)}, Cell(1, Fraction(2), 4))
        program, items, compute_s, write_s = asked[0]
        self.assertEqual((program, items), (Path("bench_model"), 10))
        self.assertAlmostEqual(float(str(compute_s)), 0.05)
        self.assertAlmostEqual(float(str(write_s)), 0.1)


if __name__ == "__main__":
    unittest.main()
