"""Rows of results, their bars, and how they are printed and written."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.samples import Summary, summarize

#: Version of the JSON document; raised when a reader would have to change.
SCHEMA = "ioweave-bench/1"


_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
}


@dataclass(frozen=True)
class Bar:
    """The least or the most a metric may be.

    >>> str(at_most(1.05)), at_most(1.05).met_by(1.2)
    ('<= 1.05', False)
    """

    relation: str
    limit: float

    def met_by(self, value: float) -> bool:
        """Whether the value is on the right side of the bar; on it counts but for "<"."""
        return _RELATIONS[self.relation](value, self.limit)

    def __str__(self) -> str:
        return f"{self.relation} {self.limit:g}"


def at_least(limit: float) -> Bar:
    """A bar for metrics of which more is better."""
    return Bar(">=", limit)


def at_most(limit: float) -> Bar:
    """A bar for metrics of which less is better."""
    return Bar("<=", limit)


def below(limit: float) -> Bar:
    """A bar for metrics that are to be less than the limit, and not equal to it."""
    return Bar("<", limit)


@dataclass(frozen=True)
class Row:
    """One metric of one benchmark. Without a bar it is there for information.

    Attributes:
        metric: What was measured, e.g. "read 4 KiB depth 1: IOPS over fio".
        unit: "ratio", "ns", "s", ...
        summary: Median over the samples; of paired ratios or differences where two are compared.
    """

    metric: str
    unit: str
    summary: Summary
    bar: Bar | None = None

    @property
    def met(self) -> bool | None:
        """Whether the median meets the bar; None without one."""
        return None if self.bar is None else self.bar.met_by(self.summary.value)

    def to_json(self, benchmark: str) -> dict[str, Any]:
        """The row as it stands in the document."""
        return {
            "benchmark": benchmark,
            "metric": self.metric,
            "value": self.summary.value,
            "unit": self.unit,
            "spread": [self.summary.low, self.summary.high],
            "spread_kind": self.summary.kind,
            "n": self.summary.n,
            "bar": None if self.bar is None else str(self.bar),
            "met": self.met,
        }


def row(metric: str, unit: str, samples: Sequence[float], bar: Bar | None = None) -> Row:
    """A row from its samples."""
    return Row(metric, unit, summarize(samples), bar)


@dataclass(frozen=True)
class Outcome:
    """What one benchmark came to.

    Attributes:
        error: Why it broke off, or None. The rows before that stand.
    """

    benchmark: str
    rows: Sequence[Row]
    notes: Sequence[str]
    seconds: float
    error: str | None = None


def _number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def _cells(line: Row) -> list[str]:
    spread = f"{_number(line.summary.low)} .. {_number(line.summary.high)}"
    verdict = {True: "met", False: "MISSED", None: ""}[line.met]
    return [
        line.metric,
        _number(line.summary.value),
        line.unit,
        f"{spread} {line.summary.kind}",
        str(line.summary.n),
        "" if line.bar is None else str(line.bar),
        verdict,
    ]


def one_line(line: Row) -> str:
    """The row as a sentence, for progress."""
    metric, value, unit, spread, _, bar, verdict = _cells(line)
    return f"{metric}: {value} {unit} ({spread}) {bar} {verdict}".rstrip()


def table(rows: Iterable[Row]) -> str:
    """The rows as aligned text, with a heading."""
    lines = [["metric", "median", "unit", "spread", "n", "bar", ""], *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    numeric = {1, 4}
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in numeric else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def document(
    outcomes: Sequence[Outcome], environment: dict[str, Any], *, quick: bool
) -> dict[str, Any]:
    """The JSON document of one call of bench/run."""
    return {
        "schema": SCHEMA,
        "quick": quick,
        "environment": environment,
        "benchmarks": {
            outcome.benchmark: {
                "seconds": round(outcome.seconds, 1),
                "notes": list(outcome.notes),
                "error": outcome.error,
            }
            for outcome in outcomes
        },
        "rows": [line.to_json(outcome.benchmark) for outcome in outcomes for line in outcome.rows],
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Writes the document, all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)
