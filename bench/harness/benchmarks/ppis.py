"""Reads ahead of computation: plans and pre-execution, against the PPIS paper and against others.

The paper's two programs run in its modes, beside light and heavy I/O of others; random reads by a
plan run against what else there is for them. What the figures mean is defined in bench/README.md,
"ppis".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness import ppis_mpiio, process, slowfs
from harness.build import BuildFailed
from harness.files import random_file
from harness.places import (
    LIMIT_MB_S,
    Place,
    PlaceUnavailable,
    on_limited_disk,
    on_raw_disk,
    on_slowfs,
)
from harness.ppis_pictures import pictures_of
from harness.ppis_readers import Reader, Reads, over, rounds_of
from harness.ppis_runs import (
    AUTO,
    CALLED,
    HILL_ROUNDS,
    MIB,
    NORMAL,
    PP,
    PPIS,
    Effort,
    Figures,
    Loop,
    Runner,
    check_same,
    chunk_bytes,
    enciphered,
    hill,
    search,
    two_devices,
)
from harness.programs import selected
from harness.result import Bar, Row, at_least, at_most, below, row
from harness.samples import alternate
from harness.session import Session, Unsuitable
from harness.tasks.drawing import draw

MODES = (NORMAL, PP, PPIS, AUTO)
PLACES = ("slowfs", "limited", "raw")

#: The emulated device whose latency hides: as many requests at once as it is sent.
FAR = slowfs.Speed(read_mb_s=4000, write_mb_s=4000, latency_us=2000)
#: Of a program whose reads can all be hidden: it computes a little longer than it reads.
COMPUTE_OVER_READ = 1.03


FULL = Effort(3, 10_000, 512, (3, 4, 5, 6, 8, 12, 16, 32, 64), (1, 2, 4, 8, 16), (False, True))
QUICK = Effort(1, 500, 48, (3, 6), (1, 2), (False, True))


# ---- Random reads


PLAIN = Reader("pread", ("--how=plain",))
PLANNED = Reader("plan", ("--how=auto",))
GIVEN = Reader("plan, depth given", ("--how=pp", "--depth=256"))
PEERS = (
    Reader("posix_fadvise", ("--how=fadvise", "--ahead=512")),
    Reader("readahead by 64 threads", ("--how=readahead", "--threads=64")),
    Reader("MPI_File_iread_at", ("--window=256",), "bench_mpi_reads"),
)


def _random_blocks(session: Session, effort: Effort) -> Path:
    return random_file(session.folder / "blocks", 2 * effort.reads * 4096 + 64 * MIB)


def _random(session: Session, effort: Effort) -> Iterator[Row]:
    data = _random_blocks(session, effort)
    with on_slowfs(session, data, speed=FAR, many_requests=True) as place:
        yield from _random_rows(session, effort, place, data, "at 2 ms", is_judged=True)


def _random_raw(session: Session, effort: Effort) -> Iterator[Row]:
    data = _random_blocks(session, effort)
    with on_raw_disk(session, data) as place:
        yield from _random_rows(session, effort, place, data, "on the raw disk", is_judged=False)


def _random_rows(
    session: Session, effort: Effort, place: Place, data: Path, where: str, *, is_judged: bool
) -> Iterator[Row]:
    readers = [PLAIN, PLANNED, GIVEN, *PEERS]
    try:
        session.program("bench_mpi_reads")
    except BuildFailed:
        session.note("MPI_File_iread_at is left out: there is no MPI")
        readers.pop()
    session.progress(f"{place.name}: {effort.reads} random reads, {effort.rounds} rounds")
    reads = Reads(data.name, (f"--reads={effort.reads}",))
    rounds = rounds_of(session, place, reads, readers, effort.rounds)
    prefix = f"{effort.reads} random reads of 4 KiB {where}"
    speed_up = over(rounds, PLAIN, PLANNED)
    bar = at_least(20) if is_judged else None
    yield row(f"{prefix}: plan, speed-up over pread", "ratio", speed_up, bar)
    for peer in readers:
        if peer in PEERS:
            metric = f"{prefix}: plan, time over that of {peer.name}"
            bar = at_most(1.0) if is_judged else None
            yield row(metric, "ratio", over(rounds, PLANNED, peer), bar)
    for peer in readers:
        if peer in PEERS:
            metric = f"{prefix}: plan with its depth given, time over that of {peer.name}"
            yield row(metric, "ratio", over(rounds, GIVEN, peer))
    for each in readers:
        for key, what in (("time_s", "time"), ("cpu_s", "processor time")):
            found = [figures[each.name][key] for figures in rounds]
            yield row(f"{prefix}: {each.name}: {what}", "s", found)


def _wrong(session: Session, effort: Effort) -> Iterator[Row]:
    """A plan of which no read is right."""
    big = max(16, effort.file_mib // 2)
    data = random_file(session.folder / "unread", (2 * big + 16) * MIB)
    wrong = Reader("wrong plan", ("--how=wrong",))
    kinds = {
        "4 KiB at 2 ms": (FAR, ("--reads=1000",)),
        "1 MiB at 400 MB/s": (
            slowfs.Speed(read_mb_s=LIMIT_MB_S, write_mb_s=LIMIT_MB_S, latency_us=200),
            (f"--reads={big}", f"--bytes={MIB}", "--compute-ns=2600000"),
        ),
    }
    for name, (speed, words) in kinds.items():
        with on_slowfs(session, data, speed=speed, many_requests=speed is FAR) as place:
            session.progress(f"{place.name}: a wrong plan, {name}")
            reads = Reads(data.name, words)
            rounds = rounds_of(session, place, reads, [PLAIN, wrong], effort.rounds)
        metric = f"a plan of which every read is wrong, {name}: time over that of pread"
        yield row(metric, "ratio", over(rounds, wrong, PLAIN), at_most(1.03))


def _shadow(session: Session, effort: Effort) -> Iterator[Row]:
    """What the loop ahead costs the processor."""
    data = random_file(session.folder / "loop", 32 * MIB)
    loop = Reader("loop ahead", ("--how=loop",))
    reads = Reads(data.name, ("--reads=1000", "--compute-ns=1000000"))
    with on_slowfs(session, data, speed=FAR, many_requests=True) as place:
        session.progress(f"{place.name}: a loop of 1000 reads ahead of itself")
        rounds = rounds_of(session, place, reads, [PLAIN, loop], effort.rounds)
    prefix = "a loop of 1000 reads of 4 KiB, 1 ms of computing each"
    shares = [found[loop.name]["ahead_cpu_s"] / found[loop.name]["time_s"] for found in rounds]
    metric = f"{prefix}: processor time of the loop ahead over the loop's time"
    yield row(metric, "ratio", shares, below(0.01))
    yield row(f"{prefix}: speed-up over pread", "ratio", over(rounds, PLAIN, loop))


# ---- The paper's programs

Round = Mapping[str, Figures]


def _loop_rounds(runner: Runner, loop: Loop, modes: Sequence[str], count: int) -> list[Round]:
    return list(alternate({mode: partial(runner.run, loop, mode) for mode in modes}, count))


def _loop_rows(
    runner: Runner, prefix: str, loop: Loop, rounds: Sequence[Round], *, alone: bool
) -> Iterator[Row]:
    """Of a cell. `alone`: one process on a processor of its own, and nobody else on the device."""

    def times_over(mode: str, other: str) -> list[float]:
        return [found[mode].total_s / found[other].total_s for found in rounds]

    yield row(
        f"{prefix}: PPIS, time over normal's", "ratio", times_over(PPIS, NORMAL), at_most(1.02)
    )
    yield row(f"{prefix}: PPIS, time over PP's", "ratio", times_over(PPIS, PP), at_most(1.02))
    yield row(
        f"{prefix}: auto, time over normal's", "ratio", times_over(AUTO, NORMAL), at_most(1.02)
    )
    models = [runner.model_s(loop, found[NORMAL]) for found in rounds]
    over_model = [found[PPIS].total_s / it for found, it in zip(rounds, models, strict=True)]
    bar = at_most(1.05) if alone else None
    yield row(f"{prefix}: PPIS, time over the model's", "ratio", over_model, bar)
    yield row(f"{prefix}: model", "s", models)
    for mode in MODES:
        who = f"{prefix}: {CALLED[mode]}"
        yield row(f"{who}: time", "s", [found[mode].total_s for found in rounds])
        yield row(f"{who}: I/O latency", "s", [found[mode].read_s for found in rounds])
        rates = [found[mode].bytes_per_s / 1e6 for found in rounds]
        yield row(f"{who}: sustained bandwidth", "MB/s", rates)


def _removed(rounds: Sequence[Round], mode: str) -> list[float]:
    return [1 - found[mode].read_s / found[NORMAL].read_s for found in rounds]


def _fitted_speed(session: Session, data: Path) -> slowfs.Speed:
    """Of a device from which Hill reads about as long as it computes there."""
    size = data.stat().st_size
    loop = hill(size // 8, size, HILL_ROUNDS)
    speed = slowfs.Speed(read_mb_s=LIMIT_MB_S, write_mb_s=LIMIT_MB_S, latency_us=200)
    for _ in range(2):
        with on_slowfs(session, data, speed=speed) as place:
            compute_s = Runner(session, place, data.name).run(loop, PPIS).compute_s
        rate = size / 1e6 / compute_s * COMPUTE_OVER_READ
        speed = replace(speed, read_mb_s=round(rate), write_mb_s=round(rate))
    return speed


def _check_programs(runner: Runner, size: int) -> None:
    """Every mode writes what `hill` writes. Nothing is measured.

    Raises:
        ProgramFailed: One of them wrote something else.
    """
    folder = runner.session.folder
    wanted = enciphered(runner.session, runner.place.folder / runner.data, folder / "wanted")
    found = folder / "found"
    for mode in MODES:
        for ranks in (1, 2):
            loop = hill(chunk_bytes(size, 4), size, HILL_ROUNDS, ranks)
            runner.run(loop, mode, output=found)
            check_same(found, wanted, f"hill_mpi, {CALLED[mode]}, {ranks} ranks")
            found.unlink()
    wanted.unlink()


def _chunks(session: Session, effort: Effort) -> Iterator[Row]:
    """Hill where it computes about as long as it reads: the paper's figure 12."""
    size = effort.file_mib * MIB
    data = random_file(session.folder / "text", size)
    speed = _fitted_speed(session, data)
    with on_slowfs(session, data, speed=speed) as place:
        runner = Runner(session, place, data.name)
        _check_programs(runner, size)
        for count in effort.chunks:
            loop = hill(chunk_bytes(size, count), size, HILL_ROUNDS)
            session.progress(f"{place.name}: Hill, R about C, {loop.chunks} chunks")
            rounds = _loop_rounds(runner, loop, MODES, effort.rounds)
            prefix = f"Hill on slowfs, R about C, n = {loop.chunks}"
            yield row(
                f"{prefix}: R over C",
                "ratio",
                [found[NORMAL].read_s / found[PPIS].compute_s for found in rounds],
            )
            least = 0.95 * (1 - 1 / loop.chunks)
            metric = f"{prefix}: I/O latency removed by PPIS"
            yield row(metric, "part", _removed(rounds, PPIS), at_least(least))
            for mode in (PP, AUTO):
                metric = f"{prefix}: I/O latency removed by {CALLED[mode]}"
                yield row(metric, "part", _removed(rounds, mode))
            speed_up = [found[NORMAL].total_s / found[PPIS].total_s for found in rounds]
            bar: Bar | None = at_least(1.85) if loop.chunks >= 50 else None
            yield row(f"{prefix}: PPIS, speed-up over normal", "ratio", speed_up, bar)
            yield from _loop_rows(runner, prefix, loop, rounds, alone=True)


def _writes(session: Session, effort: Effort) -> Iterator[Row]:
    """Reads and writes overlapped, on devices of their own."""
    size = effort.file_mib * MIB
    data = random_file(session.folder / "plaintext", size)
    speed = _fitted_speed(session, data)
    loop = hill(chunk_bytes(size, 64), size, HILL_ROUNDS)
    woven = replace(loop, words=(*loop.words, "--write-behind"))
    wanted = enciphered(session, data, session.folder / "wanted")
    with two_devices(session, data, speed) as (place, other):
        runner = Runner(session, place, data.name)
        session.progress(f"{place.name}: Hill, reads and writes overlapped")

        def run(which: Loop, mode: str) -> Figures:
            figures = runner.run(which, mode, output=other.folder / "output")
            check_same(other.direct / "output", wanted, " ".join((*which.words, CALLED[mode])))
            other.remove("output")
            return figures

        acts = {"normal": partial(run, loop, NORMAL), "woven": partial(run, woven, PPIS)}
        rounds = list(alternate(acts, effort.rounds))
    prefix = f"Hill, writes to a second device, n = {loop.chunks}"
    ratios = []
    for found in rounds:
        plain = found["normal"]
        longest = max(plain.read_s, plain.compute_s, plain.write_s)
        ratios.append(found["woven"].total_s / longest)
    metric = f"{prefix}: time over the longest of R, C and W"
    yield row(metric, "ratio", ratios, at_most(1.10))
    speed_up = [found["normal"].total_s / found["woven"].total_s for found in rounds]
    yield row(f"{prefix}: speed-up over normal", "ratio", speed_up)
    for key, what in (("read_s", "R"), ("compute_s", "C"), ("write_s", "W"), ("total_s", "time")):
        found_s = [getattr(found["normal"], key) for found in rounds]
        yield row(f"{prefix}: normal: {what}", "s", found_s)
    yield row(f"{prefix}: woven: time", "s", [found["woven"].total_s for found in rounds])


@contextlib.contextmanager
def _at(session: Session, name: str, data: Path) -> Iterator[Place]:
    opened = on_slowfs(session, data) if name == "slowfs" else on_limited_disk(session, data)
    with opened as place:
        yield place


def _by_ranks(session: Session, effort: Effort, name: str, part: str, data: Path) -> Iterator[Row]:
    """One of the programs by several ranks, beside light and heavy I/O."""
    size = data.stat().st_size
    with _at(session, name, data) as place:
        runner = Runner(session, place, data.name)
        for heavy in effort.loads:
            for ranks in effort.ranks:
                if part == "search":
                    loop, called = search(size, ranks), "matrix search"
                else:
                    loop, called = hill(chunk_bytes(size, 8), size, HILL_ROUNDS, ranks), "Hill"
                kind = "heavy" if heavy else "light"
                prefix = f"{called} on {name}, {kind} I/O, {ranks} ranks"
                session.progress(prefix)
                with runner.load() if heavy else contextlib.nullcontext():
                    rounds = _loop_rounds(runner, loop, MODES, effort.rounds)
                yield row(f"{prefix}: I/O latency removed by PPIS", "part", _removed(rounds, PPIS))
                yield from _loop_rows(runner, prefix, loop, rounds, alone=ranks == 1 and not heavy)


def _made(session: Session, part: str, effort: Effort) -> Path:
    """The input of a program."""
    if part == "ranks":
        return random_file(session.folder / "message", effort.file_mib * MIB)
    matrix = session.folder / "matrix"
    words = [f"--make={effort.file_mib}M", str(matrix)]
    process.run([str(session.program("matrix_search")), *words])
    return matrix


#: Each part by the name for `--only`, with the place that it needs; None: any will do.
ALONE: Mapping[str, tuple[str | None, Callable[[Session, Effort], Iterator[Row]]]] = {
    "random": ("slowfs", _random),
    "random-raw": ("raw", _random_raw),
    "wrong": ("slowfs", _wrong),
    "shadow": ("slowfs", _shadow),
    "chunks": ("slowfs", _chunks),
    "writes": ("slowfs", _writes),
    "mpiio-hill": ("slowfs", ppis_mpiio.hill_rows),
    "mpiio-raw": ("raw", ppis_mpiio.raw_rows),
    "mpiio-plan": ("slowfs", ppis_mpiio.plan_rows),
    "mpiio-calls": (None, ppis_mpiio.call_rows),
    "mpiio-start": (None, ppis_mpiio.start_rows),
}
#: Those that run in each place but the raw disk.
BY_RANKS = ("ranks", "search")


def _chosen(session: Session, effort: Effort) -> Iterator[Iterator[Row]]:
    """The parts that are wanted, in their order; each is measured when its first row is asked for.

    Raises:
        Unsuitable: No such place or part.
    """
    names = selected(PLACES, session.selection.places)
    parts = selected([*ALONE, *BY_RANKS], session.selection.programs)
    if not names or not parts:
        known = ", ".join((*ALONE, *BY_RANKS))
        raise Unsuitable(f"there are the places {', '.join(PLACES)}, the parts {known}")
    for part in parts:
        if part in ALONE:
            place, measure = ALONE[part]
            if place is None or place in names:
                yield measure(session, effort)
        elif devices := [name for name in names if name != "raw"]:
            data = _made(session, part, effort)
            for name in devices:
                yield _by_ranks(session, effort, name, part, data)


def run(session: Session) -> Iterator[Row]:
    """All of it; without a place that this machine cannot have, which is noted.

    Raises:
        Unsuitable: No room for the files, no such place or part, or no MPI.
    """
    effort = QUICK if session.quick else FULL
    if session.selection.pairs is not None:
        effort = replace(effort, rounds=min(session.selection.pairs, effort.rounds))
    session.need_space((5 * effort.file_mib + 1024) * MIB)
    values = {}
    for part in _chosen(session, effort):
        try:
            for each in part:
                values[each.metric] = each.summary.value
                yield each
        except PlaceUnavailable as error:
            session.note(str(error))
    if pictures := pictures_of(values):
        draw(session, "ppis", pictures)
