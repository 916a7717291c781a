"""Whether `ioweave advise` is right: predicted time beside measured time, program by program.

Each configuration is a program on a device. In each round `ioweave advise` observes one run, and
then the program runs the way that it predicted. What the figures mean is defined in
bench/README.md, "advise".
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from harness import process
from harness.benchmarks.cube import METRIC, PROFILE, PROFILES
from harness.build import VENV
from harness.files import installed_tar
from harness.places import Place, PlaceUnavailable, on_limited_disk, on_raw_disk, on_slowfs
from harness.programs import selected
from harness.result import Row, at_most, row
from harness.session import Session, Unsuitable

MIB = 1 << 20
LOOP = Path(__file__).resolve().parents[1] / "checkpoint_loop.py"
#: A gain below this part of the time is not worth the effort, nor a wrong word on it.
WORTH_IT = 0.05
DATA_MIB = (1024, 256)
ITEM_MIB = 4
OUTPUT = "advised.out"


@dataclass(frozen=True)
class Job:
    """A program in a place, as it is and as the advice has it.

    Attributes:
        plain: Its command.
        woven: The command of the program as it was changed; empty: `ioweave run` does it.
        way: Whose prediction is compared.
        buffers: Of write-behind.
        reads: The file of the place that it reads, which is to be cold; empty: none.
    """

    plain: tuple[str, ...]
    way: str
    woven: tuple[str, ...] = ()
    buffers: int = 0
    reads: str = ""


@dataclass(frozen=True)
class Bench:
    """What configurations are made from."""

    session: Session
    place: Place
    python: str

    @property
    def environment(self) -> dict[str, str]:
        """Finds the device's curve, and the Python package of the build."""
        return {
            "XDG_CONFIG_HOME": str(self.config_home),
            "PYTHONPATH": str(self.session.build.folder / "python"),
            # As installed packages have it: bytecode is compiled once, here beside the files.
            "PYTHONPYCACHEPREFIX": str(self.session.folder / "bytecode"),
        }

    @property
    def config_home(self) -> Path:
        """The folder with the ioweave.toml of this place."""
        return self.session.folder / f"config-{self.place.folder.name}"

    def run(self, words: Sequence[str]) -> process.Finished:
        """Runs a command in the place, with whatever limits it has."""
        return process.run([*self.place.prefix, *words], environment=self.environment)

    def measure_device(self) -> None:
        """Writes the curve of the place's device into its ioweave.toml, as a user would."""
        ioweave = str(self.session.program("ioweave"))
        words = ["--streams=1,2,4", "--seconds=0.6", "--repetitions=2", "--warm-up=1", "--direct"]
        done = self.run([ioweave, "measure", *words, "--toml=here", str(self.place.folder)])
        folder = self.config_home / "ioweave"
        folder.mkdir(parents=True)
        (folder / "ioweave.toml").write_text(done.stdout, encoding="utf-8")


# ---- The programs


def hill(bench: Bench, chunk_mib: int, rounds: int, key: int = 64, *, writes: bool) -> Job:
    """A filter: it reads a chunk, computes on it, and writes it to the same device or nowhere."""
    data = f"installed-{DATA_MIB[0]}M.tar"
    out = bench.place.folder / OUTPUT if writes else Path(os.devnull)
    words = ["--encrypt", f"--chunk={chunk_mib}M", f"--key-size={key}", f"--rounds={rounds}"]
    program = str(bench.session.program("hill"))
    command = (program, *words, str(bench.place.folder / data), str(out))
    return Job(command, "prefetch", reads=data)


def checksum(bench: Bench, program: str) -> Job:
    """It reads by the C library's streams."""
    data = f"installed-{DATA_MIB[0]}M.tar"
    return Job((program, str(bench.place.folder / data)), "prefetch", reads=data)


def gzip(bench: Bench, level: int = 1) -> Job:
    """It computes far longer than it reads."""
    data = f"installed-{DATA_MIB[1]}M.tar"
    line = f'exec gzip -{level} -c "$0" >/dev/null'
    words = ("/bin/sh", "-c", line, str(bench.place.folder / data))
    return Job(words, "prefetch", reads=data)


def numpy(bench: Bench, mib: int, compute_ms: float, items: int, buffers: int) -> Job:
    """Checkpoints with fsync."""
    words = [bench.python, str(LOOP)]
    pass_s = float(bench.run([*words, "--calibrate", f"--mib={mib}"]).stdout)
    out = str(bench.place.folder / OUTPUT)
    sizes = [f"--items={items}", f"--mib={mib}", f"--passes={compute_ms / 1e3 / pass_s:.3f}"]
    return Job(
        (*words, "plain", out, *sizes),
        "write-behind",
        (*words, "stream", out, *sizes, f"--buffers={buffers}"),
        buffers,
    )


def cube(bench: Bench, threads: int, work: float, buffers: int = 4) -> Job:
    """The re-mapper of the Cube study, past the page cache."""
    words = [
        f"--item={ITEM_MIB}M",
        f"--buffers={buffers}",
        f"--work={work!r}",
        f"--threads={threads}",
        f"--metrics={METRIC}",
        str(PROFILES / PROFILE),
        str(bench.place.folder / OUTPUT),
    ]
    program = str(bench.session.program("cube_remap"))
    plain = (program, "--mode=synchronous", "--align", "--path=direct", *words)
    return Job(plain, "write-behind", (program, "--mode=ioweave", *words), buffers)


@dataclass(frozen=True)
class Configuration:
    """A program on a device.

    Attributes:
        name: For the command line and people.
        place: Of `PLACES`.
        job: Makes it.
        later: Whether it was chosen when the advisor was finished.
    """

    name: str
    place: str
    job: Callable[[Bench], Job]
    later: bool = False


PLACES = ("slowfs", "limited", "raw")

CONFIGURATIONS = [
    # The advisor was made and mended on these.
    Configuration("hill-4m", "slowfs", lambda b: hill(b, 4, 3, writes=False)),
    Configuration("sha256sum", "slowfs", lambda b: checksum(b, "sha256sum")),
    Configuration("numpy-8m", "slowfs", lambda b: numpy(b, 8, 20, 150, 4)),
    Configuration("cube", "slowfs", lambda b: cube(b, 131071, 500)),
    Configuration("gzip", "slowfs", gzip),
    Configuration("hill-16m-out", "slowfs", lambda b: hill(b, 16, 6, writes=True)),
    Configuration("numpy-32m", "slowfs", lambda b: numpy(b, 32, 160, 20, 4)),
    Configuration("hill-1m-out", "limited", lambda b: hill(b, 1, 3, writes=True)),
    Configuration("gzip", "limited", gzip),
    Configuration("sha256sum", "limited", lambda b: checksum(b, "sha256sum")),
    Configuration("hill-8m", "limited", lambda b: hill(b, 8, 8, writes=False)),
    Configuration("cube", "limited", lambda b: cube(b, 131071, 1000)),
    Configuration("numpy-16m", "raw", lambda b: numpy(b, 16, 40, 80, 4)),
    Configuration("sha256sum", "raw", lambda b: checksum(b, "sha256sum")),
    Configuration("hill-4m", "raw", lambda b: hill(b, 4, 3, writes=False)),
    Configuration("cube", "raw", lambda b: cube(b, 131071, 300)),
    # Chosen when it was finished, at the commit "Let the advisor count a device's time over slots".
    Configuration("hill-2m", "slowfs", lambda b: hill(b, 2, 5, writes=False), later=True),
    Configuration("hill-8m-out", "slowfs", lambda b: hill(b, 8, 4, writes=True), later=True),
    Configuration("md5sum", "slowfs", lambda b: checksum(b, "md5sum"), later=True),
    Configuration("numpy-16m", "slowfs", lambda b: numpy(b, 16, 50, 60, 3), later=True),
    Configuration("cube-65535", "slowfs", lambda b: cube(b, 65535, 900), later=True),
    Configuration("hill-4m", "limited", lambda b: hill(b, 4, 4, writes=False), later=True),
    Configuration("hill-2m-out", "limited", lambda b: hill(b, 2, 6, writes=True), later=True),
    Configuration("md5sum", "limited", lambda b: checksum(b, "md5sum"), later=True),
    Configuration("numpy-8m", "limited", lambda b: numpy(b, 8, 30, 100, 4), later=True),
    Configuration("cube-262143", "limited", lambda b: cube(b, 262143, 400), later=True),
    Configuration("hill-1m", "raw", lambda b: hill(b, 1, 2, writes=False), later=True),
    Configuration("hill-16m", "raw", lambda b: hill(b, 16, 5, writes=False), later=True),
    Configuration("md5sum", "raw", lambda b: checksum(b, "md5sum"), later=True),
    Configuration("gzip-3", "raw", lambda b: gzip(b, 3), later=True),
    Configuration("numpy-4m", "raw", lambda b: numpy(b, 4, 10, 300, 4), later=True),
    Configuration("cube-262143", "raw", lambda b: cube(b, 262143, 200), later=True),
]

# ---- One configuration


@dataclass(frozen=True)
class Round:
    """One run that was observed, and one the way that was predicted. Times in seconds."""

    plain_s: float
    predicted_s: float
    measured_s: float

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted_s / self.measured_s


@dataclass(frozen=True)
class Judged:
    """What the rounds of a configuration come to."""

    rounds: Sequence[Round]

    @property
    def error(self) -> float:
        """Of the median of predicted over measured."""
        return abs(statistics.median(each.ratio for each in self.rounds) - 1)

    @property
    def predicted_gain(self) -> float:
        """The part of the time that the advice says can be saved."""
        return statistics.median(1 - each.predicted_s / each.plain_s for each in self.rounds)

    @property
    def real_gain(self) -> float:
        """The part of the time that was saved."""
        return statistics.median(1 - each.measured_s / each.plain_s for each in self.rounds)

    @property
    def is_in_vain(self) -> bool:
        """Whether the advice was "worth it", and the gain was too small for that."""
        return self.predicted_gain >= WORTH_IT > self.real_gain

    @property
    def is_wrong(self) -> bool:
        """Whether "worth it" or "not worth it" was wrong, and it mattered."""
        said = self.predicted_gain >= WORTH_IT
        return abs(self.real_gain) > WORTH_IT and said != (self.real_gain > 0)


def prediction_of(advice: dict[str, object], job: Job) -> float:
    """The predicted time of the way that will be run.

    Raises:
        Unsuitable: The advice has none.
    """
    predictions = advice["predictions"]
    assert isinstance(predictions, list)
    found = [
        float(each["seconds"])
        for each in predictions
        if each["way"] == job.way
        and each.get("devices", 1) == 1
        and each.get("buffers", 0) == job.buffers
    ]
    if not found:
        raise Unsuitable(f"no prediction of {job.way} for {' '.join(job.plain)}")
    return found[-1]  # of the longest look-ahead, which is the setting


class Runner:
    """Runs one job."""

    def __init__(self, bench: Bench, job: Job) -> None:
        self._bench = bench
        self._job = job
        self._ioweave = str(bench.session.program("ioweave"))

    def _prepare(self) -> None:
        place = self._bench.place
        place.remove(OUTPUT)
        os.sync()
        if self._job.reads:
            place.make_cold(self._job.reads)

    def _advise(self) -> dict[str, object]:
        self._prepare()
        file = self._bench.session.folder / "advice.json"
        self._bench.run([self._ioweave, "advise", f"--json={file}", "--", *self._job.plain])
        advice: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
        return advice

    def _woven(self) -> float:
        self._prepare()
        words = self._job.woven or (self._ioweave, "run", "-q", "--", *self._job.plain)
        return self._bench.run(words).wall_s

    def rounds(self, count: int) -> Iterator[Round]:
        """Observed and woven in turn, the order reversed from round to round."""
        for number in range(count):
            if number % 2 == 0:
                advice = self._advise()
                measured_s = self._woven()
            else:
                measured_s = self._woven()
                advice = self._advise()
            plain_s = advice["plain_s"]
            assert isinstance(plain_s, float)
            yield Round(plain_s, prediction_of(advice, self._job), measured_s)
        self._bench.place.remove(OUTPUT)


def rows_of(name: str, judged: Judged) -> Iterator[Row]:
    """Of a configuration."""
    rounds = judged.rounds
    yield row(f"{name}: predicted over measured", "ratio", [each.ratio for each in rounds])
    yield row(f"{name}: as it is", "s", [each.plain_s for each in rounds])
    yield row(f"{name}: predicted", "s", [each.predicted_s for each in rounds])
    yield row(f"{name}: measured", "s", [each.measured_s for each in rounds])
    yield row(f"{name}: gain predicted", "ratio", [judged.predicted_gain])
    yield row(f"{name}: gain measured", "ratio", [judged.real_gain])


def rows_of_all(name: str, judged: Sequence[Judged], *, barred: bool) -> Iterator[Row]:
    """Over several configurations."""
    errors = [each.error for each in judged]
    yield row(f"{name}: error, median", "ratio", errors, at_most(0.05) if barred else None)
    yield row(f"{name}: error, worst", "ratio", [max(errors)], at_most(0.12) if barred else None)
    wrong = sum(each.is_wrong for each in judged)
    yield row(
        f"{name}: wrong on whether it is worth it",
        "configurations",
        [wrong],
        at_most(0) if barred else None,
    )
    in_vain = sum(each.is_in_vain for each in judged)
    yield row(f"{name}: worth it, and gained less than 5 %", "configurations", [in_vain])


# ---- All


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int


FULL = Effort(rounds=3)
QUICK = Effort(rounds=1)


def _place(session: Session, name: str) -> AbstractContextManager[Place]:
    data = installed_tar(session.data / f"installed-{DATA_MIB[0]}M.tar", DATA_MIB[0] * MIB)
    if name == "slowfs":
        return on_slowfs(session, data)
    if name == "limited":
        return on_limited_disk(session, data, writes=True)
    return on_raw_disk(session, data)


def _chosen(session: Session) -> list[Configuration]:
    places = selected(PLACES, session.selection.places)
    names = set(selected({each.name for each in CONFIGURATIONS}, session.selection.programs))
    return [each for each in CONFIGURATIONS if each.place in places and each.name in names]


def _can_run(session: Session, configuration: Configuration) -> bool:
    """Whether this machine has what it takes; if not, a note says what is missing."""
    missing = ""
    if configuration.name.startswith("numpy"):
        if not (VENV / "bin/python3").exists():
            missing = f"no {VENV} (`make build/venv/installed` makes it)"
        elif not list((session.build.folder / "python/ioweave").glob("_core.*")):
            missing = "the build has no Python package (target ioweave_python)"
    elif configuration.name.startswith("cube") and not (PROFILES / PROFILE).exists():
        missing = f"no {PROFILES / PROFILE} (CUBE_TEST_PROFILES names its folder)"
    if missing:
        session.note(f"{configuration.place}, {configuration.name} is left out: {missing}")
    return not missing


def run(session: Session) -> Iterator[Row]:
    """All of it; without a place that this machine cannot have, which is noted.

    Raises:
        Unsuitable: No room for the files, no numpy, or no such place or program.
    """
    effort = QUICK if session.quick else FULL
    if session.selection.pairs is not None:
        effort = replace(effort, rounds=session.selection.pairs)
    chosen = _chosen(session)
    if not chosen:
        known = ", ".join(sorted({each.name for each in CONFIGURATIONS}))
        raise Unsuitable(f"there are the places {', '.join(PLACES)}, the programs {known}")
    session.need_space(6 << 30)
    chosen = [each for each in chosen if _can_run(session, each)]
    python = str(VENV / "bin/python3")
    small = installed_tar(session.data / f"installed-{DATA_MIB[1]}M.tar", DATA_MIB[1] * MIB)
    judged: list[tuple[Configuration, Judged]] = []
    for name in PLACES:
        here = [each for each in chosen if each.place == name]
        if not here:
            continue
        try:
            with _place(session, name) as place:
                os.link(small, place.direct / small.name)
                bench = Bench(session, place, python)
                bench.measure_device()
                for each in here:
                    title = f"{place.name}, {each.name}"
                    session.progress(title)
                    rounds = list(Runner(bench, each.job(bench)).rounds(effort.rounds))
                    judged.append((each, Judged(rounds)))
                    yield from rows_of(title, judged[-1][1])
        except PlaceUnavailable as error:
            session.note(str(error))
    for part, later in (("chosen before", False), ("chosen later", True)):
        found = [each for which, each in judged if which.later == later]
        if found:
            yield from rows_of_all(part, found, barred=False)
    if judged:
        yield from rows_of_all("all", [each for _, each in judged], barred=True)
