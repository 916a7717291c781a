"""Storage I/O inside tasks: the Task I/O Meter over a grid, and what single calls cost."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from harness import page_cache, places, process, tiom_grid
from harness.build import BuildFailed
from harness.files import random_file
from harness.places import Place, PlaceUnavailable
from harness.result import Bar, Row, at_least, at_most, row
from harness.samples import summarize
from harness.session import Session
from harness.tiom_grid import Cell, Sweep

FILE_BYTES = 256 << 20
PENDING = 10_000

_BLOCKS = ("4k", "16k", "64k", "256k", "1m", "4m")
_COMPUTES = ("0.1ms", "0.25ms", "1ms", "2ms", "4ms", "16ms")
FULL_SWEEP = Sweep(("mix", "fjio"), _BLOCKS, _COMPUTES, FILE_BYTES, 0.4, 7)
QUICK_SWEEP = Sweep(("mix",), ("64k", "1m"), ("0.25ms", "2ms"), FILE_BYTES, 0.2, 3)


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int
    sweep: Sweep
    reaper_repetitions: int


FULL = Effort(rounds=31, sweep=FULL_SWEEP, reaper_repetitions=9)
QUICK = Effort(rounds=7, sweep=QUICK_SWEEP, reaper_repetitions=3)


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
        ("mix",), ("4k", "64k"), ("0.1ms", "1ms"), FILE_BYTES, 0.3, effort.reaper_repetitions
    )
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
        results[reaper] = tiom_grid.run(command, sweep, session.folder / f"{reaper}.json")
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


# ---- The grid


def _grid_rows(session: Session, where: str, cells: list[Cell]) -> Iterator[Row]:
    least = {"nonblocking": 0.98, "blocking": 0.97}
    for variant, bar in least.items():
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
    for variant in least:
        mean = tiom_grid.geometric_mean(mix, variant)
        name = f"{where}: geometric mean of mix, {variant} over standalone"
        yield Row(name, "ratio", mean, at_least(1.3))
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
                at_most(1.15),
            )


def _grid(session: Session, place: Place, op: str, sweep: Sweep) -> Iterator[Row]:
    where = f"tiom {place.name} {op}"
    count = len(sweep.modes) * len(sweep.blocks) * len(sweep.computes)
    session.progress(f"{where}: {count} cells, {sweep.repetitions} repetitions of three variants")
    document = session.folder / f"tiom-{place.name.replace(' ', '-').replace('/', '-')}-{op}.json"
    command: list[str | Path] = [
        *place.prefix,
        session.program("tiom"),
        "--runtime=tbb",
        f"--op={op}",
        f"--file={place.folder / f'tiom-{op}'}",
        f"--html={document.with_suffix('.html')}",
        f"--png={document.with_suffix('.png')}",
    ]
    cells = tiom_grid.run(command, sweep, document)
    kept = session.data / "tiom"
    kept.mkdir(exist_ok=True)
    for suffix in (".json", ".html", ".png"):
        shutil.copy(document.with_suffix(suffix), kept)
    session.note(f"{where}: heat maps and every run in {kept / document.stem}.html, .png, .json")
    yield from _grid_rows(session, where, cells)


Places = Callable[[], AbstractContextManager[Place]]


def run(session: Session) -> Iterator[Row]:
    """All of it; the grid on the disk as it is and under a limit, where that may be set."""
    effort = QUICK if session.quick else FULL
    session.need_space(4 * FILE_BYTES)
    file = random_file(session.folder / "data", FILE_BYTES)
    yield from _calls(session, file, effort)
    yield from _pending(session, file)
    yield from _reapers(session, file, effort)
    contexts: list[Places] = [
        lambda: places.on_limited_disk(session, file, writes=True),
        lambda: places.on_raw_disk(session, file),
    ]
    for context in contexts:
        try:
            with context() as place:
                for op in ("write", "read"):
                    yield from _grid(session, place, op, effort.sweep)
        except PlaceUnavailable as error:
            session.note(str(error))
