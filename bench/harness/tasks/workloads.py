"""The paper's three applications as graphs of simulated tasks, and the modes of running them."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ioweave
from ioweave.records import TaskRecord
from ioweave.simulated import BlockingIO, SimulatedRuntime

from harness.tasks import curves, paper
from harness.tasks.curves import Curve

DEVICE = "ssd"


@dataclass(frozen=True)
class Workload:
    """A program.

    Attributes:
        seconds: Of each computing task, by name.
        sizes: Bytes of each checkpointing task, by name.
        submit: Calls all tasks: submit(compute, save), each with a name and what the task needs.
    """

    name: str
    seconds: Mapping[str, float]
    sizes: Mapping[str, int]
    submit: Callable[[Callable[..., Any], Callable[..., Any]], None]


def hmmer(*, tasks: int = paper.HMMER_TASKS, compute_s: float = paper.HMMER_COMPUTE_S) -> Workload:
    """Each result is checkpointed; nothing else depends on anything."""

    def submit(compute: Callable[..., Any], save: Callable[..., Any]) -> None:
        for _ in range(tasks):
            save("checkpoint_frag", compute("hmmpfam"))

    sizes = {"checkpoint_frag": paper.HMMER_BYTES}
    return Workload("HMMER", {"hmmpfam": compute_s}, sizes, submit)


def variants(*, compute_s: float, inputs: int = paper.VARIANTS_INPUTS) -> Workload:
    """A pipeline of seven steps for each input; what the first six give is checkpointed."""
    steps = {
        "unpack": "fastq",
        "bwa_map": "mapped",
        "sort": "mapped",
        "merge": "merged",
        "mark_duplicates": "marked",
        "add_group": "grouped",
    }

    def submit(compute: Callable[..., Any], save: Callable[..., Any]) -> None:
        for _ in range(inputs):
            done: list[Any] = []
            for step, kind in steps.items():
                done = [compute(step, *done)]
                save(f"checkpoint_{kind}", *done)
            compute("call_variants", *done)

    return Workload(
        "variants",
        dict.fromkeys((*steps, "call_variants"), compute_s),
        {f"checkpoint_{kind}": size for kind, size in paper.VARIANTS_BYTES.items()},
        submit,
    )


def kmeans(*, iterations: int, begin_s: float, iteration_s: float) -> Workload:
    """In each iteration a partial sum of each fragment, checkpointed, and a tree of merges of 8."""

    def submit(compute: Callable[..., Any], save: Callable[..., Any]) -> None:
        fragments = [compute("generate_fragment") for _ in range(paper.KMEANS_TASKS)]
        centers: list[Any] = []
        for _ in range(iterations):
            sums = [compute("partial_sum", fragment, *centers) for fragment in fragments]
            for one in sums:
                save("checkpoint_centers", one)
            while len(sums) > 1:
                sums = [compute("kmeans_merge", *sums[i : i + 8]) for i in range(0, len(sums), 8)]
            centers = sums

    # The time of merging is in that of the partial sums: the paper prints that of an iteration.
    seconds = {"generate_fragment": begin_s, "partial_sum": iteration_s, "kmeans_merge": 0.0}
    sizes = {"checkpoint_centers": paper.KMEANS_BYTES}
    return Workload(f"K-means, {iterations} iterations", seconds, sizes, submit)


@dataclass(frozen=True)
class Mode:
    """How checkpointing tasks run.

    Attributes:
        kind: "baseline" (they are computing tasks), "unconstrained", "static", "auto", "climb".
        constraint: As @ioweave.io(bandwidth=) takes it, of "static" and "auto".
        executors: Most I/O tasks at once on a node.
    """

    name: str
    kind: str
    constraint: float | str | None = None
    executors: int = paper.EXECUTORS

    def io(self, name: str, size: int) -> ioweave.Task:
        """A checkpointing task."""
        if self.kind == "baseline":
            return ioweave.task(name=name)(_nothing)
        options: dict[str, Any] = {"bandwidth": self.constraint}
        if self.kind in ("unconstrained", "climb"):
            options = {"policy": "none" if self.kind == "unconstrained" else "climb"}
        return ioweave.io(device=DEVICE, bytes=size, name=name, **options)(_nothing)


NON_AWARE = Mode("non-aware", "baseline")
CLIMB = Mode("climb", "climb")


def unconstrained(executors: int) -> Mode:
    return Mode("unconstrained", "unconstrained", executors=executors)


def static(constraint: float) -> Mode:
    return Mode(f"{constraint:g}", "static", constraint)


def auto(executors: int = paper.EXECUTORS) -> Mode:
    """With so many executors, as figure 22 names it."""
    return Mode(f"auto_{executors}", "auto", "auto", executors)


def bounded(least: int, most: int, delta: int) -> Mode:
    text = f"auto({least},{most},{delta})"
    return Mode(text, "auto", text)


@dataclass(frozen=True)
class Run:
    """What came of a workload in a mode.

    Attributes:
        explained: runtime.explain(), by checkpointing task; of the baseline nothing.
        started: Checkpointing tasks by the limit under which they started, where it was logged.
        rate: What a node's device moves, in MB/s by streams.
    """

    workload: Workload
    mode: Mode
    total_s: float
    records: list[TaskRecord]
    explained: dict[str, dict[str, Any]]
    curve: Curve
    started: dict[int, int] = field(default_factory=dict)

    @property
    def best(self) -> float:
        """The most that a node's device moves, in MB/s."""
        return curves.peak(self.curve)

    @functools.cached_property
    def _rates(self) -> list[float]:
        return [curves.at(self.curve, streams) for streams in range(self.mode.executors + 1)]

    def rate(self, streams: int) -> float:
        """What a node's device moves, in MB/s."""
        return self._rates[streams]

    @property
    def started_below(self) -> int:
        """Tasks that started under a limit with which the device moves < 90 % of its best."""
        return sum(
            count
            for limit, count in self.started.items()
            if limit > 0 and self.rate(limit) < 0.9 * self.best
        )


def _nothing(*needs: object) -> None:
    """Stands for every function: simulated tasks are not run."""


def simulate(
    workload: Workload,
    mode: Mode,
    curve: Curve,
    *,
    nodes: int = paper.NODES,
    budget: float = paper.BUDGET,
    shared_directory: bool = True,
    measured: bool = False,
    with_log: bool = False,
) -> Run:
    """Runs a workload in virtual time. By default as the paper ran it: what tasks hand over lies in
    a file system that all nodes see, so that an I/O task goes to the first node with budget.
    `measured`: the runtime knows what `ioweave measure` would have found beforehand."""
    compute = {name: ioweave.task(name=name)(_nothing) for name in workload.seconds}
    save = {name: mode.io(name, size) for name, size in workload.sizes.items()}
    costs: dict[str, Any] = dict(workload.seconds)
    if mode.kind == "baseline":
        costs |= {name: BlockingIO(DEVICE, size) for name, size in workload.sizes.items()}
    streams = (1, 2, 4, 8, 16, 32, 64)
    known = [(n, curves.at(curve, n)) for n in streams] if measured else []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with SimulatedRuntime(
            f"sim://{nodes}x{paper.CORES}",
            costs=costs,
            curves={DEVICE: curve},
            devices=[ioweave.Device(DEVICE, bandwidth=budget, curve=known)],
            io_threads=mode.executors,
            shared_directory=shared_directory,
            log=log if with_log else None,
        ) as runtime:
            workload.submit(
                lambda name, *needs: compute[name](*needs), lambda name, *needs: save[name](*needs)
            )
        started = started_by_limit(log) if with_log else {}
    explained = {} if mode.kind == "baseline" else {name: runtime.explain(name) for name in save}
    return Run(workload, mode, runtime.now_s, runtime.records(), explained, curve, started)


def started_by_limit(log: Path) -> dict[int, int]:
    """From a policy log: operations by the limit of their flow when they started; 0: none."""
    limits: dict[str, int] = {}
    flows: dict[str, str] = {}
    counts: dict[int, int] = {}
    with log.open(encoding="utf-8") as lines:
        for text in lines:
            words = text.split()
            if len(words) > 2 and words[1] == "ready":
                flows[words[2].partition("=")[2]] = words[3].partition("=")[2]
            elif words[:2] == [">", "limit"]:
                limits[words[2].partition("=")[2]] = int(words[3].partition("=")[2])
            elif words[:2] == [">", "start"]:
                # `climb` begins at one.
                limit = limits.get(flows.pop(words[2].partition("=")[2]), 1)
                counts[limit] = counts.get(limit, 0) + 1
    return counts
