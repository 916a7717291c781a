"""The pictures of `bench/run ppis`: the paper's figures, drawn from rows of results.

    PYTHONPATH=bench build/venv/bin/python3 -m harness.ppis_pictures RESULTS.json FOLDER

draws them from the document of a run into a folder.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from harness import line_chart
from harness.line_chart import Chart
from harness.tasks.drawing import Picture, file_name

_MODES = ("normal", "PP", "PPIS", "auto")
_BY_RANKS = re.compile(
    r"(?P<program>Hill|matrix search) on (?P<place>\w+), (?P<load>light|heavy) I/O, "
    rf"(?P<ranks>\d+) ranks: (?:(?P<mode>{'|'.join(_MODES)}): (?P<what>.+)|(?P<model>model))"
)
_REMOVED = re.compile(
    r"Hill on slowfs, R about C, n = (?P<chunks>\d+): I/O latency removed by (?P<mode>\w+)"
)
#: What rows call it, and how it is called on the axis and in a file's name.
_KINDS = {
    "time": ("execution time (s)", "time"),
    "I/O latency": ("I/O latency (s)", "latency"),
    "sustained bandwidth": ("sustained bandwidth (MB/s)", "bandwidth"),
}

#: By line and number of processes or chunks.
_Lines = defaultdict[str, dict[int, float]]


def _chart(title: str, x_label: str, y_label: str, lines: Mapping[str, dict[int, float]]) -> Chart:
    """Lines that lack a value are left out: another run did not measure them."""
    x = sorted(set().union(*lines.values()))
    whole = {
        name: [values[each] for each in x]
        for name, values in lines.items()
        if set(values) == set(x)
    }
    return Chart(title, x_label, y_label, x, whole)


def _of_ranks(values: Mapping[str, float]) -> dict[str, Chart]:
    groups: defaultdict[tuple[str, str, str, str], _Lines] = defaultdict(lambda: defaultdict(dict))
    for metric, value in values.items():
        found = _BY_RANKS.fullmatch(metric)
        what = found and (found["what"] or "time")
        if found and what in _KINDS:
            group = (found["program"], found["place"], found["load"], what)
            line = found["mode"] or found["model"]
            groups[group][line][int(found["ranks"])] = value
    charts = {}
    for (program, place, load, what), lines in groups.items():
        label, short = _KINDS[what]
        name = f"ppis {program.split()[-1]} {place} {load} {short}"
        title = f"{program} on {place}, {load} I/O: {what}"
        charts[name] = _chart(title, "processes", label, lines)
    return charts


def _of_chunks(values: Mapping[str, float]) -> dict[str, Chart]:
    """With the bound 1 - 1/n."""
    lines: _Lines = defaultdict(dict)
    for metric, value in values.items():
        if found := _REMOVED.fullmatch(metric):
            chunks = int(found["chunks"])
            lines[found["mode"]][chunks] = value
            lines["bound"][chunks] = 1 - 1 / chunks
    if not lines:
        return {}
    title = "Hill on slowfs, R about C: I/O latency removed"
    return {"ppis removed": _chart(title, "chunks", "part of normal's", lines)}


def charts_of(values: Mapping[str, float]) -> dict[str, Chart]:
    """What there is to draw, by name, of rows: their values by metric."""
    return {**_of_ranks(values), **_of_chunks(values)}


def pictures_of(values: Mapping[str, float]) -> list[Picture]:
    """The same, for `drawing.draw`."""
    return [(name, partial(line_chart.draw, chart)) for name, chart in charts_of(values).items()]


def main() -> None:
    """Draws the pictures of a document."""
    document, folder = map(Path, sys.argv[1:])
    rows = json.loads(document.read_text("utf-8"))["rows"]
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in pictures_of({row["metric"]: row["value"] for row in rows}):
        make(folder / file_name(name))


if __name__ == "__main__":
    main()
