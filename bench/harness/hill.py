"""Runs apps/hill, plainly or under `ioweave run`, and fits its computation to a device's speed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import process


@dataclass(frozen=True)
class Job:
    """What is encrypted, where to, and how hard it is.

    Attributes:
        key_size: Rows of the key matrix: computation per byte grows with it.
        mode: "encrypt" or "decrypt".
    """

    source: Path
    target: Path
    chunk_bytes: int
    key_size: int
    mode: str = "encrypt"


@dataclass(frozen=True)
class Run:
    """One run of Hill, or of another program that works in chunks.

    The phases are seconds inside read(2), the kernel of the computation, and write(2).
    """

    wall_s: float
    read_s: float
    compute_s: float
    write_s: float
    chunks: int


def run(program: Path, job: Job, stats: Path, prefix: Sequence[str] = ()) -> Run:
    """Runs it once.

    Args:
        program: apps/hill.
        stats: Where Hill may write its statistics; overwritten.
        prefix: Words before the command, e.g. those of `ioweave run`.
    """
    done = process.run(
        [
            *prefix,
            program,
            f"--{job.mode}",
            f"--key-size={job.key_size}",
            f"--chunk={job.chunk_bytes}",
            f"--stats-json={stats}",
            job.source,
            job.target,
        ]
    )
    figures = json.loads(stats.read_text(encoding="utf-8"))
    return Run(
        wall_s=done.wall_s,
        read_s=figures["read_s"],
        compute_s=figures["compute_s"],
        write_s=figures["write_s"],
        chunks=figures["chunks"],
    )


#: Key sizes to choose from. Computation grows with the size, but not steadily: the kernel works on
#: strips of rows, and some sizes fill them better than others.
KEY_SIZES = (*range(4, 128, 4), *range(128, 256, 8), *range(256, 1025, 64))


def fit_key_size(
    compute_s: Callable[[int], float], target_s: float, key_sizes: Sequence[int] = KEY_SIZES
) -> int:
    """The key size whose computation takes `target_s` or longer by the least.

    The longest there is if none takes that long; sizes far beyond the target are not measured.

    Args:
        compute_s: Measures the computation for a key size.
        target_s: What it should take.
        key_sizes: Those to choose from, ascending.

    >>> fit_key_size(lambda size: 0.01 * size, 0.205)
    24
    """
    measured: dict[int, float] = {}
    for size in key_sizes:
        measured[size] = compute_s(size)
        if measured[size] > 2 * target_s and size >= 16:
            break
    enough = {size: seconds for size, seconds in measured.items() if seconds >= target_s}
    if not enough:
        return max(measured, key=measured.__getitem__)
    return min(enough, key=enough.__getitem__)
