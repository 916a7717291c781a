"""Runs an example in a folder of its own and compares what it prints; without arguments it says
how it is run.

run_example.py EXAMPLE EXPECTED_LINE...
"""

import subprocess
import sys
import tempfile
from pathlib import Path


def main(example: str, *expected: str) -> int:
    bare = subprocess.run([sys.executable, example], stderr=subprocess.PIPE, text=True)
    usage = f"python3 {Path(example).name} FOLDER"
    if bare.returncode != 1 or usage not in bare.stderr:
        print(f"{Path(example).name} without arguments: {bare.returncode}, {bare.stderr}")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "error", example, folder],
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
    lines = tuple(done.stdout.splitlines())
    if done.returncode == 0 and lines == expected:
        return 0
    print(f"{Path(example).name}: exit code {done.returncode}, printed {lines}, not {expected}")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
