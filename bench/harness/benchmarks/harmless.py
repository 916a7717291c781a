"""`ioweave run` with its defaults over the same command without: whole wall time, program by
program, on devices of several speeds, with files that are cold, cached, or half in the cache, and
of programs that write.

A cell is a program, a place and a state of the cache. It is measured in pairs of runs; none is left
out, and on a device whose times scatter there are as many as it takes to know the median. What the
figures mean is defined in bench/README.md, "harmless".
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import packages, page_cache, paired_ratios, process, programs, writers
from harness.files import random_file
from harness.paired_ratios import Effort, Pairs
from harness.places import (
    FAST_SPEED,
    Place,
    PlaceUnavailable,
    on_limited_disk,
    on_raw_disk,
    on_slowfs,
)
from harness.process import ProgramFailed
from harness.programs import MIB, Program, selected
from harness.result import Row, at_least, at_most, row
from harness.samples import summarize
from harness.session import Session, Unsuitable

#: With over without: the bar of every cell, for the median and for least over least.
HARM = 1.03
#: The median of plain cold readers on the raw disk.
GAIN = 0.9

#: Programs whose files are measured half in the cache too.
HALF = ("reader-1m", "reader-1m-more", "static-1m", "dd-4m", "grep")

#: What --quick takes where the command line names nothing.
QUICK_PROGRAMS = ("reader-1m", "static-1m", "dd-4m", "grep", "sha256sum")
QUICK_PLACES = ("raw", "slowfs-400")
QUICK_CACHES = ("cold",)

FULL = Effort(fewest=9, most=41, half_width=0.03)
QUICK = Effort(fewest=3, most=3, half_width=0.03)

CACHES: dict[str, Callable[[Place, str], None]] = {
    "cold": lambda place, name: place.make_cold(name),
    "cached": lambda place, name: page_cache.warm(place.folder / name),
    "half": lambda place, name: place.make_half_cold(name),
    #: Of programs that write, which find nothing.
    "written": lambda _place, _name: None,
}
#: Where these are measured: what others write does not go through the disk limit.
WRITERS_SPOTS = ("raw", "slowfs-400")


@dataclass(frozen=True)
class Spot:
    """A place by its name on the command line, and how large its files are.

    Attributes:
        light_mib: The file of programs that do little but read.
        heavy_mib: That of the others.
    """

    name: str
    open: Callable[[Session, Path], AbstractContextManager[Place]]
    light_mib: int
    heavy_mib: int = 128


SPOTS = (
    Spot("raw", on_raw_disk, 512),
    Spot("limited", on_limited_disk, 256, 192),
    Spot("slowfs-400", on_slowfs, 192),
    Spot("slowfs-3000", partial(on_slowfs, speed=FAST_SPEED), 512),
)
#: Of what is cached, whatever the place: the start of `ioweave run` is part of the time, so that a
#: run must not be over in a moment.
CACHED_LIGHT_MIB = 2048
#: Of what --long reads, but for programs that are slow.
LONG_TIMES = 4


@dataclass(frozen=True)
class Cell:
    """One program, place and state of the cache."""

    program: Program
    spot: Spot
    cache: str

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.program.name}, {self.spot.name}, {self.cache}"

    @property
    def gains(self) -> bool:
        """Whether it is to be quicker, not only not slower."""
        cache = "written" if self.program.writes else "cold"
        return self.program.gains and self.spot.name == "raw" and self.cache == cache

    def size_mib(self, *, quick: bool, long: bool = False) -> int:
        """How large a file it reads."""
        times = LONG_TIMES if long and not self.program.slow else 1
        if not self.program.light:
            return times * self.spot.heavy_mib
        if self.cache == "cached":
            return CACHED_LIGHT_MIB // (2 if quick else 1)
        return times * self.spot.light_mib


def cells_of(
    all_programs: Sequence[Program],
    wanted_programs: Sequence[str],
    wanted_places: Sequence[str],
    wanted_caches: Sequence[str],
) -> list[Cell]:
    """Every cell that is wanted, place by place."""
    places = selected((spot.name for spot in SPOTS), wanted_places)
    caches = selected(CACHES, wanted_caches)
    names = selected((program.name for program in all_programs), wanted_programs)
    return [
        Cell(program, spot, cache)
        for spot in SPOTS
        if spot.name in places
        for cache in caches
        for program in all_programs
        if program.name in names and _can_be(program, spot, cache)
    ]


def _can_be(program: Program, spot: Spot, cache: str) -> bool:
    if program.writes or cache == "written":
        return program.writes and cache == "written" and spot.name in WRITERS_SPOTS
    return cache != "half" or program.name in HALF


# ---- Files


class Files:
    """The files that programs read, made when first wanted; they go with the session's folder."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._folder = session.folder / "files"
        self._folder.mkdir()

    def path(self, suffix: str, size_mib: int, number: int = 0) -> Path:
        """A file of that kind and size; equal ones but for `number` differ only as files."""
        path = self._folder / f"data-{size_mib}M-{number}{suffix}"
        if not path.exists():
            if suffix == ".h5":
                python = programs.venv_python()
                process.run([python, "-c", programs.H5PY_WRITER, path, str(size_mib * MIB)])
            elif suffix in packages.MAKERS:
                packages.make_file(path, size_mib * MIB)
            else:
                random_file(path, size_mib * MIB)
                with path.open("r+b") as file:
                    file.seek(-len(programs.MARK), os.SEEK_END)
                    file.write(programs.MARK)
                    file.flush()
                    os.fsync(file.fileno())
        return path

    def of(self, cell: Cell) -> list[Path]:
        """Those of a cell."""
        size_mib = cell.size_mib(quick=self._session.quick, long=self._session.long)
        count = cell.program.files
        return [self.path(cell.program.suffix, size_mib // count, n) for n in range(count)]


def _bring(place: Place, file: Path) -> str:
    """Has a file in the place under its name."""
    there = place.direct / file.name
    if not there.exists():
        os.link(file, there)
    return file.name


# ---- Pairs


class Harmed(RuntimeError):
    """A program that works by itself fails with Ioweave, or prints something else."""


def _seconds(
    place: Place, cell: Cell, names: Sequence[str], prefix: Sequence[str], outputs: list[str]
) -> float:
    if cell.program.writes:
        return _seconds_of_writer(place, cell, prefix, outputs)
    for name in names:
        CACHES[cell.cache](place, name)
    if cell.cache != "cached":
        place.use_up_credit(names[0])
    paths = [str(place.folder / name) for name in names]
    command = [*place.prefix, *prefix, *cell.program.words(paths)]
    stdin = place.folder / names[0] if cell.program.stdin else None
    done = process.run(command, stdin=stdin)
    outputs.append(done.stdout)
    return done.wall_s


def _seconds_of_writer(
    place: Place, cell: Cell, prefix: Sequence[str], outputs: list[str]
) -> float:
    folder = place.folder / "written"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.sync()  # what the run before left is not to be written during this one
    done = process.run([*place.prefix, *prefix, *cell.program.words([str(folder)])])
    outputs.append(done.stdout + writers.digest_of(folder))
    shutil.rmtree(folder)
    return done.wall_s


def _measure(
    session: Session, place: Place, cell: Cell, files: list[Path], effort: Effort
) -> Pairs:
    names = [_bring(place, file) for file in files]
    outputs: list[str] = []
    ours = [] if session.selection.null else [str(session.program("ioweave")), "run", "-q", "--"]
    plain = partial(_seconds, place, cell, names, [], outputs)
    woven = partial(_seconds, place, cell, names, ours, outputs)
    plain()  # the program itself comes into memory; one that cannot run here fails
    try:
        pairs = paired_ratios.measure(plain, woven, effort)
    except ProgramFailed as error:
        raise Harmed(str(error)) from error
    if len(set(outputs)) != 1:
        shown = sorted({output[:200] for output in outputs})
        raise Harmed(f"what it prints differs: {shown}")
    return pairs


def rows_of(cell: Cell, pairs: Pairs) -> Iterator[Row]:
    """What the pairs of a cell come to."""
    median = pairs.median_summary()
    yield Row(f"{cell.name}: median", "ratio", median, at_most(HARM))
    yield Row(f"{cell.name}: least over least", "ratio", pairs.least_summary(), at_most(HARM))
    if cell.gains:
        yield Row(f"{cell.name}: median, to gain", "ratio", median, at_most(GAIN))
    yield row(f"{cell.name}: plain", "s", pairs.plain)
    yield Row(f"{cell.name}: saved", "s", pairs.saved_summary())


# ---- The whole


def met(pairs: Pairs) -> bool:
    """Whether a cell does no harm."""
    return max(pairs.median, pairs.least_over_least) <= HARM


def summary_rows(measured: Sequence[tuple[Cell, Pairs]], broken: int = 0) -> Iterator[Row]:
    """How many cells are as they should be, and the worst one. A program that broke was harmed."""
    total = len(measured) + broken
    if total == 0:
        return
    if broken:
        yield row("all: cells whose program failed or printed otherwise", "cells", [broken])
    good = sum(met(pairs) for _, pairs in measured)
    yield row(f"all: cells without harm, of {total}", "cells", [good], at_least(total))
    yield row(f"all: cells with harm, of {total}", "cells", [total - good])
    if not measured:
        return
    for kind, writes in (("plain cold readers", False), ("writers", True)):
        gaining = [
            pairs for cell, pairs in measured if cell.gains and cell.program.writes == writes
        ]
        if not gaining:
            continue
        count = sum(pairs.median <= GAIN for pairs in gaining)
        name = f"all: {kind} on the raw disk that gain, of {len(gaining)}"
        yield row(name, "cells", [count], at_least(len(gaining)))
    worst, pairs = max(measured, key=lambda one: one[1].median)
    yield Row(f"all: worst median ({worst.name})", "ratio", pairs.median_summary())
    worst, pairs = max(measured, key=lambda one: one[1].least_over_least)
    yield Row(f"all: worst least over least ({worst.name})", "ratio", pairs.least_summary())
    fewest = min(len(pairs.plain) for _, pairs in measured)
    most = max(len(pairs.plain) for _, pairs in measured)
    yield Row("all: pairs a cell, from fewest to most", "", summarize([fewest, most]))


def _wanted(session: Session) -> tuple[Effort, list[Cell]]:
    part = session.selection
    effort = QUICK if session.quick else FULL
    if part.pairs is not None:
        effort = Effort(min(effort.fewest, part.pairs), part.pairs, effort.half_width)
    quick = session.quick and not (part.programs or part.places or part.caches)
    found = programs.readers_of(session)
    writers.add_to(session, found)
    if any(word.startswith("real") for word in part.programs):
        packages.add_to(found)
    for reason in found.missing:
        session.note(f"left out: {reason}")
    known_names = [program.name for program in found.programs]
    for word in part.programs:
        if not selected(known_names, [word]):
            session.note(f"--only {word}: there is no such program")
    cells = cells_of(
        found.programs,
        QUICK_PROGRAMS if quick else part.programs,
        QUICK_PLACES if quick else part.places,
        QUICK_CACHES if quick else part.caches,
    )
    if not cells:
        known = ", ".join(known_names)
        places = ", ".join(spot.name for spot in SPOTS)
        raise Unsuitable(
            f"no such cell. Programs: {known}; places: {places}; cache: {', '.join(CACHES)} "
            f"(half: {', '.join(HALF)} only)"
        )
    return effort, cells


def run(session: Session) -> Iterator[Row]:
    """All cells, place by place, and how many are as they should be."""
    effort, cells = _wanted(session)
    if session.selection.null:
        session.note("plain runs over plain runs (--null): Ioweave is in none of them")
    session.need_space(6 * 1024 * MIB)
    files = Files(session)
    measured: list[tuple[Cell, Pairs]] = []
    broken = 0
    for spot in SPOTS:
        here = [cell for cell in cells if cell.spot == spot]
        if not here:
            continue
        # A place has the data of a reader in it; a small file where there is none.
        first = next((file for cell in here for file in files.of(cell)), None)
        if first is None:
            first = files.path(".bin", 1)
        with contextlib.ExitStack() as stack:
            try:
                place = stack.enter_context(spot.open(session, first))
            except PlaceUnavailable as error:
                session.note(str(error))
                continue
            for cell in here:
                try:
                    chosen = files.of(cell)
                    pairs = _measure(session, place, cell, chosen, effort)
                except (ProgramFailed, page_cache.StillCached) as error:
                    session.note(f"{cell.name} is left out: {error}")
                    continue
                except Harmed as error:
                    session.note(f"{cell.name}: HARMED: {error}")
                    broken += 1
                    continue
                measured.append((cell, pairs))
                yield from rows_of(cell, pairs)
    yield from summary_rows(measured, broken)
