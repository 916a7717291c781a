"""The paper's applications for real: apps/workflows on a device with a knee, and on the disk.

This machine stands for one of the paper's twelve nodes: a slot for computing on each processor, and
as many tasks as a node of the paper has (192 searches of HMMER, 144 samples, 42 fragments of
K-means; not as many for each slot, or there were too few to learn from). Checkpoints are made so
large that the run without I/O tasks computes and writes in the paper's ratio (`paper.py` infers
both from what is printed; each such run tells which ratio it had), and the device is one that the
paper's run without I/O tasks met: all slots at once get two fifths of what the best number of
writers gets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioweave import pictures

from harness import build, process
from harness.process import ProgramFailed
from harness.result import Bar, Row, at_most, row
from harness.samples import alternate
from harness.session import Session
from harness.tasks import curves, devices, drawing, measures, paper
from harness.tasks.devices import Device, DeviceUnavailable

WORKFLOWS = build.ROOT / "apps/workflows"
#: More than there are processors would let those compute that another's write keeps waiting, which
#: is just what a program without I/O tasks cannot do.
SLOTS = len(os.sched_getaffinity(0))
SSD_MB_S = float(paper.BUDGET)
TIMEOUT_S = 3600.0
SAVED = "saved as in the paper"

#: The paper's constraints, in MB/s of 450.
STATICS = (2, 4, 8, 16, 32, 64, 128, 256)


def knee(slots: int = SLOTS) -> curves.Curve:
    """The part of its bandwidth that the device gives to numbers of streams.

    Gunther's law again (curves.py), with its peak where writers are five times the slots: the slots
    alone get 0.36 to 0.39 of it. A node of the paper moves 100 MB/s with 48 computing tasks that
    write, 250 with its best number of I/O tasks, and 7 with one (paper.py, curves.py).
    """
    peak = 5 * slots
    times = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1, 1.2, 1.6, 2, 2.8, 3.6, 4.8, 6.4, 9, 13, 23, 50)
    streams = sorted({max(1, round(peak * part)) for part in times})
    return tuple((n, curves.scalability(n, peak, 1)) for n in streams)


def steep(slots: int = SLOTS) -> curves.Curve:
    """A device that suffers more from congestion than from writers that are too few: the slots get
    all of it, and eight times as many writers, or more, a fifth."""
    streams = sorted({max(1, round(slots * times)) for times in (0.5, 1, 1.5, 2, 3, 4, 6, 8)})
    return tuple((n, curves.scalability(n, slots, 1)) for n in streams)


# ---- Computing over writing, without I/O tasks


def _written_s(tasks: int, size: int) -> float:
    """Seconds in which a node's 48 computing tasks write so many times `size` bytes."""
    return tasks * size / paper.MB / curves.peak(curves.SSD_NON_AWARE)


def hmmer_ratio() -> float:
    return paper.HMMER_COMPUTE_S / _written_s(paper.CORES, paper.HMMER_BYTES)


def variants_ratio() -> float:
    """By which a run saves what the paper saves if it hides all writing but its last checkpoints.

    They are those of 48 of a node's 144 samples, written as fast as I/O tasks can:
    (computing + last) / (computing + writing) is what is kept of the time.
    """
    sizes = sum(paper.VARIANTS_BYTES.values()) + paper.VARIANTS_BYTES["mapped"]
    samples = paper.VARIANTS_INPUTS / paper.NODES
    faster = curves.peak(curves.SSD) / curves.peak(curves.SSD_NON_AWARE)
    last = paper.CORES / samples * paper.VARIANTS_BYTES["grouped"] / sizes / faster
    saves = paper.VARIANTS_IMPROVEMENT
    return (1 - saves - last) / saves


def kmeans_ratio() -> float:
    """Of an iteration. What comes before the first one would only dilute the differences."""
    _, iteration_s = paper.kmeans_compute_s(curves.peak(curves.SSD_NON_AWARE))
    return iteration_s / _written_s(paper.CORES, paper.KMEANS_BYTES)


@dataclass(frozen=True)
class Workload:
    """An application and its size.

    Attributes:
        program: In apps/workflows.
        tools: Programs it needs.
        ratio: Computing time over writing time, without I/O tasks.
        executors: I/O tasks at once at most; and of the run without a constraint.
        saves: The part of the time that the paper saves; None: none is printed.
    """

    name: str
    program: str
    tools: tuple[str, ...]
    options: tuple[str, ...]
    ratio: float
    executors: tuple[int, int]
    saves: float | None


def hmmer(sequences_each: int) -> Workload:
    """192 searches: 2304 of the paper on 12 nodes."""
    return Workload(
        "HMMER",
        "hmmer.py",
        ("hmmscan", "hmmemit"),
        ("--database=12", "--sequences=16", f"--sequences-each={sequences_each}"),
        ratio=hmmer_ratio(),
        executors=(paper.EXECUTORS, 500),
        saves=paper.HMMER_IMPROVEMENT,
    )


def variants(samples: int, reads: int) -> Workload:
    """144 samples would be the paper's 1728 on 12 nodes."""
    return Workload(
        "variants",
        "variants.py",
        ("bwa", "samtools", "wgsim", "bcftools"),
        (f"--samples={samples}", f"--reads={reads}"),
        ratio=variants_ratio(),
        executors=(paper.EXECUTORS, paper.VARIANTS_UNCONSTRAINED_EXECUTORS),
        saves=paper.VARIANTS_IMPROVEMENT,
    )


def kmeans(iterations: int, points: int) -> Workload:
    """42 fragments: 500 of the paper on 12 nodes."""
    return Workload(
        f"K-means, {iterations} iteration{'s' if iterations > 1 else ''}",
        "kmeans.py",
        (),
        (
            *("--fragments=42", f"--points={42 * points}", "--dimensions=100", "--centers=1000"),
            f"--iterations={iterations}",
        ),
        ratio=kmeans_ratio(),
        executors=(paper.EXECUTORS, paper.EXECUTORS),
        saves=None,
    )


@dataclass(frozen=True)
class Effort:
    """How much is run on a device.

    Attributes:
        statics: Constraints of the sweep, of `STATICS`; that of the device's peak comes with them.
        autos: Whether to run "auto", "auto(2,256,2)" and no constraint too.
        rounds: Of those that are judged.
        finalists: The best of the sweep that run in these rounds.
        trials: Runs by which the size of checkpoints is found.
    """

    workloads: tuple[Workload, ...]
    statics: tuple[float, ...]
    autos: bool
    rounds: int
    finalists: int = 3
    trials: int = 3


def congested(workload: Workload) -> Workload:
    """With as much writing as computing, by which the slots offer a steep device all it can take:
    where writers are not held back, they become ever more."""
    return dataclasses.replace(workload, ratio=1, saves=None)


# Computing takes 7 s here in the first, 7 to 14 s in the second, up to a minute in the third.
QUICK = Effort((hmmer(1),), statics=(), autos=False, rounds=1, trials=1)
_SWEEP = (8, 16, 32, 64, 128)
_MIDDLE = (hmmer(2), variants(96, 100), kmeans(1, 22_000))
NORMAL = Effort((*_MIDDLE, kmeans(3, 7_400)), statics=_SWEEP, autos=True, rounds=7, finalists=2)
_LARGE = (hmmer(8), variants(144, 1000), kmeans(1, 44_000))
LONG = Effort((*_LARGE, kmeans(3, 15_000), kmeans(6, 7_400)), statics=STATICS, autos=True, rounds=5)
#: On the steep device.
CONGESTED = Effort((congested(hmmer(2)),), statics=_SWEEP, autos=True, rounds=3, finalists=1)
#: On the disk; in the long form, which has a device as measured too.
DISK = Effort(_MIDDLE, statics=(32, 64), autos=False, rounds=3, finalists=1)
ELSEWHERE = dataclasses.replace(DISK, workloads=_LARGE)
SLOWER_MB_S = 150.0


@dataclass(frozen=True)
class Runner:
    """Runs applications and remembers what they did.

    Attributes:
        runs: Of each run its JSON, with application and device.
        computing: By workload, what was found out about its computing.
        usable: Programs that can run here, and those that cannot.
    """

    session: Session
    python: str
    work: Path
    runs: list[dict[str, Any]]
    computing: dict[str, tuple[float, float]] = field(default_factory=dict)
    usable: dict[str, bool] = field(default_factory=dict)

    def run(
        self,
        workload: Workload,
        mode: str,
        checkpoint_mb: float,
        device: Device,
        *,
        trial: bool = False,
    ) -> dict[str, Any]:
        """What the application printed, with the names of workload and device; and whether it was
        a trial, which is compared with nothing.

        Raises:
            ProgramFailed: It failed.
        """
        executors = workload.executors[mode == "unconstrained"]
        command = [
            *device.prefix,
            *(self.python, "-B", str(WORKFLOWS / workload.program), *workload.options),
            *(f"--mode={mode}", f"--checkpoint-mb={checkpoint_mb}", f"--cpus={SLOTS}"),
            *(f"--work={self.work}", f"--checkpoints={device.folder}"),
            *(f"--bandwidth={device.mb_s:g}", f"--io-threads={executors}"),
            *(["--direct"] if device.direct else []),
        ]
        environment = {"PYTHONPATH": str(self.session.build.folder / "python")}
        done = process.run(command, environment=environment, timeout_s=TIMEOUT_S)
        outcome = json.loads(done.stdout)
        outcome.update(workload=workload.name, device=device.name, trial=trial, cpu_s=done.cpu_s)
        outcome["paper_saves"] = paper_saves(workload, device)
        self.runs.append(outcome)
        self.session.progress(
            f"{workload.name}, {device.name}: {mode}: {outcome['seconds']:.2f} s, "
            f"{mb_per_s(outcome):.0f} MB/s"
        )
        return dict(outcome)

    def checkpoint_mb(self, workload: Workload, device: Device, trials: int) -> float:
        """The size by which the run without I/O tasks computes and writes in the paper's ratio.

        The first guess is by what computing takes alone. Each of so many `trials` then shows the
        ratio in which it computes and writes on the device; only near the size that is looked for
        is writing in proportion to it.
        """
        if workload.name not in self.computing:
            self.computing[workload.name] = self._computing(workload)
        seconds, unit_mb = self.computing[workload.name]
        size_mb = seconds / workload.ratio * device.non_aware_mb_s / unit_mb
        for _ in range(trials):
            outcome = self.run(workload, "non-aware", size_mb, device, trial=True)
            size_mb *= computing_over_writing(outcome) / workload.ratio
        self.session.note(
            f"{workload.name}, {device.name}: computing alone takes {seconds:.2f} s, and "
            f"{size_mb * unit_mb:.0f} MB are written, for a ratio of {workload.ratio:.2f} without "
            "I/O tasks"
        )
        return size_mb

    def _computing(self, workload: Workload) -> tuple[float, float]:
        """Seconds of computing alone, and the MB that are written for each of --checkpoint-mb."""
        size_mb = 0.01
        memory = Device("memory", self.work, SSD_MB_S, SSD_MB_S, direct=False)
        outcome = self.run(workload, "non-aware", size_mb, memory, trial=True)
        return outcome["seconds"], outcome["checkpoint_bytes"] / 1e6 / size_mb

    def can_run(self, workload: Workload) -> bool:
        """Whether this machine has what the application needs; if not, that is noted once."""
        if workload.program not in self.usable:
            missing = [tool for tool in workload.tools if shutil.which(tool) is None]
            complaint = f"no {', '.join(missing)} (tools/install_packages apps)" if missing else ""
            if workload.program == "kmeans.py" and not self._has_numpy():
                complaint = f"{self.python} has no numpy (`make test` installs it)"
            if complaint:
                self.session.note(f"{workload.program} is left out: {complaint}")
            self.usable[workload.program] = not complaint
        return self.usable[workload.program]

    def _has_numpy(self) -> bool:
        try:
            process.run([self.python, "-c", "import numpy"])
        except ProgramFailed:
            return False
        return True


# ---- One application on one device


def computing_over_writing(outcome: Mapping[str, Any]) -> float:
    """In which ratio the slots of a run without I/O tasks did the one and the other."""
    return float(outcome["computing_s"] / outcome["writing_s"])


def mb_per_s(outcome: Mapping[str, Any]) -> float:
    """What a run wrote, computing included."""
    return float(outcome["checkpoint_bytes"] / 1e6 / outcome["seconds"])


def could_save(outcome: Mapping[str, Any], computing_s: float, best_mb_s: float) -> float:
    """The part of a run without I/O tasks that could be saved at most: had the slots computed, for
    `computing_s` together, and checkpoints been written beside that, at the device's best, since
    the first."""
    waves = outcome["checkpoints"] / SLOTS
    bound_s = measures.overlap_bound_s(
        waves=waves,
        compute_s=computing_s / SLOTS / waves,
        wave_bytes=outcome["checkpoint_bytes"] / waves,
        mb_per_s=best_mb_s,
    )
    return measures.improvement(bound_s, outcome["seconds"])


def beyond_computing_s(outcome: Mapping[str, Any]) -> float:
    """What a run took longer than its slots computed."""
    return float(outcome["seconds"] - outcome["computing_s"] / SLOTS)


def at_one_speed(
    outcomes: Sequence[Mapping[str, Any]], mode: str, other: str, computing_s: float
) -> float:
    """What one mode takes over another if computing takes the slots `computing_s` together in both.
    Of modes that compute on all processors all the time: those differ by a tenth and more from one
    minute to the next."""

    def seconds(of: str) -> float:
        beyond = [beyond_computing_s(outcome) for outcome in outcomes if outcome["mode"] == of]
        return computing_s / SLOTS + statistics.median(beyond)

    return seconds(mode) / seconds(other)


def sweep_of(effort: Effort, device: Device) -> dict[str, float]:
    """The constraints of the sweep, as they are given: the paper's are for 450 MB/s, and on another
    device the same numbers of tasks at once; and the one that admits the device's best number."""
    scaled = {static * device.mb_s / SSD_MB_S for static in effort.statics}
    if device.best_streams is not None:
        scaled.add(device.mb_s / device.best_streams)
    return {f"{static:g}": static for static in sorted(scaled)}


def _over(rounds: Sequence[dict[str, float]], mode: str, other: str) -> list[float]:
    return [seconds[mode] / seconds[other] for seconds in rounds]


def compare(
    runner: Runner, workload: Workload, device: Device, checkpoint_mb: float, effort: Effort
) -> Iterator[Row]:
    """Runs every mode once, then those that are judged in turn.

    Raises:
        RuntimeError: Two runs did not compute or write the same.
    """
    outcomes: list[dict[str, Any]] = []

    def seconds(mode: str) -> float:
        outcomes.append(runner.run(workload, mode, checkpoint_mb, device))
        return float(outcomes[-1]["seconds"])

    scale = device.mb_s / SSD_MB_S
    others = ["unconstrained", "auto", f"auto({2 * scale:g},{256 * scale:g},2)"]
    sweep = sweep_of(effort, device)
    once = {mode: seconds(mode) for mode in [*sweep, *(others if effort.autos else [])]}
    finalists = sorted(sweep, key=lambda mode: once[mode])[: effort.finalists]

    contenders: dict[str, Callable[[], float]] = {
        mode: (lambda mode=mode: seconds(mode))  # type: ignore[misc]
        for mode in ("non-aware", *finalists, "climb")
    }
    rounds = list(alternate(contenders, effort.rounds))
    best = min(finalists, key=lambda mode: statistics.median(each[mode] for each in rounds))
    done = {(outcome["result"], outcome["checkpoint_bytes"]) for outcome in outcomes}
    if len(done) != 1:
        raise RuntimeError(f"{workload.name} on {device.name}: runs differ: {done}")

    where = f"{workload.name}, {device.name}"
    non_aware = statistics.median(each["non-aware"] for each in rounds)
    baselines = [outcome for outcome in outcomes if outcome["mode"] == "non-aware"]
    # Processors that never wait are slower: two of a virtual machine's may be one core's.
    busy_s = statistics.median(one["computing_s"] for one in outcomes if one not in baselines)
    # A disk may do more than it is taken for.
    best_mb_s = max(device.mb_s, *map(mb_per_s, outcomes))
    yield row(
        f"{where}: computing over writing without I/O tasks (wanted: {workload.ratio:.2f})",
        "ratio",
        [computing_over_writing(outcome) for outcome in baselines],
    )
    yield row(
        f"{where}: the most that overlapping could save of non-aware",
        "%",
        [100 * could_save(outcome, busy_s, best_mb_s) for outcome in baselines],
    )
    for mode, figure in once.items():
        yield row(f"{where}: {_called(mode)}", "s", [figure])
    for mode in contenders:
        runs = [outcome for outcome in outcomes if outcome["mode"] == mode]
        yield row(f"{where}: {_called(mode)}, in turn", "s", [each[mode] for each in rounds])
        yield row(
            f"{where}: {_called(mode)}, beyond computing", "s", [*map(beyond_computing_s, runs)]
        )
    for mode in others if effort.autos else []:
        yield row(f"{where}: {mode} over non-aware", "ratio", [once[mode] / non_aware])
    yield row(
        f"{where}: climb over non-aware",
        "ratio",
        _over(rounds, "climb", "non-aware"),
        bar_of(workload, device),
    )
    yield row(
        f"{where}: climb over the best constraint, {best}",
        "ratio",
        _over(rounds, "climb", best),
        at_most(1.03),
    )
    yield row(
        f"{where}: climb over the best constraint, {best}, at one speed of computing",
        "ratio",
        [at_one_speed(outcomes, "climb", best, busy_s)],
        at_most(1.03),
    )


def _called(mode: str) -> str:
    return f"constraint {mode}" if mode[0].isdigit() else mode


def bar_of(workload: Workload, device: Device) -> Bar:
    """What climb may take over non-aware."""
    saves = paper_saves(workload, device)
    return at_most(1.02 if saves is None else round(1 - saves, 4))


def paper_saves(workload: Workload, device: Device) -> float | None:
    """Of the time of non-aware, if the device is such as the paper's."""
    return workload.saves if device.non_aware_mb_s < device.mb_s else None


# ---- All


def _python() -> str:
    """The interpreter that has what the applications need."""
    ours = build.ROOT / "build/venv/bin/python3"
    return str(ours) if ours.exists() else sys.executable


def _devices(session: Session) -> Iterator[tuple[AbstractContextManager[Device], Effort]]:
    effort = QUICK if session.quick else LONG if session.long else NORMAL
    yield devices.with_knee(session, SSD_MB_S, knee(), SLOTS), effort
    if session.quick:
        return
    context = devices.with_knee(session, SSD_MB_S, steep(), SLOTS, called="steep")
    yield context, CONGESTED
    if session.long:
        measured = curves.scaled(curves.HARD_DISK, 1)
        context = devices.with_knee(session, SLOWER_MB_S, measured, SLOTS, called="as measured")
        yield context, ELSEWHERE
    elsewhere = ELSEWHERE if session.long else DISK
    yield devices.limited_disk(session, SSD_MB_S), elsewhere
    yield devices.raw_disk(session, SSD_MB_S), elsewhere


def run(session: Session) -> Iterator[Row]:
    """Rows of each application on each device."""
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(devices.work_folder(session))
        runner = Runner(session, _python(), work, [])
        stack.callback(_keep, session, runner.runs)
        for context, effort in _devices(session):
            try:
                with context as device:
                    for workload in effort.workloads:
                        if runner.can_run(workload):
                            size_mb = runner.checkpoint_mb(workload, device, effort.trials)
                            yield from compare(runner, workload, device, size_mb, effort)
            except DeviceUnavailable as error:
                session.note(f"left out: {error}")
        if not session.quick:
            _draw(session, runner.runs)


#: The paper's figures, by the first word of a workload's name.
FIGURES = {"HMMER": "10 HMMER", "variants": "14 variants", "K-means": "21 K-means"}


def _draw(session: Session, runs: Sequence[dict[str, Any]]) -> None:
    """For each device the times of every mode, as figures 10, 14 and 21 have them."""
    found: list[drawing.Picture] = []
    compared = [run for run in runs if not run["trial"]]
    for device in dict.fromkeys(run["device"] for run in compared):
        for application, figure in FIGURES.items():
            chosen = [
                run
                for run in compared
                if run["device"] == device and run["workload"].startswith(application)
            ]
            if chosen:
                title = f"{application}, real runs on {device}"
                make = functools.partial(
                    pictures.totals, bars_of(chosen), title=title, reference=SAVED
                )
                found.append((f"{figure} {device}", make))
    drawing.draw(session, "applications", found)


def bars_of(runs: Sequence[dict[str, Any]]) -> list[pictures.Bar]:
    """The median of each mode's runs on a device, those without I/O tasks first and climb last."""
    bars, kinds = [], list(pictures.KINDS)
    for workload in dict.fromkeys(run["workload"] for run in runs):
        times: dict[str, list[float]] = {}
        saves = None
        for run in runs:
            if run["workload"] == workload:
                saves = run["paper_saves"]
                times.setdefault(run["mode"], []).append(run["seconds"])
        base = statistics.median(times["non-aware"])
        for mode in sorted(times, key=lambda mode: kinds.index(_kind(mode))):
            low, middle, high = min(times[mode]), statistics.median(times[mode]), max(times[mode])
            reference = base * (1 - saves) if saves and mode == "climb" else None
            bars.append(pictures.Bar(mode, middle, _kind(mode), workload, low, high, reference))
    return bars


def _kind(mode: str) -> str:
    if mode == "non-aware":
        return "baseline"
    if mode[0].isdigit():
        return "static"
    return mode.partition("(")[0]


def _keep(session: Session, runs: list[dict[str, Any]]) -> None:
    """Every run, beside the results."""
    session.results.mkdir(parents=True, exist_ok=True)
    file = session.results / "applications.json"
    file.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
