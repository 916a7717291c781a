"""Readers of several languages at C about R: how much of the read time `ioweave run` hides.

Each reads a file in chunks, in the way of its language, and computes on each chunk. Three
contenders run in turn: reading alone (R), the reader plainly, the reader under `ioweave run`.
bench/README.md, "readers", says what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness import hill, process
from harness.build import BuildFailed
from harness.files import random_file
from harness.hill_bench import COMPUTE_OVER_READ, Round
from harness.model import Chunks, of_totals
from harness.overlap_rows import note_misfit, rows_of
from harness.places import Place, PlaceUnavailable, on_limited_disk, on_raw_disk, on_slowfs
from harness.process import ProgramFailed
from harness.programs import has_module, selected, venv_python
from harness.result import Row
from harness.samples import alternate
from harness.session import Session, Unsuitable

MIB = 1 << 20
FILE_BYTES = 512 * MIB
QUICK_FILE_BYTES = 128 * MIB
CHUNKS = (4 * MIB, 16 * MIB)
QUICK_CHUNKS = (4 * MIB,)
ROUNDS = 3

#: By their names on the command line; whether there are bars.
PLACES: dict[str, tuple[Callable[[Session, Path], AbstractContextManager[Place]], bool]] = {
    "slowfs": (on_slowfs, True),
    "limited": (on_limited_disk, True),
    "raw": (on_raw_disk, False),
}
QUICK_PLACES = ("slowfs",)

#: The ways of `drivers/chunk_reader.cpp`; fortran and numpy are the programs beside it.
WAYS = ("read", "stdio", "iostream", "mmap", "syscall", "io_uring", "aio")
READERS = (*WAYS, "fortran", "numpy")
#: It imports numpy, which is in build/venv, so it is no module of ours.
NUMPY_READER = Path(__file__).parents[2] / "drivers/chunk_reader.py"


@dataclass(frozen=True)
class Cell:
    """A reader and its chunks."""

    reader: str
    chunk_bytes: int

    @property
    def word(self) -> str:
        """For the command line."""
        return f"{self.reader}-{self.chunk_bytes // MIB}m"

    def command(self, session: Session, file: Path, compute_us: int) -> list[str]:
        """Its words.

        Raises:
            BuildFailed: The program is not there.
        """
        numbers = [str(self.chunk_bytes), str(compute_us)]
        if self.reader == "numpy":
            return [str(venv_python()), "-B", str(NUMPY_READER), str(file), *numbers]
        if self.reader == "fortran":
            return [str(session.program("bench_chunk_reader_fortran")), str(file), *numbers]
        options = (f"--by={self.reader}", f"--file={file}", f"--chunk={numbers[0]}")
        program = str(session.program("bench_chunk_reader"))
        return [program, *options, f"--compute-us={numbers[1]}"]


def why_missing(session: Session, reader: str) -> str | None:
    """Why this machine cannot run a reader; None if it can."""
    if reader == "numpy" and not has_module(venv_python(), "numpy"):
        return f"{venv_python()} cannot import numpy"
    try:
        Cell(reader, CHUNKS[0]).command(session, Path("file"), 0)
    except BuildFailed as error:
        return f"{error}" + (" (it takes a Fortran compiler)" if reader == "fortran" else "")
    return None


def cells_of(session: Session) -> list[Cell]:
    """What is wanted of what this machine can run.

    Raises:
        Unsuitable: Nothing.
    """
    cells = [
        Cell(reader, chunk)
        for chunk in (QUICK_CHUNKS if session.quick else CHUNKS)
        for reader in READERS
    ]
    words = selected([cell.word for cell in cells], session.selection.programs)
    wanted = [cell for cell in cells if cell.word in words]
    reasons = {
        reader: why_missing(session, reader)
        for reader in READERS
        if any(cell.reader == reader for cell in wanted)
    }
    for reader, reason in reasons.items():
        if reason is not None:
            session.note(f"{reader} is left out: {reason}")
    found = [cell for cell in wanted if reasons[cell.reader] is None]
    if not found:
        known = ", ".join(cell.word for cell in cells)
        raise Unsuitable(f"no such reader here. Readers: {known}")
    return found


def hiding(model: Chunks) -> Chunks:
    """The same, and what can be hidden is no more than the computation covers."""
    return replace(model, hideable_s=(model.n - 1) * min(model.read_s, model.compute_s))


@dataclass(frozen=True)
class Result:
    """One run of a reader, and what it found in the file."""

    run: hill.Run
    checksum: str


class Runner:
    """Runs the contenders in a place; every run finds the file cold."""

    def __init__(self, session: Session, place: Place, file: str) -> None:
        self.place = place
        self._session = session
        self._file = file
        self._checksums: dict[int, str] = {}

    def run(self, cell: Cell, compute_us: int, *, woven: bool = False) -> Result:
        """One run, with so much processor time of computation on each chunk.

        Raises:
            ProgramFailed: It failed.
        """
        self.place.make_cold(self._file)
        self.place.use_up_credit(self._file)
        words = cell.command(self._session, self.place.folder / self._file, compute_us)
        ours = [str(self._session.program("ioweave")), "run", "-q", "--"] if woven else []
        done = process.run([*self.place.prefix, *ours, *words])
        (found,) = done.json_lines()
        times = (done.wall_s, found["read_s"], found["compute_s"], 0.0)
        return Result(hill.Run(*times, found["chunks"]), found["checksum"])

    def check(self, cell: Cell, result: Result) -> None:
        """Compares what a run read with what all others did, by the same chunks.

        Raises:
            ProgramFailed: It differs.
        """
        expected = self._checksums.setdefault(cell.chunk_bytes, result.checksum)
        if result.checksum != expected:
            raise ProgramFailed(f"{self.place.name}, {cell.word}: it read something else")

    def fit(self, cell: Cell) -> int:
        """How long to compute on a chunk, in us, that it takes about as long as reading it."""
        alone = self.run(cell, 0).run
        return max(1, round(COMPUTE_OVER_READ * alone.read_s / alone.chunks * 1e6))

    def rounds(self, cell: Cell, count: int) -> Iterator[Round]:
        """Reading alone, the reader plainly and under `ioweave run`, in turn, so many times."""
        compute_us = self.fit(cell)
        self.run(cell, compute_us, woven=True)  # a warm-up; fitting was the other's
        contenders = {
            "read": partial(self.run, cell, 0),
            "plain": partial(self.run, cell, compute_us),
            "woven": partial(self.run, cell, compute_us, woven=True),
        }
        for results in alternate(contenders, count):
            read, plain, woven = (results[name].run for name in contenders)
            for name in ("plain", "woven"):
                self.check(cell, results[name])
            model = of_totals(
                self._session.program("bench_model"),
                *(plain.chunks, read.read_s, plain.compute_s, 0.0),
            )
            yield Round(read.read_s, plain, woven, hiding(model))


def run(session: Session) -> Iterator[Row]:
    """All places, readers and chunk sizes."""
    cells = cells_of(session)
    quick = session.quick and not session.selection.places
    places = selected(PLACES, QUICK_PLACES if quick else session.selection.places)
    if not places:
        raise Unsuitable(f"no such place. Places: {', '.join(PLACES)}")
    count = 1 if session.quick else min(ROUNDS, session.selection.pairs or ROUNDS)
    size = QUICK_FILE_BYTES if session.quick else FILE_BYTES
    session.need_space(size)
    data = random_file(session.folder / "data.bin", size)
    for name in places:
        open_place, barred = PLACES[name]
        try:
            with open_place(session, data) as place:
                runner = Runner(session, place, data.name)
                for cell in cells:
                    title = f"{place.name}, {cell.reader}"
                    session.progress(f"{place.name}, {cell.word}")
                    rounds = list(runner.rounds(cell, count))
                    note_misfit(session, title, cell.chunk_bytes, rounds)
                    # The model has no start of an interpreter: it is for information.
                    yield from rows_of(
                        title, cell.chunk_bytes, rounds, barred=barred, over_model=None
                    )
        except PlaceUnavailable as error:
            session.note(str(error))
