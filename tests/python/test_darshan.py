"""Darshan logs become run files, from which `ioweave advise` predicts."""

import contextlib
import datetime
import importlib
import importlib.util
import io
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from ioweave.compat import darshan
from ioweave.compat.darshan import Call, FileOfRank, Log, Unreadable

STARTED = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
HAS_PYDARSHAN = importlib.util.find_spec("darshan") is not None


def log_of(*files: FileOfRank) -> Log:
    return Log(("./app", "x"), STARTED, 10.0, 2, [("/", "ext4"), ("/scratch", "lustre")], files)


def reader(rank: int = 0, calls: int = 10) -> FileOfRank:
    """It reads 1000 bytes for half a second, and computes as long."""
    each = [Call(True, i * 1000, 1000, i + 0.5, i + 1.0) for i in range(calls)]
    return FileOfRank("/scratch/in", rank, each)


class SeriesTest(unittest.TestCase):
    def test_has_a_value_for_each_slot_and_loses_nothing(self) -> None:
        series = darshan.series_of(reader(), 1)
        self.assertEqual(sum(series["read"]["bytes"]), 10_000)
        self.assertAlmostEqual(sum(series["read"]["seconds"]), 5.0)
        self.assertEqual(sum(series["read"]["turns"]), 10)
        self.assertEqual(series["jumps"], 0)
        self.assertNotIn("write", series)
        for values in series["read"].values():
            self.assertEqual(len(values), series["slots"])
        self.assertAlmostEqual(series["slots"] * series["slot_s"], 9.5)

    def test_calls_right_behind_each_other_are_one_turn(self) -> None:
        calls = [Call(False, i, 1, i * 1.0, i + 0.99) for i in range(5)]
        series = darshan.series_of(FileOfRank("/f", 0, calls), 1)
        self.assertEqual(sum(series["write"]["turns"]), 1)

    def test_reads_in_no_order_are_jumps(self) -> None:
        calls = [Call(True, at, 10, i, i + 1) for i, at in enumerate((5, 900, 20, 77))]
        self.assertEqual(darshan.series_of(FileOfRank("/f", 0, calls), 1)["jumps"], 4)


class RunFileTest(unittest.TestCase):
    def lines(self, *files: FileOfRank) -> list[dict[str, Any]]:
        return list(darshan.run_file_lines(log_of(*files)))

    def test_a_rank_is_a_process_and_a_mount_a_device(self) -> None:
        other = FileOfRank("/home/out", 1, [Call(False, 0, 7, 0, 1)])
        lines = self.lines(reader(), other)
        kinds = [line["type"] for line in lines]
        self.assertEqual(kinds, ["run", "process", "process", "file", "file", "summary"])
        self.assertEqual([line["pid"] for line in lines[1:3]], [1, 2])
        self.assertEqual([line["device"] for line in lines[3:5]], [2, 1])
        self.assertEqual(lines[3]["file_system"], "lustre")
        self.assertEqual(lines[5]["calls"]["write"]["bytes"], 7)

    def test_ioweave_advise_predicts_from_it(self) -> None:
        package = Path(darshan.__file__).parents[1]
        build = Path(os.environ.get("PYTHONPATH", "").split(os.pathsep)[0]).parent
        candidates = [package / "bin/ioweave", build / "src/cli/ioweave"]
        command = next((each for each in candidates if each.exists()), None)
        if command is None:
            self.skipTest("no ioweave beside the package: build the target 'ioweave'")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "run.jsonl")
            big = [Call(True, i << 20, 1 << 20, i * 0.1 + 0.05, i * 0.1 + 0.1) for i in range(100)]
            lines = self.lines(FileOfRank("/scratch/in", 0, big))
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            done = subprocess.run(
                [command, "advise", "--json", path], capture_output=True, text=True, check=False
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        advice = json.loads(done.stdout)
        self.assertTrue(advice["worth_it"])
        self.assertAlmostEqual(advice["best"]["prefetch"]["seconds"], 5.2, delta=0.5)


class ReadTest(unittest.TestCase):
    def test_without_pydarshan_the_way_out_is_said(self) -> None:
        real = importlib.import_module

        def missing(name: str) -> Any:
            if name == "darshan":
                raise ImportError("No module named 'darshan'")
            return real(name)

        with (
            mock.patch.object(importlib, "import_module", missing),
            self.assertRaisesRegex(Unreadable, "pip install darshan"),
        ):
            darshan.read_log(Path("x.darshan"))

    def examples(self) -> Path:
        if not HAS_PYDARSHAN:
            self.skipTest("PyDarshan is not installed (pip install darshan)")
        spec = importlib.util.find_spec("darshan")
        assert spec is not None and spec.origin is not None
        return Path(spec.origin).parent / "examples/example_logs"

    def test_a_log_with_traces_is_read_call_by_call(self) -> None:
        log = darshan.read_log(self.examples() / "ior_hdf5_example.darshan")
        self.assertGreater(log.wall_s, 0)
        self.assertTrue(all(not each.spread for each in log.files))
        self.assertGreater(sum(len(each.calls) for each in log.files), 4)

    def test_counters_are_spread_and_keep_their_sums(self) -> None:
        log = darshan.read_log(self.examples() / "sample-badost.darshan")
        self.assertTrue(all(each.spread for each in log.files))
        series = darshan.series_of(log.files[0], 1)
        moved = sum(call.length for call in log.files[0].calls)
        self.assertEqual(sum(series["write"]["bytes"]), moved)

    def test_a_file_that_is_no_log_is_refused(self) -> None:
        self.examples()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.darshan")
            path.write_text("no log", encoding="ascii")
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                self.assertEqual(darshan.main([str(path)]), 1)
            self.assertIn("x.darshan", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
