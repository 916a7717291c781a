"""The ladder of the Cube study: cube_remap in its modes, step by step, against what the model says.

All contenders of a cell run in turn. What the figures mean is defined in bench/README.md, "cube".
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from harness import model, process
from harness.benchmarks.streams import on_limited, on_slowfs
from harness.places import SLOWFS_SPEED, PlaceUnavailable
from harness.programs import selected
from harness.result import Bar, Row, at_least, at_most, row
from harness.samples import alternate
from harness.session import Session, Unsuitable
from harness.stream_runs import MIB, Spot

PROFILES = Path(os.environ.get("CUBE_TEST_PROFILES", "/work/shared/data/cubex"))
#: With its metric "time" alone about as large as the profiles of the study, tiled as these are.
PROFILE = "fastest.p16.size131072.r1.cubex"
METRIC = "time"
#: It is stored inclusive: exclusive values take computing, inclusive ones only copying.
STORED_AS = "exclusive"
THREADS = (65535, 131071, 262143)

#: Of an item; and where the device banks what it may write in about 0.1 s while nothing is written:
#: there only a long write takes the synchronous mode as long as it should.
ITEM_MIB = 4
LONG_ITEM_MIB = 128
BUFFERS = 4
#: Computed once more while nothing is written, where computing takes as long as writing; less
#: where it takes longer, so that this takes about one second.
ALONE_MIB = 384
#: What the search for the work of a cell begins with.
FIRST_WORK = 150.0

PLACES = ("slowfs", "limited")
#: What `--only` may name.
PARTS = ("ladder-aio", "ladder-ioweave", "sizes", "ratios", "computing")

#: By LD_PRELOAD: what is installed of them, else they are left out.
ALLOCATORS = {"tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.2"}
_LIBRARIES = Path("/usr/lib")


@dataclass(frozen=True)
class Contender:
    """One way to run cube_remap.

    Attributes:
        name: For people.
        words: Options.
        allocator: Of `ALLOCATORS`, or empty: malloc of the C library.
    """

    name: str
    words: tuple[str, ...]
    allocator: str = ""


def _rungs(mode: str, *steps: tuple[str, ...], allocated: tuple[str, ...]) -> list[Contender]:
    rungs = [
        Contender(f"{mode}, {', '.join(step) or 'basic'}", (f"--mode={mode}", *_options(step)))
        for step in steps
    ]
    called = ", ".join(allocated)
    return rungs + [
        Contender(f"{mode}, {called}, {name}", (f"--mode={mode}", *_options(allocated)), name)
        for name in ALLOCATORS
    ]


def _options(step: Sequence[str]) -> list[str]:
    options = {
        "pinned": "--pin",
        "aligned": "--align",
        "pool": "--pool",
        "huge pages": "--huge-pages",
        "direct": "--path=direct",
        "buffered": "--path=buffered",
    }
    return [options[word] for word in step]


#: Next to no computation.
WRITING = Contender("writing alone", ("--mode=synchronous",))
SYNCHRONOUS = Contender("synchronous", ("--mode=synchronous",))
AIO = Contender("aio, basic", ("--mode=aio",))
OURS = Contender("ioweave, basic", ("--mode=ioweave",))
OURS_PINNED = Contender("ioweave, pinned", ("--mode=ioweave", "--pin"))
#: Cumulative, as in the study; its own allocator is the pool here.
AIO_LADDER = _rungs(
    "aio",
    (),
    ("pinned",),
    ("pinned", "aligned"),
    ("pinned", "aligned", "pool"),
    ("pinned", "aligned", "pool", "huge pages"),
    ("pinned", "aligned", "pool", "direct"),
    allocated=("pinned", "aligned"),
)
#: Buffers of the stream are always pooled and aligned.
OUR_LADDER = _rungs(
    "ioweave",
    (),
    ("pinned",),
    ("pinned", "huge pages"),
    ("pinned", "buffered"),
    allocated=("pinned",),
)


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        threads: Sizes of the profile, the largest last.
        ratios: C over W, besides 2.
        computing: Numbers of computing threads, besides 1.
        rounds: Of each cell.
    """

    threads: tuple[int, ...]
    ratios: tuple[Fraction, ...]
    computing: tuple[int, ...]
    rounds: int


FULL = Effort(THREADS, (Fraction(1, 2), Fraction(1)), (2, 4), 5)
QUICK = Effort((16383,), (Fraction(1),), (2,), 1)


@dataclass(frozen=True)
class Figures:
    """What a run came to; seconds and bytes, as cube_remap's report has them."""

    items: int
    durable_s: float
    total_s: float
    compute_s: float
    beside_s: float
    alone_s: float
    peak_bytes: int
    budget_bytes: int

    @property
    def compute_each_s(self) -> float:
        """C."""
        return self.compute_s / self.items

    @property
    def write_each_s(self) -> float:
        """W, of the synchronous mode with one computing thread, or of WRITING."""
        return (self.durable_s - self.compute_s) / self.items

    @property
    def inflation(self) -> float:
        """Computing beside writes over computing alone."""
        return self.beside_s / self.alone_s


Round = Mapping[str, Figures]


@dataclass(frozen=True)
class Cell:
    """What is computed, and by how many threads."""

    threads: int
    ratio: Fraction
    computing: int = 1

    @property
    def name(self) -> str:
        """For people."""
        many = f", {self.computing} computing threads" if self.computing > 1 else ""
        return f"{self.threads} threads, C/W {self.ratio}{many}"


def library_of(allocator: str) -> Path | None:
    """Where it is installed."""
    return next(iter(sorted(_LIBRARIES.glob(f"*/{ALLOCATORS[allocator]}"))), None)


@dataclass(frozen=True)
class Runner:
    """Starts cube_remap in one place."""

    session: Session
    spot: Spot

    @property
    def item_mib(self) -> int:
        """Size of an item."""
        return LONG_ITEM_MIB if self.spot.spend_mib else ITEM_MIB

    @property
    def writer(self) -> Contender:
        """Whose writing W is: beside computation a device that banks credit has little to do."""
        return WRITING if self.spot.spend_mib else SYNCHRONOUS

    def measure(self, contender: Contender, cell: Cell, work: float) -> Figures:
        """One run. The output is removed.

        Raises:
            ProgramFailed: It did not write it.
        """
        self._spend()
        alone = round(ALONE_MIB / self.item_mib / cell.ratio)
        sizes = [f"--item={self.item_mib}M", f"--buffers={BUFFERS}", f"--alone={alone}"]
        words = [f"--compute-threads={cell.computing}", f"--work={max(work, 1.0)!r}", *sizes]
        library = library_of(contender.allocator) if contender.allocator else None
        return self._remap(
            [*contender.words, *self._path_words(contender), *words],
            cell,
            self.spot.folders[0],
            self.spot.prefix,
            {"LD_PRELOAD": str(library)} if library else None,
        )

    def own_bytes(self, contender: Contender, cell: Cell) -> int:
        """The most memory that it takes besides its buffers: it has one small one here."""
        words = [contender.words[0], f"--compute-threads={cell.computing}"]
        words += ["--item=64K", "--buffers=1"]
        return self._remap(words, cell, self.session.folder).peak_bytes - (64 << 10)

    def _remap(
        self,
        words: Sequence[str],
        cell: Cell,
        folder: Path,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Figures:
        output = folder / "out.cubex"
        program = str(self.session.program("cube_remap"))
        result = [f"--threads={cell.threads}", f"--metrics={METRIC}", f"--as={STORED_AS}"]
        files = [str(PROFILES / PROFILE), str(output)]
        command = [*prefix, program, *words, "--json=-", *result, *files]
        try:
            text = process.run(command, environment=environment).stdout
        finally:
            output.unlink(missing_ok=True)
        report = json.loads(text)
        return Figures(**{each.name: report[each.name] for each in fields(Figures)})

    def _path_words(self, contender: Contender) -> list[str]:
        """Where only writes past the page cache are slow, all go past it."""
        if self.spot.buffered or "--mode=ioweave" in contender.words:
            return []
        return ["--align", "--path=direct"]

    def _spend(self) -> None:
        """Uses up what the device banks while nothing is written."""
        if not self.spot.spend_mib:
            return
        spent = self.spot.folders[0] / "spent"
        blocks = f"count={self.spot.spend_mib}"
        words = ["dd", "if=/dev/zero", f"of={spent}", "bs=1M", blocks, "oflag=direct"]
        process.run([*self.spot.prefix, *words, "status=none"])
        spent.unlink()

    def work_for(self, cell: Cell) -> float:
        """So much --work that C over W is as wanted.

        The second of two tries counts: it has about the right work, and the place is warm.
        """
        work, one_thread = FIRST_WORK, replace(cell, computing=1)
        for _ in range(2):
            plain = writer = self.measure(SYNCHRONOUS, one_thread, work)
            if self.writer is WRITING:
                writer = self.measure(WRITING, one_thread, 1.0)
            work *= float(cell.ratio) * writer.write_each_s / plain.compute_each_s
        return work

    def rounds(self, cell: Cell, contenders: Sequence[Contender], count: int) -> Iterator[Round]:
        """Runs all in turn, the order reversed from round to round.

        Always with SYNCHRONOUS, and with WRITING where that tells W.
        """
        self.session.progress(f"{self.spot.name}, {cell.name}: {len(contenders)} contenders")
        work = self.work_for(cell)
        acts = {one.name: partial(self.measure, one, cell, work) for one in contenders}
        one_thread = replace(cell, computing=1)
        acts[SYNCHRONOUS.name] = partial(self.measure, SYNCHRONOUS, one_thread, work)
        if self.writer is WRITING:
            acts[WRITING.name] = partial(self.measure, WRITING, one_thread, 1.0)
        yield from alternate(acts, count)

    def bound_s(self, found: Round, cell: Cell) -> float:
        """The model's time, by C and W of the same round."""
        plain = found[SYNCHRONOUS.name]
        return model.write_behind_s(
            self.session.program("bench_model"),
            plain.items,
            plain.compute_each_s / cell.computing,
            found[self.writer.name].write_each_s,
            buffers=BUFFERS,
        )


# ---- What rounds come to

OVER_MODEL = "time over the model's"
SPEED_UP = "speed-up over synchronous"
INFLATION = "computing beside writes over alone"
OVER_BUDGET = "peak memory beyond that over the budget"
#: Of the largest profile at the ratio of the study, and where computing and writing are equal.
LADDER_BARS = {OVER_MODEL: at_most(1.10), SPEED_UP: at_least(1.25), OVER_BUDGET: at_most(1.0)}
EQUAL_BARS = {INFLATION: at_most(1.02)}


def rows_of(
    prefix: str,
    rounds: Sequence[Round],
    bounds_s: Sequence[float],
    own_bytes: Mapping[str, int],
    bars: Mapping[str, Bar],
) -> Iterator[Row]:
    """Of a cell. `bars`: by figure, for our mode without options."""
    plain = [found[SYNCHRONOUS.name] for found in rounds]
    writing = [found.get(WRITING.name, found[SYNCHRONOUS.name]) for found in rounds]
    yield row(
        f"{prefix}: C/W",
        "ratio",
        [one.compute_each_s / w.write_each_s for one, w in zip(plain, writing, strict=True)],
    )
    for name in rounds[0]:
        found = [each[name] for each in rounds]
        if name == WRITING.name:
            yield row(f"{prefix}: {name}", "s", [one.durable_s for one in found])
            continue
        for (figure, unit), values in _figures(found, plain, bounds_s, own_bytes[name]).items():
            bar = bars.get(figure) if name == OURS.name else None
            if (name, figure) != (SYNCHRONOUS.name, SPEED_UP):
                yield row(f"{prefix}: {name}: {figure}", unit, values, bar)


def _figures(
    found: Sequence[Figures], plain: Sequence[Figures], bounds_s: Sequence[float], own_bytes: int
) -> dict[tuple[str, str], list[float]]:
    """Those of a contender, and their units."""
    return {
        (OVER_MODEL, "ratio"): [a.durable_s / b for a, b in zip(found, bounds_s, strict=True)],
        (SPEED_UP, "ratio"): [a.durable_s / b.durable_s for a, b in zip(plain, found, strict=True)],
        (INFLATION, "ratio"): [one.inflation for one in found],
        ("time to durable", "s"): [one.durable_s for one in found],
        ("time to return", "s"): [one.total_s for one in found],
        ("computing", "s"): [one.compute_s for one in found],
        ("peak memory", "MiB"): [one.peak_bytes / MIB for one in found],
        ("memory besides the buffers", "MiB"): [own_bytes / MIB],
        (OVER_BUDGET, "ratio"): [(one.peak_bytes - own_bytes) / one.budget_bytes for one in found],
    }


# ---- All


def cells_of(
    part: str, effort: Effort
) -> Iterator[tuple[Cell, list[Contender], Mapping[str, Bar]]]:
    """The cells of a part, who runs in them, and the bars that hold there."""
    two, largest = Fraction(2), effort.threads[-1]
    if part == "ladder-aio":
        yield Cell(largest, two), AIO_LADDER, {}
    elif part == "ladder-ioweave":
        yield Cell(largest, two), OUR_LADDER, LADDER_BARS
    elif part == "sizes":
        for threads in effort.threads[:-1]:
            yield Cell(threads, two), [AIO, OURS], {}
    elif part == "ratios":
        for ratio in effort.ratios:
            bars = EQUAL_BARS if ratio == 1 else {}
            yield Cell(largest, ratio), [AIO, OURS, OURS_PINNED], bars
    else:
        for computing in effort.computing:
            synchronous = replace(SYNCHRONOUS, name="synchronous, several threads")
            yield Cell(largest, two, computing), [synchronous, AIO, OURS], {}


def _place(session: Session, name: str) -> AbstractContextManager[Spot]:
    return on_slowfs(session, 1, SLOWFS_SPEED) if name == "slowfs" else on_limited(session)


def _installed(session: Session, contenders: Sequence[Contender]) -> list[Contender]:
    return [one for one in contenders if not one.allocator or library_of(one.allocator)]


def run(session: Session) -> Iterator[Row]:
    """All of it; without what this machine cannot have, which is noted.

    Raises:
        Unsuitable: No profile, no room for the files, or no such place or part.
    """
    effort = QUICK if session.quick else FULL
    if session.selection.pairs is not None:
        effort = replace(effort, rounds=min(session.selection.pairs, effort.rounds))
    names = selected(PLACES, session.selection.places)
    parts = selected(PARTS, session.selection.programs)
    if not names or not parts:
        raise Unsuitable(f"there are the places {', '.join(PLACES)}, the parts {', '.join(PARTS)}")
    if not (PROFILES / PROFILE).exists():
        raise Unsuitable(f"there is no {PROFILES / PROFILE}: set CUBE_TEST_PROFILES to its folder")
    session.need_space(3 << 30)
    for allocator, library in ALLOCATORS.items():
        if library_of(allocator) is None:
            session.note(f"{allocator} is left out: no {library} (tools/install_packages bench)")
    for name in names:
        try:
            with _place(session, name) as spot:
                if not spot.buffered:
                    session.note(f"{spot.name}: all contenders are aligned and past the page cache")
                yield from _rows_at(Runner(session, spot), parts, effort)
        except PlaceUnavailable as error:
            session.note(str(error))


def _rows_at(runner: Runner, parts: Sequence[str], effort: Effort) -> Iterator[Row]:
    for part in parts:
        for cell, contenders, bars in cells_of(part, effort):
            present = _installed(runner.session, contenders)
            rounds = list(runner.rounds(cell, present, effort.rounds))
            bounds_s = [runner.bound_s(found, cell) for found in rounds]
            prefix = f"{runner.spot.name}, {part}: {cell.name}"
            own_bytes = {one.name: runner.own_bytes(one, cell) for one in present}
            own_bytes[SYNCHRONOUS.name] = runner.own_bytes(SYNCHRONOUS, cell)
            yield from rows_of(prefix, rounds, bounds_s, own_bytes, bars)
