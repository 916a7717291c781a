#!/usr/bin/env python3
"""A library that writes while the program computes, doing what bench/drivers/streams.cpp does.

    stream_peers.py caio|tensorstore|adios2 --items N --bytes B --work W --directory DIR
    stream_peers.py --calibrate --bytes B --compute-ms C

prints a JSON object. It knows nothing of the harness, since it runs on the Python that has the
peers. Each is set up as its documentation says:

- caio by its own choice of io_uring, as many requests as there are buffers. It takes nothing but
  `bytes`, which it copies, so that it cannot write past the page cache;
- TensorStore with a chunk for each item, no codec, sources that it may refer to (they stay as they
  are until it has committed them), a thread for each buffer, writes past the page cache;
- ADIOS2 BP5 with AsyncWrite, a step for each item, buffer chunks as large as an item (the advice is
  to make them large), no statistics, DirectIO unless told otherwise.

The computation is numpy's, on blocks that stay in the processor's cache.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import mmap
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 8192
_OF_ITEM, _OF_WORD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_PAGE = 4096


# ---- What is computed


class Work:
    """Fills items with content that depends on their number; `rounds` is what an item takes."""

    def __init__(self, size: int, rounds: int) -> None:
        self.size = size
        self.rounds = rounds
        self._scratch = np.empty(WORDS, np.uint64)
        self._block = np.arange(1, WORDS + 1, dtype=np.uint64) * _OF_WORD

    def _write(self, words: Any, number: int, block: int) -> None:
        with np.errstate(over="ignore"):
            first = np.uint64(block * WORDS) * _OF_WORD
            of_item = np.uint64(number + 1) * _OF_ITEM
        np.add(self._block[: len(words)], first, out=words)
        np.bitwise_xor(words, of_item, out=words)

    def compute(self, item: Any, number: int) -> None:
        """Computes an item in place; the content does not depend on the rounds."""
        blocks = -(-len(item) // WORDS)
        for block in range(blocks):
            words = item[block * WORDS : (block + 1) * WORDS]
            scratch = self._scratch[: len(words)]
            self._write(words, number, block)
            rounds = self.rounds * (block + 1) // blocks - self.rounds * block // blocks
            for _ in range(rounds):
                for shift, by in ((np.left_shift, 13), (np.right_shift, 7), (np.left_shift, 17)):
                    shift(words, np.uint64(by), out=scratch)
                    np.bitwise_xor(words, scratch, out=words)
            if rounds:
                self._write(words, number, block)

    def buffer(self) -> Any:
        """Memory of an item, aligned to pages and touched."""
        memory = np.zeros(self.size + _PAGE, np.uint8)
        begin = -memory.ctypes.data % _PAGE
        item = memory[begin : begin + self.size].view(np.uint64)
        item.fill(1)
        return item

    def check(self, item: Any, number: int) -> None:
        """Ends the program unless this is the item."""
        expected = self.buffer()
        Work(self.size, 0).compute(expected, number)
        if not np.array_equal(np.asarray(item).view(np.uint64).reshape(-1), expected):
            sys.exit(f"item {number} was written wrongly")


def rounds_for(seconds: float, size: int) -> int:
    """The rounds by which an item takes so long."""

    def least(rounds: int) -> float:
        work = Work(size, rounds)
        item = work.buffer()
        took = []
        for number in range(5):
            began = time.perf_counter()
            work.compute(item, number)
            took.append(time.perf_counter() - began)
        return min(took)

    trial = 2 * max(1, size // (8 * WORDS))
    none, some = least(0), least(trial)
    return max(0, round((seconds - none) / (some - none) * trial)) if some > none else 0


# ---- The loop


class Clock:
    """When the loop ended and all was durable, and how much of it was computing."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work = Work(options.bytes, options.work)
        self.compute_s = 0.0
        self.return_s = 0.0
        self.durable_s = 0.0
        self._began = time.perf_counter()

    def start(self) -> None:
        """Everything is ready.

        A device that banked credit while nothing was written has spent it when the clock starts.
        """
        if self.options.spend_mib:
            path = Path(self.options.directory, "spent")
            piece = mmap.mmap(-1, 1 << 20)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o666)
            for _ in range(self.options.spend_mib):
                os.write(file, piece)
            os.close(file)
        self._began = time.perf_counter()

    def compute(self, item: Any, number: int) -> None:
        """Computes an item, unless only writing is measured."""
        before = time.perf_counter()
        self.work.compute(item, number)
        self.compute_s += time.perf_counter() - before

    def returned(self) -> None:
        """The program could go on."""
        self.return_s = time.perf_counter() - self._began

    def durable(self) -> None:
        """All is on the device."""
        self.durable_s = time.perf_counter() - self._began


def peak_mib() -> float:
    """The largest resident set of this process alone."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM")


def run_caio(clock: Clock) -> None:
    """Buffered writes to one file."""
    options = clock.options
    if options.path == "direct":
        sys.exit("caio cannot write past the page cache: it copies into memory of its own")
    caio = importlib.import_module("caio")
    path = Path(options.directory, "caio")

    async def loop() -> None:
        context = caio.AsyncioContext(max_requests=options.buffers)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        os.posix_fallocate(file, 0, options.items * options.bytes)
        item = clock.work.buffer()
        pending: deque[asyncio.Task[int]] = deque()

        async def end_oldest() -> None:
            if await pending.popleft() != options.bytes:
                sys.exit("caio wrote an item in part")

        clock.start()
        for number in range(options.items):
            if len(pending) == options.buffers:
                await end_oldest()
            clock.compute(item, number)
            write = context.write(item.tobytes(), file, number * options.bytes)
            pending.append(asyncio.ensure_future(write))
            for _ in range(2):  # until the kernel has it
                await asyncio.sleep(0)
        clock.returned()
        while pending:
            await end_oldest()
        await context.fdsync(file)
        clock.durable()
        os.close(file)
        context.close()

    asyncio.run(loop())
    if options.verify:
        with path.open("rb") as file:
            for number in range(options.items):
                clock.work.check(np.frombuffer(file.read(options.bytes), np.uint8), number)


def run_tensorstore(clock: Clock) -> None:
    """An array of items; each chunk is a file."""
    options = clock.options
    ts = importlib.import_module("tensorstore")
    folder = Path(options.directory, "tensorstore")
    spec = {
        "driver": "zarr3",
        "kvstore": {
            "driver": "file",
            "path": f"{folder}/",
            "file_io_concurrency": {"limit": options.buffers},
            "file_io_mode": {"mode": "direct" if options.path == "direct" else "default"},
        },
        "metadata": {"codecs": [{"name": "bytes"}], "data_type": "uint8"},
    }
    shape = [options.items, options.bytes]
    store = ts.open(
        spec,
        create=True,
        delete_existing=True,
        shape=shape,
        chunk_layout=ts.ChunkLayout(chunk_shape=[1, options.bytes]),
    ).result()
    buffers = [clock.work.buffer() for _ in range(options.buffers)]
    pending: deque[Any] = deque()
    clock.start()
    for number in range(options.items):
        if len(pending) == options.buffers:
            pending.popleft().result()
        item = buffers[number % len(buffers)]
        clock.compute(item, number)
        written = store[number].write(
            item.view(np.uint8), can_reference_source_data_indefinitely=True
        )
        written.commit.force()  # it begins now, not when somebody asks for the result
        pending.append(written.commit)
    clock.returned()
    while pending:
        pending.popleft().result()  # files are synced by then (file_io_sync)
    clock.durable()
    if options.verify:
        for number in range(options.items):
            clock.work.check(store[number].read().result(), number)


def run_adios2(clock: Clock) -> None:
    """A step for each item."""
    options = clock.options
    adios2 = importlib.import_module("adios2")
    mode = adios2.bindings.Mode
    path = Path(options.directory, "adios2.bp")
    io = adios2.Adios().declare_io("results")
    io.set_engine("BP5")
    parameters = {
        "AsyncWrite": "true",
        "StatsLevel": "0",
        "BufferChunkSize": str(max(16 << 20, options.bytes)),
    }
    if options.path == "direct":
        parameters |= {
            "DirectIO": "true",
            "DirectIOAlignOffset": str(_PAGE),
            "DirectIOAlignBuffer": str(_PAGE),
        }
    io.set_parameters(parameters)
    item = clock.work.buffer()
    size = [len(item)]
    variable = io.define_variable("item", item, size, [0], size, True)
    engine = io.open(str(path), mode.Write)
    clock.start()
    for number in range(options.items):
        clock.compute(item, number)
        engine.begin_step()
        engine.put(variable, item, mode.Deferred)
        engine.end_step()  # copies the item: the buffer may be used again
    clock.returned()
    engine.close()
    for each in path.iterdir():
        file = os.open(each, os.O_RDONLY)
        os.fdatasync(file)
        os.close(file)
    clock.durable()
    if options.verify:
        with adios2.FileReader(str(path)) as reader:
            for number in range(options.items):
                found = reader.read("item", [0], size, step_selection=[number, 1])
                clock.work.check(found, number)


PEERS: dict[str, Callable[[Clock], None]] = {
    "caio": run_caio,
    "tensorstore": run_tensorstore,
    "adios2": run_adios2,
}


def main() -> None:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", nargs="?", choices=PEERS)
    parser.add_argument("--items", type=int, default=16)
    parser.add_argument("--bytes", type=int, default=4 << 20)
    parser.add_argument("--work", type=int, default=0)
    parser.add_argument("--compute-ms", type=float, default=0.0)
    parser.add_argument("--buffers", type=int, default=4)
    parser.add_argument("--directory")
    parser.add_argument("--path", choices=("direct", "buffered"), default="direct")
    parser.add_argument("--spend-mib", type=int, default=0)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--calibrate", action="store_true")
    options = parser.parse_args()
    if options.calibrate:
        print(json.dumps({"work": rounds_for(options.compute_ms / 1e3, options.bytes)}))
        return
    if options.how is None or options.directory is None:
        parser.error("a peer and --directory are needed")
    clock = Clock(options)
    try:
        PEERS[options.how](clock)
    finally:
        for left in ("tensorstore", "adios2.bp"):
            shutil.rmtree(Path(options.directory, left), ignore_errors=True)
        for left in ("caio", "spent"):
            Path(options.directory, left).unlink(missing_ok=True)
    print(
        json.dumps(
            {
                "return_s": clock.return_s,
                "durable_s": clock.durable_s,
                "compute_s": clock.compute_s,
                "peak_mib": peak_mib(),
                "bytes": options.items * options.bytes,
            }
        )
    )


if __name__ == "__main__":
    main()
