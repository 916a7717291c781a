"""Numpy rows of a file in random order: a plan from Python beside pread and posix_fadvise.

The place is slowfs with 2 ms of latency. The computation of a row takes about as long as reading it
does, by numpy, which holds no GIL, or in Python. bench/README.md, "rows", says what is compared;
each run is a process of `rows_run.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import page_cache, process, slowfs
from harness.build import VENV
from harness.files import random_file
from harness.hill_bench import size_name
from harness.places import Place, PlaceUnavailable, on_slowfs
from harness.process import ProgramFailed
from harness.result import Row, at_most, row
from harness.samples import alternate
from harness.session import Session, Unsuitable

KIB, MIB = 1 << 10, 1 << 20
SPEED = slowfs.Speed(read_mb_s=1000, write_mb_s=1000, latency_us=2000)
FILE_BYTES = 256 * MIB
#: Of the time by preadv(2), of which about half is left where all reading is hidden.
MOST = 0.55
OURS = ("plan", "loop")
#: It imports numpy, which is in build/venv, so it is no module of ours.
SCRIPT = Path(__file__).parents[1] / "rows_run.py"
CALLED = {
    "pread": "preadv(2)",
    "advice": "posix_fadvise(2) for 64 rows ahead",
    "plan": "a plan",
    "loop": "the loop run ahead of itself",
    "computing": "computation alone",
}


@dataclass(frozen=True)
class Cell:
    """What is read and computed.

    Attributes:
        work: "numpy" or "python".
    """

    row_bytes: int
    rows: int
    work: str = "numpy"

    @property
    def name(self) -> str:
        """For people."""
        by = "" if self.work == "numpy" else ", computed in Python"
        return f"{self.rows} rows of {size_name(self.row_bytes)}{by}"


CELLS = (
    Cell(4 * KIB, 500),
    Cell(64 * KIB, 500),
    Cell(1 * MIB, 200),
    Cell(64 * KIB, 500, "python"),
)
QUICK = (Cell(64 * KIB, 200),)
#: In the page cache, without a computation: what the calls cost.
CACHED = Cell(4 * KIB, 16_000)


@dataclass(frozen=True)
class Runner:
    """Runs contenders in a place.

    Attributes:
        is_cold: Whether the file is out of the page cache at the begin of each run.
    """

    session: Session
    place: Place
    file: str
    is_cold: bool = True

    def run(self, contender: str, cell: Cell, turns: int) -> tuple[float, int]:
        """Seconds and sum of a run.

        Raises:
            ProgramFailed: It failed.
        """
        if self.is_cold and contender != "computing":
            self.place.make_cold(self.file)
        python = str(VENV / "bin/python3")  # which has numpy
        words = [python, "-B", str(SCRIPT), contender, str(self.place.folder / self.file)]
        words += [str(cell.row_bytes), str(cell.rows), f"--work={cell.work}", f"--turns={turns}"]
        environment = {"PYTHONPATH": str(self.session.build.folder / "python")}
        (found,) = process.run(words, environment=environment).json_lines()
        self.session.progress(f"{cell.name}: {CALLED[contender]}: {found['seconds']:.3f} s")
        return found["seconds"], found["sum"]

    def turns_like_reading(self, cell: Cell) -> int:
        """Turns of the computation that take about as long as reading a row does."""
        reading, _ = self.run("pread", cell, 0)
        nothing, _ = self.run("computing", cell, 0)
        some = 20
        computing, _ = self.run("computing", cell, some)
        return max(1, round((reading - nothing) / (computing - nothing) * some))

    def rows_of(self, cell: Cell, rounds: int) -> Iterator[Row]:
        """Rows of one cell.

        Raises:
            ProgramFailed: A contender read something else than the others.
        """
        turns = self.turns_like_reading(cell)
        self.session.note(f"{cell.name}: {turns} turns of the computation")
        names = [name for name in CALLED if name != "computing"]
        contenders = {name: partial(self.run, name, cell, turns) for name in CALLED}
        found = list(alternate(contenders, rounds))
        if len({each[name][1] for each in found for name in names}) != 1:
            raise ProgramFailed(f"{cell.name}: the contenders did not read the same")
        for name in CALLED:
            yield row(f"{cell.name}: {CALLED[name]}", "s", [each[name][0] for each in found])
        for name in (*names[1:], "computing"):
            ratios = [each[name][0] / each["pread"][0] for each in found]
            bar = at_most(MOST) if name in OURS else None
            yield row(f"{cell.name}: {CALLED[name]} over {CALLED['pread']}", "ratio", ratios, bar)

    def costs(self, rounds: int) -> Iterator[Row]:
        """What a cached row costs more than by preadv(2)."""
        names = [name for name in CALLED if name != "computing"]
        contenders = {name: partial(self.run, name, CACHED, 0) for name in names}
        found = list(alternate(contenders, rounds))
        for name in names[1:]:
            more = [(each[name][0] - each["pread"][0]) / CACHED.rows * 1e6 for each in found]
            metric = f"{CACHED.name}, cached: {CALLED[name]} less {CALLED['pread']}, each row"
            yield row(metric, "us", more)


def run(session: Session) -> Iterator[Row]:
    """Rows of all cells."""
    session.need_space(FILE_BYTES)
    data = random_file(session.folder / "rows", FILE_BYTES)
    rounds = 1 if session.quick else 5
    page_cache.warm(data)
    here = Place("page cache", session.folder, session.folder)
    yield from Runner(session, here, data.name, is_cold=False).costs(rounds)
    try:
        with on_slowfs(session, data, speed=SPEED) as place:
            runner = Runner(session, place, data.name)
            for cell in QUICK if session.quick else CELLS:
                yield from runner.rows_of(cell, rounds)
    except PlaceUnavailable as error:
        raise Unsuitable(str(error)) from error
