"""Programs that read blocks of a file in one of several ways, in turn: `drivers/plans.cpp` and
`drivers/mpi_reads.cpp`. All of them add up what they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness import page_cache, process
from harness.places import Place
from harness.process import ProgramFailed
from harness.samples import alternate
from harness.session import Session

#: What a program printed, by the name of its reader.
Found = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Reader:
    """One way to read.

    Attributes:
        name: For people.
        words: Of the program.
        program: "bench_plans" or "bench_mpi_reads".
        inner: Words before it, such as those of `env`.
    """

    name: str
    words: tuple[str, ...] = ()
    program: str = "bench_plans"
    inner: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reads:
    """What all readers read.

    Attributes:
        data: The name of a file in the place.
        words: Options of all programs.
        cached: Whether the file is in the page cache; else it is cold.
    """

    data: str
    words: tuple[str, ...]
    cached: bool = False


def read(session: Session, place: Place, reads: Reads, reader: Reader) -> dict[str, Any]:
    """What the program printed, and its whole time as "wall_s".

    Raises:
        ProgramFailed: It failed.
    """
    file = place.folder / reads.data
    if reads.cached:
        page_cache.warm(file)
    else:
        place.make_cold(reads.data)
    program = str(session.program(reader.program))
    command = [*place.prefix, *reader.inner, program, *reader.words, f"--file={file}", *reads.words]
    done = process.run(command)
    (line,) = done.json_lines()
    return {**line, "wall_s": done.wall_s}


def rounds_of(
    session: Session, place: Place, reads: Reads, readers: Sequence[Reader], count: int
) -> list[Found]:
    """All readers in turn.

    Raises:
        ProgramFailed: They did not read the same.
    """
    acts = {each.name: partial(read, session, place, reads, each) for each in readers}
    rounds: list[Found] = list(alternate(acts, count))
    for found in rounds:
        if len({figures["sum"] for figures in found.values()}) != 1:
            raise ProgramFailed(
                f"{place.name}: the readers {', '.join(found)} read different bytes"
            )
    return rounds


def over(rounds: Sequence[Found], one: Reader, other: Reader) -> list[float]:
    """The ratios of their times."""
    return [found[one.name]["time_s"] / found[other.name]["time_s"] for found in rounds]
