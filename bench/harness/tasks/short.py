"""Short runs of quick operations: `climb`, the default, beside the best static limit.

A newcomer's first program runs for seconds. There `climb` has hardly begun to measure, and a thread
pool of the right size has no need to. Five workloads, each at two lengths; bench/README.md, "Short
runs", says what is compared. Each run is a process of `short_run.py`.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import process, slowfs
from harness.build import BuildFailed
from harness.paired_ratios import Pairs
from harness.process import ProgramFailed
from harness.programs import selected
from harness.result import Bar, Row, at_most, row
from harness.samples import alternate
from harness.session import Session, Unsuitable
from harness.tasks import applications, devices, peers, short_run
from harness.tasks.devices import DeviceUnavailable

#: Of the device of `reads`: its latency is all that matters.
READS = slowfs.Speed(read_mb_s=3000, write_mb_s=3000, latency_us=10_000)
#: The most bytes that a run of `files` may leave on the disk.
MOST_BYTES = 16 << 30
#: Static limits that are tried at full length, of those of the sweep.
KEPT = 2
#: A run that is shorter does not tell how many operations fill a longer one.
SURE_S = 1.0
#: Rounds with a pool and without a constraint, which are not judged.
OTHERS = 3


@dataclass(frozen=True)
class Spot:
    """Where a workload runs.

    Attributes:
        folder: None where it needs no files.
        keeps_files: Whether files are for all runs; else each run begins with none.
        iterations: Of a computation.
    """

    folder: Path | None = None
    keeps_files: bool = False
    iterations: int = 1


@dataclass(frozen=True)
class Workload:
    """One of `short_run.WORKLOADS`.

    Attributes:
        title: For people, with a place for the number of operations.
        count: Operations of the sweep.
        limits: Static limits, ascending.
        most: Operations of a run, at most.
    """

    name: str
    title: str
    count: int
    limits: tuple[int, ...]
    place: Callable[[Session], AbstractContextManager[Spot]]
    most: int = 1_000_000


@dataclass(frozen=True)
class Length:
    """How long the best static limit takes, and what `climb` may take over it."""

    seconds: float
    bar: Bar
    rounds: int

    @property
    def name(self) -> str:
        return f"{self.seconds:g}s"


LENGTHS = (Length(2, at_most(1.10), 9), Length(10, at_most(1.05), 5))
QUICK = (Length(2, at_most(1.10), 1),)


# ---- Places


@contextlib.contextmanager
def _nowhere(_session: Session) -> Iterator[Spot]:
    yield Spot()


@contextlib.contextmanager
def _on_disk(session: Session) -> Iterator[Spot]:
    """The session's disk as it is."""
    session.need_space(MOST_BYTES)
    folder = session.folder / "short"
    folder.mkdir()
    try:
        yield Spot(folder)
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _far_away(session: Session) -> Iterator[Spot]:
    """A device with a long way to it, and files to read there.

    Raises:
        DeviceUnavailable: No FUSE.
    """
    mountpoint = session.folder / "far"
    mountpoint.mkdir()
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(devices.work_folder(session))
        for number in range(short_run.READ_FILES):
            (source / str(number)).write_bytes(bytes(short_run.READ_BYTES))
        try:
            program = session.program("slowfs")
            stack.enter_context(slowfs.mounted(program, source, mountpoint, READS))
        except (slowfs.SlowfsUnavailable, BuildFailed) as error:
            raise DeviceUnavailable(f"no emulated device: {error}") from error
        yield Spot(mountpoint, keeps_files=True)


@contextlib.contextmanager
def _with_knee(session: Session) -> Iterator[Spot]:
    """The device of the checkpoints beside the peers, and computing in the same ratio to writing.

    Raises:
        DeviceUnavailable: No FUSE.
    """
    cpus = short_run.CPUS
    with devices.with_knee(session, applications.SSD_MB_S, applications.knee(), cpus) as device:
        writing_s = short_run.CHECKPOINT_BYTES / 1e6 / device.mb_s
        iterations = peers.iterations_for(peers.RATIO * cpus * writing_s)
        yield Spot(device.folder, iterations=iterations)


WORKLOADS = (
    Workload("sleep", "{} naps of 10 ms", 500, (16, 32, 64, 128, 225), _nowhere),
    Workload("reads", "{} reads at 10 ms, slowfs", 1000, (16, 32, 64, 96, 128), _far_away),
    Workload("fsync", "{} empty files, fsync, raw disk", 6000, (4, 8, 16, 32, 64), _on_disk),
    Workload(
        *("files", "{} files of 8 MiB, fsync, raw disk", 400, (4, 8, 16, 32, 64), _on_disk),
        most=MOST_BYTES // short_run.FILE_BYTES,
    ),
    Workload(
        *("checkpoints", "{} checkpoints of 16 MiB, slowfs with a knee", 64),
        *((4, 8, 16, 32), _with_knee),
    ),
)


# ---- Runs


@dataclass(frozen=True)
class Runner:
    """Runs one workload in its place."""

    session: Session
    workload: Workload
    spot: Spot

    def seconds(self, contender: str, count: int, limit: int = 1) -> float:
        """Of a run, with no files left of another one.

        Raises:
            ProgramFailed: It failed.
        """
        words = [sys.executable, "-B", short_run.__file__, self.workload.name, contender]
        words += [str(count), f"--limit={limit}", f"--iterations={self.spot.iterations}"]
        if self.spot.folder is not None:
            words.append(f"--folder={self.spot.folder}")
        environment = {"PYTHONPATH": str(self.session.build.folder / "python")}
        try:
            (found,) = process.run(words, environment=environment).json_lines()
        finally:
            self._clear()
        took: float = found["seconds"]
        self.session.progress(
            f"{self.workload.name}: {count}, {_called(contender, limit)}: {took:.3f} s"
        )
        return took

    def _clear(self) -> None:
        folder = self.spot.folder
        if folder is None or self.spot.keeps_files:
            return
        for path in folder.iterdir():
            path.unlink()
        # What is written back of the removal must not count for the next run.
        subprocess.run(["sync", "-f", folder], check=False)


def _called(contender: str, limit: int) -> str:
    return {
        "climb": "climb",
        "fixed": f"{limit} at once",
        "none": "no constraint",
        "pool": f"a pool of {limit} threads",
    }[contender]


def best_limits(seconds: Callable[[int], float], limits: Sequence[int]) -> list[tuple[int, float]]:
    """The best ones of the sweep with their seconds, best first."""
    took = sorted((seconds(limit), limit) for limit in limits)
    return [(limit, each) for each, limit in took[:KEPT]]


def _measure(runner: Runner, lengths: Sequence[Length], rounds: int | None) -> Iterator[Row]:
    workload = runner.workload
    found = best_limits(
        lambda limit: runner.seconds("fixed", workload.count, limit), workload.limits
    )
    limit, seconds = found[0]
    per_s = workload.count / seconds
    if seconds < SURE_S:  # much of which was the start of threads
        count = round(per_s * SURE_S)
        per_s = count / runner.seconds("fixed", count, limit)
    for length in lengths:
        count = min(workload.most, max(1, round(per_s * length.seconds)))
        yield from _at_length(
            runner, count, [limit for limit, _ in found], length, rounds or length.rounds
        )


def _at_length(
    runner: Runner, count: int, limits: Sequence[int], length: Length, rounds: int
) -> Iterator[Row]:
    title = f"short runs, {length.name}: {runner.workload.title.format(count)}"
    statics = [("fixed", limit) for limit in limits]
    times = _in_turn(runner, count, [("climb", 1), *statics], rounds)
    for name, each in times.items():
        yield row(f"{title}: {name}", "s", each)
    best = min(
        (_called(*each) for each in statics), key=lambda name: statistics.median(times[name])
    )
    ratio = Pairs(times[best], times["climb"]).median_summary()
    yield Row(f"{title}: climb over the best static limit, {best}", "ratio", ratio, length.bar)
    others = [("pool", limits[0]), ("none", 1)]
    times = _in_turn(runner, count, [("climb", 1), *others], min(rounds, OTHERS))
    for name in (_called(*each) for each in others):
        yield row(f"{title}: {name}", "s", times[name])
        ratio = Pairs(times[name], times["climb"]).median_summary()
        yield Row(f"{title}: climb over {name}", "ratio", ratio)


def _in_turn(
    runner: Runner, count: int, contenders: Sequence[tuple[str, int]], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each contender, in the order of the rounds."""
    found = alternate(
        {
            _called(contender, limit): partial(runner.seconds, contender, count, limit)
            for contender, limit in contenders
        },
        rounds,
    )
    times: dict[str, list[float]] = {_called(*each): [] for each in contenders}
    for each in found:
        for name, seconds in each.items():
            times[name].append(seconds)
    return times


# ---- All


def _chosen(lengths: Sequence[Length], words: Sequence[str]) -> dict[str, list[Length]]:
    """The lengths of each workload that `--only` names: short, short-fsync, short-fsync-10s."""
    cells = {
        f"short-{workload.name}-{length.name}": (workload.name, length)
        for workload in WORKLOADS
        for length in lengths
    }
    wanted: dict[str, list[Length]] = {}
    for cell in selected(cells, words):
        name, length = cells[cell]
        wanted.setdefault(name, []).append(length)
    return wanted


def run(session: Session) -> Iterator[Row]:
    """Rows of each workload at each length."""
    words = [word for word in session.selection.programs if word.startswith("short")]
    wanted = _chosen(QUICK if session.quick else LENGTHS, words)
    for workload in WORKLOADS:
        if workload.name not in wanted:
            continue
        try:
            with workload.place(session) as spot:
                runner = Runner(session, workload, spot)
                yield from _measure(runner, wanted[workload.name], session.selection.pairs)
        except (DeviceUnavailable, Unsuitable, ProgramFailed) as error:
            session.note(f"short runs: {workload.name} is left out: {error}")
