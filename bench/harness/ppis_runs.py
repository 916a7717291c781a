"""Runs of the PPIS paper's programs in one place: modes, ranks, load beside them, and results."""

from __future__ import annotations

import contextlib
import filecmp
import functools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

from harness import model, process, slowfs
from harness.files import random_file
from harness.places import Place, on_slowfs
from harness.process import ProgramFailed
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

#: Rounds of Hill's cipher: about 400 MB/s on one core of the usual machine.
HILL_ROUNDS = 3


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: Of each cell.
        reads: Random ones.
        file_mib: Of the programs' input.
        chunks: n, of the ladder.
        ranks: MPI processes.
        loads: Whether others load the device, too.
    """

    rounds: int
    reads: int
    file_mib: int
    chunks: tuple[int, ...]
    ranks: tuple[int, ...]
    loads: tuple[bool, ...]


@dataclass(frozen=True)
class Loop:
    """What is run.

    Attributes:
        program: "hill_mpi" or "matrix_search".
        words: Its options, but for the mode.
        chunks: n.
        ranks: MPI processes.
        outer: Words before the launcher, such as those of `ioweave run`.
        inner: Words before the program that each process begins with, such as those of `env`.
    """

    program: str
    words: tuple[str, ...]
    chunks: int
    ranks: int = 1
    outer: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()


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
        result: What it computed: the items found, or a checksum of the output.
    """

    total_s: float
    read_s: float
    compute_s: float
    write_s: float
    bytes_per_s: float
    ahead_cpu_s: float
    result: tuple[str, ...]


def of_output(text: str) -> Figures:
    """From what a program printed: perhaps what it found, and a line of JSON."""
    *found, last = text.splitlines()
    line = json.loads(last)
    times = {each.name: line[each.name] for each in fields(Figures) if each.name != "result"}
    checksum = [line["checksum"]] if "checksum" in line else []
    return Figures(**times, result=(*found, *checksum))


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

    All runs of a program must compute the same, whatever their mode, ranks and chunks.

    Attributes:
        data: The input's name in the place.
        results: What each program computed the first time.
    """

    session: Session
    place: Place
    data: str
    results: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def run(self, loop: Loop, mode: str, *, output: Path | None = None) -> Figures:
        """One run.

        Raises:
            ProgramFailed: It failed, or computed something else than runs of it before.
        """
        self.place.make_cold(self.data)
        figures = of_output(process.run(self._command(loop, mode, output)).stdout)
        wanted = self.results.setdefault(loop.program, figures.result)
        if not figures.result or figures.result != wanted:
            who = " ".join((*loop.outer, *loop.inner, loop.program))
            raise ProgramFailed(
                f"{self.place.name}: {who}, {CALLED[mode]}, {loop.chunks} chunks, {loop.ranks} "
                f"ranks: it computed {figures.result}, not {wanted}"
            )
        return figures

    def _command(self, loop: Loop, mode: str, output: Path | None) -> list[str]:
        ranks = (*mpirun_words(), str(loop.ranks)) if loop.ranks > 1 else ()
        return [
            *self.place.prefix,
            *loop.outer,
            *ranks,
            *loop.inner,
            str(self.session.program(loop.program)),
            f"--mode={mode}",
            *loop.words,
            str(self.place.folder / self.data),
            *([str(output)] if output else []),
        ]

    def model_s(self, loop: Loop, plain: Figures) -> float:
        """The time of the paper's model, by R, C and W of a run that reads nothing ahead."""
        program = self.session.program("bench_model")
        totals = (plain.read_s, plain.compute_s, plain.write_s)
        return model.of_totals(program, loop.chunks, *totals).overlapped_s

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


def chunk_bytes(size: int, chunks: int) -> int:
    """So that there are so many chunks, the last one perhaps smaller."""
    return -(-size // chunks // 65536) * 65536


@contextlib.contextmanager
def two_devices(session: Session, data: Path, speed: slowfs.Speed) -> Iterator[tuple[Place, Place]]:
    """Two emulated devices of that speed: one with the data, one for an output.

    Raises:
        PlaceUnavailable: No FUSE.
    """
    nothing = random_file(session.folder / "nothing", 4096)
    with (
        on_slowfs(session, data, speed=speed) as place,
        on_slowfs(session, nothing, speed=speed) as other,
    ):
        yield place, other


def enciphered(session: Session, source: Path, target: Path) -> Path:
    """What `hill` makes of a file: hill_mpi must write the same."""
    words = ["--encrypt", f"--rounds={HILL_ROUNDS}", str(source), str(target)]
    process.run([str(session.program("hill")), *words])
    return target


def check_same(found: Path, wanted: Path, who: str) -> None:
    """Compares two outputs byte by byte.

    Raises:
        ProgramFailed: They differ.
    """
    filecmp.clear_cache()
    if not filecmp.cmp(wanted, found, shallow=False):
        raise ProgramFailed(f"{who}: wrong output")
