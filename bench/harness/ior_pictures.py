"""The pictures of `bench/run ior`: bandwidth over transfer size, as the paper's figures 5 to 7.

    PYTHONPATH=bench build/venv/bin/python3 -m harness.ior_pictures RESULTS.json FOLDER [NAME...]

draws those from the document of a run whose names begin with one of NAME, or all, into a folder.
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
from harness.hill_bench import size_name
from harness.ior_cells import ACCESSES, PATTERNS, RAW_SIZES
from harness.line_chart import Chart
from harness.programs import selected
from harness.tasks.drawing import Picture, file_name

#: By the name for people.
_PATTERNS = {name: word for word, (name, _) in PATTERNS.items()}
_ACCESSES = {name: word for word, (name, _) in ACCESSES.items()}
_SIZES = tuple(map(size_name, RAW_SIZES))
_BANDWIDTH = re.compile(
    rf"(?P<place>raw|slowfs), (?P<pattern>{'|'.join(_PATTERNS)}), (?P<size>{'|'.join(_SIZES)}), "
    rf"(?P<access>{'|'.join(_ACCESSES)}), (?P<processes>\d+) process(?:es)?: "
    r"(?P<line>[a-z]+)(?:, (?P<phase>write|read))?"
)
_PHASES = {"write": "what is written", "read": "what is read"}

#: By contender and size.
_Lines = defaultdict[str, dict[str, float]]


def charts_of(values: Mapping[str, float]) -> dict[str, Chart]:
    """What there is to draw, by name, of rows: their values by metric.

    What is written and read back has two charts, as in figure 5. A single size has none.
    """
    groups: defaultdict[tuple[str, str], _Lines] = defaultdict(lambda: defaultdict(dict))
    for metric, value in values.items():
        found = _BANDWIDTH.fullmatch(metric)
        if found is None:
            continue
        pattern = _PATTERNS[found["pattern"]]
        if (found["phase"] is None) == (pattern == "mixed"):
            continue
        words = ["ior", found["place"], pattern, _ACCESSES[found["access"]]]
        words += [f"{found['processes']}p", *([found["phase"]] if found["phase"] else [])]
        title = f"{found['place']}, {found['pattern']}, {found['access']}, {found['processes']}p"
        title += f": {_PHASES[found['phase']]}" if found["phase"] else ""
        groups["-".join(words), title][found["line"]][found["size"]] = value
    charts = {}
    for (name, title), lines in groups.items():
        sizes = [size for size in _SIZES if all(size in line for line in lines.values())]
        if len(sizes) > 1:
            drawn = {line: [of[size] for size in sizes] for line, of in lines.items()}
            charts[name] = Chart(title, "transfer", "bandwidth (MB/s)", sizes, drawn)
    return charts


def pictures_of(values: Mapping[str, float]) -> list[Picture]:
    """The same, for `drawing.draw`."""
    return [(name, partial(line_chart.draw, chart)) for name, chart in charts_of(values).items()]


def main() -> None:
    """Draws the pictures of a document."""
    document, folder, *names = sys.argv[1:]
    rows = json.loads(Path(document).read_text("utf-8"))["rows"]
    pictures = dict(pictures_of({row["metric"]: row["value"] for row in rows}))
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in selected(pictures, names):
        pictures[name](Path(folder, file_name(name)))


if __name__ == "__main__":
    main()
