#!/usr/bin/env python3
"""Reads a file from beginning to end, chunk by chunk, by numpy.fromfile(), and computes on each
chunk. The same as chunk_reader.cpp, which says what the computation is. Words of 8 bytes are read:
the rest of a file whose size is no multiple of 8 is not.

chunk_reader.py FILE CHUNK_BYTES COMPUTE_US
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

WORD_BYTES = 8
#: An exclusive or of so many takes about 10 us: the clock of the thread is a system call, which few
#: computations make.
SPIN_WORDS = 16384


class Computation:
    """What is computed on each chunk."""

    def __init__(self, chunk_us: int) -> None:
        self.chunk_ns = chunk_us * 1000
        self.checksum = 0

    def compute(self, chunk: np.ndarray) -> None:
        if self.chunk_ns == 0:
            return
        start_ns = time.thread_time_ns()
        rotated = (self.checksum << 1 | self.checksum >> 63) & (1 << 64) - 1
        self.checksum = rotated ^ int(np.bitwise_xor.reduce(chunk))
        while time.thread_time_ns() - start_ns < self.chunk_ns:
            np.bitwise_xor.reduce(chunk[:SPIN_WORDS])


def main(path: str, chunk_bytes: int, compute_us: int) -> None:
    computation = Computation(compute_us)
    words, chunks, read_s, compute_s = 0, 0, 0.0, 0.0
    with open(path, "rb") as file:  # noqa: PTH123  # as people write it
        begin = time.perf_counter()
        while True:
            chunk = np.fromfile(file, np.uint64, chunk_bytes // WORD_BYTES)
            read_end = time.perf_counter()
            read_s += read_end - begin
            if chunk.size == 0:
                break
            computation.compute(chunk)
            begin = time.perf_counter()
            compute_s += begin - read_end
            words += chunk.size
            chunks += 1
    found = {"bytes": words * WORD_BYTES, "chunks": chunks}
    times = {"read_s": read_s, "compute_s": compute_s}
    print(json.dumps({**found, **times, "checksum": f"{computation.checksum:016X}"}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
