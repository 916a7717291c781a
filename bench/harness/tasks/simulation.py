"""The paper's evaluation in virtual time, on 12 nodes of 48 cores, beside what it prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ioweave
from ioweave import pictures
from ioweave.simulated import SimulatedRuntime

from harness.result import Bar, Row, at_least, at_most, row
from harness.session import Session
from harness.tasks import curves, drawing, measures, paper, scale
from harness.tasks.curves import Curve
from harness.tasks.workloads import (
    CLIMB,
    DEVICE,
    NON_AWARE,
    Mode,
    Run,
    Workload,
    auto,
    bounded,
    hmmer,
    kmeans,
    simulate,
    static,
    unconstrained,
    variants,
)

#: Static constraints, as in figure 10.
SWEEP = tuple(static(2.0**power) for power in range(1, 9))
#: The best is among these everywhere.
QUICK_SWEEP = SWEEP[1:5]
#: Where bars of figures 10 and 14 are broken off: constraint 256 would leave nothing of the others.
HMMER_MOST_S, VARIANTS_MOST_S = 2000, 12_000
#: MB/s of a node under 48 computing tasks that write, rounded from paper.non_aware_mb_per_s().
NON_AWARE_MB_PER_S = curves.peak(curves.SSD_NON_AWARE)


class Runs:
    """The runs of one workload, by mode; the first is what others are compared with."""

    def __init__(
        self,
        workload: Workload,
        modes: Iterable[Mode],
        *,
        curve: Curve = curves.SSD,
        non_aware: Curve = curves.SSD_NON_AWARE,
    ) -> None:
        self.workload = workload
        self.by_mode = {
            mode.name: simulate(
                workload,
                mode,
                non_aware if mode is NON_AWARE else curve,
                with_log=mode is CLIMB,
            )
            for mode in modes
        }

    def __getitem__(self, mode: str) -> Run:
        return self.by_mode[mode]

    def improvement(self, mode: str) -> float:
        """Over the non-aware run, as a part of its time."""
        return measures.improvement(self[mode].total_s, self[NON_AWARE.name].total_s)

    def best_static(self) -> tuple[float, str]:
        """The least time of the sweep, and the constraints that take no more than 0.1 % longer."""
        totals = {m: r.total_s for m, r in self.by_mode.items() if r.mode.kind == "static"}
        least = min(totals.values())
        return least, " or ".join(mode for mode, total in totals.items() if total < 1.001 * least)


# ---- Rows that all workloads have.


def _totals(
    name: str, runs: Runs, printed: dict[str, float], *, sweep: bool = True
) -> Iterator[Row]:
    """Each mode's total, and where the paper prints it, ours over that."""
    for mode, run in runs.by_mode.items():
        if run.mode.kind == "static" and not sweep:
            continue
        yield row(f"{name}, {mode}: total", "s", [run.total_s])
        if mode in printed:
            text = f"{name}, {mode}: total over the paper's {printed[mode]:g} s"
            yield row(text, "ratio", [run.total_s / printed[mode]])


def _climb(name: str, runs: Runs, least: Bar | None) -> Iterator[Row]:
    """What is asked of `climb`."""
    climb = runs["climb"]
    yield row(f"{name}, climb: less than non-aware", "%", [100 * runs.improvement("climb")], least)
    non_aware_s = runs[NON_AWARE.name].total_s
    yield row(
        f"{name}, climb: over non-aware", "ratio", [climb.total_s / non_aware_s], at_most(1.02)
    )
    best_s, best = runs.best_static()
    yield row(
        f"{name}, climb: over the best static constraint ({best})",
        "ratio",
        [climb.total_s / best_s],
        at_most(1.03),
    )
    yield from _below(name, climb, at_most(2))
    known = simulate(climb.workload, CLIMB, climb.curve, measured=True)
    text = f"{name}, climb, device measured before"
    yield row(
        f"{text}: over the best static constraint ({best})", "ratio", [known.total_s / best_s]
    )
    share = 100 * measures.share_below(known.records, known.rate, known.best)
    yield row(f"{text}: tasks below 90 % of the best throughput", "%", [share])


def _below(name: str, run: Run, bar: Bar | None = None) -> Iterator[Row]:
    share = 100 * measures.share_below(run.records, run.rate, run.best)
    yield row(
        f"{name}, {run.mode.name}: tasks below 90 % of the best throughput", "%", [share], bar
    )
    if run.started:
        part = 100 * run.started_below / sum(run.started.values())
        text = f"{name}, {run.mode.name}: tasks started under a limit below 90 %"
        yield row(text, "%", [part])


def _learned(name: str, run: Run) -> Iterator[Row]:
    """Tasks of the learning phase and what it led to, of each checkpointing task."""
    for task, explained in run.explained.items():
        what = f"{name}, {run.mode.name}"
        if len(run.explained) > 1:
            what += f", {task}"
        learning = sum(epoch["tasks"] for epoch in explained["epochs"])
        yield row(f"{what}: tasks it learned from", "tasks", [learning])
        chosen = explained["choices"][0]["constraint_mb_per_s"]
        yield row(f"{what}: constraint it chose then", "MB/s", [chosen])
        last = explained["constraint_mb_per_s"]
        yield row(f"{what}: constraint at the end", "MB/s", [last])


def _static_row(name: str, runs: Runs, of_paper: str, improvement: float) -> Row:
    best_s, best = runs.best_static()
    non_aware_s = runs[NON_AWARE.name].total_s
    return row(
        f"{name}, best static constraint ({best}; paper: {of_paper}): less than non-aware "
        f"(paper: {100 * improvement:g} %)",
        "%",
        [100 * measures.improvement(best_s, non_aware_s)],
    )


# ---- The applications.


def run_hmmer() -> Runs:
    """Figures 10 to 12 and 22(a)."""
    autos = [
        bounded(2, 256, 2),
        bounded(4, 8, 2),
        bounded(4, 256, 4),
        *(auto(executors) for executors in (225, 112, 56)),
    ]
    return Runs(hmmer(), [NON_AWARE, unconstrained(500), *SWEEP, *autos, CLIMB])


def _hmmer_rows(runs: Runs) -> Iterator[Row]:
    yield from _totals("HMMER", runs, paper.HMMER_SECONDS)
    for mode in ("auto_225", "auto(2,256,2)"):
        yield from _learned("HMMER", runs[mode])
        yield from _below("HMMER", runs[mode])
    yield _static_row("HMMER", runs, f"{paper.HMMER_CONSTRAINT}", paper.HMMER_IMPROVEMENT)
    bound_s = measures.overlap_bound_s(
        waves=paper.HMMER_TASKS / paper.NODES / paper.CORES,
        compute_s=paper.HMMER_COMPUTE_S,
        wave_bytes=paper.CORES * paper.HMMER_BYTES,
        mb_per_s=curves.peak(curves.SSD),
    )
    non_aware_s = runs[NON_AWARE.name].total_s
    yield row(
        "HMMER: the most that any constraint could save of non-aware",
        "%",
        [100 * measures.improvement(bound_s, non_aware_s)],
    )
    yield from _climb("HMMER", runs, at_least(100 * paper.HMMER_IMPROVEMENT))
    beside = simulate(runs.workload, CLIMB, curves.SSD, shared_directory=False)
    yield row(
        "HMMER, climb, I/O where its data is: less than non-aware",
        "%",
        [100 * measures.improvement(beside.total_s, non_aware_s)],
    )
    for run in runs.by_mode.values():
        if run.mode.kind in ("unconstrained", "static"):
            yield row(
                f"HMMER, {run.mode.name}: I/O throughput of a node",
                "MB/s",
                [measures.throughput_mb_per_s(run.records)],
            )
            yield row(
                f"HMMER, {run.mode.name}: time of an I/O task",
                "s",
                [measures.mean_task_s(run.records)],
            )


def run_variants(sweep: Iterable[Mode] = SWEEP) -> Runs:
    """Figures 14 to 19 and 22(b), table 2."""
    compute_s = paper.variants_compute_s(NON_AWARE_MB_PER_S)
    autos = [bounded(2, 256, 2), bounded(4, 16, 2), bounded(2, 256, 4), auto(), auto(112)]
    free = unconstrained(paper.VARIANTS_UNCONSTRAINED_EXECUTORS)
    return Runs(variants(compute_s=compute_s), [NON_AWARE, free, *sweep, *autos, CLIMB])


def _variants_rows(runs: Runs) -> Iterator[Row]:
    yield from _totals("variants", runs, {})
    yield _static_row("variants", runs, f"{paper.VARIANTS_CONSTRAINT}", paper.VARIANTS_IMPROVEMENT)
    for mode in ("auto_225", "auto(2,256,2)"):
        yield from _learned("variants", runs[mode])
        yield from _below("variants", runs[mode])
    yield from _climb("variants", runs, at_least(100 * paper.VARIANTS_IMPROVEMENT))


def run_kmeans(iterations: int, sweep: Iterable[Mode] = SWEEP) -> Runs:
    """Figure 21."""
    begin_s, iteration_s = paper.kmeans_compute_s(NON_AWARE_MB_PER_S)
    workload = kmeans(iterations=iterations, begin_s=begin_s, iteration_s=iteration_s)
    return Runs(workload, [NON_AWARE, *sweep, auto(), bounded(2, 256, 2), CLIMB])


def _kmeans_rows(iterations: int, runs: Runs) -> Iterator[Row]:
    name = f"K-means {iterations}"
    yield from _totals(name, runs, paper.KMEANS_SECONDS[iterations], sweep=False)
    for mode, printed in paper.KMEANS_SECONDS[iterations].items():
        if mode != NON_AWARE.name:
            of_paper = measures.improvement(printed, paper.KMEANS_SECONDS[iterations]["non-aware"])
            yield row(
                f"{name}, {mode}: less than non-aware (paper: {100 * of_paper:.1f} %)",
                "%",
                [100 * runs.improvement(mode)],
            )
        if mode in paper.KMEANS_LEARNING_TASKS:
            yield from _learned(name, runs[mode])
            yield from _below(name, runs[mode])
    yield from _climb(name, runs, None)


def run_self_consistent(curve: Curve, sweep: Iterable[Mode] = SWEEP) -> Runs:
    """HMMER on a device that is the same for all runs, with as much computation as I/O in the
    non-aware one: the ratio at which overlapping alone saves most, 37.5 % with four waves."""
    wave_s = paper.CORES * paper.HMMER_BYTES / paper.MB / curves.at(curve, paper.CORES)
    modes = [NON_AWARE, unconstrained(500), *sweep, auto(), auto(56), bounded(2, 256, 2), CLIMB]
    return Runs(hmmer(compute_s=wave_s), modes, curve=curve, non_aware=curve)


# ---- A shared device that changes under the run.


@dataclass(frozen=True)
class Change:
    """What becomes of a shared device, each before and after as streams and MB/s of its best."""

    text: str
    before: tuple[int, float]
    after: tuple[int, float]


CHANGES = (
    Change("slower, best with as many", (16, 450), (16, 225)),
    Change("faster, best with as many", (16, 225), (16, 450)),
    Change("slower, best with fewer", (24, 450), (8, 250)),
    Change("faster, best with more", (8, 250), (24, 450)),
)


#: It probes from time to time: where in between the change comes may matter.
CHANGES_AT_S = (400.0, 433.0, 467.0, 511.0, 557.0)
MANY_CHANGES_AT_S = tuple(float(at_s) for at_s in range(400, 560, 4))
CHANGE_TASKS = 2000


def _curve(best: tuple[int, float]) -> Curve:
    return [
        (n, curves.scalability(n, *best))
        for n in (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 225)
    ]


def tasks_to_come_back(change: Change, *, at_s: float, tasks: int = CHANGE_TASKS) -> int | None:
    """I/O tasks of 290 MB that end before `climb` has the device back at 95 % of its new best."""
    save = CLIMB.io("save", paper.HMMER_BYTES)
    with SimulatedRuntime(
        f"sim://{paper.NODES}x{paper.CORES}",
        costs={},
        curves={"ssd": _curve(change.before)},
        devices=[ioweave.Device("ssd", bandwidth=paper.BUDGET, scope="shared")],
    ) as runtime:
        for _ in range(tasks):
            save()
        runtime.change_curve("ssd", _curve(change.after), at_s=at_s)
    after = _curve(change.after)
    return measures.tasks_until_back(
        runtime.records(), at_s, lambda streams: curves.at(after, streams), change.after[1]
    )


def _drift_rows(session: Session) -> Iterator[Row]:
    for change in CHANGES:
        text = (
            f"shared device that gets {change.text} ({change.before[0]} to {change.after[0]} "
            f"streams, {change.before[1]:g} to {change.after[1]:g} MB/s)"
        )
        moments = MANY_CHANGES_AT_S if session.long else CHANGES_AT_S
        found = [tasks_to_come_back(change, at_s=at_s) for at_s in moments]
        if None in found:
            session.note(f"{text}: climb did not come back to within 5 % of the optimum")
        tasks = [CHANGE_TASKS if one is None else one for one in found]
        yield row(f"{text}: tasks until within 5 %", "tasks", tasks)
        worst = f"{text}: the same at worst of {len(moments)} moments"
        yield row(worst, "tasks", [max(tasks)], at_most(50))


# ---- Large clusters.


def _scale_rows(session: Session) -> Iterator[Row]:
    for nodes in (1_000, 10_000):
        for device, called in scale.DEVICES.items():
            for mode in scale.MODES if nodes < 10_000 else ("climb", "none"):
                cluster = scale.Cluster(nodes, device, mode)
                found = scale.in_process(cluster, session.build.folder / "python")
                name = f"{nodes} nodes, {called}, {mode}"
                over = f"{name}: total over the optimum of {found['bound_s']:.0f} s"
                yield row(f"{name}: tasks", "tasks", [found["tasks"]])
                yield row(f"{name}: total", "s", [found["total_s"]])
                yield row(over, "ratio", [found["total_s"] / found["bound_s"]])
                yield row(f"{name}: time to simulate", "s", [found["wall_s"]])
                yield row(f"{name}: peak memory to simulate", "MiB", [found["peak_mib"]])


# ---- Pictures.


def _climb_begins() -> dict[str, Any]:
    """What `climb` heard until the first tasks ended: on one node, for the last 256 samples that it
    keeps are those of 20 seconds on 12."""
    save = CLIMB.io("checkpoint_frag", paper.HMMER_BYTES)
    with SimulatedRuntime(
        f"sim://1x{paper.CORES}",
        costs={},
        curves={DEVICE: curves.SSD},
        devices=[ioweave.Device(DEVICE, bandwidth=paper.BUDGET)],
    ) as runtime:
        saved = [save() for _ in range(4 * paper.CORES)]
        ioweave.wait(saved[: paper.CORES])
        return runtime.explain(save)


def _bars(runs: Runs, printed: dict[str, float], group: str = "") -> list[pictures.Bar]:
    return [
        pictures.Bar(mode, run.total_s, run.mode.kind, group, reference=printed.get(mode))
        for mode, run in runs.by_mode.items()
    ]


def constraint_of(run: Run) -> float | None:
    """What a run with one checkpointing task settled on; of `auto` what its registry has as best
    for many tasks: it chooses for as many as wait just then, and may take another for a few."""
    if run.mode.kind == "unconstrained":
        return None
    (explained,) = run.explained.values()
    registered = [epoch for epoch in explained["epochs"] if epoch["registered"]]
    best = min(registered, key=lambda epoch: epoch["mean_s"] / epoch["limit"], default=explained)
    constraint: float = best["constraint_mb_per_s"]
    return constraint


def _points(runs: Runs) -> list[pictures.Point]:
    """Where figure 11 has them: fewer write at once under a higher constraint."""
    points = []
    for mode, run in runs.by_mode.items():
        if run.mode.kind == "baseline":
            continue
        points.append(
            pictures.Point(
                mode,
                constraint_of(run),
                measures.throughput_mb_per_s(run.records),
                measures.mean_task_s(run.records),
                run.mode.kind,
            )
        )
    return points


def draw(
    session: Session, hmmer_runs: Runs, variants_runs: Runs, kmeans_runs: dict[int, Runs]
) -> None:
    """The paper's figures, as PNG files in the results."""
    chosen = {"non-aware", "unconstrained", "auto_225", "auto(2,256,2)", "climb"}
    static_names = {mode.name for mode in SWEEP}
    pictures_of: list[drawing.Picture] = []

    def add(name: str, make: Callable[[Path], None]) -> None:
        pictures_of.append((name, make))

    bars = _bars(hmmer_runs, paper.HMMER_SECONDS)
    figure_10 = [bar for bar in bars if bar.name in chosen | static_names]
    add(
        "10-hmmer",
        lambda path: pictures.totals(
            figure_10, path, title="HMMER, simulated", most_s=HMMER_MOST_S
        ),
    )
    add(
        "11-hmmer-constraints",
        lambda path: pictures.against_constraint(
            _points(hmmer_runs), path, title="HMMER, simulated"
        ),
    )
    figure_14 = [bar for bar in _bars(variants_runs, {}) if bar.name in chosen | static_names]
    add(
        "14-variants",
        lambda path: pictures.totals(
            figure_14, path, title="Variants, simulated", most_s=VARIANTS_MOST_S
        ),
    )
    figure_21 = [
        bar
        for iterations, runs in kmeans_runs.items()
        for bar in _bars(runs, paper.KMEANS_SECONDS[iterations], f"{iterations} iterations")
        if bar.name in chosen
    ]
    add("21-kmeans", lambda path: pictures.totals(figure_21, path, title="K-means, simulated"))
    for number, (runs, of) in enumerate(((hmmer_runs, "HMMER"), (variants_runs, "Variants"))):
        kinds = [
            bar
            for bar in _bars(runs, paper.HMMER_SECONDS if of == "HMMER" else {})
            if bar.kind in ("baseline", "auto", "climb")
        ]
        add(
            f"22{'ab'[number]}-{of.lower()}",
            lambda path, kinds=kinds, of=of: pictures.totals(  # type: ignore[misc]
                kinds, path, title=f"{of}, simulated: how it is tuned"
            ),
        )
    first_figure = {"checkpoint_frag": 12} | {
        f"checkpoint_{kind}": 15 + number for number, kind in enumerate(paper.VARIANTS_BYTES)
    }
    for runs in (hmmer_runs, variants_runs):
        for mode in ("auto_225", "auto(2,256,2)"):
            for task, explained in runs[mode].explained.items():
                add(
                    f"{first_figure[task]}-{task}-{mode}",
                    lambda path, explained=explained: pictures.learning(  # type: ignore[misc]
                        explained, path
                    ),
                )
    add(
        "12-checkpoint-frag-climb",
        lambda path: pictures.learning(_climb_begins(), path, title="climb begins, on one node"),
    )
    for mode in ("non-aware", "climb"):
        add(
            f"timeline-hmmer-{mode}",
            lambda path, mode=mode: pictures.timeline(  # type: ignore[misc]
                hmmer_runs[mode].records, path, title=f"HMMER, {mode}, simulated"
            ),
        )
    drawing.draw(session, "simulation", pictures_of)


# ---- All of it.

DEVIATIONS = (
    "simulation: the device is one curve, of which four numbers were chosen by five totals of "
    "figure 22(a), so that meeting these proves nothing; non-aware runs go by a rate of their own, "
    "which follows from what is printed (harness/tasks/curves.py, paper.py)",
    "simulation: a curve over streams knows no sizes, so that all five checkpoints of the variants "
    "end at one constraint, where table 2 has 16, 8, 4, 4 and 4",
    "simulation: auto with K-means is behind the paper, which learns from 435 tasks in less time "
    "than one device of 450 MB/s can take their bytes: it cannot have learned on one node alone",
    "simulation: auto(4,256,4) is quicker than printed: with 28 or 112 at once this device moves "
    "at least 74 % of its best, and the paper's total would need about a quarter",
    "simulation: tasks below 90 % of the best are counted by their bytes: those moved while others "
    "waited and the node's device moved less than that",
)


def run(session: Session) -> Iterator[Row]:
    """Rows of everything that is simulated."""
    for text in DEVIATIONS:
        session.note(text)
    for name, value in paper.stream_mb_per_s().items():
        yield row(f"the paper implies of {name}: one stream alone", "MB/s", [value])
    for name, value in paper.non_aware_mb_per_s().items():
        yield row(f"the paper implies of {name}: a node in non-aware runs", "MB/s", [value])
    sweep = QUICK_SWEEP if session.quick else SWEEP
    hmmer_runs = run_hmmer()
    yield from _hmmer_rows(hmmer_runs)
    variants_runs = run_variants(sweep)
    yield from _variants_rows(variants_runs)
    kmeans_runs = {n: run_kmeans(n, sweep) for n in paper.KMEANS_SECONDS}
    for iterations, runs in kmeans_runs.items():
        yield from _kmeans_rows(iterations, runs)
    congested = run_self_consistent(curves.CONGESTED, sweep)
    yield from _totals("HMMER, congested device", congested, {}, sweep=False)
    yield from _climb("HMMER, congested device", congested, at_least(38))
    measured = run_self_consistent(curves.scaled(curves.HARD_DISK, paper.BUDGET), sweep)
    yield from _totals("HMMER, device as measured", measured, {}, sweep=False)
    yield from _climb("HMMER, device as measured", measured, None)
    yield from _drift_rows(session)
    if session.long:
        draw(session, hmmer_runs, variants_runs, kmeans_runs)
        yield from _scale_rows(session)
    else:
        session.note("simulation: pictures, and clusters of 1,000 and 10,000 nodes, with --long")
