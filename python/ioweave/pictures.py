"""Draws what a runtime did, in pictures as in the I/O-aware PyCOMPSs paper.

| function | picture | of the paper |
|---|---|---|
| timeline | which tasks ran where and when, and what they moved | 3, 6 |
| totals | total time by mode | 10, 14, 21, 22 |
| against_constraint | throughput and task time against the constraint | 11 |
| learning | how a constraint was found | 12, 15 to 19 |

Each function writes the file that it is given, as PNG, SVG or PDF by the suffix of its name. They
need matplotlib (`pip install 'ioweave[pictures]'`). They import it to draw the first picture, and
do not change its global state.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .records import TaskRecord
from .run_file import RunFile, read

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

PathLike: TypeAlias = str | os.PathLike[str]

_FORMATS = (".png", ".svg", ".pdf")
_STYLE: Any = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.size": 9.0,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: the file is smaller, and can be searched
    "svg.hashsalt": "ioweave",  # the same picture is the same file
}
#: Kinds of modes, in the order of bars, and their colours: those of the paper for the first three,
#: then those of constraints that tune themselves.
KINDS = {
    "baseline": "#c44e52",
    "unconstrained": "#e5ae38",
    "static": "#4c72b0",
    "auto": "#55a868",
    "climb": "#8172b2",
}
_COOL = ("#4c72b0", "#64b5cd", "#8172b2", "#8c8c8c", "#2f4b7c", "#a0c4e0")  # tasks that compute
_WARM = ("#dd8452", "#c44e52", "#e5ae38", "#937860", "#da8bc3", "#7f2704")  # I/O tasks
_GREY = "#767676"
_MB = 1e6


@dataclass(frozen=True)
class Bar:
    """The time of a run, for `totals`.

    Attributes:
        name: the name of the mode, such as "none", "8", "auto(2,256,2)".
        seconds: the time of the run.
        kind: "baseline", "unconstrained", "static", "auto" or "climb".
        group: the name of a group of bars that stand together, such as an application.
        low, high: the spread of several runs, in seconds; None: one run.
        reference: the time that somebody else measured, the paper say, in seconds.
    """

    name: str
    seconds: float
    kind: str = "static"
    group: str = ""
    low: float | None = None
    high: float | None = None
    reference: float | None = None


@dataclass(frozen=True)
class Point:
    """The throughput and task time of I/O tasks under a constraint, for `against_constraint`.

    Attributes:
        name: the name of the mode, as in Bar.
        constraint: MB/s; for constraints that tune themselves, the last one. None: no constraint.
        mb_per_s: the throughput of all I/O tasks together.
        task_s: the mean time of an I/O task.
        kind: as in Bar.
    """

    name: str
    constraint: float | None
    mb_per_s: float
    task_s: float
    kind: str = "static"


def timeline(records: Sequence[TaskRecord], path: PathLike, *, title: str = "") -> None:
    """Draws which tasks ran where and when, and the throughput of the I/O tasks below.

    If there are few calls, each is drawn, in as many lanes as calls ran at once. Otherwise the
    picture shows how many calls of each task ran at once on each node, or, if there are many nodes,
    on several nodes together.

    The throughput assumes that a call moves its bytes evenly while it runs, even if it computes
    first.

    Raises:
        ValueError: there are no records, or the path's suffix is none of .png, .svg and .pdf.
        ModuleNotFoundError: matplotlib is not installed.
    """
    if not records:
        raise ValueError("no call has ended: there is nothing to draw")
    _write_picture(path, lambda: _draw_timeline(records, title))


def totals(
    bars: Sequence[Bar],
    path: PathLike,
    *,
    title: str = "",
    reference: str = "paper",
    most_s: float | None = None,
) -> None:
    """Draws the total time by mode, and what each mode saved against the baseline of its group.

    Args:
        bars: the bars in their order; those of a group stand together.
        path: the file to write.
        title: the title of the picture.
        reference: the legend's name for the bars' references.
        most_s: longer bars are cut off here, so that they do not flatten the others; their numbers
            stay.

    Raises:
        ValueError: there are no bars, a group has several baselines, most_s is not above 0, or a
            suffix or kind is unknown.
        ModuleNotFoundError: matplotlib is not installed.
    """
    if not bars:
        raise ValueError("no bars: there is nothing to draw")
    if most_s is not None and not most_s > 0:
        raise ValueError(f"most_s must be above 0: {most_s}")
    _check_kinds(bar.kind for bar in bars)
    for group in {bar.group for bar in bars}:
        if sum(bar.kind == "baseline" for bar in bars if bar.group == group) > 1:
            raise ValueError(f"several baselines in group {group!r}: give one")
    _write_picture(path, lambda: _draw_totals(bars, title, reference, most_s or float("inf")))


def against_constraint(points: Sequence[Point], path: PathLike, *, title: str = "") -> None:
    """Draws I/O throughput and the time of an I/O task against the constraint, and where
    constraints that tune themselves ended.

    Raises:
        ValueError: there are no points, a constraint is not above 0, or a suffix or kind is
            unknown.
        ModuleNotFoundError: matplotlib is not installed.
    """
    if not points:
        raise ValueError("no points: there is nothing to draw")
    _check_kinds(point.kind for point in points)
    for point in points:
        if point.constraint is not None and not point.constraint > 0:
            raise ValueError(f"point {point.name!r}: the constraint must be above 0 MB/s, or None")
    _write_picture(path, lambda: _draw_against_constraint(points, title))


def learning(
    explanation: Mapping[str, Any],
    path: PathLike,
    *,
    limits: Sequence[tuple[float, int]] = (),
    title: str = "",
) -> None:
    """Draws how the constraint of an I/O task was found, from what `explain()` returned.

    For `auto` it shows constraint and mean task time over the tasks of its epochs, and the
    constraints chosen since, with the number of tasks that waited. For `climb` it shows throughput
    and limit over time, unused samples hollow, and throughput against the limit.

    Args:
        explanation: what explain() returned for one I/O task.
        path: the file to write.
        limits: for `climb`, (time in s, limit from then on), as a run file has them. Without them
            the picture shows the first and the last 128 samples only, as an explanation does.
        title: the title of the picture.

    Raises:
        ValueError: nothing was learned, or the path's suffix is unknown.
        ModuleNotFoundError: matplotlib is not installed.
    """
    if not learned(explanation):
        raise ValueError(
            f"{explanation.get('flow')!r} with policy {explanation.get('policy')!r} has learned "
            "nothing in this run: there is nothing to draw"
        )
    _write_picture(path, lambda: _draw_learning(explanation, limits, title))


def learned(explanation: Mapping[str, Any]) -> bool:
    """Returns whether `learning` can draw this explanation."""
    return any(explanation.get(key) for key in ("epochs", "choices", "samples"))


# ---- The file. ----------------------------------------------------------------------------------


def _write_picture(path: PathLike, make: Callable[[], Figure]) -> None:
    path = Path(path)
    if path.suffix.lower() not in _FORMATS:
        raise ValueError(f"{str(path)!r}: the name must end with one of {', '.join(_FORMATS)}")
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "pictures need matplotlib: pip install 'ioweave[pictures]'", name=error.name
        ) from error
    with mpl.rc_context(_STYLE):
        # Without a date, the same picture is the same file.
        metadata = {} if path.suffix.lower() == ".png" else {_choose_date_key(path): None}
        make().savefig(path, dpi=160, metadata=metadata)


def _choose_date_key(path: Path) -> str:
    return "CreationDate" if path.suffix.lower() == ".pdf" else "Date"


def _make_figure(width: float, height: float, title: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    if title:
        figure.suptitle(title)
    return figure


def _begin_at_zero(axes: Axes) -> None:
    top = float(axes.dataLim.y1)  # -inf where nothing was drawn
    axes.set_ylim(0, top * 1.08 if top > 0 else 1)


def _check_kinds(kinds: Iterable[str]) -> None:
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r} is not known: the kinds are {', '.join(KINDS)}")


# ---- The timeline. ------------------------------------------------------------------------------

_MOST_RECTANGLES = 4000
_MOST_LANES = 120
_MOST_ROWS = 24
_BINS = 800


class _Calls:
    """Records as arrays, sorted by start."""

    def __init__(self, records: Sequence[TaskRecord]) -> None:
        import numpy as np

        ordered = sorted(records, key=lambda record: record.start_s)
        names = dict.fromkeys((record.io, record.task) for record in ordered)
        self.names = sorted(names, key=lambda name: name[0])  # tasks that compute come first
        numbers = {name: number for number, name in enumerate(self.names)}
        self.start = np.array([record.start_s for record in ordered])
        self.end = np.array([record.end_s for record in ordered])
        self.node = np.array([record.node for record in ordered])
        self.io = np.array([record.io for record in ordered])
        self.bytes = np.array([record.bytes for record in ordered], dtype=float)
        self.name = np.array([numbers[record.io, record.task] for record in ordered])
        computing = sum(not io for io, _ in self.names)
        self.colors = [
            _WARM[(i - computing) % len(_WARM)] if io else _COOL[i % len(_COOL)]
            for i, (io, _) in enumerate(self.names)
        ]


def _draw_timeline(records: Sequence[TaskRecord], title: str) -> Figure:
    import numpy as np

    calls = _Calls(records)
    nodes = int(calls.node.max()) + 1
    together = -(-nodes // _MOST_ROWS)  # nodes in a row
    rows = -(-nodes // together)
    bands = [
        np.flatnonzero((calls.node // together == row) & (calls.io == io))
        for row in range(rows)
        for io in (False, True)
    ]
    lanes = [_assign_lanes(calls.start[band], calls.end[band]) for band in bands]
    one_by_one = len(records) <= _MOST_RECTANGLES and sum(n for _, n in lanes) <= _MOST_LANES
    height = 0.14 * sum(n for _, n in lanes) if one_by_one else max(1.6, 0.62 * rows)
    figure = _make_figure(9, height + 2.6, title)
    axes = figure.subplots(
        2, sharex=True, height_ratios=[max(height, 1.2), 1.4], gridspec_kw={"hspace": 0.05}
    )
    if one_by_one:
        _draw_rectangles(axes[0], calls, bands, lanes)
    else:
        _draw_stacks(axes[0], calls, bands, [n for _, n in lanes])
    what = "node" if together == 1 else "nodes"
    if not one_by_one:
        computing, io = (max(n for _, n in lanes[above::2]) for above in (0, 1))
        what += f"\n(full height: {computing} calls that compute, {io} of I/O)"
    axes[0].set_ylabel(what)
    _label_rows(axes[0], [n for _, n in lanes], together, one_by_one)
    _draw_legend(axes[0], calls)
    _draw_throughput(axes[1], calls)
    axes[1].set_xlim(0, float(calls.end.max()) or 1)
    axes[1].set_xlabel("time (s)")
    return figure


def _assign_lanes(start: Array, end: Array) -> tuple[list[int], int]:
    """Returns for each call, sorted by start, the lowest free lane, and the number of lanes.

    A lane is free again slightly before its call ends, since threads read the clock in turn.
    """
    import heapq

    slack = 1e-9 * float(end.max()) if len(end) else 0.0
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    lanes: list[int] = []
    for begin, finish in zip(start.tolist(), end.tolist(), strict=True):
        while busy and busy[0][0] <= begin + slack:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (finish, lane))
        lanes.append(lane)
    return lanes, max(lanes, default=-1) + 1


def _draw_rectangles(
    axes: Axes, calls: _Calls, bands: Sequence[Any], lanes: Sequence[tuple[list[int], int]]
) -> None:
    from matplotlib.collections import PolyCollection

    boxes, colors = [], []
    top = 0
    for band, (lane, count) in zip(bands, lanes, strict=True):
        for call, at in zip(band.tolist(), lane, strict=True):
            left, right = calls.start[call], calls.end[call]
            low, high = top + at + 0.08, top + at + 0.92
            boxes.append([(left, low), (right, low), (right, high), (left, high)])
            colors.append(calls.colors[calls.name[call]])
        top += count
    axes.add_collection(
        PolyCollection(boxes, facecolors=colors, edgecolors="white", linewidths=0.3)
    )


def _draw_stacks(axes: Axes, calls: _Calls, bands: Sequence[Any], lanes: Sequence[int]) -> None:
    """Draws in each band how many calls of each task run at once: the average in many bins."""
    import numpy as np

    edges = np.linspace(0, float(calls.end.max()) or 1, _BINS + 1)
    for row in range(0, len(bands), 2):
        for above in (0, 1):
            band = bands[row + above]
            most = max(lanes[above::2]) or 1  # all rows have the same scale
            floor = np.full(_BINS, row + above + 0.94)  # it grows upwards: the axis points down
            for name in np.unique(calls.name[band]).tolist():
                chosen = band[calls.name[band] == name]
                ones = np.ones(len(chosen))
                at_once = _average_at_once(calls.start[chosen], calls.end[chosen], ones, edges)
                ceiling = floor - at_once / most * 0.88
                _fill_bins(axes, edges, floor, ceiling, calls.colors[name])
                floor = ceiling


def _fill_bins(axes: Axes, edges: Array, floor: Array, ceiling: Array, color: str) -> None:
    """Fills bins from floor to ceiling; leaves out points where neither changes."""
    import numpy as np

    # Rounded to less than a picture shows, so that rounding errors of the sums are no change.
    step = max(float(np.abs(ceiling - floor).max()), 1e-9) * 1e-3
    rounded = np.round(np.stack((floor, ceiling)) / step)
    changed = np.append(True, (np.diff(rounded) != 0).any(axis=0))
    kept = np.append(np.flatnonzero(changed), len(floor) - 1)
    at = np.append(edges[kept[:-1]], edges[-1])
    axes.fill_between(at, floor[kept], ceiling[kept], step="post", color=color, linewidth=0)


def _average_at_once(start: Array, end: Array, weight: Array, edges: Array) -> Array:
    """Returns the exact mean over each bin of the summed weights of calls from start to end."""
    import numpy as np

    def area(since: Array) -> Array:
        """Returns the area up to each edge of calls that begin at `since` and never end."""
        order = np.argsort(since, kind="stable")
        weights = np.concatenate(([0.0], np.cumsum(weight[order])))
        moments = np.concatenate(([0.0], np.cumsum((weight * since)[order])))
        passed = np.searchsorted(since[order], edges)
        result: Array = weights[passed] * edges - moments[passed]
        return result

    means: Array = np.maximum(np.diff(area(start) - area(end)) / np.diff(edges), 0)
    return means


def _label_rows(axes: Axes, lanes: Sequence[int], together: int, one_by_one: bool) -> None:
    """Draws a tick in the middle of each row, a line between rows, and a thin one above the I/O."""
    heights = lanes if one_by_one else [1] * len(lanes)
    ticks, top = [], 0
    for row in range(0, len(heights), 2):
        both = heights[row] + heights[row + 1]
        ticks.append(top + both / 2)
        if heights[row] and heights[row + 1]:
            axes.axhline(top + heights[row], color=_GREY, linewidth=0.3, linestyle=":")
        top += both
        axes.axhline(top, color="black", linewidth=0.5)
    first = range(0, len(ticks) * together, together)
    axes.set_yticks(
        ticks, [str(node) if together == 1 else f"{node}-{node + together - 1}" for node in first]
    )
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(top, 0)


def _draw_legend(axes: Axes, calls: _Calls) -> None:
    from matplotlib.patches import Patch

    most = 14
    handles = [
        Patch(color=color, label=f"{name} (I/O)" if io else name)
        for (io, name), color in zip(calls.names[:most], calls.colors, strict=False)
    ]
    if len(calls.names) > most:
        handles.append(Patch(color="none", label=f"and {len(calls.names) - most} more"))
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=4,
        fontsize="small",
        borderaxespad=0.2,
    )


def _draw_throughput(axes: Axes, calls: _Calls) -> None:
    import numpy as np

    last = float(calls.end.max()) or 1.0
    edges = np.linspace(0, last, min(_BINS, 400) + 1)
    start = calls.start
    end = np.maximum(
        calls.end, start + last * 1e-9
    )  # a call that takes no time moves its bytes, too
    rate = calls.bytes / (end - start) / _MB
    floor = np.zeros(len(edges) - 1)
    for number in range(len(calls.names)):
        chosen = np.flatnonzero((calls.name == number) & (calls.bytes > 0))
        if not len(chosen):
            continue
        ceiling = floor + _average_at_once(start[chosen], end[chosen], rate[chosen], edges)
        _fill_bins(axes, edges, floor, ceiling, calls.colors[number])
        floor = ceiling
    axes.set_ylabel("I/O (MB/s)")
    _begin_at_zero(axes)


# ---- Bars and points. ---------------------------------------------------------------------------


def _draw_totals(bars: Sequence[Bar], title: str, reference: str, most_s: float) -> Figure:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    groups = list(dict.fromkeys(bar.group for bar in bars))
    places: list[float] = []
    for i, bar in enumerate(bars):
        gap = 0.0 if i == 0 else 1.0 if bar.group == bars[i - 1].group else 1.6
        places.append((places[-1] if places else 0.0) + gap)
    figure = _make_figure(max(4.0, 1.2 + 0.55 * (places[-1] + 1)), 3.6, title)
    axes = figure.subplots()
    baselines = {bar.group: bar.seconds for bar in bars if bar.kind == "baseline"}
    for place, bar in zip(places, bars, strict=True):
        axes.bar(place, min(bar.seconds, most_s), width=0.8, color=KINDS[bar.kind])
        if bar.seconds > most_s:
            axes.plot(
                (place - 0.45, place + 0.45), (0.92 * most_s, 0.95 * most_s), color="w", linewidth=4
            )
        elif bar.low is not None and bar.high is not None:
            spread = [[bar.seconds - bar.low], [bar.high - bar.seconds]]
            axes.errorbar(place, bar.seconds, yerr=spread, color="black", capsize=2, linewidth=0.8)
        if bar.reference is not None:
            ends = (place - 0.45, place + 0.45)
            axes.plot(ends, (bar.reference, bar.reference), color="black", linewidth=1.4)
        text = f"{bar.seconds:.4g}" if bar.seconds < 10_000 else f"{bar.seconds:.0f}"
        base = baselines.get(bar.group)
        if base and bar.kind != "baseline":
            text += f"\n{(bar.seconds - base) / base:+.0%}"
        top = min(max(bar.seconds, bar.high or 0, bar.reference or 0), most_s)
        axes.annotate(
            text, (place, top), (0, 2), textcoords="offset points", ha="center", fontsize="x-small"
        )
    for group, seconds in baselines.items():
        of_group = [place for place, bar in zip(places, bars, strict=True) if bar.group == group]
        axes.hlines(
            seconds,
            of_group[0] - 0.4,
            of_group[-1] + 0.4,
            color=KINDS["baseline"],
            linestyle="--",
            linewidth=0.8,
        )
    axes.set_xticks(places, [bar.name for bar in bars], rotation=35, ha="right")
    axes.set_ylabel("total time (s)")
    axes.margins(y=0.14)
    if groups != [""]:
        for group in groups:
            of_group = [p for p, bar in zip(places, bars, strict=True) if bar.group == group]
            middle = (of_group[0] + of_group[-1]) / 2
            axes.text(middle, 1.0, group, transform=axes.get_xaxis_transform(), ha="center")
    handles: list[Any] = [
        Patch(color=KINDS[kind], label=kind)
        for kind in KINDS
        if any(bar.kind == kind for bar in bars)
    ]
    if any(bar.reference is not None for bar in bars):
        handles.append(Line2D([], [], color="black", label=reference))
    columns = min(len(handles), int(figure.get_figwidth()))  # an inch each
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize="small")
    return figure


def _draw_against_constraint(points: Sequence[Point], title: str) -> Figure:
    figure = _make_figure(5.5, 4.8, title)
    throughput, task_time = figure.subplots(2, sharex=True)
    known = sorted({point.constraint for point in points if point.constraint is not None})
    none = known[0] / 2 if known else 1.0  # the place of points without a constraint
    static = sorted(
        (point for point in points if point.kind == "static" and point.constraint is not None),
        key=lambda point: point.constraint or 0,
    )
    for axes, value in ((throughput, _get_mb_per_s), (task_time, _get_task_s)):
        axes.plot(
            [point.constraint or none for point in static],
            [value(point) for point in static],
            color=KINDS["static"],
            marker="o",
            markersize=4,
        )
        groups = _group_points(points, none)
        nexts = [group[0][0] for group in groups[1:]] + [float("inf")]
        for beside, following in zip(groups, nexts, strict=False):
            for at, point in beside:
                axes.plot(
                    at, value(point), color=KINDS[point.kind], marker=_MARKERS[point.kind], ls=""
                )
            # One text for all of them, from top to bottom, since several would overlap.
            ends = [at for at, _ in beside]
            left = 4 * max(ends) > following  # the names of the next group stand on the right
            beside.sort(key=lambda pair: -value(pair[1]))
            axes.annotate(
                "\n".join(point.name for _, point in beside),
                (min(ends) if left else max(ends), value(beside[0][1])),
                (-6 if left else 6, 4),
                textcoords="offset points",
                ha="right" if left else "left",
                va="top" if len(beside) > 1 else "baseline",
                fontsize="small",
            )
        axes.set_xscale("log", base=2)
        axes.margins(x=0.1, y=0.15)
    throughput.set_ylabel("I/O throughput (MB/s)")
    _begin_at_zero(throughput)
    task_time.set_ylabel("I/O task time (s)")
    times = [point.task_s for point in points]
    if max(times) > 10 * min(times) > 0:
        task_time.set_yscale("log")
    else:
        _begin_at_zero(task_time)
    task_time.set_xlabel("constraint (MB/s held by a task)")
    ticks = {value: f"{value:g}" for value in _thin_out(_choose_labels(static) or known)}
    if any(point.constraint is None for point in points):
        ticks[none] = "none"
    task_time.set_xticks(list(ticks), list(ticks.values()))
    task_time.tick_params(axis="x", which="minor", bottom=False)
    throughput.tick_params(axis="x", which="minor", bottom=False)
    return figure


def _group_points(points: Sequence[Point], none: float) -> list[list[tuple[float, Point]]]:
    """Groups points that are hardly apart, each with its place. Leaves out the static ones."""
    placed = [(none if point.constraint is None else point.constraint, point) for point in points]
    groups: list[list[tuple[float, Point]]] = []
    for at, point in sorted(placed, key=lambda pair: pair[0]):
        if point.kind == "static" and point.constraint is not None:
            continue
        if not groups or at > 1.3 * groups[-1][0][0]:
            groups.append([])
        groups[-1].append((at, point))
    return groups


_MARKERS = {"baseline": "s", "unconstrained": "X", "static": "o", "auto": "^", "climb": "D"}


def _get_mb_per_s(point: Point) -> float:
    return point.mb_per_s


def _get_task_s(point: Point) -> float:
    return point.task_s


def _choose_labels(static: Sequence[Point]) -> list[float]:
    """Returns the places of the axis's numbers: the static constraints, if there are several."""
    return [point.constraint or 0 for point in static] if len(static) > 1 else []


def _thin_out(values: Sequence[float], most: int = 12) -> list[float]:
    return list(values[:: -(-len(values) // most) or 1])


# ---- Learning. ----------------------------------------------------------------------------------


def _draw_learning(
    explanation: Mapping[str, Any], limits: Sequence[tuple[float, int]], title: str
) -> Figure:
    title = title or (
        f"{explanation['flow']} on {explanation['device']}: {explanation['policy']}, "
        f"{explanation['phase']}"
    )
    if explanation.get("samples"):
        return _draw_climbing(explanation, limits, title)
    return _draw_epochs_and_choices(explanation, title)


def _draw_epochs_and_choices(explanation: Mapping[str, Any], title: str) -> Figure:
    epochs, choices = explanation.get("epochs") or [], explanation.get("choices") or []
    figure = _make_figure(8 if epochs and choices else 4.5, 4, title)
    columns = figure.subplots(2, bool(epochs) + bool(choices), squeeze=False, sharex="col")
    if epochs:
        _draw_epochs(columns[0, 0], columns[1, 0], epochs)
    if choices:
        _draw_choices(columns[0, -1], columns[1, -1], choices)
    if epochs and choices:
        columns[0, 1].sharey(columns[0, 0])
    constraints = sorted({one["constraint_mb_per_s"] for one in (*epochs, *choices)})
    for axes in columns[0]:
        axes.set_yscale("log", base=2)
        axes.set_yticks(constraints, [f"{one:g}" for one in constraints])
        axes.minorticks_off()
    columns[0, 0].set_ylabel("constraint (MB/s)")
    return figure


def _draw_epochs(above: Axes, below: Axes, epochs: Sequence[Mapping[str, Any]]) -> None:
    """Draws the epochs, each as wide as its number of tasks; dotted and hollow if unregistered."""
    at = 0
    for epoch in epochs:
        end = at + max(epoch["tasks"], 1)
        kept = bool(epoch["registered"])
        color, style = (KINDS["auto"], "-") if kept else (_GREY, ":")
        constraint = epoch["constraint_mb_per_s"]
        above.plot((at, end), (constraint, constraint), color=color, linestyle=style, linewidth=2)
        if epoch["tasks"]:
            mean_s = epoch["mean_s"]
            below.plot((at, end), (mean_s, mean_s), color=color, linestyle=style, linewidth=2)
            fill = color if kept else "white"
            below.plot((at + end) / 2, mean_s, color=color, marker="o", markerfacecolor=fill)
        at = end
    above.set_title(f"learning: {sum(epoch['tasks'] for epoch in epochs)} tasks")
    below.set_ylabel("mean time of a task (s)")
    _begin_at_zero(below)
    below.set_xlim(0, at)
    below.set_xlabel("I/O tasks that ended while it learned")


def _draw_choices(above: Axes, below: Axes, choices: Sequence[Mapping[str, Any]]) -> None:
    seconds = [one["now_ns"] / 1e9 for one in choices]
    constraints = [one["constraint_mb_per_s"] for one in choices]
    color = KINDS["auto"]
    above.plot(seconds, constraints, color=color, drawstyle="steps-post", marker=".")
    above.set_title(f"choosing: at last {constraints[-1]:g} MB/s")
    waiting = [one["waiting"] for one in choices]
    below.plot(seconds, waiting, color=_GREY, marker=".", linestyle="none")
    below.set_ylabel("tasks that waited then")
    _begin_at_zero(below)
    below.set_xlabel("time (s)")


def _draw_climbing(
    explanation: Mapping[str, Any], limits: Sequence[tuple[float, int]], title: str
) -> Figure:
    samples = explanation["samples"]
    seconds = [one["now_ns"] / 1e9 for one in samples]
    used = [one for one in samples if one["used"]]
    color = KINDS["climb"]
    figure = _make_figure(8, 4, title)
    places: dict[str, Axes] = figure.subplot_mosaic(
        [["rate", "curve"], ["limit", "curve"]], width_ratios=[2, 1]
    )
    rate, limit, curve = places["rate"], places["limit"], places["curve"]
    limit.sharex(rate)
    for one, at in zip(samples, seconds, strict=True):
        fill = color if one["used"] else "white"
        rate.plot(at, one["mb_per_s"], color=color, marker="o", ms=3.5, mew=0.6, mfc=fill)
    rate.set_ylabel("throughput (MB/s)")
    _begin_at_zero(rate)
    rate.tick_params(labelbottom=False)
    held = [*limits, (seconds[-1], limits[-1][1])] if limits else []
    at, held_then = zip(
        *(held or zip(seconds, (one["limit"] for one in samples), strict=True)), strict=True
    )
    limit.plot(at, held_then, color=color, drawstyle="steps-post")
    limit.set_ylabel("limit (tasks at once)")
    _begin_at_zero(limit)
    all_samples = explanation.get("samples_heard", len(samples))
    left_out = (
        f"; {all_samples - len(samples)} samples left out" if all_samples > len(samples) else ""
    )
    limit.set_xlabel("time (s)" + left_out)
    curve.plot(
        [one["limit"] for one in used],
        [one["mb_per_s"] for one in used],
        color=color,
        marker="o",
        markersize=4,
        linestyle="none",
        alpha=0.5,
    )
    if explanation["limit"]:
        curve.axvline(explanation["limit"], color=_GREY, linestyle="--", linewidth=0.8)
        curve.set_title(f"limit at last: {explanation['limit']}")
    curve.set_xlabel("limit (tasks at once)")
    curve.set_ylabel("throughput (MB/s), samples used")
    _begin_at_zero(curve)
    return figure


# ---- The command. -------------------------------------------------------------------------------


def draw_run(run: RunFile, folder: PathLike, *, suffix: str = ".png") -> list[Path]:
    """Draws all that a run file holds into a folder: `timeline`, and `learning-TASK` for each I/O
    task whose constraint was learned. Returns the files.

    Raises:
        ValueError: the suffix is unknown.
        ModuleNotFoundError: matplotlib is not installed.
        OSError: a file cannot be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    if run.records:
        paths.append(folder / f"timeline{suffix}")
        timeline(run.records, paths[-1], title=_make_title(run))
    names = [explanation["flow"] for explanation in run.explanations]
    for explanation in filter(learned, run.explanations):
        flow, device = explanation["flow"], explanation["device"]
        name = flow if names.count(flow) == 1 else f"{flow}-{device}"
        paths.append(folder / f"learning-{_make_file_name(name)}{suffix}")
        learning(explanation, paths[-1], limits=run.limits.get((flow, device), ()))
    return paths


def compare_runs(
    runs: Mapping[str, RunFile], folder: PathLike, *, suffix: str = ".png"
) -> list[Path]:
    """Compares several runs of a program: draws `totals`, and `against_constraint` for the runs
    with I/O tasks. Returns the files.

    Args:
        runs: the runs by their names in the picture; a run without I/O tasks is the baseline.
        folder, suffix: as in draw_run().

    Raises:
        ValueError: a run is cut off; and as in draw_run().
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    bars, points = [], []
    for name, run in runs.items():
        if run.summary is None:
            raise ValueError(f"run {name!r} is cut off: its total time is not known")
        explanations = run.explanations
        kind = _find_kind(explanations[0]["policy"]) if explanations else "baseline"
        bars.append(Bar(name, run.summary["wall_s"], kind))
        io = [record for record in run.records if record.io]
        if io:
            points.append(_make_point(name, kind, io, run))
    paths = [folder / f"totals{suffix}"]
    totals(bars, paths[0])
    if points:
        paths.append(folder / f"against_constraint{suffix}")
        against_constraint(points, paths[-1])
    return paths


def _make_point(name: str, kind: str, io: Sequence[TaskRecord], run: RunFile) -> Point:
    explanation = run.explanations[0]
    summary = run.summary
    assert summary is not None  # it is not cut off
    moved = sum(record.bytes for record in io)
    seconds = sum(record.end_s - record.start_s for record in io)
    constraint = explanation["constraint_mb_per_s"]
    budget = run.devices.get(explanation["device"], {}).get("bandwidth_mb_per_s", 0)
    if not constraint and explanation["limit"] and budget:
        constraint = budget / explanation["limit"]  # `climb`: the constraint with this limit
    rate = moved / _MB / summary["io_s"] if summary["io_s"] > 0 else 0.0
    return Point(name, constraint or None, rate, seconds / len(io), kind)


def _find_kind(policy: str) -> str:
    if policy.startswith("auto"):
        return "auto"
    return {"none": "unconstrained", "fixed": "static"}.get(policy, policy)


def _make_title(run: RunFile) -> str:
    program = next((Path(word).name for word in run.run["command"] if word.endswith(".py")), "")
    summary = run.summary
    if summary is None:
        return f"{program}: cut off"
    shown = f"{summary['wall_s']:.4g} s"
    if summary["io_s"] > 0:
        shown += f", {summary['hidden_share']:.0%} of {summary['io_s']:.4g} s of I/O hidden"
    return f"{program}: {shown}" if program else shown


def _make_file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_.," else "_" for letter in text)


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m ioweave.pictures`; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m ioweave.pictures",
        description="Draws the run file that Runtime(run_file=...) has written: its timeline, and "
        "how constraints were learned. Compares the times and the I/O of several runs.",
    )
    parser.add_argument("run_file", nargs="+", help="a run file")
    parser.add_argument(
        "--out", default=".", metavar="FOLDER", help="the folder of the pictures (default: here)"
    )
    parser.add_argument("--format", default="png", choices=[form[1:] for form in _FORMATS])
    options = parser.parse_args(arguments)
    suffix = f".{options.format}"
    try:
        runs = {Path(path).stem: read(path) for path in options.run_file}
        if len(runs) < len(options.run_file):
            raise ValueError("two run files have the same name, which names their pictures")
        if len(runs) == 1:
            drawn = draw_run(next(iter(runs.values())), options.out, suffix=suffix)
        else:
            drawn = compare_runs(runs, options.out, suffix=suffix)
            for name, run in runs.items():
                drawn += draw_run(run, Path(options.out) / name, suffix=suffix)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    for path in drawn:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
