"""Unchanged MPI programs, which know nothing of Ioweave, under libioweave_mpiio_*.so and under
`ioweave run`: what it brings, and what it costs where it brings nothing.

The parts "mpiio-..." of `bench/run ppis`; what the figures mean is defined in bench/README.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness import process
from harness.files import random_file
from harness.places import SLOWFS_SPEED, on_raw_disk, on_slowfs
from harness.ppis_readers import Found, Reader, Reads, over, rounds_of
from harness.ppis_runs import (
    HILL_ROUNDS,
    MIB,
    NORMAL,
    Effort,
    Figures,
    Loop,
    Runner,
    check_same,
    chunk_bytes,
    enciphered,
    hill,
    two_devices,
)
from harness.result import Row, at_most, row
from harness.samples import alternate
from harness.session import Session

PLAIN = "plain"
SCHEDULES = ("pp", "ppis", "auto")
AUTO = "library, auto"
BEHIND = "library, writes behind"
COMMAND = "ioweave run"

#: Of Hill's input: 16 MiB each in a full run.
CHUNKS = 32
RANKS = (1, 2)
#: What all programs here may be at most of the plain one.
HARMLESS = at_most(1.02)


def _library(session: Session) -> Path:
    """The one for the MPI that the programs were built with.

    Raises:
        BuildFailed: It is not there.
    """
    libraries = process.run(["ldd", str(session.program("hill_mpi"))]).stdout
    return session.program("mpiio_mpich" if "libmpich" in libraries else "mpiio_openmpi")


def _preloaded(session: Session, **variables: str) -> tuple[str, ...]:
    """Words before a program that preload the library; so the launcher does not see it.

    Args:
        variables: Settings of the library, without the beginning of their names.
    """
    settings = (f"IOWEAVE_MPIIO_{name}={value}" for name, value in variables.items())
    return ("env", f"LD_PRELOAD={_library(session)}", *settings)


def _many(session: Session, effort: Effort) -> int:
    """Rounds where differences are small or noise is great: calls, starts, the raw disk."""
    return effort.rounds if session.quick else 3 * effort.rounds


def _under_ioweave(session: Session) -> tuple[str, ...]:
    return (str(session.program("ioweave")), "run", "-q", "--")


# ---- Hill


def _contenders(session: Session, loop: Loop) -> dict[str, Loop]:
    by_schedule = {
        f"library, {schedule}": replace(loop, inner=_preloaded(session, SCHEDULE=schedule))
        for schedule in SCHEDULES
    }
    return {
        PLAIN: loop,
        **by_schedule,
        BEHIND: replace(loop, inner=_preloaded(session, WRITE_BEHIND="128M")),
        COMMAND: replace(loop, outer=_under_ioweave(session)),
    }


def _longest(plain: Figures) -> float:
    return max(plain.read_s, plain.compute_s, plain.write_s)


def _rows_of_hill(
    runner: Runner, prefix: str, loop: Loop, rounds: Sequence[Mapping[str, Figures]]
) -> Iterator[Row]:
    plain = [found[PLAIN] for found in rounds]
    for name in rounds[0]:
        total_s = [found[name].total_s for found in rounds]
        who = f"{prefix}: {name}"
        if name != PLAIN:
            ratios = [mine / its.total_s for mine, its in zip(total_s, plain, strict=True)]
            yield row(f"{who}: time over plain's", "ratio", ratios, HARMLESS)
        if name == AUTO:
            speed_up = [its.total_s / mine for mine, its in zip(total_s, plain, strict=True)]
            yield row(f"{who}: speed-up over plain", "ratio", speed_up)
        if name == BEHIND:  # the model has no writes behind the program
            ratios = [mine / _longest(its) for mine, its in zip(total_s, plain, strict=True)]
            yield row(f"{who}: time over the longest of R, C and W", "ratio", ratios)
        else:
            bounds = [runner.model_s(loop, its) for its in plain]
            ratios = [mine / bound for mine, bound in zip(total_s, bounds, strict=True)]
            yield row(f"{who}: time over the model's", "ratio", ratios)
        yield row(f"{who}: time", "s", total_s)
        yield row(f"{who}: I/O latency", "s", [found[name].read_s for found in rounds])
    for key, what in (("compute_s", "computing"), ("write_s", "writing")):
        yield row(f"{prefix}: {PLAIN}: {what}", "s", [getattr(each, key) for each in plain])
    yield row(f"{prefix}: model", "s", [runner.model_s(loop, its) for its in plain])


def hill_rows(session: Session, effort: Effort) -> Iterator[Row]:
    """Hill, which reads from one emulated device and writes to another."""
    size = effort.file_mib * MIB
    data = random_file(session.folder / "letters", size)
    wanted = enciphered(session, data, session.folder / "wanted-letters")
    with two_devices(session, data, SLOWFS_SPEED) as (place, other):
        runner = Runner(session, place, data.name)

        def run(name: str, loop: Loop) -> Figures:
            figures = runner.run(loop, NORMAL, output=other.folder / "output")
            check_same(other.direct / "output", wanted, f"{name}, {loop.ranks} ranks")
            other.remove("output")
            return figures

        for ranks in RANKS:
            loop = hill(chunk_bytes(size, CHUNKS), size, HILL_ROUNDS, ranks)
            session.progress(f"two of {place.name}: unchanged Hill, {ranks} ranks")
            acts = {
                name: partial(run, name, one) for name, one in _contenders(session, loop).items()
            }
            rounds = list(alternate(acts, effort.rounds))
            prefix = f"unchanged Hill on two slowfs, {ranks} ranks"
            yield from _rows_of_hill(runner, prefix, loop, rounds)


def raw_rows(session: Session, effort: Effort) -> Iterator[Row]:
    """Hill on the disk as it is, where it writes nothing."""
    size = effort.file_mib * MIB
    data = random_file(session.folder / "figures", size)
    with on_raw_disk(session, data) as place:
        runner = Runner(session, place, data.name)
        for ranks in RANKS:
            loop = hill(chunk_bytes(size, CHUNKS), size, HILL_ROUNDS, ranks)
            session.progress(f"{place.name}: unchanged Hill, {ranks} ranks")
            inner = _preloaded(session, SCHEDULE="auto")
            acts = {
                PLAIN: partial(runner.run, loop, NORMAL),
                AUTO: partial(runner.run, replace(loop, inner=inner), NORMAL),
            }
            rounds = list(alternate(acts, _many(session, effort)))
            prefix = f"unchanged Hill on the raw disk, {ranks} ranks"
            ratios = [found[AUTO].total_s / found[PLAIN].total_s for found in rounds]
            yield row(f"{prefix}: {AUTO}: time over plain's", "ratio", ratios, HARMLESS)
            for name in (PLAIN, AUTO):
                yield row(f"{prefix}: {name}: time", "s", [each[name].total_s for each in rounds])
                latencies = [each[name].read_s for each in rounds]
                yield row(f"{prefix}: {name}: I/O latency", "s", latencies)


# ---- A plan


def plan_rows(session: Session, effort: Effort) -> Iterator[Row]:
    """Random reads that the program names before, or of which it names the wrong ones."""
    count = max(128, effort.file_mib // 2)  # the first ones tell that a plan is wrong
    data = random_file(session.folder / "blocks-of-plans", (2 * count + 16) * MIB)
    inner = _preloaded(session)
    plain, wrong, right = (
        Reader(name, words, "bench_mpi_reads", before)
        for name, words, before in (
            (PLAIN, (), ()),
            ("wrong", ("--plan=wrong",), inner),
            ("right", ("--plan=right",), inner),
        )
    )
    computing = ("--compute-ns=2600000",)
    one_by_one = ("--how=read", "--handles=1", "--window=1")
    words = (*one_by_one, f"--reads={count}", f"--bytes={MIB}", *computing)
    with on_slowfs(session, data) as place:
        session.progress(f"{place.name}: plans of MPI-IO")
        reads = Reads(data.name, words)
        rounds = rounds_of(session, place, reads, [plain, wrong, right], effort.rounds)
    prefix = "iow_mpiio_plan, 1 MiB at 400 MB/s"
    metric = f"{prefix}: every read is wrong: time over that without the library"
    yield row(metric, "ratio", over(rounds, wrong, plain), at_most(1.03))
    metric = f"{prefix}: every read is right: speed-up over that without the library"
    yield row(metric, "ratio", over(rounds, plain, right))


# ---- Costs


def _pair(session: Session) -> tuple[Reader, Reader]:
    """A program as it is, and the same with the library."""
    return (
        Reader(PLAIN, (), "bench_mpi_reads"),
        Reader("library", (), "bench_mpi_reads", _preloaded(session)),
    )


def _ns_each(rounds: Sequence[Found], reader: Reader, count: int) -> list[float]:
    return [found[reader.name]["read_s"] / count * 1e9 for found in rounds]


def call_rows(session: Session, effort: Effort) -> Iterator[Row]:
    """Reads from the page cache, of which none is to be read ahead."""
    file_bytes = min(128, effort.file_mib) * MIB
    data = random_file(session.folder / "cached-blocks", file_bytes)
    plain, library = _pair(session)
    with on_raw_disk(session, data) as place:
        for order in ("sequential", "random"):
            for size, name, passes in ((64, "64 bytes", 1), (4096, "4 KiB", 16)):
                session.progress(f"MPI_File_read_at of {name}, cached, {order}")
                blocks = file_bytes // size // 2
                way = ("--how=read", "--handles=1", f"--order={order}", f"--passes={passes}")
                what = (f"--bytes={size}", f"--reads={blocks}")
                reads = Reads(data.name, (*way, *what), cached=True)
                pairs = _many(session, effort)
                rounds = rounds_of(session, place, reads, [plain, library], pairs)
                before = _ns_each(rounds, plain, blocks * passes)
                after = _ns_each(rounds, library, blocks * passes)
                prefix = f"MPI_File_read_at of {name}, cached, {order}"
                yield row(f"{prefix}: plain", "ns", before)
                yield row(f"{prefix}: library", "ns", after)
                added = [mine - its for mine, its in zip(after, before, strict=True)]
                yield row(f"{prefix}: library, added", "ns", added)


def start_rows(session: Session, effort: Effort) -> Iterator[Row]:
    """A program that initialises MPI, opens a file, reads 8 bytes of it, and ends."""
    data = random_file(session.folder / "opened", MIB)
    plain, library = _pair(session)
    command = replace(plain, name=COMMAND, inner=_under_ioweave(session))
    words = ("--how=read", "--handles=1", "--reads=1", "--bytes=8")
    with on_raw_disk(session, data) as place:
        session.progress("a program of MPI that does next to nothing")
        reads = Reads(data.name, words, cached=True)
        readers = [plain, library, command]
        rounds = rounds_of(session, place, reads, readers, _many(session, effort))
    prefix = "an MPI program from start to end, one file opened"
    for reader in readers:
        wall_s = [found[reader.name]["wall_s"] for found in rounds]
        yield row(f"{prefix}: {reader.name}", "s", wall_s)
        if reader is not plain:
            added = [found[reader.name]["wall_s"] - found[PLAIN]["wall_s"] for found in rounds]
            yield row(f"{prefix}: {reader.name}, added", "ms", [each * 1e3 for each in added])
