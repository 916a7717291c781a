"""The engine through the C interface: against fio, bare liburing, and plain system calls."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness import page_cache, process
from harness.files import random_file
from harness.result import Row, at_least, at_most, row
from harness.samples import alternate
from harness.session import Session
from harness.transfers import Pattern, run_fio, run_ours

PATTERNS = [
    Pattern(operation, block_bytes, depth)
    for block_bytes, depth in ((4 << 10, 1), (4 << 10, 32), (1 << 20, 8))
    for operation in ("read", "write")
]


@dataclass(frozen=True)
class Effort:
    """How much is measured: seconds are per contender and round."""

    file_bytes: int
    transfer_rounds: int
    transfer_s: float
    processes: int  # in-process comparisons are repeated in so many processes
    rounds: int  # and in so many rounds within each
    slice_s: float


FULL = Effort(1 << 30, transfer_rounds=21, transfer_s=1.0, processes=3, rounds=6, slice_s=0.5)
QUICK = Effort(256 << 20, transfer_rounds=3, transfer_s=0.3, processes=1, rounds=4, slice_s=0.15)


def _fastest_cpu(program: Path, file: Path, effort: Effort) -> int:
    """Where reads one at a time are quickest: the processor that takes the disk's interrupts.

    On another one each takes up to half as long again, which would drown what is compared.
    """
    one_at_a_time = PATTERNS[0]

    def rate(cpu: int) -> float:
        runs = [run_ours(program, one_at_a_time, file, effort.transfer_s, cpu) for _ in range(2)]
        return max(run.operations_per_s for run in runs)

    return max(sorted(os.sched_getaffinity(0)), key=rate)


def _against_fio(session: Session, file: Path, effort: Effort) -> Iterator[Row]:
    if shutil.which("fio") is None:
        session.note("no comparison with fio: it is not installed")
        return
    program = session.program("bench_transfer")
    cpu = _fastest_cpu(program, file, effort)
    session.note(f"fio and its contender run on processor {cpu}")
    for pattern in PATTERNS:
        session.progress(f"fio and the C interface in turn: {pattern}")
        pairs = list(
            alternate(
                {
                    "fio": partial(run_fio, pattern, file, effort.transfer_s, cpu),
                    "ours": partial(run_ours, program, pattern, file, effort.transfer_s, cpu),
                },
                effort.transfer_rounds,
            )
        )
        yield row(
            f"{pattern}: IOPS over fio's",
            "ratio",
            [pair["ours"].operations_per_s / pair["fio"].operations_per_s for pair in pairs],
            at_least(0.99),
        )
        yield row(
            f"{pattern}: CPU per operation over fio's",
            "ratio",
            [pair["ours"].cpu_us / pair["fio"].cpu_us for pair in pairs],
            at_most(1.0),
        )
        yield row(f"{pattern}: IOPS", "1/s", [pair["ours"].operations_per_s for pair in pairs])
        yield row(f"{pattern}: CPU per operation", "us", [pair["ours"].cpu_us for pair in pairs])


def _no_ops(session: Session, effort: Effort) -> Iterator[Row]:
    session.progress("no-op requests: the service and a bare ring in turn")
    rounds = [
        figures
        for _ in range(effort.processes)
        for figures in process.run(
            [session.program("bench_nop"), "--depth=32", f"--rounds={effort.rounds}"]
        ).json_lines()
    ]
    yield row(
        "no-op depth 32: added to a bare liburing loop",
        "ns",
        [figures["service_ns"] - figures["bare_ns"] for figures in rounds],
        at_most(150),
    )
    yield row(
        "no-op depth 32: bare liburing loop", "ns", [figures["bare_ns"] for figures in rounds]
    )


def _threads(session: Session, file: Path, effort: Effort) -> Iterator[Row]:
    for threads in (4, 16):
        for in_flight in (2, 4):
            name = f"{threads} threads x {in_flight} in flight"
            session.progress(f"{name}: bare rings and the service in turn")
            slices = [
                figures
                for _ in range(effort.processes)
                for figures in process.run(
                    [
                        session.program("bench_threads"),
                        f"--file={file}",
                        f"--threads={threads}",
                        f"--in-flight={in_flight}",
                        f"--rounds={effort.rounds}",
                        f"--seconds={effort.slice_s:g}",
                    ]
                ).json_lines()
            ]
            yield from _thread_rows(name, slices)


def _thread_rows(name: str, slices: list[dict[str, float | str]]) -> Iterator[Row]:
    def series(contender: str, figure: str) -> list[float]:
        return [float(s[figure]) for s in slices if s["contender"] == contender]

    # Slices come round by round: the i-th of one contender and the i-th of another are a pair.
    for contender, where, bar in (
        ("polled", "callback on the thread", at_most(1.15)),
        ("called", "callback on the service's thread", None),
    ):
        ours, bare = series(contender, "per_second"), series("bare", "per_second")
        yield row(
            f"{name}, {where}: bare rings' rate over ours",
            "ratio",
            [b / o for b, o in zip(bare, ours, strict=True)],
            bar,
        )
        ours, bare = series(contender, "cpu_ns"), series("bare", "cpu_ns")
        yield row(
            f"{name}, {where}: CPU per operation over bare rings'",
            "ratio",
            [o / b for b, o in zip(bare, ours, strict=True)],
            bar,
        )


def _blocking(session: Session, file: Path, effort: Effort) -> Iterator[Row]:
    prepared: tuple[tuple[str, list[str], Callable[[Path], None]], ...] = (
        ("cached", [], page_cache.warm),
        ("O_DIRECT", ["--direct"], page_cache.drop),  # cached pages would slow it down
    )
    for kind, flags, prepare in prepared:
        session.progress(f"iow_pread and pread in turn: {kind}")
        prepare(file)
        rounds = [
            figures
            for _ in range(effort.processes)
            for figures in process.run(
                [
                    session.program("bench_blocking"),
                    f"--file={file}",
                    f"--rounds={effort.rounds}",
                    f"--seconds={effort.slice_s:g}",
                    *flags,
                ]
            ).json_lines()
        ]
        yield row(
            f"blocking 4 KiB read, {kind}: iow_pread over pread",
            "ratio",
            [figures["service_ns"] / figures["plain_ns"] for figures in rounds],
            at_most(1.05),
        )
        yield row(
            f"blocking 4 KiB read, {kind}: pread",
            "ns",
            [figures["plain_ns"] for figures in rounds],
        )


def run(session: Session) -> Iterator[Row]:
    """All comparisons of the engine."""
    effort = QUICK if session.quick else FULL
    pairs = session.selection.pairs
    if pairs is not None:
        effort = replace(
            effort,
            transfer_rounds=min(pairs, effort.transfer_rounds),
            rounds=min(pairs, effort.rounds),
        )
    session.need_space(effort.file_bytes + (64 << 20))
    file = random_file(session.folder / "data", effort.file_bytes)
    yield from _no_ops(session, effort)
    yield from _blocking(session, file, effort)
    yield from _threads(session, file, effort)
    yield from _against_fio(session, file, effort)
