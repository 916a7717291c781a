"""A pipeline over files: tasks say which they read and write, and so in which order they run.

    python3 pipeline.py FOLDER [TARGET]

Each part is written, sorted in place and merged; parts go through it side by side. With a target,
such as dask://HOST:8786, they do so on a cluster that sees the folder.
"""

from __future__ import annotations

import heapq
import random
import sys
from pathlib import Path
from typing import Annotated

import ioweave


@ioweave.io(policy="none")
def make(path: Annotated[Path, ioweave.Out], seed: int) -> None:
    draw = random.Random(seed)
    path.write_text("".join(f"{draw.randrange(10**9)}\n" for _ in range(2000)))


@ioweave.task
def sort(path: Annotated[Path, ioweave.InOut]) -> None:
    numbers = sorted(map(int, path.read_text().split()))
    path.write_text("".join(f"{number}\n" for number in numbers))


@ioweave.io(policy="none")
def merge(parts: Annotated[list[Path], ioweave.In], path: Annotated[Path, ioweave.Out]) -> int:
    sorted_parts = [map(int, part.read_text().split()) for part in parts]
    numbers = list(heapq.merge(*sorted_parts))
    path.write_text("".join(f"{number}\n" for number in numbers))
    return len(numbers)


def main(folder: Path, target: str | None) -> None:
    parts = [folder / f"part{number}" for number in range(8)]
    with ioweave.Runtime(target):
        for seed, part in enumerate(parts):
            make(part, seed)
            sort(part)
        print(merge(parts, folder / "sorted").result(), "numbers")
    numbers = list(map(int, (folder / "sorted").read_text().split()))
    assert numbers == sorted(numbers)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).absolute(), sys.argv[2] if len(sys.argv) > 2 else None)
