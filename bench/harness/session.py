"""What a running benchmark is given: programs, a folder, and a way to speak."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.build import Build

_PREFIX = "run-"


class Unsuitable(RuntimeError):
    """This machine lacks what a benchmark cannot do without; the text says what."""


@dataclass(frozen=True)
class Selection:
    """A part of a benchmark that has many cells. Empty: what the benchmark takes by itself.

    A word stands for the name that equals it, else for those that begin with it and a hyphen.

    Attributes:
        programs: Words for programs.
        places: Words for places.
        caches: Words for states of the page cache.
        pairs: At most so many pairs a cell.
        null: Whether plain runs are compared with plain ones, which tells what is noise.
    """

    programs: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    pairs: int | None = None
    null: bool = False


@dataclass
class Session:
    """One benchmark's run.

    Attributes:
        build: The programs to measure.
        folder: An empty folder on the file system to measure; it is removed afterwards.
        data: A folder beside it that stays, for input that is costly to make.
        results: Where pictures and the like go that belong to the results; made by whoever writes.
        quick: Whether the whole benchmark must end within a minute.
        long: Whether to do also what takes long: see `bench/run --help`.
        selection: The part of the benchmark that is wanted; most have no parts.
        notes: What a reader of the results must know, e.g. what was left out and why.
    """

    build: Build
    folder: Path
    data: Path
    results: Path
    quick: bool
    long: bool = False
    selection: Selection = Selection()
    notes: list[str] = field(default_factory=list)

    def program(self, name: str) -> Path:
        """The path of one of our programs."""
        return self.build.program(name)

    def progress(self, text: str) -> None:
        """Tells the impatient what goes on; not part of the results."""
        print(f"  {text}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Adds a remark to the results."""
        self.notes.append(text)
        self.progress(f"note: {text}")

    def need_space(self, wanted_bytes: int) -> None:
        """Makes sure that the folder's file system has room.

        Raises:
            Unsuitable: It has not.
        """
        free = shutil.disk_usage(self.folder).free
        if free < wanted_bytes:
            raise Unsuitable(
                f"needs {wanted_bytes >> 20} MiB in {self.folder}, {free >> 20} MiB are free "
                "(choose another place by --dir)"
            )


def _unmount_below(folder: Path) -> None:
    """Unmounts what a killed benchmark left mounted, deepest first."""
    points = [
        line.split()[4] for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
    ]
    for point in sorted((p for p in points if Path(p).is_relative_to(folder)), reverse=True):
        for command in (["fusermount3", "-uz", point], ["umount", "-l", point]):
            with contextlib.suppress(OSError):
                if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                    break


def remove_stale(base: Path, prefix: str = _PREFIX) -> None:
    """Removes folders of benchmarks that were killed before they could do it themselves."""
    for folder in base.glob(f"{prefix}*-*"):
        pid = folder.name.removeprefix(prefix).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            _unmount_below(folder.resolve())
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def own_folder(base: Path, prefix: str) -> Iterator[Path]:
    """An empty folder below `base` that is removed afterwards; if this process is killed before, by
    the next one that makes one there."""
    remove_stale(base, prefix)
    with tempfile.TemporaryDirectory(prefix=f"{prefix}{os.getpid()}-", dir=base) as name:
        yield Path(name)


@contextlib.contextmanager
def session(
    build: Build,
    base: Path,
    *,
    quick: bool,
    long: bool = False,
    results: Path | None = None,
    selection: Selection | None = None,
) -> Iterator[Session]:
    """A session whose folder lies below `base`. Results go there too unless told elsewhere."""
    base.mkdir(parents=True, exist_ok=True)
    with own_folder(base, _PREFIX) as folder:
        yield Session(
            build=build,
            folder=folder,
            data=base,
            results=results or base / "results",
            quick=quick,
            long=long,
            selection=selection or Selection(),
        )
