"""bench_streams: every contender writes what it computed, and leaves nothing behind.

Usage: streams_driver_test.py BENCH_STREAMS SCRATCH_FOLDER
"""

import itertools
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

PROGRAM, SCRATCH = sys.argv[1], Path(sys.argv[2])


def run(*options: str) -> str:
    return subprocess.run(
        [PROGRAM, *options], capture_output=True, text=True, check=True, timeout=60
    ).stdout


class StreamsTest(unittest.TestCase):
    def setUp(self) -> None:
        SCRATCH.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix="streams-", dir=SCRATCH)
        self.addCleanup(folder.cleanup)
        self.folders = [Path(folder.name, name) for name in ("a", "b")]
        for each in self.folders:
            each.mkdir()

    def result(self, how: str, *options: str, folders: int = 1) -> dict[str, Any]:
        places = [f"--directory={folder}" for folder in self.folders[:folders]]
        said = run(f"--how={how}", "--items=7", "--bytes=65536", *places, *options)
        found: dict[str, Any] = json.loads(said)
        return found

    def test_every_contender_writes_what_it_computed(self) -> None:
        names = run("--list").split()
        self.assertLessEqual(
            {"synchronous", "aio", "liburing", "pool", "stream", "spread"}, set(names)
        )
        layouts = (["--one-file"], ["--file-each"], ["--one-file", "--work=64"])
        for how, layout, path, buffers in itertools.product(
            names, layouts, ("direct", "buffered"), (1, 3)
        ):
            with self.subTest(how=how, layout=layout, path=path, buffers=buffers):
                options = (*layout, f"--path={path}", f"--buffers={buffers}", "--verify")
                found = self.result(how, *options, folders=2)
                self.assertEqual(found["bytes"], 7 * 65536)
                self.assertGreaterEqual(found["durable_s"], found["return_s"])
                self.assertGreater(found["peak_mib"], 0)
                left = [file for folder in self.folders for file in folder.iterdir()]
                self.assertEqual(left, [])

    def test_what_was_not_computed_is_found_out(self) -> None:
        with self.assertRaises(subprocess.CalledProcessError):
            self.result("synchronous", "--write-only", "--verify")

    def test_computing_alone_is_timed_when_asked_for(self) -> None:
        self.assertEqual(self.result("synchronous", "--work=64")["alone_s"], 0)
        self.assertGreater(self.result("synchronous", "--work=64", "--alone=2")["alone_s"], 0)

    def test_only_writing_computes_nothing(self) -> None:
        self.assertEqual(self.result("synchronous", "--write-only")["compute_s"], 0)

    def test_longer_computations_are_more_work(self) -> None:
        short, long = (
            json.loads(run("--calibrate", "--bytes=65536", f"--compute-ms={ms}"))["work"]
            for ms in (1, 100)
        )
        self.assertGreater(long, short)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
