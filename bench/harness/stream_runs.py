"""Runs of the contenders of `bench/run streams`: which there are, what one is told and comes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from harness import build, model, process
from harness.peers_venv import interpreter, last_line
from harness.process import ProgramFailed
from harness.samples import alternate
from harness.session import Session, Unsuitable

MIB = 1 << 20

REQUIREMENTS = build.ROOT / "bench/requirements-stream-peers.txt"
VENV = build.ROOT / "build/venv-stream-peers"
#: It runs on the Python of VENV, so it is no module of ours.
PEERS_SCRIPT = Path(__file__).with_name("stream_peers.py")

OURS = "stream"
#: The same on several devices, which chooses the files itself.
SPREAD = "spread"
#: The synchronous contender without its computation: what it takes for an item is W.
WRITING = "writing"
#: Those of bench/drivers/streams.cpp, and whether they write while the program computes.
NATIVE = {
    "synchronous": False,
    "aio": True,
    "libaio": True,
    "liburing": True,
    "pool": True,
    OURS: True,
    SPREAD: True,
}
#: Those of stream_peers.py, and whether they can write past the page cache.
PYTHON = {"caio": False, "tensorstore": True, "adios2": True}
CALLED = {
    WRITING: "writing alone",
    "synchronous": "synchronous",
    "aio": "glibc AIO",
    "libaio": "libaio",
    "liburing": "liburing",
    "pool": "one thread",
    OURS: "Ioweave",
    SPREAD: "Ioweave's spread",
    "caio": "caio",
    "tensorstore": "TensorStore",
    "adios2": "ADIOS2 BP5",
}


@dataclass(frozen=True)
class Spot:
    """One device or several that are equal.

    Attributes:
        name: For people.
        folders: One on each device.
        mb_s: What a device writes, about.
        prefix: Words before a command.
        buffered: Whether writes by way of the page cache are as slow as others.
        spend_mib: What uses up the credit that it banks while nothing is written.
    """

    name: str
    folders: tuple[Path, ...]
    mb_s: float
    prefix: tuple[str, ...] = ()
    buffered: bool = True
    spend_mib: int = 0


@dataclass(frozen=True)
class Cell:
    """What is computed and written.

    Attributes:
        mib: Of an item.
        ratio: C over W.
        buffers: d.
        file_each: Whether each item has a file, else each device has one.
    """

    mib: int
    ratio: Fraction
    buffers: int
    file_each: bool = False

    @property
    def name(self) -> str:
        """For people."""
        each = ", a file each" if self.file_each else ""
        return f"{self.mib} MiB, C/W {self.ratio}{each}"

    @property
    def several_to_one_file(self) -> bool:
        """Whether several requests to one file are under way at once: the buffers fill up."""
        return not self.file_each and self.buffers > 1 and self.ratio <= 1

    def write_s(self, spot: Spot) -> float:
        """W, about."""
        return self.mib * MIB / (spot.mb_s * 1e6)

    def compute_s(self, spot: Spot) -> float:
        """C that is asked for."""
        return float(self.ratio) * self.write_s(spot)

    def items(self, spot: Spot, seconds: float, fewest: int = 6, most: int = 512) -> int:
        """So many that all take about that long if they overlap."""
        period_s = max(self.compute_s(spot), self.write_s(spot) / len(spot.folders))
        return min(most, max(fewest, round(seconds / period_s)))


@dataclass(frozen=True)
class Figures:
    """What a run came to, in seconds but for the last.

    Attributes:
        return_s: Until the loop had ended.
        durable_s: Until all was on the device.
        compute_s: Of all items.
        alone_s: The same while nothing is written, in the same process; 0: not measured.
        peak_mib: Largest resident set.
    """

    return_s: float
    durable_s: float
    compute_s: float
    alone_s: float
    peak_mib: float

    @staticmethod
    def of(line: Mapping[str, Any]) -> Figures:
        """From what a contender printed."""
        return Figures(
            line["return_s"],
            line["durable_s"],
            line["compute_s"],
            line.get("alone_s", 0.0),
            line["peak_mib"],
        )


@dataclass(frozen=True)
class Round:
    """One run of each contender.

    Attributes:
        bound_s: The model's time, by C and W of this round.
    """

    figures: Mapping[str, Figures]
    bound_s: float

    def durable_s(self, name: str) -> float:
        """Of a contender."""
        return self.figures[name].durable_s


#: Those of bench/drivers/read_back.cpp.
READERS = {
    "plain": "pread past the page cache",
    "cached": "pread through the page cache",
    "stream": "Ioweave's read stream",
}
#: The first of them without its computation: what it takes for an item is R.
READING = "reading"


@dataclass(frozen=True)
class ReadBack:
    """One run of each reader.

    Attributes:
        time_s: Until the last item was computed.
        compute_s: Of all items.
        peak_mib: Largest resident set.
        bound_s: The model's time, by C and R of this round.
    """

    time_s: Mapping[str, float]
    compute_s: Mapping[str, float]
    peak_mib: Mapping[str, float]
    bound_s: float


@dataclass
class Runner:
    """Starts contenders; peers that fail are noted, and then left out."""

    session: Session
    python: str | None
    native: tuple[str, ...]
    failed: dict[str, str] = field(default_factory=dict)

    def _words(self, program: str, spot: Spot, cell: Cell, items: int) -> list[str]:
        return [
            *spot.prefix,
            str(self.session.program(program)),
            f"--items={items}",
            f"--bytes={cell.mib * MIB}",
            f"--buffers={cell.buffers}",
            *(f"--directory={folder}" for folder in spot.folders),
        ]

    def _driver(self, spot: Spot, cell: Cell, items: int, *options: str) -> Figures:
        words = [
            *self._words("bench_streams", spot, cell, items),
            f"--spend-mib={spot.spend_mib}",
            *(["--file-each"] if cell.file_each else []),
            *options,
        ]
        (line,) = process.run(words).json_lines()
        return Figures.of(line)

    def _reader(
        self, spot: Spot, cell: Cell, items: int, name: str, *options: str
    ) -> Mapping[str, float]:
        words = [*self._words("bench_read_back", spot, cell, items), f"--how={name}", *options]
        (line,) = process.run(words).json_lines()
        return line

    def _peer(self, name: str, spot: Spot, cell: Cell, items: int, *options: str) -> Figures | None:
        if name in self.failed or self.python is None:
            return None
        words = [
            *spot.prefix,
            *(self.python, "-B", str(PEERS_SCRIPT), name),
            f"--items={items}",
            f"--bytes={cell.mib * MIB}",
            f"--buffers={cell.buffers}",
            f"--spend-mib={spot.spend_mib}",
            f"--directory={spot.folders[0]}",
            f"--path={'direct' if PYTHON[name] else 'buffered'}",
            *options,
        ]
        try:
            (line,) = process.run(words).json_lines()
        except ProgramFailed as error:
            self.failed[name] = last_line(error)
            self.session.note(f"{CALLED[name]} is left out: {self.failed[name]}")
            return None
        return Figures.of(line)

    def _native_at(self, spot: Spot) -> list[str]:
        """All of them; but a spread is for several devices."""
        return [name for name in self.native if name != SPREAD or len(spot.folders) > 1]

    def _peers_at(self, spot: Spot) -> list[str]:
        """Those that can write there; none if there are several devices, or no Python for them."""
        if self.python is None or len(spot.folders) > 1:
            return []
        return [name for name, direct in PYTHON.items() if direct or spot.buffered]

    def _work(self, command: list[str], cell: Cell, spot: Spot) -> str:
        milliseconds = cell.compute_s(spot) * 1e3
        words = ["--calibrate", f"--bytes={cell.mib * MIB}", f"--compute-ms={milliseconds:.6f}"]
        (line,) = process.run([*command, *words]).json_lines()
        return f"--work={line['work']:.0f}"

    def try_out(self, spot: Spot, cell: Cell) -> None:
        """Has all contenders write some items and read them back. Nothing is measured.

        Raises:
            ProgramFailed: One of ours, or of the system's, wrote something else.
        """
        items = cell.buffers + 2
        for name in self._native_at(spot):
            self._driver(spot, cell, items, f"--how={name}", "--verify")
        for name in self._peers_at(spot):
            self._peer(name, spot, cell, items, "--verify")

    def rounds(self, spot: Spot, cell: Cell, items: int, count: int) -> Iterator[Round]:
        """Runs all contenders in turn, the order reversed from round to round."""
        driver = str(self.session.program("bench_streams"))
        work = self._work([driver], cell, spot)
        inflates = cell.ratio == 1 and len(spot.folders) == 1
        contenders = {
            WRITING: partial(self._driver, spot, cell, items, "--how=synchronous", "--write-only")
        }
        for name in self._native_at(spot):
            # A quarter of the items before, and one behind.
            alone = [f"--alone={max(1, items // 4)}"] if inflates and NATIVE[name] else []
            contenders[name] = partial(
                self._driver, spot, cell, items, f"--how={name}", work, *alone
            )
        all_contenders: dict[str, partial[Figures] | partial[Figures | None]] = dict(contenders)
        peers = self._peers_at(spot)
        if peers and self.python is not None:
            work = self._work([self.python, "-B", str(PEERS_SCRIPT)], cell, spot)
            for name in peers:
                all_contenders[name] = partial(self._peer, name, spot, cell, items, work)
        for found in alternate(all_contenders, count):
            figures = {name: each for name, each in found.items() if each is not None}
            bound_s = model.write_behind_s(
                self.session.program("bench_model"),
                items,
                figures["synchronous"].compute_s / items,
                figures[WRITING].durable_s / items,
                buffers=cell.buffers,
                devices=len(spot.folders),
            )
            yield Round(figures, bound_s)

    def try_out_readers(self, spot: Spot, cell: Cell) -> None:
        """Has all readers compare what they read. Nothing is measured.

        Raises:
            ProgramFailed: One of them read something else.
        """
        for name in READERS:
            self._reader(spot, cell, cell.buffers + 2, name, "--verify")

    def read_rounds(self, spot: Spot, cell: Cell, items: int, count: int) -> Iterator[ReadBack]:
        """Runs all readers in turn, the order reversed from round to round.

        C/W of the cell is C/R here. Reading ahead is writing behind with the time reversed, so the
        model is the same.
        """
        work = self._work([str(self.session.program("bench_streams"))], cell, spot)
        readers = {READING: partial(self._reader, spot, cell, items, "plain", "--read-only")}
        for name in READERS:
            readers[name] = partial(self._reader, spot, cell, items, name, work)
        for found in alternate(readers, count):
            bound_s = model.write_behind_s(
                self.session.program("bench_model"),
                items,
                found["plain"]["compute_s"] / items,
                found[READING]["time_s"] / items,
                buffers=cell.buffers,
                devices=len(spot.folders),
            )
            times, computing, peaks = (
                {name: found[name][key] for name in READERS}
                for key in ("time_s", "compute_s", "peak_mib")
            )
            yield ReadBack(times, computing, peaks, bound_s)


def open_runner(session: Session, *, peers: bool) -> Runner:
    """Finds out who takes part; with `peers` also those that come from PyPI.

    Raises:
        Unsuitable: Ioweave does not.
    """
    known = process.run([session.program("bench_streams"), "--list"]).stdout.split()
    if OURS not in known:
        raise Unsuitable("bench_streams was built without Ioweave's write streams")
    for name in NATIVE:
        if name not in known:
            session.note(f"{CALLED[name]} is left out: bench_streams was built without it")
    called = "caio, TensorStore and ADIOS2"
    python = interpreter(session, REQUIREMENTS, VENV, called) if peers else None
    return Runner(session, python, tuple(name for name in NATIVE if name in known))
