"""Writers of small pieces under policy `behind` beside plain.

The places are slowfs with 1 ms for each operation, which writes through, and the disk as it is.
bench/README.md, "behind", says what is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from harness import process, slowfs
from harness.files import random_file
from harness.hill_bench import size_name
from harness.places import Place, PlaceUnavailable, on_raw_disk, on_slowfs
from harness.process import ProgramFailed
from harness.programs import selected
from harness.result import Row, at_least, row
from harness.samples import alternate
from harness.session import Session, Unsuitable
from harness.writers import digest_of

KIB, MIB = 1 << 10, 1 << 20
SPEED = slowfs.Speed(read_mb_s=400, write_mb_s=400, latency_us=1000)
NEEDED_BYTES = 512 * MIB
ROUNDS = 7
#: Times plain's speed, for small pieces in order on slowfs.
LEAST = 10.0
OUTPUT = "out"


@dataclass(frozen=True)
class Cell:
    """What is written, and where.

    Attributes:
        how: As `drivers/small_writer.c` takes it.
    """

    place: str
    how: str
    piece_bytes: int
    count: int
    is_direct: bool = False

    @property
    def name(self) -> str:
        """For people."""
        direct = ", O_DIRECT" if self.is_direct else ""
        size = size_name(self.piece_bytes) if self.piece_bytes >= KIB else f"{self.piece_bytes} B"
        return f"{self.place}, {self.how}, {self.count} pieces of {size}{direct}"

    @property
    def word(self) -> str:
        """For the command line."""
        kib = self.piece_bytes // KIB
        size = f"{kib}k" if kib > 0 else str(self.piece_bytes)
        return f"{self.place}-{self.how}-{size}" + ("-direct" if self.is_direct else "")

    @property
    def is_judged(self) -> bool:
        """Whether the issue's bar is about it."""
        return self.place == "slowfs" and self.how == "order" and not self.is_direct


CELLS = (
    Cell("slowfs", "order", 512, 2000),
    Cell("slowfs", "order", 4 * KIB, 2000),
    Cell("slowfs", "interleaved", 4 * KIB, 2000),
    Cell("slowfs", "random", 4 * KIB, 2000),
    Cell("slowfs", "order", 4 * KIB, 2000, is_direct=True),
    Cell("raw", "order", 4 * KIB, 4000, is_direct=True),
    Cell("raw", "interleaved", 4 * KIB, 4000, is_direct=True),
    Cell("raw", "order", 64 * KIB, 2000, is_direct=True),
    Cell("raw", "order", 1 * MIB, 200, is_direct=True),
    Cell("raw", "order", 4 * KIB, 50_000),
    Cell("raw", "order", 1 * MIB, 200),
)


@dataclass(frozen=True)
class Runner:
    """Runs contenders in a place."""

    session: Session
    place: Place

    def run(self, cell: Cell, is_behind: bool) -> tuple[float, str]:
        """Seconds of a run, and a digest of what it wrote.

        Raises:
            ProgramFailed: It failed.
        """
        self.place.remove(OUTPUT)
        path = self.place.folder / OUTPUT
        words = [str(self.session.program("bench_small_writer")), str(path), cell.how]
        words += [str(cell.piece_bytes), str(cell.count)]
        words += ["direct"] if cell.is_direct else []
        if is_behind:
            rule = f"{path}=behind"
            words = [
                str(self.session.program("ioweave")),
                "run",
                "-q",
                "--rule",
                rule,
                "--",
                *words,
            ]
        done = process.run(words)
        return done.wall_s, digest_of(self.place.direct)

    def rows_of(self, cell: Cell, rounds: int) -> Iterator[Row]:
        """Rows of one cell.

        Raises:
            ProgramFailed: The contenders wrote different files.
        """
        contenders = {
            "plain": partial(self.run, cell, False),
            "behind": partial(self.run, cell, True),
        }
        found = list(alternate(contenders, rounds))
        self.place.remove(OUTPUT)
        if len({digest for each in found for _, digest in each.values()}) != 1:
            raise ProgramFailed(f"{cell.name}: the contenders wrote different files")
        for name in contenders:
            yield row(f"{cell.name}: {name}", "s", [each[name][0] for each in found])
        speeds = [each["plain"][0] / each["behind"][0] for each in found]
        bar = at_least(LEAST) if cell.is_judged else None
        yield row(f"{cell.name}: speed of behind over plain", "ratio", speeds, bar)


def run(session: Session) -> Iterator[Row]:
    """Rows of all cells."""
    session.need_space(NEEDED_BYTES)
    data = random_file(session.folder / "data.bin", 1 * MIB)
    rounds = 1 if session.quick else min(ROUNDS, session.selection.pairs or ROUNDS)
    words = selected([cell.word for cell in CELLS], session.selection.programs)
    cells = [cell for cell in CELLS if cell.word in words]
    try:
        with on_slowfs(session, data, speed=SPEED) as place:
            for cell in cells:
                if cell.place == "slowfs":
                    yield from Runner(session, place).rows_of(cell, rounds)
    except PlaceUnavailable as error:
        raise Unsuitable(str(error)) from error
    with on_raw_disk(session, data) as place:
        for cell in cells:
            if cell.place == "raw":
                yield from Runner(session, place).rows_of(cell, rounds)
