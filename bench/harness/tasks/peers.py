"""What a task costs, and how Ioweave stands beside other runtimes that are tuned by hand.

Each contender is a process of `contender.py`. The peers are installed into build/venv-peers, when
they are first wanted; where they cannot be had they are left out, with a note and a row that counts
those that ran.
"""

from __future__ import annotations

import functools
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness import build, process
from harness.peers_venv import interpreter, last_line
from harness.process import ProgramFailed
from harness.result import Row, at_least, row
from harness.samples import alternate
from harness.session import Session
from harness.tasks import applications, contender, curves, devices
from harness.tasks.devices import Device, DeviceUnavailable

REQUIREMENTS = build.ROOT / "bench/requirements-peers.txt"
VENV = build.ROOT / "build/venv-peers"

PEERS = ("pools", "dask", "dask-threads", "ray", "parsl")
#: Runtimes of ours that take part beside the peers: those that find their limit, and the one that
#: is tuned by hand as the peers are.
CLIMBING = ("ioweave", "ioweave-measured", "ioweave-dask")
OURS = (*CLIMBING, "ioweave-fixed")
#: Streams that `ioweave measure` tries.
MEASURED = (1, 2, 4, 8, 16, 32)
CALLED = {
    "ioweave": "Ioweave",
    "ioweave-measured": "Ioweave, device measured before",
    "ioweave-fixed": "Ioweave, fixed",
    "ioweave-dask": "ioweave.dask",
    "pools": "two thread pools",
    "dask": "Dask",
    "dask-threads": "Dask in one process",
    "ray": "Ray",
    "parsl": "Parsl",
}

#: Tasks of a round, so that a round takes some seconds at most.
TASKS = {
    "ioweave": 50_000,
    "pools": 50_000,
    "dask": 3_000,
    "dask-threads": 3_000,
    "ray": 5_000,
    "parsl": 10_000,
}

#: Of each contender in a round of the overhead on Dask: more than are sent to a worker ahead, so
#: that some are parked. Rounds are brief and many: pairs differ by a fifth however long they are.
OVERHEAD_TASKS = 400

#: Computing over writing at the device's best: what decides is how well the device is used, and
#: there is something to do meanwhile.
RATIO = 0.6
CPUS = 2


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        share: Of `TASKS`.
        rates: Rounds of each rate.
        starts: Orders in which the clusters of the overhead on Dask are started, of six.
        overhead: Rounds of each of them.
        rounds: Of the checkpoints that are judged.
        contenders: Who writes checkpoints.
        slots: I/O tasks at once that peers are tried with.
        tasks: Checkpoints of a run, and of a run of the sweep.
        pieces: MiB of a checkpoint.
    """

    share: float
    rates: int
    starts: int
    overhead: int
    rounds: int
    contenders: tuple[str, ...]
    slots: tuple[int, ...]
    tasks: tuple[int, int]
    pieces: int


QUICK = Effort(0.1, 3, 1, 6, 1, ("ioweave", "pools"), (8,), (64, 16), 16)
NORMAL = Effort(1, 7, 6, 12, 3, (*OURS, *PEERS), (4, 8, 16, 32), (256, 128), 24)
LONG = Effort(1, 15, 6, 24, 5, (*OURS, *PEERS), (2, 4, 6, 8, 12, 16, 24, 32), (512, 256), 24)


# ---- The peers' Python


@dataclass(frozen=True)
class Runner:
    """Starts contenders; those that fail are noted, and then left out."""

    session: Session
    python: str
    failed: dict[str, str]

    def run(
        self, name: str, what: str, *options: str, device: Device | None = None
    ) -> list[dict[str, float]]:
        """What it printed; nothing if it failed, now or before."""
        if name in self.failed:
            return []
        prefix = () if device is None else device.prefix
        command = [*prefix, self.python, "-B", contender.__file__, name, what, *options]
        environment = {"PYTHONPATH": str(self.session.build.folder / "python")}
        try:
            return process.run(command, environment=environment).json_lines()
        except ProgramFailed as error:
            self.failed[name] = last_line(error)
            self.session.note(f"{CALLED[name]} is left out: {self.failed[name]}")
            return []


# ---- What a task costs


def _rates(runner: Runner, names: Sequence[str], effort: Effort) -> Iterator[Row]:
    for name in names:
        tasks = int(TASKS[name] * effort.share)
        found = runner.run(name, "rate", f"--tasks={tasks}", f"--rounds={effort.rates}")
        if found:
            bar = at_least(30_000) if name == "ioweave" else None
            rates = [each["tasks_per_s"] for each in found]
            yield row(f"trivial tasks: {CALLED[name]}", "1/s", rates, bar)


def _dask_overhead(runner: Runner, effort: Effort) -> Iterator[Row]:
    options = (f"--tasks={OVERHEAD_TASKS}", f"--rounds={effort.overhead}")
    # Of two equal clusters the one that was started first is up to a twentieth faster.
    orders = itertools.islice(itertools.permutations(contender.DASK_CLUSTERS), effort.starts)
    found = [
        each
        for order in orders
        for each in runner.run("dask", "overhead", *options, "--start", *order)
    ]
    for kind, call in (("compute", "submit_compute"), ("io", "submit_io")):
        ratios = [each[f"ioweave_{kind}"] / each[f"plain_{kind}"] for each in found]
        if ratios:
            what = f"trivial tasks on Dask: {call} over plain Dask's submit"
            yield row(what, "ratio", ratios, at_least(0.95))
    for kind, call in (("compute", "@ioweave.task"), ("io", "@ioweave.io")):
        ratios = [each[f"runtime_{kind}"] / each[f"plain_{kind}"] for each in found]
        if ratios:
            what = f'trivial tasks on Dask: {call} of Runtime("dask://") over plain Dask\'s submit'
            yield row(what, "ratio", ratios)


# ---- Computing and checkpoints


def iterations_for(seconds: float) -> int:
    """Of a computation that takes so long on a processor here."""
    trial = 50_000
    fastest = float("inf")
    for number in range(5):
        began = time.perf_counter()
        contender.compute(number, trial)
        fastest = min(fastest, time.perf_counter() - began)
    return max(1, round(seconds / fastest * trial))


def _checkpoints(
    runner: Runner, device: Device, names: Sequence[str], effort: Effort
) -> Iterator[Row]:
    size_mb = effort.pieces * contender.PIECE / 1e6
    knee = curves.scaled(applications.knee(), device.mb_s)
    options = [
        f"--curve={json.dumps([(n, curves.at(knee, n)) for n in MEASURED])}",
        f"--folder={device.folder}",
        f"--pieces={effort.pieces}",
        f"--cpus={CPUS}",
        f"--iterations={iterations_for(RATIO * CPUS * size_mb / device.mb_s)}",
    ]

    def seconds(name: str, slots: int, tasks: int) -> float | None:
        words = [*options, f"--slots={slots}", f"--tasks={tasks}"]
        found = runner.run(name, "checkpoints", *words, device=device)
        if not found:
            return None
        runner.session.progress(f"{name}, {slots} slots: {tasks} in {found[0]['seconds']:.2f} s")
        return found[0]["seconds"]

    slots = {
        name: max(effort.slots)
        if name in CLIMBING
        else tuned(functools.partial(seconds, name), effort)
        for name in names
    }
    contenders: Mapping[str, Callable[[], float | None]] = {
        name: functools.partial(seconds, name, slots[name], effort.tasks[0]) for name in names
    }
    rounds = list(alternate(contenders, effort.rounds))
    where = f"checkpoints on {device.name}"
    for name in names:
        times = [figure for each in rounds if (figure := each[name]) is not None]
        if times and name not in runner.failed:
            yield row(f"{where}: {_tuned(name, slots[name])}", "s", times)
    for name in names:
        pairs = [(each["ioweave"], each[name]) for each in rounds]
        ratios = [ours / its for ours, its in pairs if ours is not None and its is not None]
        if ratios and name != "ioweave":
            what = f"{where}: Ioweave, climb over {_tuned(name, slots[name])}"
            yield row(what, "ratio", ratios)


def tuned(seconds: Callable[[int, int], float | None], effort: Effort) -> int:
    """The number of slots that serves best, by the seconds of (slots, tasks); the first one where
    no run ends.

    In shorter runs more slots than that win: the two best are tried at full length.
    """
    full, part = effort.tasks
    left = list(effort.slots)
    for tasks, kept in ((part, 2), (full, 1)):
        if len(left) > kept:
            tried = [(number, seconds(number, tasks)) for number in left]
            took = {number: figure for number, figure in tried if figure is not None}
            left = (sorted(took, key=lambda number: took[number]) or left)[:kept]
    return left[0]


def _tuned(name: str, slots: int) -> str:
    if name in CLIMBING:
        return f"{CALLED[name]}, climb"
    return f"{CALLED[name]}, {slots} slots, the best tried"


# ---- All


def run(session: Session) -> Iterator[Row]:
    """Rows of what a task costs, and of a workload beside the peers."""
    effort = QUICK if session.quick else LONG if session.long else NORMAL
    python = interpreter(session, REQUIREMENTS, VENV, "Dask, Ray and Parsl")
    here = ("pools", "ioweave", "ioweave-measured", "ioweave-fixed")
    missing = [] if python else [name for name in CALLED if name not in here]
    runner = Runner(session, python or sys.executable, dict.fromkeys(missing, "not installed"))
    yield from _rates(runner, ["ioweave", *PEERS], effort)
    yield from _dask_overhead(runner, effort)
    try:
        with devices.with_knee(session, applications.SSD_MB_S, applications.knee(), CPUS) as device:
            names = [name for name in effort.contenders if name not in runner.failed]
            yield from _checkpoints(runner, device, names, effort)
    except DeviceUnavailable as error:
        session.note(f"checkpoints beside the peers are left out: {error}")
    ran = [name for name in PEERS if name not in runner.failed]
    yield row(f"peers that ran, of {len(PEERS)}", "", [len(ran)])
