"""Write streams against other ways to write while computing, and against what the model says.

All contenders run in turn, on a device of known speed, over sizes of items and ratios of computing
to writing. What the figures mean is defined in bench/README.md, "streams".
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from harness import slowfs
from harness.build import BuildFailed
from harness.files import random_file
from harness.places import LIMIT_MB_S, SLOWFS_SPEED, PlaceUnavailable, on_limited_disk
from harness.programs import selected
from harness.result import Row, at_most, below, row
from harness.session import Session, Unsuitable
from harness.stream_runs import (
    CALLED,
    MIB,
    OURS,
    READERS,
    SPREAD,
    WRITING,
    Cell,
    ReadBack,
    Round,
    Runner,
    Spot,
    open_runner,
)
from harness.tasks.devices import work_folder

BUFFERS = 4
#: Of each of several devices: all of them together are what one is elsewhere.
TARGET_MB_S = 100
TARGET_MIB = 8

#: Written to the limited disk just before each run: more than its throttle was seen to bank.
SPENT_MIB = 96

PLACES = ("slowfs", "limited")
#: What `--only` may name.
PARTS = ("grid", "targets", "peers")


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        sizes: MiB of an item.
        ratios: C over W.
        file_each: The size of which each item also goes to a file of its own.
        seconds: That a run takes if all overlaps, about.
        rounds: Of each cell.
        targets: Numbers of devices.
    """

    sizes: tuple[int, ...]
    ratios: tuple[Fraction, ...]
    file_each: tuple[int, ...]
    seconds: float
    rounds: int
    targets: tuple[int, ...]


_HALF, _ONE = Fraction(1, 2), Fraction(1)
FULL = Effort(
    sizes=(1, 8, 32, 128),
    ratios=(Fraction(1, 8), _HALF, _ONE, Fraction(2), Fraction(8)),
    file_each=(8,),
    seconds=1.5,
    rounds=5,
    targets=(2, 4),
)
QUICK = Effort(sizes=(4,), ratios=(_HALF, _ONE), file_each=(), seconds=0.5, rounds=1, targets=(2,))


def cells_of(effort: Effort) -> list[Cell]:
    """Those of one device."""
    one_file = [Cell(size, ratio, BUFFERS) for size in effort.sizes for ratio in effort.ratios]
    return one_file + [
        Cell(size, ratio, BUFFERS, file_each=True)
        for size in effort.file_each
        for ratio in effort.ratios
    ]


def target_cells(count: int) -> list[Cell]:
    """Those of so many devices: all of them keep up with the computation, and only half of it."""
    return [Cell(TARGET_MIB, ratio / count, 2 * count) for ratio in (_ONE, _HALF)]


# ---- What rounds come to


def best_peer(rounds: Sequence[Round]) -> str:
    """Who of the others has the least median: chosen over all rounds, since the quickest of each
    would be another one, by chance."""
    others = {name for each in rounds for name in each.figures} - {OURS, SPREAD, WRITING}
    present = [name for name in others if all(name in each.figures for each in rounds)]
    return min(
        sorted(present),
        key=lambda name: statistics.median(each.durable_s(name) for each in rounds),
    )


def over(rounds: Sequence[Round], name: str, ours: str = OURS) -> list[float]:
    """Our time to durable over another's, round by round."""
    return [each.durable_s(ours) / each.durable_s(name) for each in rounds]


def grid_rows(where: str, cell: Cell, rounds: Sequence[Round]) -> Iterator[Row]:
    """Of a cell on one device."""
    prefix = f"{where}, {cell.name}"
    ratios = [each.durable_s(OURS) / each.bound_s for each in rounds]
    yield row(f"{prefix}: time over the model's", "ratio", ratios, at_most(1.05))
    best = best_peer(rounds)
    yield row(
        f"{prefix}: time over the best peer's ({CALLED[best]})",
        "ratio",
        over(rounds, best),
        at_most(1.02),
    )
    bar = below(1.0) if cell.several_to_one_file else None
    yield row(f"{prefix}: time over glibc AIO's", "ratio", over(rounds, "aio"), bar)
    yield from inflation_rows(prefix, rounds)
    yield from contender_rows(prefix, rounds)


def inflation_rows(prefix: str, rounds: Sequence[Round]) -> Iterator[Row]:
    """How much longer the computation took while items were written, where that was measured."""
    for name in rounds[0].figures:
        ratios = [
            figures.compute_s / figures.alone_s
            for figures in (each.figures[name] for each in rounds if name in each.figures)
            if figures.alone_s > 0
        ]
        if ratios:
            bar = at_most(1.02) if name == OURS else None
            what = f"{prefix}: computing while writing over computing alone, {CALLED[name]}"
            yield row(what, "ratio", ratios, bar)


def contender_rows(prefix: str, rounds: Sequence[Round]) -> Iterator[Row]:
    """For information: of each contender."""
    for name in rounds[0].figures:
        found = [each.figures[name] for each in rounds if name in each.figures]
        who = f"{prefix}: {CALLED[name]}"
        yield row(f"{who}: time to durable", "s", [figures.durable_s for figures in found])
        yield row(f"{who}: time to return", "s", [figures.return_s for figures in found])
        yield row(f"{who}: computing", "s", [figures.compute_s for figures in found])
        yield row(f"{who}: peak memory", "MiB", [figures.peak_mib for figures in found])


def target_rows(where: str, cell: Cell, rounds: Sequence[Round]) -> Iterator[Row]:
    """Of a cell on several devices."""
    prefix = f"{where}, {cell.name}"
    ratios = [each.durable_s(SPREAD) / each.bound_s for each in rounds]
    yield row(f"{prefix}: time over the bound of so many", "ratio", ratios, at_most(1.10))
    ratios = [each.durable_s(OURS) / each.bound_s for each in rounds]
    yield row(f"{prefix}: the same where the program chooses the files", "ratio", ratios)
    best = best_peer(rounds)
    what = f"{prefix}: time over the best peer's ({CALLED[best]})"
    yield row(what, "ratio", over(rounds, best, SPREAD))
    yield from contender_rows(prefix, rounds)


def read_rows(where: str, cell: Cell, rounds: Sequence[ReadBack]) -> Iterator[Row]:
    """Of reading the items of a spread back."""
    prefix = f"{where}, read back, {cell.mib} MiB, C/R {cell.ratio}"
    ratios = [each.time_s["stream"] / each.bound_s for each in rounds]
    yield row(f"{prefix}: time over the bound of so many", "ratio", ratios, at_most(1.10))
    for name in ("plain", "cached"):
        ratios = [each.time_s["stream"] / each.time_s[name] for each in rounds]
        yield row(f"{prefix}: time over that of {READERS[name]}", "ratio", ratios, below(1.0))
    for name, called in READERS.items():
        yield row(f"{prefix}: {called}: time", "s", [each.time_s[name] for each in rounds])
        yield row(f"{prefix}: {called}: computing", "s", [each.compute_s[name] for each in rounds])
        what = f"{prefix}: {called}: peak memory"
        yield row(what, "MiB", [each.peak_mib[name] for each in rounds])


# ---- Where


@contextlib.contextmanager
def on_slowfs(session: Session, count: int, speed: slowfs.Speed) -> Iterator[Spot]:
    """So many emulated devices, whose files lie in memory.

    Raises:
        PlaceUnavailable: No FUSE.
    """
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(work_folder(session))
        folders = []
        for number in range(count):
            files = source / f"{number}"
            folder = session.folder / f"slowfs-{count}-{number}"
            files.mkdir()
            folder.mkdir()
            try:
                program = session.program("slowfs")
                stack.enter_context(slowfs.mounted(program, files, folder, speed))
            except (slowfs.SlowfsUnavailable, BuildFailed) as error:
                raise PlaceUnavailable(f"no emulated parallel file system: {error}") from error
            folders.append(folder)
        name = f"slowfs {speed.write_mb_s:g} MB/s"
        yield Spot(f"{count} x {name}" if count > 1 else name, tuple(folders), speed.write_mb_s)


@contextlib.contextmanager
def on_limited(session: Session) -> Iterator[Spot]:
    """The session's disk with a limit, which counts only for writes past the page cache.

    Raises:
        PlaceUnavailable: No disk, or no control group for it.
    """
    data = random_file(session.folder / "data", 4096)
    with on_limited_disk(session, data, writes=True) as place:
        yield Spot(place.name, (place.folder,), LIMIT_MB_S, place.prefix, False, SPENT_MIB)


# ---- All


def _items(runner: Runner, spot: Spot, what: str, cell: Cell, effort: Effort) -> int:
    items = cell.items(spot, effort.seconds)
    words = f"{spot.name}, {what}{cell.name}: {items} items, {effort.rounds} rounds"
    runner.session.progress(words)
    return items


def _measured(runner: Runner, spot: Spot, cell: Cell, effort: Effort) -> list[Round]:
    items = _items(runner, spot, "", cell, effort)
    return list(runner.rounds(spot, cell, items, effort.rounds))


def _read_back(runner: Runner, spot: Spot, cell: Cell, effort: Effort) -> list[ReadBack]:
    items = _items(runner, spot, "read back, ", cell, effort)
    return list(runner.read_rounds(spot, cell, items, effort.rounds))


def _grid(runner: Runner, place: str, effort: Effort) -> Iterator[Row]:
    session = runner.session
    opened = on_slowfs(session, 1, SLOWFS_SPEED) if place == "slowfs" else on_limited(session)
    with opened as spot:
        cells = cells_of(effort)
        runner.try_out(spot, cells[0])
        for cell in cells:
            yield from grid_rows(spot.name, cell, _measured(runner, spot, cell, effort))
    if place == "limited" and runner.python is not None:
        session.note(f"caio is not among the peers of {spot.name}: it has only buffered writes")


def _targets(runner: Runner, effort: Effort) -> Iterator[Row]:
    speed = replace(SLOWFS_SPEED, read_mb_s=TARGET_MB_S, write_mb_s=TARGET_MB_S)
    for count in effort.targets:
        with on_slowfs(runner.session, count, speed) as spot:
            cells = target_cells(count)
            runner.try_out(spot, cells[0])
            for cell in cells:
                yield from target_rows(spot.name, cell, _measured(runner, spot, cell, effort))
            runner.try_out_readers(spot, cells[0])
            for cell in cells:
                yield from read_rows(spot.name, cell, _read_back(runner, spot, cell, effort))


def run(session: Session) -> Iterator[Row]:
    """All of it; without a place that this machine cannot have, which is noted.

    Raises:
        Unsuitable: No room for the files, no such place or part, or no write streams.
    """
    effort = QUICK if session.quick else FULL
    if session.selection.pairs is not None:
        effort = replace(effort, rounds=min(session.selection.pairs, effort.rounds))
    names = selected(PLACES, session.selection.places)
    parts = selected(PARTS, session.selection.programs)
    if not names or not parts:
        raise Unsuitable(f"there are the places {', '.join(PLACES)}, the parts {', '.join(PARTS)}")
    session.need_space(8 * max(effort.sizes) * MIB + (1 << 30))
    runner = open_runner(session, peers="peers" in parts and "grid" in parts)
    wanted = [_grid(runner, name, effort) for name in names if "grid" in parts]
    if "targets" in parts and "slowfs" in names:
        wanted.append(_targets(runner, effort))
    for rows in wanted:
        try:
            yield from rows
        except PlaceUnavailable as error:
            session.note(str(error))
