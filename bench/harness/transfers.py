"""One kind of random transfer, done by fio's io_uring engine and by our C interface alike."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness import process


@dataclass(frozen=True)
class Pattern:
    """Random O_DIRECT transfers of equal size at a fixed depth, from one thread.

    Attributes:
        operation: "read" or "write".
        block_bytes: Of one transfer.
        depth: Requests in flight.
        batch: Completions to wait for at a time, and submissions per system call: the same for
            both contenders, since it trades latency for processor time.
    """

    operation: str
    block_bytes: int
    depth: int

    @property
    def batch(self) -> int:
        return max(1, self.depth // 4)

    def __str__(self) -> str:
        size = f"{self.block_bytes >> 20} MiB" if self.block_bytes >> 20 else "4 KiB"
        return f"random {self.operation} {size} depth {self.depth}"


@dataclass(frozen=True)
class Rate:
    """What one run of a contender came to."""

    operations_per_s: float
    cpu_us: float  # of user and system time per operation


def fio_command(pattern: Pattern, file: Path, seconds: float) -> list[str]:
    """fio with the options that were fastest of those tried; see bench/README.md."""
    return [
        "fio",
        "--name=peer",
        f"--filename={file}",
        f"--rw=rand{pattern.operation}",
        f"--bs={pattern.block_bytes}",
        f"--iodepth={pattern.depth}",
        f"--iodepth_batch_submit={pattern.batch}",
        f"--iodepth_batch_complete_min={pattern.batch}",
        f"--iodepth_batch_complete_max={pattern.depth}",
        f"--runtime={round(seconds * 1000)}ms",  # a fraction of a second would be read as none
        "--time_based",
        "--ramp_time=100ms",
        "--ioengine=io_uring",
        "--direct=1",
        "--fixedbufs=1",
        "--registerfiles=1",
        "--thread=1",
        "--gtod_reduce=1",
        "--norandommap=1",
        "--randrepeat=0",
        "--scramble_buffers=0",
        "--overwrite=1",
        "--output-format=json",
    ]


def parse_fio(text: str, operation: str) -> Rate:
    """Reads fio's own figures: what it does before and after its measurement does not count."""
    job = json.loads(text[text.index("{") :])["jobs"][0]
    side = job[operation]
    busy = (job["usr_cpu"] + job["sys_cpu"]) / 100
    if job["error"] != 0 or side["total_ios"] == 0 or busy == 0:
        raise process.ProgramFailed(f"fio measured nothing: error {job['error']}")
    return Rate(
        operations_per_s=side["iops"],
        cpu_us=busy * 1e6 / side["iops"],
    )


def run_fio(pattern: Pattern, file: Path, seconds: float, cpu: int | None = None) -> Rate:
    """fio's io_uring engine, in a process of its own."""
    done = process.run(fio_command(pattern, file, seconds), cpu=cpu)
    return parse_fio(done.stdout, pattern.operation)


def run_ours(
    program: Path, pattern: Pattern, file: Path, seconds: float, cpu: int | None = None
) -> Rate:
    """The C interface, in a process of its own."""
    done = process.run(
        [
            program,
            f"--file={file}",
            f"--op={pattern.operation}",
            f"--bytes={pattern.block_bytes}",
            f"--depth={pattern.depth}",
            f"--batch={pattern.batch}",
            f"--seconds={seconds:g}",
        ],
        cpu=cpu,
    )
    (figures,) = done.json_lines()
    return Rate(
        operations_per_s=figures["operations"] / figures["seconds"],
        cpu_us=figures["cpu_seconds"] * 1e6 / figures["operations"],
    )
