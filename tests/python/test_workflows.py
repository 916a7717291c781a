"""apps/workflows: each mode computes the same and leaves the same checkpoints on the device."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

WORKFLOWS = Path(__file__).resolve().parents[2] / "apps/workflows"
MODES = ("non-aware", "unconstrained", "20", "auto", "auto(2,256,2)", "climb")

sys.path.insert(0, str(WORKFLOWS))
workflow = importlib.import_module("workflow")


def _run(folder: str, program: str, *options: object) -> dict[str, Any]:
    words = ["-B", WORKFLOWS / program, "--work", folder, "--checkpoints", folder, *options]
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if not k.startswith("IOWEAVE_")},
    )
    if done.returncode != 0:
        raise AssertionError(f"{program} {options}: {done.stderr}")
    outcome = json.loads(done.stdout)
    assert isinstance(outcome, dict)
    return outcome


class Workflow(unittest.TestCase):
    """One of the programs, run small in each mode."""

    def check(
        self, program: str, options: tuple[object, ...], checkpoints: int, total_bytes: int
    ) -> None:
        results = set()
        for mode in MODES:
            with self.subTest(mode=mode), tempfile.TemporaryDirectory() as folder:
                outcome = _run(
                    folder, program, "--mode", mode, "--bandwidth", 450, "--cpus", 4, *options
                )
                results.add(outcome["result"])
                self.assertEqual(outcome["mode"], mode)
                self.assertEqual(outcome["checkpoints"], checkpoints)
                self.assertEqual(outcome["checkpoint_bytes"], total_bytes)
                self.assertGreater(outcome["seconds"], 0)
                # Each of 4 slots at most, and checkpoints of I/O tasks beside them.
                self.assertGreater(outcome["computing_s"], 0)
                self.assertLess(outcome["computing_s"], 4 * outcome["seconds"])
                self.assertGreater(outcome["writing_s"], 0)
                stats = outcome["stats"]
                self.assertEqual(stats["succeeded"], stats["submitted"])
                aware = mode != "non-aware"
                moved = sum(flow["bytes"] for flow in stats["flows"])
                self.assertEqual(moved, total_bytes if aware else 0)
                self.assertEqual(list(Path(folder).iterdir()), [], "it leaves files")
        self.assertEqual(len(results), 1, f"modes disagree: {results}")
        self.assertGreater(results.pop(), 0)

    def need(self, *things: str) -> None:
        missing = [thing for thing in things if not (shutil.which(thing) or Path(thing).exists())]
        if missing:
            self.skipTest(f"missing: {', '.join(missing)} (tools/install_packages apps)")

    def test_hmmer_checkpoints_each_pair_of_fragments(self) -> None:
        self.need("hmmscan", "/usr/share/doc/hmmer/examples")
        options = ("--database", 2, "--sequences", 2, "--sequences-each", 1)
        self.check("hmmer.py", (*options, "--checkpoint-mb", 0.1), 4, 400_000)

    def test_variants_checkpoint_in_the_proportions_of_table_1(self) -> None:
        self.need("bwa", "samtools", "wgsim", "bcftools", "/usr/share/doc/bowtie2/examples")
        sizes = (162, 162, 290, 290, 330, 596, 615)
        total = 2 * sum(int(100_000 * size / 290) for size in sizes)
        options = ("--samples", 2, "--reads", 300, "--checkpoint-mb", 0.1)
        self.check("variants.py", options, 14, total)

    def test_kmeans_checkpoints_each_partial_sum(self) -> None:
        try:
            importlib.import_module("numpy")
        except ImportError:
            self.skipTest("no numpy")
        options = ("--points", 500, "--fragments", 5, "--iterations", 2)
        self.check("kmeans.py", (*options, "--checkpoint-mb", 0.1), 10, 1_000_000)


class Checkpoint(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(dir=Path.cwd())
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "checkpoint"

    def test_a_checkpoint_repeats_its_content_up_to_its_size(self) -> None:
        workflow.write_checkpoint(self.path, b"abc", 3_000_001)
        self.assertEqual(self.path.stat().st_size, 3_000_001)
        piece = (b"abc" * (1 << 20))[: 1 << 20]
        self.assertEqual(self.path.read_bytes(), (piece * 3)[:3_000_001])

    def test_a_checkpoint_without_content_is_zeros(self) -> None:
        workflow.write_checkpoint(self.path, b"", 5)
        self.assertEqual(self.path.read_bytes(), bytes(5))

    def test_a_direct_checkpoint_fills_whole_blocks(self) -> None:
        try:
            workflow.write_checkpoint(self.path, b"abc", 5000, direct=True)
        except OSError as error:
            self.skipTest(f"no O_DIRECT here: {error}")
        self.assertEqual(self.path.read_bytes(), (b"abc" * 3000)[:8192])

    def test_a_full_device_fails_the_task_that_wrote(self) -> None:
        with self.assertRaisesRegex(OSError, "No space left"):
            workflow.write_checkpoint(Path("/dev/full"), b"abc", 5000)


class Options(unittest.TestCase):
    def test_a_mode_that_is_malformed_is_refused_in_words(self) -> None:
        done = subprocess.run(
            [sys.executable, "-B", WORKFLOWS / "kmeans.py", "--mode", "auto(9,2,2)"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("min, 9 MB/s, is above max, 2 MB/s", done.stderr)


if __name__ == "__main__":
    unittest.main()
