#!/usr/bin/env python3
"""Rows of a file, read in random order and computed on, once; `benchmarks/rows.py` starts a process
of it for each run.

    rows_run.py CONTENDER FILE ROW_BYTES ROWS [--work numpy|python] [--turns N]

prints a JSON object: the seconds of the loop, and a sum over all rows, by which the contenders are
compared. It knows nothing of the harness. The contenders:

    pread      os.preadv() into a numpy array
    advice     the same, with posix_fadvise(WILLNEED) for 64 rows ahead, 128 KiB a call
    plan       ioweave.Plan, which is told of all rows by an iterable
    loop       ioweave.pre_execute(): the loop is run ahead of itself
    computing  the computation alone

A turn of the computation is 16 Ki sines by numpy, which holds no GIL, or 500 additions in Python.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

CONTENDERS = ("pread", "advice", "plan", "loop", "computing")
WORKS = ("numpy", "python")
AHEAD = 64
#: Of more the kernel may read the beginning only: as much as the device's read_ahead_kb.
ADVICE_BYTES = 128 << 10

_angles = np.linspace(0, 1, 16384)
_sines = np.empty_like(_angles)


def compute(work: str, turns: int) -> None:
    for _ in range(turns):
        if work == "numpy":
            np.sin(_angles, out=_sines)
        else:
            sum(i for i in range(500))


class Rows:
    """What is read, and what is done with it."""

    def __init__(self, path: Path, row_bytes: int, rows: int, work: Callable[[], None]) -> None:
        self.path = path
        self.row_bytes = row_bytes
        places = np.random.default_rng(1).permutation(path.stat().st_size // row_bytes)[:rows]
        self.offsets: list[int] = (places * row_bytes).tolist()
        self.work = work
        self.total = 0

    def new_row(self) -> np.ndarray:
        return np.empty(self.row_bytes // 8, np.uint64)

    def use(self, row: np.ndarray) -> None:
        self.total ^= int(np.bitwise_xor.reduce(row))
        self.work()

    def by_pread(self, ahead: int = 0) -> None:
        row = self.new_row()
        into = row.view(np.uint8).data
        with self.path.open("rb", 0) as file:
            fd = file.fileno()
            for offset in self.offsets[:ahead]:
                self.advise(fd, offset)
            for i, offset in enumerate(self.offsets):
                if 0 < ahead < len(self.offsets) - i:
                    self.advise(fd, self.offsets[i + ahead])
                done = 0
                while done < self.row_bytes:
                    done += os.preadv(fd, [into[done:]], offset + done)
                self.use(row)

    def advise(self, fd: int, offset: int) -> None:
        for at in range(offset, offset + self.row_bytes, ADVICE_BYTES):
            os.posix_fadvise(fd, at, min(self.row_bytes, ADVICE_BYTES), os.POSIX_FADV_WILLNEED)

    def by_advice(self) -> None:
        self.by_pread(AHEAD)

    def by_plan(self) -> None:
        import ioweave

        row = self.new_row()
        with self.path.open("rb", 0) as file, ioweave.Plan() as plan:
            plan.add_from((file, offset, self.row_bytes) for offset in self.offsets)
            for offset in self.offsets:
                plan.read_into(file, offset, row)
                self.use(row)

    def by_loop(self) -> None:
        import ioweave

        def loop(io: ioweave.LoopIo) -> None:
            row = self.new_row()
            for offset in self.offsets:
                io.read_into(file, offset, row)
                io.compute(self.use, row)

        with self.path.open("rb", 0) as file, ioweave.Plan() as plan:
            ioweave.pre_execute(plan, loop)

    def by_computing(self) -> None:
        row = np.zeros(self.row_bytes // 8, np.uint64)
        for _ in self.offsets:
            self.use(row)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("file", type=Path)
    parser.add_argument("row_bytes", type=int)
    parser.add_argument("rows", type=int)
    parser.add_argument("--work", choices=WORKS, default="numpy")
    parser.add_argument("--turns", type=int, default=1)
    options = parser.parse_args(arguments)
    work = partial(compute, options.work, options.turns)
    rows = Rows(options.file, options.row_bytes, options.rows, work)
    if options.contender in ("plan", "loop"):
        import ioweave  # noqa: F401  # before the clock starts
    begin = time.monotonic()
    getattr(rows, f"by_{options.contender}")()
    print(json.dumps({"seconds": time.monotonic() - begin, "sum": rows.total}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
