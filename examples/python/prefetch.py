"""Rows of a file, in random order, are read while the program computes. Two ways: by a plan of the
reads to come, and by a loop that is run ahead of itself.

    python3 prefetch.py FOLDER [ROWS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import ioweave
import numpy as np

COLUMNS = 4096


def write_rows(path: Path, rows: int) -> None:
    """Row i holds i, i + 1, ..."""
    table = np.arange(rows)[:, None] + np.arange(float(COLUMNS))
    path.write_bytes(table.tobytes())


def spread_of(row: np.ndarray) -> float:
    """Stands for a computation."""
    return float(np.sort(np.sin(row)).std())


def sum_by_plan(path: Path, order: np.ndarray) -> float:
    row = np.empty(COLUMNS)
    total = 0.0
    with path.open("rb") as file, ioweave.Plan() as plan:
        plan.add_from((file, place * row.nbytes, row.nbytes) for place in order)
        for place in order:
            plan.read_into(file, place * row.nbytes, row)
            total += spread_of(row)  # the next rows are read meanwhile
    return total


def sum_by_loop(path: Path, order: np.ndarray) -> float:
    spreads: list[float] = []  # changed inside compute() only

    def loop(io: ioweave.LoopIo) -> None:
        row = np.empty(COLUMNS)
        for place in order:
            io.read_into(file, place * row.nbytes, row)
            io.compute(lambda: spreads.append(spread_of(row)))

    with path.open("rb") as file, ioweave.Plan() as plan:
        ioweave.pre_execute(plan, loop)
    return sum(spreads)


def main(folder: Path, rows: int) -> None:
    path = folder / "rows"
    write_rows(path, rows)
    order = np.random.default_rng(1).permutation(rows)
    assert sum_by_plan(path, order) == sum_by_loop(path, order)
    print(f"{rows} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200)
