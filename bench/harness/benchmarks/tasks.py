"""I/O-aware tasks: the evaluation of the paper, beside the values that it prints."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence

from harness.build import use_python_package
from harness.programs import selected
from harness.result import Row
from harness.session import Session, Unsuitable
from harness.tasks import short_run

#: Modules of harness.tasks with a run(session) each, in the order in which they run.
PARTS = ("simulation", "applications", "peers", "short")


def cells() -> list[str]:
    """What `--only` may name: parts, and workloads of short runs at each length."""
    workloads = (f"short-{name}" for name in short_run.WORKLOADS)
    return [*PARTS[:-1], *(f"{name}-{length}" for name in workloads for length in ("2s", "10s"))]


def chosen(words: Sequence[str]) -> list[str]:
    """The parts of which `--only` names anything: "peers", "short", "short-fsync-10s".

    Raises:
        Unsuitable: A word names none.
    """
    for word in words:
        if not selected(cells(), [word]):
            raise Unsuitable(f"no part {word!r} of tasks: there are {', '.join(cells())}")
    wanted = selected(cells(), words)
    return [part for part in PARTS if selected(wanted, [part])]


def run(session: Session) -> Iterator[Row]:
    """One part after the other."""
    parts = chosen(session.selection.programs)
    use_python_package(session.build)
    for part in parts:
        # Only now: the parts import ioweave, which the build has.
        yield from importlib.import_module(f"harness.tasks.{part}").run(session)
