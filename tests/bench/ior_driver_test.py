"""bench_ior_patterns: processes write all of a file, each its part, and see what is wrong in it.

Usage: ior_driver_test.py BENCH_IOR_PATTERNS SCRATCH_FOLDER
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
KIB = 1 << 10
#: Transfer, block, segments.
SHAPE = (4 * KIB, 16 * KIB, 5)


class IorPatternsTest(unittest.TestCase):
    def setUp(self) -> None:
        SCRATCH.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix="ior-", dir=SCRATCH)
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "file")

    def run_it(self, processes: int, *words: str) -> list[dict[str, Any]]:
        shape = [str(each) for each in (*SHAPE, processes)]
        done = subprocess.run(
            [PROGRAM, str(self.file), *shape, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if done.returncode != 0:
            raise ChildProcessError(done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_all_orders_and_calls_write_the_same_file(self) -> None:
        whole = SHAPE[1] * SHAPE[2]
        for processes in (1, 4):
            contents = set()
            for order, calls in itertools.product(([], ["random"]), ([], ["positioned"])):
                with self.subTest(processes=processes, order=order, calls=calls):
                    self.file.unlink(missing_ok=True)
                    (found,) = self.run_it(processes, *order, *calls, "write")
                    self.assertEqual(found["bytes"], whole * processes)
                    contents.add(self.file.read_bytes())
                    self.run_it(processes, *order, *calls, "verify")
            self.assertEqual([len(content) for content in contents], [whole * processes])

    def test_times_are_from_the_first_open_to_the_last_close(self) -> None:
        for found in self.run_it(4, "fsync", "write", "read"):
            self.assertGreater(found["transfer_s"], 0)
            for part in ("open_s", "transfer_s", "close_s"):
                self.assertLessEqual(found[part], found["total_s"])

    def test_a_changed_byte_is_found_by_verify(self) -> None:
        self.run_it(4, "write")
        with self.file.open("r+b") as file:
            file.seek(-1, 2)
            (last,) = file.read(1)
            file.seek(-1, 2)
            file.write(bytes([last ^ 1]))
        self.run_it(4, "read")
        with self.assertRaisesRegex(ChildProcessError, "transfer 79 has other bytes"):
            self.run_it(4, "verify")

    def test_a_transfer_of_another_place_is_found_by_read(self) -> None:
        self.run_it(1, "write")
        content = self.file.read_bytes()
        # 17 transfers further on the pattern is the same, and the stamp is not.
        self.file.write_bytes(content[17 * 4 * KIB : 18 * 4 * KIB] + content[4 * KIB :])
        with self.assertRaisesRegex(ChildProcessError, "transfer 0 has other bytes"):
            self.run_it(1, "read")

    def test_a_short_or_missing_file_ends_all_processes(self) -> None:
        with self.assertRaisesRegex(ChildProcessError, "No such file"):
            self.run_it(4, "read")
        self.run_it(1, "write")
        with self.assertRaisesRegex(ChildProcessError, "the file is too short"):
            self.run_it(4, "read")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
