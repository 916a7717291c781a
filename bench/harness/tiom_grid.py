"""A sweep of the Task I/O Meter, and what its bars are about."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
        file_bytes: Bytes a run moves at most, and size of the file.
        limit_s: A run ends then, and is rated by its rate.
        repetitions: Of each cell.
    """

    modes: Sequence[str]
    blocks: Sequence[str]
    computes: Sequence[str]
    file_bytes: int
    limit_s: float
    repetitions: int

    def options(self) -> list[str]:
        """The words of the command line."""
        return [
            f"--mode={','.join(self.modes)}",
            f"--block={','.join(self.blocks)}",
            f"--compute={','.join(self.computes)}",
            f"--bytes={self.file_bytes}",
            f"--time-limit={self.limit_s * 1e3:g}ms",
            f"--repetitions={self.repetitions}",
        ]


@dataclass(frozen=True)
class Cell:
    """One cell's results.

    Attributes:
        speed_ups: By variant: rate over the standalone rate of the same turn, one each.
        over_bound: By variant: time over what cores and device allow, median.
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
        return f"{self.mode}, {self.block_bytes >> 10} KiB, {self.compute_ns / 1e6:g} ms"

    def speed_up(self, variant: str) -> float:
        """The median over the pairs."""
        return statistics.median(self.speed_ups[variant])


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


def run(command: Sequence[str | Path], sweep: Sweep, output: Path) -> list[Cell]:
    """Runs the sweep; `output` receives the document."""
    process.run([*command, *sweep.options(), f"--json={output}"])
    return cells_of(json.loads(output.read_text(encoding="utf-8")))


def worst(cells: Iterable[Cell], variant: str) -> Cell:
    """The cell that the variant slows down most."""
    return min(cells, key=lambda cell: cell.speed_up(variant))


def best(cells: Iterable[Cell], variant: str) -> Cell:
    """The cell that the variant speeds up most."""
    return max(cells, key=lambda cell: cell.speed_up(variant))


def geometric_mean(cells: Sequence[Cell], variant: str) -> Summary:
    """Over the cells' medians; the spread is that between the cells."""
    medians = [cell.speed_up(variant) for cell in cells]
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
