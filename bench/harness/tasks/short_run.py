#!/usr/bin/env python3
"""One short workload, run once; `short.py` starts a process of it for each run.

    short_run.py WORKLOAD CONTENDER COUNT [--limit N] [--folder DIR] [--iterations N]

prints a JSON object with the seconds from the first call to the last end. It knows nothing of the
harness. The contenders:

    climb    an I/O task as a newcomer writes it: no constraint is named, so `climb` finds one
    fixed    the same task, with so many at once (--limit)
    none     the same task without a constraint
    pool     a ThreadPoolExecutor of the standard library with so many threads (--limit)
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import importlib
import json
import mmap
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

MIB = 1 << 20
FILE_BYTES = 8 * MIB
CHECKPOINT_BYTES = 16 * MIB
NAP_S = 0.01
#: Files that `reads` reads again and again; O_DIRECT, so each time from the device.
READ_FILES = 1000
READ_BYTES = 4096

CONTENDERS = ("climb", "fixed", "none", "pool")
CPUS = 2

_content = b""  # of a file; made before the clock starts


def nap(_path: str) -> None:
    time.sleep(NAP_S)


def read(path: str) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, READ_BYTES) as page:
            os.preadv(file, [page], 0)
    finally:
        os.close(file)


def touch(path: str) -> None:
    """An empty file that is durable."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def write(path: str) -> None:
    """A file of 8 MiB that is durable."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(file, _content)
        os.fsync(file)
    finally:
        os.close(file)


def checkpoint(path: str, digest: bytes) -> None:
    """Writes 16 MiB past the page cache."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o666)
    try:
        with mmap.mmap(-1, MIB) as piece:
            piece.write(digest * (MIB // len(digest)))
            for _ in range(CHECKPOINT_BYTES // MIB):
                os.write(file, piece)
        os.fsync(file)
    finally:
        os.close(file)


def compute(number: int, iterations: int) -> bytes:
    """A checksum, without Python's lock."""
    return hashlib.pbkdf2_hmac("sha256", b"ioweave", str(number).encode(), iterations)


#: Operations of one file each.
OPERATIONS: dict[str, Callable[[str], None]] = {
    "sleep": nap,
    "reads": read,
    "fsync": touch,
    "files": write,
}
#: Computes first, and writes what that gives.
CHECKPOINTS = "checkpoints"
WORKLOADS = (*OPERATIONS, CHECKPOINTS)


def paths(name: str, folder: str, count: int) -> list[str]:
    """A file for each operation; those that are read come round again."""
    files = READ_FILES if name == "reads" else count
    return [f"{folder}/{number % files}" for number in range(count)]


def with_ioweave(options: argparse.Namespace) -> float:
    """Seconds of a run under Ioweave."""
    ioweave = importlib.import_module("ioweave")
    fixed = options.contender == "fixed"
    chosen: dict[str, Any] = {"bandwidth": 1} if fixed else {}
    if options.contender == "none":
        chosen = {"policy": "none"}
    io = ioweave.io(device="here", **chosen)
    device = ioweave.Device(
        "here", path=options.folder or None, bandwidth=options.limit if fixed else 0
    )
    with ioweave.Runtime(cpus=CPUS, devices=[device]):
        files = paths(options.workload, options.folder, options.count)
        if options.workload == CHECKPOINTS:
            computing, writing = ioweave.task(compute), io(checkpoint)
            ioweave.wait([computing(i, 1) for i in range(4 * CPUS)])
            began = time.perf_counter()
            ioweave.wait(
                [writing(path, computing(i, options.iterations)) for i, path in enumerate(files)]
            )
        else:
            task = io(OPERATIONS[options.workload])
            began = time.perf_counter()
            ioweave.wait([task(path) for path in files])
        return time.perf_counter() - began


def with_pool(options: argparse.Namespace) -> float:
    """Seconds of a run with thread pools, as a program without Ioweave has them."""
    files = paths(options.workload, options.folder, options.count)
    with (
        concurrent.futures.ThreadPoolExecutor(CPUS) as computing,
        concurrent.futures.ThreadPoolExecutor(options.limit) as moving,
    ):
        began = time.perf_counter()
        if options.workload == CHECKPOINTS:
            digests = [
                computing.submit(compute, number, options.iterations)
                for number in range(options.count)
            ]
            # In the order of the calls, which is that in which the computations end.
            wait(
                moving.submit(checkpoint, path, digest.result())
                for path, digest in zip(files, digests, strict=True)
            )
        else:
            operation = OPERATIONS[options.workload]
            wait([moving.submit(operation, path) for path in files])
        return time.perf_counter() - began


def wait(futures: Iterable[concurrent.futures.Future[None]]) -> None:
    for future in list(futures):
        future.result()


def main() -> int:
    global _content
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("count", type=int)
    parser.add_argument("--limit", type=int, default=1, help="operations at once")
    parser.add_argument("--folder", default="", help="where files are")
    parser.add_argument("--iterations", type=int, default=1, help="of a computation")
    options = parser.parse_args()
    if options.workload == "files":
        _content = bytes(FILE_BYTES)
    run = with_pool if options.contender == "pool" else with_ioweave
    print(json.dumps({"seconds": run(options)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
