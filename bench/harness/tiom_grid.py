"""A sweep of the Task I/O Meter, and what its bars are about."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import process
from harness.samples import FEWEST_FOR_QUARTILES, Summary, summarize


@dataclass(frozen=True)
class Sweep:
    """What is run: every mode, block and compute time, each variant in turn.

    Attributes:
        blocks: Bytes of one I/O, as the option takes them.
        computes: Computation of one task, as the option takes it.
        series: Chains of tasks side by side.
        file_bytes: Bytes a run moves at most, and size of the file.
        limit_s: A run ends then, and is rated by its rate.
        repetitions: Of each cell.
    """

    modes: Sequence[str]
    blocks: Sequence[str]
    computes: Sequence[str]
    series: int
    file_bytes: int
    limit_s: float
    repetitions: int

    def options(self) -> list[str]:
        """The words of the command line."""
        return [
            f"--mode={','.join(self.modes)}",
            f"--block={','.join(self.blocks)}",
            f"--compute={','.join(self.computes)}",
            f"--series={self.series}",
            f"--bytes={self.file_bytes}",
            f"--time-limit={self.limit_s * 1e3:g}ms",
            f"--repetitions={self.repetitions}",
        ]

    def seconds(self) -> float:
        """How long it takes, about: a run ends at its limit, three variants take turns."""
        cells = len(self.modes) * len(self.blocks) * len(self.computes)
        return cells * self.repetitions * 3 * self.limit_s

    def only(self, cell: Cell, repetitions: int) -> Sweep:
        """The same for one cell."""
        return replace(
            self,
            modes=[cell.mode],
            blocks=[str(cell.block_bytes)],
            computes=[f"{cell.compute_ns / 1e6:g}ms"],
            repetitions=repetitions,
        )


@dataclass(frozen=True)
class Cell:
    """One cell's results.

    Attributes:
        speed_ups: By variant: rate over the standalone rate of the same turn, one each.
        over_bound: By variant: time over what cores and device allow, median. That of standalone is
            the most that any speed-up can be.
        balance: Time the device needs over the time the cores need.
    """

    mode: str
    block_bytes: int
    compute_ns: int
    speed_ups: dict[str, list[float]]
    over_bound: dict[str, float]
    balance: float

    @property
    def name(self) -> str:
        """For people."""
        return _name(vars(self))

    def speed_up(self, variant: str) -> float:
        """The median over the pairs."""
        return statistics.median(self.speed_ups[variant])

    def and_again(self, other: Cell) -> Cell:
        """The same cell measured twice: all pairs, and the longer of the two times."""
        return replace(
            self,
            speed_ups={
                name: [*own, *other.speed_ups[name]] for name, own in self.speed_ups.items()
            },
            over_bound={n: max(own, other.over_bound[n]) for n, own in self.over_bound.items()},
        )


def _name(cell: Mapping[str, Any]) -> str:
    return f"{cell['mode']}, {cell['block_bytes'] >> 10} KiB, {cell['compute_ns'] / 1e6:g} ms"


def _cell(data: dict[str, Any]) -> Cell:
    variants = {entry["variant"]: entry for entry in data["variants"]}
    bound = variants["standalone"]["bound_seconds"]
    return Cell(
        mode=data["mode"],
        block_bytes=data["block_bytes"],
        compute_ns=data["compute_ns"],
        speed_ups={
            name: entry["speed_up"]["pairs"]
            for name, entry in variants.items()
            if "speed_up" in entry
        },
        over_bound={name: 1 / entry["near_bound"] for name, entry in variants.items()},
        balance=bound["device"] / bound["compute"] if bound["compute"] > 0 else math.inf,
    )


def cells_of(document: dict[str, Any]) -> list[Cell]:
    """The cells of a document of schema ioweave-tiom/1."""
    return [_cell(data) for data in document["cells"]]


def run(
    command: Sequence[str | Path],
    sweep: Sweep,
    output: Path,
    environment: Mapping[str, str] | None = None,
) -> list[Cell]:
    """Runs the sweep; `output` receives the document."""
    return cells_of(_document(command, sweep, output, environment))


def standalone_rates(
    command: Sequence[str | Path], sweep: Sweep, output: Path, environment: Mapping[str, str]
) -> dict[str, float]:
    """Runs a sweep of plain calls alone: median rates in MB/s, by cell."""
    return {
        _name(data): data["variants"][0]["mb_per_s"]["median"]
        for data in _document(command, sweep, output, environment)["cells"]
    }


def _document(
    command: Sequence[str | Path],
    sweep: Sweep,
    output: Path,
    environment: Mapping[str, str] | None,
) -> Any:
    process.run(
        [*command, *sweep.options(), f"--json={output}"],
        environment=environment,
        timeout_s=process.TIMEOUT_S + 4 * sweep.seconds(),
    )
    return json.loads(output.read_text(encoding="utf-8"))


def worst(cells: Iterable[Cell], variant: str) -> Cell:
    """The cell that the variant slows down most."""
    return min(cells, key=lambda cell: cell.speed_up(variant))


def best(cells: Iterable[Cell], variant: str) -> Cell:
    """The cell that the variant speeds up most."""
    return max(cells, key=lambda cell: cell.speed_up(variant))


def mean_speed_up(cells: Iterable[Cell], variant: str) -> Summary:
    """Geometric mean of the cells' medians; the spread is that between the cells."""
    return _geometric_mean([cell.speed_up(variant) for cell in cells])


def mean_part(cells: Iterable[Cell], variant: str) -> Summary:
    """Geometric mean of what the variant reaches of the most that it can in each cell."""
    return _geometric_mean([c.speed_up(variant) / c.over_bound["standalone"] for c in cells])


def mean_room(cells: Iterable[Cell]) -> Summary:
    """The same of the most that the speed-ups can be."""
    return _geometric_mean([cell.over_bound["standalone"] for cell in cells])


def _geometric_mean(medians: Sequence[float]) -> Summary:
    kind = "range" if len(medians) < FEWEST_FOR_QUARTILES else "iqr"
    spread = summarize(medians)
    return Summary(statistics.geometric_mean(medians), spread.low, spread.high, kind, len(medians))


def diagonal(cells: Iterable[Cell]) -> list[Cell]:
    """Where I/O and computation balance: of each mode and block the cell that is nearest to it, if
    neither takes more than twice as long as the other."""
    nearest: dict[tuple[str, int], Cell] = {}
    for cell in cells:
        key = (cell.mode, cell.block_bytes)
        if key not in nearest or abs(math.log(cell.balance)) < abs(math.log(nearest[key].balance)):
            nearest[key] = cell
    return [cell for cell in nearest.values() if 0.5 <= cell.balance <= 2]
