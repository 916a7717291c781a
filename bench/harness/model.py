"""The overlap model of the PPIS paper, for a program that reads, computes, writes in chunks.

The formulas are those of src/model, by way of a program: bench/demo runs without Python packages.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness import process


@dataclass(frozen=True)
class Chunks:
    """A run of n equal chunks; all times are in seconds.

    Attributes:
        n: How many there are.
        read_s: R, to read one from the device.
        compute_s: C, to compute on one.
        write_s: W, to write the result of one.
        overlapped_s: The whole run, if the next chunk is read during the computation.
        hideable_s: The read time that computation can cover, of all chunks.
        one_device_s: The whole run, if the next chunk is read, and the last one written, during
            the computation, by a device that serves one of them at a time.
    """

    n: int
    read_s: float
    compute_s: float
    write_s: float
    overlapped_s: float
    hideable_s: float
    one_device_s: float


def of_totals(program: Path, n: int, read_s: float, compute_s: float, write_s: float) -> Chunks:
    """From the seconds that all n chunks together took. `program` is bench_model.

    Raises:
        ProgramFailed: A time is negative.
    """
    read_s, compute_s, write_s = read_s / n, compute_s / n, write_s / n
    options = {"chunks": n, "read-s": read_s, "compute-s": compute_s, "write-s": write_s}
    done = process.run([program, *(f"--{name}={value!r}" for name, value in options.items())])
    (figures,) = done.json_lines()
    names = ("overlapped_s", "hideable_s", "one_device_s")
    return Chunks(n, read_s, compute_s, write_s, *(figures[name] for name in names))


def write_behind_s(
    program: Path, n: int, compute_s: float, write_s: float, *, buffers: int, devices: int = 1
) -> float:
    """How long n items take of which each is computed, and written while the next ones are.

    The times are those of one item. `program` is bench_model.

    Raises:
        ProgramFailed: A time is negative.
    """
    options = {
        "chunks": n,
        "read-s": 0.0,
        "compute-s": compute_s,
        "write-s": write_s,
        "buffers": buffers,
        "devices": devices,
    }
    done = process.run([program, *(f"--{name}={value!r}" for name, value in options.items())])
    (figures,) = done.json_lines()
    seconds: float = figures["write_behind_s"]
    return seconds
