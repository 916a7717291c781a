"""Run files and records of the runtimes tell what happened."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

import ioweave
from ioweave.records import TaskRecord
from ioweave.run_file import Recorder, Union, read
from ioweave.simulated import SimulatedRuntime

SSD = ioweave.Device("ssd", bandwidth=450, path="/")


@ioweave.task
def compute(value: int) -> int:
    return value + 1


@ioweave.task(retries=1)
def flaky(counts: list[int]) -> int:
    counts.append(1)
    if len(counts) == 1:
        raise ValueError("the first time")
    return len(counts)


@ioweave.io(bandwidth=50, device="ssd", bytes=1000)
def save(value: int) -> None:
    if value < 0:
        raise ValueError("below zero")


@ioweave.io(device="ssd", bytes=1000)
def climbing(value: int) -> None:
    pass


class RunFiles(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "run.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]

    def test_every_call_is_in_it_and_in_the_records(self) -> None:
        with ioweave.Runtime(cpus=2, devices=[SSD], run_file=self.path, records=True) as runtime:
            for i in range(3000):  # more than a block
                save(compute(i))
        run = read(self.path)
        self.assertEqual(len(run.records), 6000)
        kept = runtime.records()
        self.assertEqual(len(kept), 6000)
        for written, record in zip(run.records[:10], kept, strict=False):
            self.assertEqual((written.task, written.device), (record.task, record.device))
            self.assertAlmostEqual(written.start_s, record.start_s, places=5)
        for record in kept:
            self.assertLessEqual(0, record.ready_s)
            self.assertLessEqual(record.ready_s, record.start_s)
            self.assertLessEqual(record.start_s, record.end_s)
            self.assertEqual(record.bytes, 1000 if record.io else 0)
        self.assertEqual(run.tasks["save", "ssd"]["calls"], 3000)
        self.assertEqual(run.tasks["save", "ssd"]["bytes"], 3_000_000)
        self.assertEqual(run.tasks["save", "ssd"]["explanation"], runtime.explain("save"))
        self.assertEqual(run.tasks["compute", None]["calls"], 3000)
        assert run.summary is not None
        self.assertEqual(run.summary["tasks"]["succeeded"], 6000)
        self.assertEqual(run.summary["exit_code"], 0)

    def test_a_run_file_has_the_keys_that_the_docs_give(self) -> None:
        with ioweave.Runtime(devices=[SSD], run_file=self.path):
            climbing(1)
        lines = self.lines()
        types = [line["type"] for line in lines]
        self.assertEqual((types[0], types[-1]), ("run", "summary"))
        self.assertEqual(set(types), {"run", "device", "call", "limit", "task", "summary"})
        page = (Path(__file__).parents[2] / "docs/run-file.md").read_text("utf-8")
        for line in lines:
            for key in line.keys() - {"type"}:
                self.assertIn(f"`{key}`", page, line["type"])
        self.assertEqual(lines[0]["schema"], "ioweave.run/2")
        self.assertEqual([mount["path"] for mount in lines[0]["mounts"]], ["/"])
        self.assertEqual(lines[0]["runtime"]["kind"], "embedded")

    def report(self, path: Path) -> subprocess.CompletedProcess[str]:
        """Runs `ioweave report`, which reads the file with the reader in C++."""
        command = [sys.executable, "-m", "ioweave", "report", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_the_command_reports_a_run_file_of_python(self) -> None:
        with ioweave.Runtime(cpus=2, devices=[SSD], run_file=self.path):
            for i in range(50):
                save(compute(i))
                climbing(i)
        reported = self.report(self.path)
        self.assertEqual((reported.returncode, reported.stderr), (0, ""))
        rows = {row.split()[0]: row.split() for row in reported.stdout.splitlines()}
        self.assertEqual(rows["save"][1:4], ["50", "-", "48.8"])
        self.assertEqual(rows["save"][-4:], ["9", "fixed", "on", "ssd"])
        self.assertEqual(rows["climbing"][-3:], ["climb", "on", "ssd"])
        self.assertEqual(rows["compute"][1:4], ["50", "-", "-"])
        self.assertEqual(rows["wall"][-1], "embedded")

    def test_the_command_says_of_a_file_that_it_is_cut_off(self) -> None:
        with ioweave.Runtime(run_file=self.path):
            compute(1)
        lines = self.path.read_text("utf-8").splitlines(keepends=True)
        self.path.write_text("".join(lines[:-1]), "utf-8")
        reported = self.report(self.path)
        self.assertEqual(reported.returncode, 1)
        self.assertIn("cut off", reported.stderr)

    def test_exposed_and_hidden_io_add_up(self) -> None:
        written = threading.Event()

        @ioweave.task
        def beside() -> None:
            written.wait()

        @ioweave.io
        def hidden() -> None:
            threading.Event().wait(0.03)
            written.set()

        @ioweave.io
        def exposed(before: Any) -> None:
            threading.Event().wait(0.02)

        with ioweave.Runtime(cpus=1, run_file=self.path) as runtime:
            first = beside()
            hidden()
            runtime.barrier()
            exposed(first)
        summary = self.lines()[-1]
        self.assertGreaterEqual(summary["exposed_s"], 0.019)
        self.assertGreaterEqual(summary["hidden_s"], 0.025)
        self.assertAlmostEqual(summary["io_s"], summary["exposed_s"] + summary["hidden_s"])
        self.assertAlmostEqual(summary["hidden_share"], summary["hidden_s"] / summary["io_s"])

    def test_a_failed_run_of_a_call_is_told_from_its_retry(self) -> None:
        counts: list[int] = []
        with ioweave.Runtime(run_file=self.path, records=True, arguments="share") as runtime:
            flaky(counts)
        calls = [line for line in self.lines() if line["type"] == "call"]
        self.assertEqual([call.get("failed", False) for call in calls], [True, False])
        self.assertEqual(len(runtime.records()), 2)

    def test_a_program_that_fails_leaves_a_whole_file(self) -> None:
        with (
            self.assertRaisesRegex(ValueError, "below zero"),
            ioweave.Runtime(devices=[SSD], run_file=self.path),
        ):
            save(-1)
        summary = self.lines()[-1]
        self.assertEqual((summary["exit_code"], summary["tasks"]["failed"]), (1, 1))

    def test_a_run_file_has_another_name_until_it_is_complete(self) -> None:
        part = self.path.with_name("run.jsonl.part")
        with ioweave.Runtime(run_file=self.path):
            compute(1)
            self.assertTrue(part.exists())
            self.assertFalse(self.path.exists())
        self.assertTrue(self.path.exists())
        self.assertFalse(part.exists())

    def test_the_run_file_of_a_killed_program_can_be_read(self) -> None:
        code = (
            "import ioweave, os, sys\n"
            "@ioweave.task\n"
            "def compute(): pass\n"
            "with ioweave.Runtime(run_file=sys.argv[1]) as runtime:\n"
            "    for i in range(20000): compute()\n"
            "    runtime.barrier()\n"
            "    os._exit(3)\n"
        )
        ended = subprocess.run([sys.executable, "-c", code, self.path], check=False)
        self.assertEqual(ended.returncode, 3)
        self.assertFalse(self.path.exists())
        run = read(f"{self.path}.part")
        self.assertIsNone(run.summary)
        self.assertGreater(len(run.records), 10_000)

    def test_start_raises_if_the_run_file_cannot_be_made(self) -> None:
        with self.assertRaises(FileNotFoundError):
            ioweave.Runtime(run_file=self.path.parent / "missing" / "run.jsonl").start()
        with ioweave.Runtime():  # and no runtime is active
            pass

    @unittest.skipUnless(os.access("/dev/full", os.W_OK), "no /dev/full")
    def test_a_full_disk_is_a_warning_and_costs_no_result(self) -> None:
        self.path.with_name("run.jsonl.part").symlink_to("/dev/full")
        with (
            self.assertLogs("ioweave", "WARNING") as log,
            ioweave.Runtime(run_file=self.path, records=True) as runtime,
        ):
            futures = [compute(i) for i in range(5000)]
            self.assertEqual(ioweave.wait(futures)[-1], 5000)
        self.assertIn("run.jsonl.part: [Errno 28] No space left", log.output[0])
        self.assertEqual(len(log.output), 1)
        self.assertEqual(len(runtime.records()), 5000)
        self.assertFalse(self.path.exists())

    def test_the_beginning_of_a_run_file_cut_off_by_a_full_disk_can_be_read(self) -> None:
        code = (
            "import ioweave, resource, sys\n"
            "@ioweave.task\n"
            "def compute(): pass\n"
            "with ioweave.Runtime(run_file=sys.argv[1]) as runtime:\n"
            "    for i in range(3000): compute()\n"
            "    runtime.barrier()\n"
            "    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))\n"
            "    for i in range(9000): compute()\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", code, self.path], check=True, capture_output=True, text=True
        )
        part = f"{self.path}.part"
        self.assertIn(f"keeps the name {part}: [Errno 27]", ended.stderr)
        run = read(part)
        self.assertIsNone(run.summary)
        self.assertGreater(len(run.records), 500)
        self.assertFalse(self.path.exists())

    def test_limits_are_written_as_they_change(self) -> None:
        with ioweave.Runtime(devices=[SSD], run_file=self.path):
            save(1)
        self.assertEqual([limit for _, limit in read(self.path).limits["save", "ssd"]], [9])

    def test_records_that_are_not_kept_say_how_to_keep_them(self) -> None:
        with (
            ioweave.Runtime(run_file=self.path) as runtime,
            self.assertRaisesRegex(RuntimeError, r"Runtime\(records=True\)"),
        ):
            runtime.records()

    def test_a_simulation_writes_the_same_in_virtual_time(self) -> None:
        runtime = SimulatedRuntime(
            "sim://2x4", costs={"compute": 1.0}, devices=[SSD], run_file=self.path
        )
        with runtime:
            for i in range(2000):
                save(compute(i))
        run = read(self.path)
        self.assertEqual(run.run["runtime"]["target"], "sim://2x4")
        self.assertEqual(len(run.records), 4000)
        self.assertEqual(run.records[0].task, runtime.records()[0].task)
        assert run.summary is not None
        self.assertEqual(run.summary["wall_s"], runtime.now_s)
        self.assertEqual(run.summary["compute_s"], 250)
        self.assertEqual(run.explanations, [runtime.explain("save")])

    def test_a_simulation_that_fails_leaves_a_whole_file(self) -> None:
        runtime = SimulatedRuntime("sim://1x1", costs={"compute": 1.0}, run_file=self.path)
        with self.assertRaises(KeyError), runtime:
            compute(1)
            raise KeyError
        self.assertEqual(self.lines()[-1]["exit_code"], 1)

    def test_a_file_that_is_no_run_file_is_refused_with_the_line(self) -> None:
        run = '{"type":"run","schema":"ioweave.run/1","command":[]}\n'
        cases = [
            ("", "empty"),
            ("[]\n", "line 1"),
            ('{"type":"run","schema":"other/1"}\n', "line 1.*ioweave.run/2"),
            (run + "{\n", "line 2"),
            (run + '{"type":"call"}\n', "line 2.*task"),
        ]
        for text, message in cases:
            self.path.write_text(text, "utf-8")
            with self.subTest(text), self.assertRaisesRegex(ValueError, message):
                read(self.path)
        self.path.write_text(run + '{"type":"later"}\n{"type":"cal', "utf-8")
        self.assertIsNone(read(self.path).summary)

    def test_texts_of_a_run_file_cannot_control_a_terminal(self) -> None:
        with ioweave.Runtime(cpus=1, run_file=self.path):
            compute(1)
        text = self.path.read_text()
        for evil in ("a\\u001b[2J", "a\x9b[2J"):
            self.path.write_text(text.replace('"compute"', f'"{evil}"'))
            self.assertEqual(list(read(self.path).tasks), [("a?[2J", None)])


class Records(unittest.TestCase):
    def test_memory_for_a_million_calls_is_small_without_records(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            recorder = Recorder(Path(folder) / "run.jsonl", keep=False, runtime={})
            for i in range(100_000):
                recorder.add(TaskRecord("compute", None, 0, i, i, i + 0.999, 0))
            packed = len(recorder._pending) + len(recorder._kept)
            self.assertLess(packed, 100_000)
            self.assertLess(len(recorder._computing.intervals()), 70_000)
            recorder.close(wall_s=1.0, tasks={})

    def test_calls_are_written_in_blocks_or_when_a_second_has_passed(self) -> None:
        recorder = Recorder(None, keep=True, runtime={})
        due = [recorder.call("compute", None, 0, 0, i, i + 1, 0) for i in range(1024)]
        self.assertEqual(due, [False] * 1023 + [True])
        recorder.flush()
        self.assertFalse(recorder.call("compute", None, 0, 0, 0, 1, 0))
        recorder._flush_at = 0  # long ago
        self.assertTrue(recorder.call("compute", None, 0, 0, 0, 1, 0))
        self.assertEqual(len(recorder.records()), 1026)

    def test_a_union_is_that_of_its_intervals(self) -> None:
        union, other = Union(), Union()
        for i in range(10_000):  # with gaps, and out of order
            union.add((i * 7919) % 10_000, (i * 7919) % 10_000 + 0.5)
            other.add(i + 0.25, i + 0.75)
        other.add(20_000, 20_000)
        self.assertAlmostEqual(union.seconds(), 5000)
        self.assertAlmostEqual(union.seconds_with(other), 2500)
        self.assertAlmostEqual(other.seconds_with(union), 2500)
        union.add(0, 10_000)
        self.assertEqual(union.intervals(), [(0, 10_000)])

    def test_a_union_of_too_many_gaps_closes_the_shortest(self) -> None:
        union = Union(most=100)
        for i in range(1000):
            union.add(i, i + 0.999 if i % 20 else i + 0.5)
        self.assertEqual(len(union.intervals()), 51)
        self.assertAlmostEqual(union.seconds(), 1000 - 50 * 0.5, places=2)


if __name__ == "__main__":
    unittest.main()
