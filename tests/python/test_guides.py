"""The first program of each guide runs as it is printed."""

import os
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

import ioweave

_GUIDES = Path(__file__).resolve().parents[2] / "docs"


class Programs(unittest.TestCase):
    def run_first_of(self, guide: str) -> None:
        """In a folder of its own, where it writes its checkpoints."""
        text = (_GUIDES / guide).read_text("utf-8")
        program = text.partition("```python\n")[2].partition("```\n")[0]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "program.py").write_text(program, "utf-8")
            command = [sys.executable, "-W", "error", "program.py"]
            environment = {**os.environ, "PYTHONPATH": str(Path(ioweave.__file__).parents[1])}
            ran = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True
            )
            self.assertEqual((ran.returncode, ran.stdout), (0, ""), ran.stderr)
            self.assertNotIn("INFO", ran.stderr)  # what Dask says of workers that come and go
            written = {path.name: path.read_text("utf-8") for path in folder.glob("step-*.txt")}
        self.assertEqual(written.keys(), {f"step-{step}.txt" for step in range(10)})
        self.assertEqual(set(written["step-1.txt"].split()), {"0.81"})

    def test_of_tasks_in_python(self) -> None:
        self.run_first_of("python.md")

    @unittest.skipUnless(find_spec("distributed"), "no Dask")
    def test_of_programs_of_tasks_on_dask(self) -> None:
        self.run_first_of("dask.md")


if __name__ == "__main__":
    unittest.main()
