"""IOR's patterns, of unmodified programs, under the policies of `ioweave run` beside plain.

The places are the disk as it is, and slowfs with 1 ms for each operation. bench/README.md, "ior",
says what is compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from harness import process, slowfs
from harness.files import random_file
from harness.ior_cells import CELLS, GIB, MIB, QUICK, Cell
from harness.ior_pictures import pictures_of
from harness.places import Place, PlaceUnavailable, on_raw_disk, on_slowfs
from harness.programs import selected
from harness.result import Row, at_least, row
from harness.samples import alternate, summarize
from harness.session import Session
from harness.tasks.drawing import draw

PLAIN = "plain"
#: Of `ioweave run`: the paper's int and sel_int, and last the one that is judged.
POLICIES = ("sync", "writes", "auto")
OTHERS, JUDGED = POLICIES[:-1], POLICIES[-1]

SPEED = slowfs.Speed(read_mb_s=400, write_mb_s=400, latency_us=1000)
NEEDED_BYTES = 3 * GIB
ROUNDS = 3
#: More of them, for a cell that misses a bar: of so many cells some do, by chance.
MORE_ROUNDS = 2
#: Of plain's speed, and of that of the better of the other policies.
LEAST = 0.97
#: Times plain's speed, in a part of the cells that wait for the device in each call.
GAIN, GAIN_PART = 1.2, 1 / 3
OUTPUT = "out"


@dataclass(frozen=True)
class Phase:
    """What processes moved, and IOR's time of it: from the first open to the last close."""

    moved_bytes: int
    seconds: float


@dataclass(frozen=True)
class Measured:
    """A run.

    Attributes:
        phases: By name.
        wall_s: Of the whole command, its start and its end included.
    """

    phases: dict[str, Phase]
    wall_s: float

    def mb_s(self, *names: str) -> float:
        """The bandwidth of some phases, or of all: one bandwidth of what all moved together."""
        phases = [self.phases[name] for name in names or self.phases]
        moved = sum(phase.moved_bytes for phase in phases)
        return moved / 1e6 / sum(phase.seconds for phase in phases)


Round = dict[str, Measured]


@dataclass(frozen=True)
class Result:
    """What came of a cell: a ratio for each round.

    Attributes:
        over_plain: The judged policy's speed over plain's.
        over_best: The same over that of the better of the other policies.
        wall_over_plain: As `over_plain`, of the whole command.
    """

    cell: Cell
    over_plain: Sequence[float]
    over_best: Sequence[float]
    wall_over_plain: Sequence[float]


def best_of(found: Sequence[Round], names: Sequence[str]) -> str:
    """Who has the greatest median over all rounds: the best of each round would be so by chance."""
    return max(names, key=lambda name: statistics.median(each[name].mb_s() for each in found))


def result_of(cell: Cell, found: Sequence[Round]) -> Result:
    """The ratios of a cell's rounds."""
    best = best_of(found, OTHERS)
    return Result(
        cell,
        [each[JUDGED].mb_s() / each[PLAIN].mb_s() for each in found],
        [each[JUDGED].mb_s() / each[best].mb_s() for each in found],
        [each[PLAIN].wall_s / each[JUDGED].wall_s for each in found],
    )


def misses(result: Result) -> bool:
    """Whether the cell is below one of its bars."""
    ratios = (result.over_plain, result.over_best)
    return any(statistics.median(each) < LEAST for each in ratios)


def rows_of_cell(found: Sequence[Round], result: Result) -> Iterator[Row]:
    """Bandwidths and ratios of a cell."""
    name = result.cell.name
    for contender in found[0]:
        yield row(f"{name}: {contender}", "MB/s", [each[contender].mb_s() for each in found])
    phases = list(found[0][PLAIN].phases)
    if len(phases) > 1:
        for contender in found[0]:
            for phase in phases:
                speeds = [each[contender].mb_s(phase) for each in found]
                yield row(f"{name}: {contender}, {phase}", "MB/s", speeds)
    bar = at_least(LEAST)
    yield row(f"{name}: speed of {JUDGED} over plain", "ratio", result.over_plain, bar)
    others = " and ".join(OTHERS)
    yield row(
        f"{name}: speed of {JUDGED} over the best of {others}", "ratio", result.over_best, bar
    )


def _part(ratios: Sequence[float], least: float) -> float:
    return sum(ratio >= least for ratio in ratios) / len(ratios)


def rows_of_all(results: Sequence[Result]) -> Iterator[Row]:
    """The worst cells, how many gain, and means, by the medians of cells."""
    bar, others = at_least(LEAST), " and ".join(OTHERS)
    kinds = {
        "plain": [result.over_plain for result in results],
        f"the best of {others}": [result.over_best for result in results],
    }
    for other, cells in kinds.items():
        medians = [statistics.median(each) for each in cells]
        worst = min(range(len(cells)), key=medians.__getitem__)
        name = f"speed of {JUDGED} over {other}"
        yield Row(f"worst cell: {name}", "ratio", summarize(cells[worst]), bar)
        part = _part(medians, LEAST)
        yield row(f"part of the cells with {LEAST:g} and more: {name}", "part", [part])
        below = 1 - _part([max(each) for each in cells], LEAST)
        yield row(f"part of the cells below {LEAST:g} in every round: {name}", "part", [below])
        yield row(f"geometric mean: {name}", "ratio", [statistics.geometric_mean(medians)])
    walls = [statistics.median(result.wall_over_plain) for result in results]
    name = f"speed of {JUDGED} over plain, the whole command"
    yield row(f"geometric mean: {name}", "ratio", [statistics.geometric_mean(walls)])
    gains = [
        statistics.median(result.over_plain) for result in results if result.cell.is_gain_judged
    ]
    if gains:
        name = f"part of the cells by O_DIRECT or on slowfs with {GAIN:g} and more"
        bar = at_least(GAIN_PART)
        yield row(f"{name}: speed of {JUDGED} over plain", "part", [_part(gains, GAIN)], bar)


def rounds_of(session: Session) -> tuple[int, int]:
    """How many rounds a cell has, and how many more if it misses a bar."""
    if session.quick:
        return 1, 0
    most = session.selection.pairs or ROUNDS + MORE_ROUNDS
    rounds = min(ROUNDS, most)
    return rounds, min(MORE_ROUNDS, most - rounds)


@dataclass(frozen=True)
class Runner:
    """Runs contenders in a place.

    Attributes:
        verified: Cells and contenders whose bytes were compared.
    """

    session: Session
    place: Place
    verified: set[tuple[Cell, str]] = field(default_factory=set)

    def _words(self, folder: str, name: str, cell: Cell, *how: str) -> list[str]:
        driver = str(self.session.program("bench_ior_patterns"))
        return [driver, f"{folder}/{name}", *cell.shape(), *how]

    def _behind(self, contender: str) -> list[str]:
        """The words before the driver's. With `--null` all contenders are plain."""
        if contender == PLAIN or self.session.selection.null:
            return []
        held = ["--hold-direct-writes"] if contender == JUDGED else []
        policy = ["--policy", contender, *held]
        return [str(self.session.program("ioweave")), "run", "-q", *policy, "--"]

    def run(self, cell: Cell, contender: str) -> Measured:
        """Runs a contender; the first time, all that it wrote or reads is compared afterwards.

        Raises:
            ProgramFailed: It failed, or bytes are wrong.
        """
        folder = str(self.place.folder)
        if cell.reads_only:
            self.place.make_cold(OUTPUT)
        else:
            self.place.remove(OUTPUT)
        before = self._behind(contender)
        done = process.run([*before, *self._words(folder, OUTPUT, cell, *cell.how())])
        if (cell, contender) not in self.verified:
            self._verify(cell, before)
            self.verified.add((cell, contender))
        phases = {
            line["phase"]: Phase(line["bytes"], line["total_s"]) for line in done.json_lines()
        }
        return Measured(phases, done.wall_s)

    def _verify(self, cell: Cell, before: Sequence[str]) -> None:
        """What was written, a plain program compares; what is read, the contender itself."""
        if cell.reads_only:
            how = [word for word in cell.how() if word != "read"]
            words = self._words(str(self.place.folder), OUTPUT, cell, *how, "verify")
            process.run([*before, *words])
        else:
            process.run(self._words(str(self.place.direct), OUTPUT, cell, "verify"))

    def found_of(self, cell: Cell) -> list[Round]:
        """All rounds of a cell, behind a run that counts for nothing: the first touch of memory
        that the host has taken back is slow, and would be the first contender's."""
        rounds, more = rounds_of(self.session)
        (self.place.direct / OUTPUT).unlink(missing_ok=True)
        contenders = {name: partial(self.run, cell, name) for name in (PLAIN, *POLICIES)}
        try:
            if cell.reads_only:
                process.run(self._words(str(self.place.direct), OUTPUT, cell, "write"))
            contenders[PLAIN]()
            found = list(alternate(contenders, rounds))
            if misses(result_of(cell, found)):
                # The rounds before were odd in number: the order goes on being reversed.
                found += alternate(dict(reversed(contenders.items())), more)
            return found
        finally:
            self.place.remove(OUTPUT)


def chosen(session: Session) -> list[Cell]:
    """The cells that the command line asks for."""
    programs, places = session.selection.programs, session.selection.places
    cells = QUICK if session.quick and not programs else CELLS
    words = set(selected([cell.word for cell in cells], programs))
    where = set(selected(["raw", "slowfs"], places))
    return [cell for cell in cells if cell.word in words and cell.place in where]


def _in_place(runner: Runner, cells: Sequence[Cell], results: list[Result]) -> Iterator[Row]:
    for cell in cells:
        found = runner.found_of(cell)
        results.append(result_of(cell, found))
        yield from rows_of_cell(found, results[-1])


def _note_worst(session: Session, results: Sequence[Result]) -> None:
    worst = min(results, key=lambda result: statistics.median(result.over_plain))
    session.note(f"the worst cell beside plain: {worst.cell.word}")
    worst = min(results, key=lambda result: statistics.median(result.over_best))
    session.note(f"the worst cell beside the best of {' and '.join(OTHERS)}: {worst.cell.word}")


def _measure(session: Session, results: list[Result]) -> Iterator[Row]:
    """Rows of all cells; a place that cannot be had is left out with a note."""
    data = random_file(session.folder / "data.bin", 1 * MIB)
    cells = chosen(session)
    on_disk = [cell for cell in cells if cell.place == "raw"]
    if on_disk:
        with on_raw_disk(session, data) as place:
            yield from _in_place(Runner(session, place), on_disk, results)
    emulated = [cell for cell in cells if cell.place == "slowfs"]
    if emulated:
        try:
            with on_slowfs(session, data, speed=SPEED) as place:
                yield from _in_place(Runner(session, place), emulated, results)
        except PlaceUnavailable as error:
            session.note(str(error))


def run(session: Session) -> Iterator[Row]:
    """Rows of all cells, and of what they come to together."""
    session.need_space(NEEDED_BYTES)
    results: list[Result] = []
    values = {}
    for each in _measure(session, results):
        values[each.metric] = each.summary.value
        yield each
    if results:
        yield from rows_of_all(results)
        _note_worst(session, results)
    if pictures := pictures_of(values):
        draw(session, "ior", pictures)
