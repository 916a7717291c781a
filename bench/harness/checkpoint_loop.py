#!/usr/bin/env python3
"""A numpy program that computes and writes a checkpoint, again and again.

    checkpoint_loop.py plain|stream FILE --items N --mib M --passes P [--buffers B]
    checkpoint_loop.py --calibrate --mib M

`plain` writes each checkpoint and calls fsync before it goes on. `stream` is the same program as
`ioweave advise` says to change it. `--calibrate` prints the seconds that a pass takes.

It knows nothing of the harness, since it runs on the Python that has numpy.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

MIB = 1 << 20
BLOCK = 8192  # doubles that stay in the processor's cache


def compute(state: np.ndarray, passes: float) -> None:
    """Goes over all of the state so many times, and over a part of it for a fraction."""
    whole = int(passes)
    for start in range(0, state.size, BLOCK):
        block = state[start : start + BLOCK]
        for _ in range(whole):
            np.sin(block, out=block)
    rest = state[: int((passes - whole) * state.size)]
    for start in range(0, rest.size, BLOCK):
        block = rest[start : start + BLOCK]
        np.sin(block, out=block)


def plain(options: argparse.Namespace, state: np.ndarray) -> None:
    """As it is written before anybody asked for advice."""
    with options.file.open("wb", buffering=0) as file:
        for _ in range(options.items):
            compute(state, options.passes)
            file.write(state)
            os.fsync(file.fileno())


def stream(options: argparse.Namespace, state: np.ndarray) -> None:
    """With the lines of the advice."""
    import ioweave

    budget = options.buffers * state.nbytes
    with ioweave.WriteStream(buffer_bytes=state.nbytes, budget_bytes=budget) as out:
        file = out.create(options.file)
        for _ in range(options.items):
            compute(state, options.passes)
            file.append(state)


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("how", nargs="?", choices=["plain", "stream"])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--items", type=int, default=1)
    parser.add_argument("--mib", type=int, required=True)
    parser.add_argument("--passes", type=float, default=1.0)
    parser.add_argument("--buffers", type=int, default=4)
    parser.add_argument("--calibrate", action="store_true")
    options = parser.parse_args()
    state = np.linspace(0.0, 1.0, options.mib * MIB // 8)
    if options.calibrate:
        import ioweave  # noqa: F401  # so that its bytecode is there when it counts

        compute(state, 3)
        start = time.perf_counter()
        compute(state, 10)
        print((time.perf_counter() - start) / 10)
        return
    {"plain": plain, "stream": stream}[options.how](options, state)


if __name__ == "__main__":
    main()
