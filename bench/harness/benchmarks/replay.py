"""Readers in no order, and others, under `ioweave run --replay` beside plain and `ioweave run`.

The place is slowfs with 1 ms of latency. bench/README.md, "replay", says what is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from harness import page_cache, process, slowfs
from harness.files import random_file
from harness.hill_bench import size_name
from harness.places import Place, PlaceUnavailable, on_slowfs
from harness.process import ProgramFailed
from harness.programs import selected
from harness.result import Row, at_least, at_most, row
from harness.samples import alternate
from harness.session import Session, Unsuitable

KIB, MIB = 1 << 10, 1 << 20
SPEED = slowfs.Speed(read_mb_s=3000, write_mb_s=3000, latency_us=1000)
FILE_BYTES = 512 * MIB
ROUNDS = 5
#: Times plain's speed, for readers in no order.
LEAST = 5.0
#: Of plain's time, for readers that need no plan.
MOST = 1.05


@dataclass(frozen=True)
class Cell:
    """What is read.

    Attributes:
        how: As `drivers/scattered_reader.c` takes it.
    """

    how: str
    piece_bytes: int
    count: int
    is_cold: bool = True

    @property
    def name(self) -> str:
        """For people."""
        cached = "" if self.is_cold else ", cached"
        return f"{self.how}, {self.count} pieces of {size_name(self.piece_bytes)}{cached}"

    @property
    def word(self) -> str:
        """For the command line."""
        mib = self.piece_bytes >= MIB
        size = f"{self.piece_bytes // MIB}m" if mib else f"{self.piece_bytes // KIB}k"
        return f"{self.how}-{size}" + ("" if self.is_cold else "-cached")

    @property
    def gains(self) -> bool:
        """Whether the plan is to make it quicker."""
        return self.is_cold and self.how in ("random", "seek")


CELLS = (
    Cell("random", 4 * KIB, 2000),
    Cell("random", 64 * KIB, 1000),
    Cell("random", 256 * KIB, 600),
    Cell("seek", 4 * KIB, 2000),
    Cell("seek", 64 * KIB, 1000),
    Cell("stride", 64 * KIB, 1000),
    Cell("sequential", 64 * KIB, 8192),
    Cell("sequential", 1 * MIB, 512),
    Cell("random", 4 * KIB, 500_000, is_cold=False),
    Cell("seek", 4 * KIB, 500_000, is_cold=False),
    Cell("sequential", 4 * KIB, 500_000, is_cold=False),
    Cell("sequential", 64 * KIB, 32_768, is_cold=False),
)


@dataclass(frozen=True)
class Runner:
    """Runs contenders in a place."""

    session: Session
    place: Place
    file: str

    def run(self, cell: Cell, options: tuple[str, ...] | None) -> tuple[float, str]:
        """Seconds and output of a run; without options it is plain.

        Raises:
            ProgramFailed: It failed.
        """
        if cell.is_cold:
            self.place.make_cold(self.file)
        else:
            page_cache.warm(self.place.folder / self.file)
        words = [str(self.session.program("bench_scattered_reader"))]
        words += [str(self.place.folder / self.file), cell.how]
        words += [str(cell.piece_bytes), str(cell.count)]
        if options is not None:
            words = [str(self.session.program("ioweave")), "run", "-q", *options, "--", *words]
        done = process.run(words)
        return done.wall_s, done.stdout

    def rows_of(self, cell: Cell, rounds: int) -> Iterator[Row]:
        """Rows of one cell.

        Raises:
            ProgramFailed: A contender read something else than the others.
        """
        plan = str(self.session.folder / "reads.plan")
        contenders = {
            "plain": partial(self.run, cell, None),
            "ioweave run": partial(self.run, cell, ()),
            "--record": partial(self.run, cell, ("--record", plan)),
            "--replay": partial(self.run, cell, ("--replay", plan)),
        }
        contenders["--record"]()
        found = list(alternate(contenders, rounds))
        if len({output for each in found for _, output in each.values()}) != 1:
            raise ProgramFailed(f"{cell.name}: the contenders did not read the same")
        for name in contenders:
            yield row(f"{cell.name}: {name}", "s", [each[name][0] for each in found])
        for name in ("ioweave run", "--record", "--replay"):
            ratios = [each[name][0] / each["plain"][0] for each in found]
            bar = at_most(MOST) if name == "--replay" and not cell.gains else None
            yield row(f"{cell.name}: time of {name} over plain", "ratio", ratios, bar)
        if cell.gains:
            speeds = [each["plain"][0] / each["--replay"][0] for each in found]
            yield row(
                f"{cell.name}: speed of --replay over plain", "ratio", speeds, at_least(LEAST)
            )


def run(session: Session) -> Iterator[Row]:
    """Rows of all cells."""
    session.need_space(FILE_BYTES)
    data = random_file(session.folder / "data.bin", FILE_BYTES)
    rounds = 1 if session.quick else min(ROUNDS, session.selection.pairs or ROUNDS)
    words = selected([cell.word for cell in CELLS], session.selection.programs)
    try:
        with on_slowfs(session, data, speed=SPEED) as place:
            runner = Runner(session, place, data.name)
            for cell in CELLS:
                if cell.word in words:
                    yield from runner.rows_of(cell, rounds)
    except PlaceUnavailable as error:
        raise Unsuitable(str(error)) from error
