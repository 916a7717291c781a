"""The readers of `bench/run readers` read all of a file, in chunks, and compute as long as told.

Usage: readers_driver_test.py BENCH_CHUNK_READER SCRATCH_FOLDER [BENCH_CHUNK_READER_FORTRAN]

chunk_reader.py runs where build/venv has numpy.
"""

import json
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

PROGRAM, SCRATCH, FORTRAN = sys.argv[1], Path(sys.argv[2]), sys.argv[3:4]
ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build/venv/bin/python3"
CHUNK_BYTES = 64 << 10
COMPUTE_US = 2000
MASK = (1 << 64) - 1


def checksum_of(content: bytes) -> str:
    """As the readers have it."""
    checksum = 0
    for start in range(0, len(content), CHUNK_BYTES):
        chunk = content[start : start + CHUNK_BYTES]
        checksum = (checksum << 1 | checksum >> 63) & MASK
        for at in range(0, len(chunk), 8):
            checksum ^= int.from_bytes(chunk[at : at + 8], sys.byteorder)
    return f"{checksum:016X}"


def has_numpy() -> bool:
    """Whether build/venv has it."""
    if not PYTHON.exists():
        return False
    return subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode == 0


class ReadersTest(unittest.TestCase):
    def setUp(self) -> None:
        SCRATCH.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix="readers-", dir=SCRATCH)
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "file")

    def run_all(self, compute_us: int) -> dict[str, dict[str, Any]]:
        """What each of them printed."""
        options = [f"--file={self.file}", f"--chunk={CHUNK_BYTES}", f"--compute-us={compute_us}"]
        ways = ("read", "stdio", "iostream", "mmap", "syscall", "io_uring", "aio")
        commands = {way: [PROGRAM, f"--by={way}", *options] for way in ways}
        words = [str(self.file), str(CHUNK_BYTES), str(compute_us)]
        if FORTRAN:
            commands["fortran"] = [*FORTRAN, *words]
        if has_numpy():
            script = str(ROOT / "bench/drivers/chunk_reader.py")
            commands["numpy"] = [str(PYTHON), "-B", script, *words]
        found = {}
        for name, command in commands.items():
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            if done.returncode != 0:
                raise ChildProcessError(f"{name}: {done.stderr}")
            found[name] = json.loads(done.stdout)
        return found

    def test_all_read_all_of_the_file_in_chunks(self) -> None:
        content = random.Random(1).randbytes(4 * CHUNK_BYTES + 4096)
        self.file.write_bytes(content)
        for name, found in self.run_all(COMPUTE_US).items():
            with self.subTest(name):
                self.assertEqual(found["bytes"], len(content))
                self.assertEqual(found["chunks"], 5)
                self.assertEqual(found["checksum"], checksum_of(content))
                self.assertGreater(found["read_s"], 0)
                # Never less than was asked for; how much more is the machine's affair.
                self.assertGreaterEqual(found["compute_s"], 5 * COMPUTE_US * 0.9e-6)

    def test_without_a_computation_nothing_is_done_with_what_was_read(self) -> None:
        self.file.write_bytes(bytes(range(256)) * 1024)
        for name, found in self.run_all(0).items():
            with self.subTest(name):
                self.assertEqual(found["bytes"], 256 << 10)
                self.assertEqual(found["checksum"], "0" * 16)

    def test_a_file_that_is_not_there_is_an_error(self) -> None:
        with self.assertRaisesRegex(ChildProcessError, "read: .*No such file"):
            self.run_all(0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
