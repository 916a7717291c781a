"""Programs of the guides run as they are printed."""

import ast
import os
import re
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

import ioweave

_GUIDES = Path(__file__).resolve().parents[2] / "docs"


def listings(guide: str, section: str = "") -> list[str]:
    """Returns the Python listings of a guide, or of a section of it."""
    text = (_GUIDES / guide).read_text("utf-8")
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall("```python\n(.*?)```", text, re.DOTALL)


class Programs(unittest.TestCase):
    def run_in(self, folder: Path, program: str) -> str:
        """Runs a program, and returns what it prints."""
        (folder / "program.py").write_text(program, "utf-8")
        command = [sys.executable, "-W", "error", "program.py"]
        environment = {**os.environ, "PYTHONPATH": str(Path(ioweave.__file__).parents[1])}
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("INFO", ran.stderr)  # what Dask says of workers that come and go
        return ran.stdout

    def run_first_of(self, guide: str) -> None:
        """Runs the first program in a folder of its own, where it writes its checkpoints."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.assertEqual(self.run_in(folder, listings(guide)[0]), "")
            written = {path.name: path.read_text("utf-8") for path in folder.glob("step-*.txt")}
        self.assertEqual(written.keys(), {f"step-{step}.txt" for step in range(10)})
        self.assertEqual(set(written["step-1.txt"].split()), {"0.81"})

    def test_programs_of_the_guide_to_tasks_run(self) -> None:
        self.run_first_of("python.md")

    @unittest.skipUnless(find_spec("numpy"), "no NumPy")
    def test_the_program_of_the_guide_to_write_streams_runs(self) -> None:
        (program,) = listings("streams.md")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_in(Path(folder), program), "8\n")
            self.assertEqual((Path(folder) / "result.bin").stat().st_size, 10 * 8_000_000)

    @unittest.skipUnless(find_spec("numpy"), "no NumPy")
    def test_programs_of_the_guide_to_reading_ahead_run(self) -> None:
        """The listings, one after another, on a file whose rows all differ."""
        before = """
import numpy as np
np.add.outer(np.arange(1000.0), np.arange(4096)).tofile("rows.bin")
sums = []
def compute(row): sums.append(row.sum())
def encrypt(row): row += 1
"""
        after = """
rows = np.fromfile("rows.bin").reshape(1000, 4096)
assert sums == [*rows[order].sum(1), *rows.sum(1)], sums
assert (np.fromfile("out.bin").reshape(1000, 4096) == rows + 1).all()
"""
        programs = listings("prefetch.md")
        self.assertEqual(len(programs), 3)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_in(Path(folder), "".join([before, *programs, after])), "\n")

    def test_programs_of_the_guide_to_simulation_run(self) -> None:
        """The listings of the section, one after another, print what the guide says."""
        program = "".join(listings("python.md", "In simulation"))
        said = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_in(Path(folder), program).splitlines(), said)
        self.assertTrue(said)

    @unittest.skipUnless(find_spec("distributed"), "no Dask")
    def test_programs_of_the_guide_to_dask_run(self) -> None:
        self.run_first_of("dask.md")

    @unittest.skipUnless(find_spec("distributed"), "no Dask")
    def test_workers_under_slurm_get_the_arguments_they_need(self) -> None:
        from ioweave.dask import worker_arguments

        (listing,) = listings("dask.md", "Workers")
        call = ast.parse(listing.strip(), mode="eval").body
        assert isinstance(call, ast.Call)
        options = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        # Those of dask-jobqueue 0.9.0, which is not needed here. `cores` are a worker's threads.
        self.assertEqual(
            options.keys(), {"cores", "job_cpu", "processes", "memory", "worker_extra_args"}
        )
        cores, threads = options["job_cpu"], options["cores"]
        self.assertEqual(
            ["--nthreads", str(threads), *options["worker_extra_args"]],
            worker_arguments(cores=cores, io_slots=threads - cores),
        )


if __name__ == "__main__":
    unittest.main()
