"""Lines over a few values, such as times over numbers of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Chart:
    """What is drawn.

    Attributes:
        title: Above it.
        x_label: What the values are; they stand at equal distances.
        y_label: What the lines show, with its unit.
        x: The values.
        lines: By name, a number for each value.
    """

    title: str
    x_label: str
    y_label: str
    x: Sequence[int | str]
    lines: Mapping[str, Sequence[float]]


def draw(chart: Chart, path: Path) -> None:
    """Writes it as a picture of the kind that the name's ending tells.

    Raises:
        ModuleNotFoundError: No matplotlib.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(chart.x))
    for (name, values), marker in zip(chart.lines.items(), "osD^vx+*", strict=False):
        axes.plot(places, values, marker=marker, label=name)
    axes.set_xticks(places, [str(value) for value in chart.x])
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.set_title(chart.title, fontsize="medium")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)
