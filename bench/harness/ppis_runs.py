"""Runs of the PPIS paper's programs in one place: modes, ranks, load beside them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from harness import model, process
from harness.places import Place
from harness.session import Session, Unsuitable

MIB = 1 << 20

#: The unchanged way: MPI_File_read_at, and nothing of Ioweave.
NORMAL = "mpiio"
PP = "pp"
PPIS = "ppis"
AUTO = "auto"
#: What each of the programs' modes is called in rows.
CALLED = {NORMAL: "normal", PP: "PP", PPIS: "PPIS", AUTO: "auto"}

#: Files of the load, one for each of its streams.
LOAD_STREAMS = 2


@dataclass(frozen=True)
class Loop:
    """What is run.

    Attributes:
        program: "hill_mpi" or "matrix_search".
        words: Its options, but for the mode.
        chunks: n.
        ranks: MPI processes.
    """

    program: str
    words: tuple[str, ...]
    chunks: int
    ranks: int = 1


@dataclass(frozen=True)
class Figures:
    """What a run came to, as the program's line has it: seconds, means over the ranks.

    Attributes:
        total_s: From the first read to the end.
        read_s: Inside reads: the I/O latency that the program sees.
        compute_s: Of all chunks.
        write_s: Inside writes.
        bytes_per_s: The sustained bandwidth of all ranks together.
        ahead_cpu_s: Processor time of the loops ahead.
    """

    total_s: float
    read_s: float
    compute_s: float
    write_s: float
    bytes_per_s: float
    ahead_cpu_s: float


def of_line(line: Mapping[str, Any]) -> Figures:
    """From what a program printed."""
    return Figures(**{each.name: line[each.name] for each in fields(Figures)})


@functools.cache
def mpirun_words() -> tuple[str, ...]:
    """The words before a program that is run by several ranks, all but their number.

    Raises:
        Unsuitable: There is no mpirun.
    """
    found = shutil.which("mpirun")
    if found is None:
        raise Unsuitable("there is no mpirun (Debian: openmpi-bin)")
    version = process.run([found, "--version"]).stdout
    if "Open MPI" in version:
        # More ranks than processors, bound to none.
        return (found, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n")
    return (found, "-n")


@dataclass(frozen=True)
class Runner:
    """Starts programs; every run finds the input cold.

    Attributes:
        data: The input's name in the place.
    """

    session: Session
    place: Place
    data: str

    def run(self, loop: Loop, mode: str, *, output: Path | None = None) -> Figures:
        """One run.

        Raises:
            ProgramFailed: It failed.
        """
        return of_line(json.loads(self._lines(loop, mode, output)[-1]))

    def found(self, loop: Loop, mode: str) -> list[str]:
        """What the search of a matrix found, with which it begins its output."""
        return self._lines(loop, mode, None)[:-1]

    def _lines(self, loop: Loop, mode: str, output: Path | None) -> list[str]:
        self.place.make_cold(self.data)
        ranks = (*mpirun_words(), str(loop.ranks)) if loop.ranks > 1 else ()
        command = [
            *self.place.prefix,
            *ranks,
            str(self.session.program(loop.program)),
            f"--mode={mode}",
            *loop.words,
            str(self.place.folder / self.data),
            *([str(output)] if output else []),
        ]
        return process.run(command).stdout.splitlines()

    def model_s(self, loop: Loop, plain: Figures) -> float:
        """The time of the paper's model, by R and C of a run that reads nothing ahead."""
        chunks = model.of_totals(
            self.session.program("bench_model"), loop.chunks, plain.read_s, plain.compute_s, 0.0
        )
        return chunks.overlapped_s

    @contextlib.contextmanager
    def load(self) -> Iterator[None]:
        """Large reads by others, for the time of the block, on the same device."""
        program = str(self.session.program("bench_disk_load"))
        folder = self.place.folder
        words = [program, f"--directory={folder}", f"--streams={LOAD_STREAMS}"]
        if not (folder / "load.0").exists():
            process.run([program, f"--directory={self.place.direct}", *words[2:], "--prepare"])
        beside = subprocess.Popen(
            [*self.place.prefix, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(beside.pid, signal.SIGTERM)
            beside.wait()


def hill(chunk_bytes: int, file_bytes: int, rounds: int, ranks: int = 1) -> Loop:
    """Hill on a whole file. The budget holds two chunks of a rank, and the memory of one more."""
    budget = max(64 * MIB, 4 * chunk_bytes // ranks)
    words = (f"--chunk={chunk_bytes}", f"--rounds={rounds}", f"--budget={budget}")
    return Loop("hill_mpi", words, -(-file_bytes // chunk_bytes), ranks)


def search(file_bytes: int, ranks: int = 1) -> Loop:
    """The search in four sub-matrices."""
    budget = max(64 * MIB, file_bytes // ranks)
    return Loop("matrix_search", (f"--budget={budget}",), 4, ranks)


def names_of(modes: Sequence[str]) -> str:
    """For people."""
    return ", ".join(CALLED[mode] for mode in modes)
