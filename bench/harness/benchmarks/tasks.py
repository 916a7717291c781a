"""I/O-aware tasks: the evaluation of the paper, beside the values that it prints."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from harness.build import use_python_package
from harness.result import Row
from harness.session import Session

#: Modules of harness.tasks with a run(session) each, in the order in which they run.
PARTS = ("simulation", "applications", "peers")


def run(session: Session) -> Iterator[Row]:
    """One part after the other."""
    use_python_package(session.build)
    for part in PARTS:
        # Only now: the parts import ioweave, which the build has.
        yield from importlib.import_module(f"harness.tasks.{part}").run(session)
