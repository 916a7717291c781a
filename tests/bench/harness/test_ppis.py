"""What is made of the output of the programs of `bench/run ppis`, and of its rows."""

import json
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from harness import page_cache, ppis_pictures, ppis_readers, process
from harness.build import Build
from harness.places import Place
from harness.ppis_readers import Reader, Reads
from harness.ppis_runs import (
    NORMAL,
    PP,
    Loop,
    Runner,
    check_same,
    chunk_bytes,
    hill,
    of_output,
)
from harness.process import Finished, ProgramFailed
from harness.session import Session

HERE = Place("here", Path("/here"), Path("/here"), ("in", "group"))


def new_session() -> Session:
    return Session(Build(Path("/build")), Path("/s"), Path("/d"), Path("/r"), quick=True)


def output_of(checksum: str = "", *items: str, total_s: float = 1.0) -> str:
    line: dict[str, Any] = {
        "total_s": total_s,
        "read_s": 0.5,
        "compute_s": 0.5,
        "write_s": 0.0,
        "bytes_per_s": 100,
        "ahead_cpu_s": 0.0,
    }
    if checksum:
        line["checksum"] = checksum
    return "\n".join((*items, json.dumps(line)))


class FakeMachine:
    """Programs print what they are given, one after another; what they were called by is kept."""

    def __init__(self, *outputs: str) -> None:
        self.outputs = list(outputs)
        self.commands: list[list[str]] = []

    def run(self, command: list[str]) -> Finished:
        self.commands.append(command)
        return Finished(2.0, 1.0, 1, self.outputs.pop(0), "")


class Patched(unittest.TestCase):
    def use(self, machine: FakeMachine) -> None:
        for patch in (
            mock.patch.object(process, "run", machine.run),
            mock.patch.object(Place, "make_cold"),
            mock.patch.object(page_cache, "warm"),
            mock.patch.object(Build, "program", lambda build, name: build.folder / name),
        ):
            patch.start()
            self.addCleanup(patch.stop)


class OfOutputTest(unittest.TestCase):
    def test_a_result_is_a_checksum_or_what_was_found(self) -> None:
        self.assertEqual(of_output(output_of("00ff")).result, ("00ff",))
        self.assertEqual(of_output(output_of("", "9 1", "7 4")).result, ("9 1", "7 4"))
        self.assertEqual(of_output(output_of("00ff", total_s=2.5)).total_s, 2.5)


class RunnerTest(Patched):
    def test_runs_that_compute_the_same_are_counted(self) -> None:
        self.use(FakeMachine(output_of("1"), output_of("1"), output_of("", "9 1")))
        runner = Runner(new_session(), HERE, "data")
        runner.run(hill(1 << 20, 8 << 20, 3), NORMAL)
        runner.run(hill(1 << 16, 8 << 20, 3), PP)
        runner.run(Loop("matrix_search", (), 4), PP)

    def test_a_run_that_computes_something_else_fails(self) -> None:
        self.use(FakeMachine(output_of("1"), output_of("2")))
        runner = Runner(new_session(), HERE, "data")
        loop = hill(1 << 20, 8 << 20, 3)
        runner.run(loop, NORMAL)
        with self.assertRaisesRegex(ProgramFailed, r"here: hill_mpi, PP, 8 chunks, 1 ranks"):
            runner.run(loop, PP)

    def test_a_run_that_says_nothing_of_what_it_computed_fails(self) -> None:
        self.use(FakeMachine(output_of()))
        with self.assertRaises(ProgramFailed):
            Runner(new_session(), HERE, "data").run(hill(1 << 20, 8 << 20, 3), NORMAL)

    def test_words_stand_before_what_they_are_for(self) -> None:
        machine = FakeMachine(output_of("1"))
        self.use(machine)
        loop = Loop("hill_mpi", ("--chunk=1M",), 8, outer=("ioweave", "run"), inner=("env", "A=1"))
        Runner(new_session(), HERE, "data").run(loop, NORMAL, output=Path("/there/output"))
        before = ["in", "group", "ioweave", "run", "env", "A=1", "/build/hill_mpi"]
        options = ["--mode=mpiio", "--chunk=1M", "/here/data", "/there/output"]
        self.assertEqual(machine.commands, [[*before, *options]])


class ChunkBytesTest(unittest.TestCase):
    def test_has_no_more_chunks_than_asked_for(self) -> None:
        for size in (48 << 20, 512 << 20):
            for chunks in (3, 5, 12, 64):
                chunk = chunk_bytes(size, chunks)
                self.assertEqual(chunk % 65536, 0)
                self.assertEqual(-(-size // chunk), chunks)


class CheckSameTest(unittest.TestCase):
    def test_a_changed_byte_is_seen(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            wanted, found = Path(folder, "wanted"), Path(folder, "found")
            wanted.write_bytes(b"1234")
            found.write_bytes(b"1234")
            check_same(found, wanted, "who")
            found.write_bytes(b"1294")
            with self.assertRaisesRegex(ProgramFailed, "who: wrong output"):
                check_same(found, wanted, "who")


class ReadersTest(Patched):
    def rounds(self, *sums: int) -> list[ppis_readers.Found]:
        self.use(FakeMachine(*(json.dumps({"sum": each, "time_s": each}) for each in sums)))
        readers = [Reader("one"), Reader("other", inner=("env",))]
        return ppis_readers.rounds_of(new_session(), HERE, Reads("data", ()), readers, 1)

    def test_have_their_whole_time_beside_what_they_print(self) -> None:
        (found,) = self.rounds(4, 4)
        self.assertEqual(found["one"], {"sum": 4, "time_s": 4, "wall_s": 2.0})
        self.assertEqual(ppis_readers.over([found], Reader("one"), Reader("other")), [1.0])

    def test_must_read_the_same(self) -> None:
        with self.assertRaisesRegex(ProgramFailed, "one, other read different bytes"):
            self.rounds(4, 5)


class PicturesTest(unittest.TestCase):
    def charts(self, values: Mapping[str, float]) -> Mapping[str, Any]:
        return ppis_pictures.charts_of(values)

    def test_lines_are_modes_and_the_model(self) -> None:
        cell = "matrix search on slowfs, heavy I/O, {} ranks: {}"
        values = {
            cell.format(ranks, line): float(ranks)
            for ranks in (16, 1, 2)
            for line in ("normal: time", "PPIS: time", "model", "PPIS: I/O latency")
        }
        charts = self.charts({**values, "another row: time": 3.0})
        self.assertEqual(
            set(charts), {"ppis search slowfs heavy time", "ppis search slowfs heavy latency"}
        )
        chart = charts["ppis search slowfs heavy time"]
        self.assertEqual(list(chart.x), [1, 2, 16])
        wanted = [1.0, 2.0, 16.0]
        self.assertEqual(chart.lines, {"normal": wanted, "PPIS": wanted, "model": wanted})

    def test_what_was_removed_has_its_bound(self) -> None:
        prefix = "Hill on slowfs, R about C, n = {}: I/O latency removed by {}"
        chart = self.charts({prefix.format(4, "PP"): 0.5, prefix.format(2, "PP"): 0.25})
        self.assertEqual(chart["ppis removed"].lines, {"PP": [0.25, 0.5], "bound": [0.5, 0.75]})

    def test_a_line_that_lacks_a_value_is_left_out(self) -> None:
        prefix = "Hill on slowfs, R about C, n = {}: I/O latency removed by {}"
        rows = {prefix.format(n, "PP"): 0.5 for n in (2, 4)}
        chart = self.charts({**rows, prefix.format(2, "auto"): 0.5})
        self.assertEqual(set(chart["ppis removed"].lines), {"PP", "bound"})


if __name__ == "__main__":
    unittest.main()
