"""The benchmarks by name. A new one is a module with `run(session)` and a line here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.result import Row
from harness.session import Session

Run = Callable[[Session], Iterator[Row]]


@dataclass(frozen=True)
class Benchmark:
    """An entry of the list: the module is imported only when it is run.

    Attributes:
        python: Whether it needs the Python package of the build, and build/venv.
    """

    module: str
    summary: str
    python: bool = False

    def load(self) -> Run:
        """The module's `run(session)`, which yields rows as they are measured."""
        run: Run = importlib.import_module(f"harness.benchmarks.{self.module}").run
        return run


BENCHMARKS = {
    "engine": Benchmark("engine", "the C interface against fio, bare liburing and pread"),
    "characterise": Benchmark(
        "characterise", "`ioweave bench`: its own engine against fio, and this device's profile"
    ),
    "interposer": Benchmark("interposer", "what `ioweave run` adds to a call and to a start"),
    "tiom": Benchmark("tiom", "I/O inside tasks: the Task I/O Meter over a grid, single calls"),
    "streams": Benchmark(
        "streams", "write streams against other ways to write while computing, and the model"
    ),
    "cube": Benchmark("cube", "the Cube study's re-mapper: its ladder, and the model"),
    "advise": Benchmark(
        "advise", "`ioweave advise`: predicted time beside measured time", python=True
    ),
    "ppis": Benchmark(
        "ppis", "plans and pre-execution: the paper's programs and modes, random reads, wrong plans"
    ),
    "rows": Benchmark(
        "rows", "numpy rows in random order: a plan against pread and advice", python=True
    ),
    "replay": Benchmark(
        "replay", "reads in no order, recorded and replayed: `ioweave run --replay` against plain"
    ),
    "behind": Benchmark(
        "behind", "writers of small pieces, held back and joined: policy `behind` against plain"
    ),
    "readers": Benchmark(
        "readers",
        "readers of C, C++, Fortran and numpy at C about R: read time hidden by `ioweave run`",
        python=True,
    ),
    "ior": Benchmark(
        "ior", "IOR's patterns of unmodified programs: the policies of `ioweave run` against plain"
    ),
    "tasks": Benchmark(
        "tasks", "I/O-aware tasks: the paper's evaluation, simulated and real", python=True
    ),
    "harmless": Benchmark(
        "harmless", "programs of all kinds: `ioweave run` never costs them time", python=True
    ),
    "demo": Benchmark("overlap", "Hill at C about R: read time hidden, chunk size by chunk size"),
}
