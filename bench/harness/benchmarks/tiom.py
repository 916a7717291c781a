"""Storage I/O inside tasks: the Task I/O Meter over a grid, and what single calls cost."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from harness import page_cache, places, process, tiom_grid
from harness.build import BuildFailed
from harness.files import random_file
from harness.places import Place, PlaceUnavailable
from harness.programs import selected
from harness.result import Bar, Row, at_least, at_most, row
from harness.samples import summarize
from harness.session import Session, Unsuitable
from harness.tiom_grid import Cell, Sweep

FILE_BYTES = 256 << 20
PENDING = 10_000

#: Over standalone, no cell is to be below.
LEAST = {"nonblocking": 0.98, "blocking": 0.97}

# A run has several turns of all series also where blocks are large and the device is slow: 32 of
# 4 MiB are a third of a second at 400 MB/s. What a limited disk banks while idle must count little.
_BLOCKS = ("4k", "16k", "64k", "256k", "1m", "4m")
_COMPUTES = ("0.1ms", "0.25ms", "1ms", "2ms", "4ms", "16ms")
_BOTH = ("mix", "fjio")

# The grids of either operation.
_GRIDS = ("write", "read")

#: What `--only` may name.
PARTS = ("calls", "reapers", "drop-in", *_GRIDS)


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: Of each single call.
        limited: On the limited disk.
        raw: On the disk as it is.
        again: Repetitions of a cell at a bar or below: of 72 cells some always are, by chance.
        reaper_repetitions: Of each cell that compares the reapers.
    """

    rounds: int
    limited: Sweep
    raw: Sweep
    again: int
    reaper_repetitions: int


FULL = Effort(
    rounds=31,
    limited=Sweep(_BOTH, _BLOCKS, _COMPUTES, 32, 1 << 30, 1.2, 3),
    raw=Sweep(_BOTH, _BLOCKS, _COMPUTES, 32, 2 << 30, 0.5, 3),
    again=7,
    reaper_repetitions=9,
)
QUICK = Effort(
    rounds=7,
    limited=Sweep(("mix",), ("64k", "1m"), ("0.25ms", "2ms"), 32, FILE_BYTES, 0.4, 3),
    raw=Sweep(("mix",), ("64k", "1m"), ("0.25ms", "2ms"), 32, FILE_BYTES, 0.2, 3),
    again=5,
    reaper_repetitions=3,
)


# ---- Single calls


def _added(session: Session, words: list[str], rounds: int) -> tuple[list[float], list[float]]:
    """Paired differences in microseconds, and the plain calls' figures."""
    done = process.run([*words, f"--rounds={rounds + 1}"])
    figures = done.json_lines()[1:]  # the first round warms up
    session.progress(f"{len(figures)} rounds of {' '.join(words[1:])}")
    added = [(line["task_ns"] - line["plain_ns"]) / 1e3 for line in figures]
    return added, [line["plain_ns"] / 1e3 for line in figures]


def _calls(session: Session, file: Path, effort: Effort) -> Iterator[Row]:
    cases: list[tuple[str, list[str], str, str, Bar | None]] = [
        ("task_tbb", ["cached"], "oneTBB", "blocking 4 KiB read, cached", at_most(1)),
        ("task_openmp", ["cached"], "OpenMP", "non-blocking 4 KiB read, cached", at_most(1)),
        (
            "task_openmp",
            ["cached", "--per-task=1"],
            "OpenMP",
            "the same, each in a task of its own",
            None,
        ),
        ("task_tbb", ["pause"], "oneTBB", "pause and resume, 4 KiB O_DIRECT read", at_most(10)),
    ]
    for driver, (what, *more), runtime, text, bar in cases:
        try:
            program = session.program(f"bench_{driver}")
        except BuildFailed as error:
            session.note(f"{runtime}: {text} is left out: {error}")
            continue
        page_cache.warm(file)
        words = [str(program), f"--file={file}", f"--what={what}", *more]
        added, plain = _added(session, words, effort.rounds)
        yield row(f"{runtime}: {text}: added to pread", "us", added, bar)
        yield row(f"{runtime}: {text}: pread", "us", plain)


def _pending(session: Session, file: Path) -> Iterator[Row]:
    with contextlib.suppress(BuildFailed):  # noted by _calls()
        program = session.program("bench_task_tbb")
        words = [str(program), f"--file={file}", "--what=pending", f"--calls={PENDING}"]
        (figures,) = process.run(words).json_lines()
        yield row(
            f"oneTBB: {PENDING} bound transfers: peak memory",
            "MiB",
            [figures["peak_rss_mib"]],
            at_most(200),
        )
        yield row("oneTBB: of these, pending at once", "", [figures["pending"]])


# ---- Who reaps, on ALPI


def _reapers(session: Session, file: Path, effort: Effort) -> Iterator[Row]:
    library = session.build.folder / "tests/support/alpi_provider/libalpi_test.so"
    if not library.exists():
        session.note(f"ALPI: reaper thread against polling task is left out: no {library}")
        return
    sweep = Sweep(
        ("mix",), ("4k", "64k"), ("0.1ms", "1ms"), 128, FILE_BYTES, 0.3, effort.reaper_repetitions
    )
    cores = len(os.sched_getaffinity(0))
    results: dict[str, list[Cell]] = {}
    for reaper in ("thread", "task"):
        session.progress(f"ALPI: reaper {reaper}")
        command: list[str | Path] = [
            session.program("tiom"),
            "--runtime=alpi",
            f"--alpi-library={library}",
            f"--reaper={reaper}",
            f"--file={file}",
        ]
        # As the real runtimes, which bind their threads.
        binding = {"ALPI_TEST_CPUS": str(cores), "ALPI_TEST_BIND": "1"}
        output = session.folder / f"{reaper}.json"
        results[reaper] = tiom_grid.run(command, sweep, output, binding)
    for thread, task in zip(results["thread"], results["task"], strict=True):
        for variant in ("blocking", "nonblocking"):
            yield row(
                f"ALPI: {variant}, {thread.name}: speed-up, reaper thread",
                "ratio",
                thread.speed_ups[variant],
            )
            yield row(
                f"ALPI: {variant}, {task.name}: speed-up, polling task",
                "ratio",
                task.speed_ups[variant],
            )


# ---- A program that is not changed


def _drop_in(session: Session, file: Path, effort: Effort) -> Iterator[Row]:
    """The meter's plain calls, as they are and under libioweave_tasks.so, in turn."""
    library = session.build.folder / "src/calls/task_preload/libioweave_tasks.so"
    if not library.exists():
        session.note(f"the drop-in is left out: no {library}")
        return
    session.progress("oneTBB: pread as it is and under libioweave_tasks.so")
    sweep = Sweep(("mix",), ("64k",), ("0.25ms", "16ms"), 32, FILE_BYTES, 0.3, 3)
    command: list[str | Path] = [
        session.program("tiom"),
        "--runtime=tbb",
        "--variant=standalone",
        f"--file={file}",
    ]
    preloaded = {"LD_PRELOAD": str(library), "IOWEAVE_TASKS": "tbb"}
    speed_ups: dict[str, list[float]] = {}
    for _ in range(effort.reaper_repetitions):
        plain, dropped_in = (
            tiom_grid.standalone_rates(command, sweep, session.folder / "drop-in.json", variables)
            for variables in ({}, preloaded)
        )
        for cell, rate in plain.items():
            speed_ups.setdefault(cell, []).append(dropped_in[cell] / rate)
    for cell, ratios in speed_ups.items():
        yield row(f"oneTBB: an unchanged program, {cell}: speed-up", "ratio", ratios)


# ---- The grid


def _doubtful(cells: list[Cell]) -> list[Cell]:
    """Those below a bar, and those just above it."""
    return [c for c in cells if any(c.speed_up(name) < bar + 0.01 for name, bar in LEAST.items())]


def _grid_rows(session: Session, where: str, cells: list[Cell]) -> Iterator[Row]:
    for variant, bar in LEAST.items():
        cell = tiom_grid.worst(cells, variant)
        yield row(
            f"{where}: worst cell, {variant} over standalone ({cell.name})",
            "ratio",
            cell.speed_ups[variant],
            at_least(bar),
        )
        below = [c for c in cells if c.speed_up(variant) < bar]
        if below:
            names = "; ".join(f"{c.name}: {c.speed_up(variant):.3f}" for c in below)
            session.note(f"{where}, {variant}: {len(below)} of {len(cells)} cells below: {names}")
    mix = [cell for cell in cells if cell.mode == "mix"]
    name = f"{where}: geometric mean of mix, what the bound leaves to gain over standalone"
    yield Row(name, "ratio", tiom_grid.mean_room(mix))
    for variant in LEAST:
        name = f"{where}: geometric mean of mix, {variant} over standalone"
        yield Row(name, "ratio", tiom_grid.mean_speed_up(mix, variant))
        name = f"{where}: part of that mean which the bound leaves, {variant}"
        yield Row(name, "ratio", tiom_grid.mean_part(mix, variant), at_least(0.95))
        peak = tiom_grid.best(cells, variant)
        yield row(
            f"{where}: best cell, {variant} over standalone ({peak.name})",
            "ratio",
            peak.speed_ups[variant],
            at_least(2.0),
        )
        balanced = tiom_grid.diagonal(cells)
        if balanced:
            yield Row(
                f"{where}: time over the bound where I/O and computation balance, {variant}",
                "ratio",
                summarize([cell.over_bound[variant] for cell in balanced]),
            )
            farthest = max(balanced, key=lambda cell: cell.over_bound[variant])
            yield row(
                f"{where}: the same of the cell farthest from it, {variant} ({farthest.name})",
                "ratio",
                [farthest.over_bound[variant]],
                at_most(1.15),
            )


def _grid(session: Session, place: Place, op: str, sweep: Sweep, again: int) -> Iterator[Row]:
    where = f"tiom {place.name} {op}"
    count = len(sweep.modes) * len(sweep.blocks) * len(sweep.computes)
    session.progress(
        f"{where}: {count} cells, {sweep.repetitions} repetitions of three variants, "
        f"about {max(1, round(sweep.seconds() / 60))} min"
    )
    document = session.folder / f"tiom-{place.name.replace(' ', '-').replace('/', '-')}-{op}.json"
    command: list[str | Path] = [
        *place.prefix,
        session.program("tiom"),
        "--runtime=tbb",
        f"--op={op}",
        f"--file={place.folder / f'tiom-{op}'}",
    ]
    pictures = [f"--html={document.with_suffix('.html')}", f"--png={document.with_suffix('.png')}"]
    cells = tiom_grid.run([*command, *pictures], sweep, document)
    kept = session.data / "tiom"
    kept.mkdir(exist_ok=True)
    for suffix in (".json", ".html", ".png"):
        shutil.copy(document.with_suffix(suffix), kept)
    session.note(f"{where}: heat maps and every run in {kept / document.stem}.html, .png, .json")
    for slow in _doubtful(cells):
        session.progress(f"{where}: {slow.name}: at a bar or below, measured anew, {again} times")
        output = session.folder / "again.json"
        (measured,) = tiom_grid.run(command, sweep.only(slow, again), output)
        cells[cells.index(slow)] = slow.and_again(measured)
        first, anew = (
            "/".join(f"{cell.speed_up(name):.3f}" for name in LEAST) for cell in (slow, measured)
        )
        session.note(
            f"{where}, {slow.name}: {'/'.join(LEAST)} {first} in the first {sweep.repetitions} "
            f"repetitions, then {anew} in {again}; all of them count"
        )
    yield from _grid_rows(session, where, cells)


Places = Callable[[], AbstractContextManager[Place]]


def no_more_than(effort: Effort, pairs: int) -> Effort:
    """The same with at most so many rounds of a call, and repetitions of a cell."""
    return replace(
        effort,
        rounds=min(pairs, effort.rounds),
        limited=replace(effort.limited, repetitions=min(pairs, effort.limited.repetitions)),
        raw=replace(effort.raw, repetitions=min(pairs, effort.raw.repetitions)),
        again=min(pairs, effort.again),
        reaper_repetitions=min(pairs, effort.reaper_repetitions),
    )


def run(session: Session) -> Iterator[Row]:
    """All of it; the grid on the disk as it is and under a limit, where that may be set.

    Raises:
        Unsuitable: No room for the files, or no such place.
    """
    effort = QUICK if session.quick else FULL
    if session.selection.pairs is not None:
        effort = no_more_than(effort, session.selection.pairs)
    names = selected(("limited", "raw"), session.selection.places)
    if not names:
        raise Unsuitable("no such place: there are limited, raw")
    parts = selected(PARTS, session.selection.programs)
    if not parts:
        raise Unsuitable(f"no such part: there are {', '.join(PARTS)}")
    session.need_space(2 * FILE_BYTES + effort.raw.file_bytes)
    file = random_file(session.folder / "data", FILE_BYTES)
    if "calls" in parts:
        yield from _calls(session, file, effort)
        yield from _pending(session, file)
    if "reapers" in parts:
        yield from _reapers(session, file, effort)
    if "drop-in" in parts:
        yield from _drop_in(session, file, effort)
    contexts: dict[str, tuple[Places, Sweep]] = {
        "limited": (lambda: places.on_limited_disk(session, file, writes=True), effort.limited),
        "raw": (lambda: places.on_raw_disk(session, file), effort.raw),
    }
    for context, sweep in (contexts[name] for name in names):
        try:
            with context() as place:
                for op in (part for part in parts if part in _GRIDS):
                    yield from _grid(session, place, op, sweep, effort.again)
        except PlaceUnavailable as error:
            session.note(str(error))
