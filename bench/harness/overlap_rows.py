"""The figures of programs that read and compute in chunks under `ioweave run`, with their bars.

What they mean is defined in bench/README.md, "demo".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from harness.hill_bench import Round, size_name
from harness.result import Bar, Row, at_least, at_most, row
from harness.session import Session

#: From this chunk size on, the bars on hidden time and on the model hold; below it, only that of
#: never being slower than the plain program.
LEAST_HIDING_CHUNK = 1 << 20

#: C over R that passes for "about equal".
FITTING = (0.9, 1.2)

#: The whole program, Hill's start included, beside what the model says of its chunks.
OVER_MODEL = at_most(1.10)


def rows_of(
    name: str,
    chunk: int,
    rounds: Sequence[Round],
    *,
    barred: bool,
    over_model: Bar | None = OVER_MODEL,
) -> Iterator[Row]:
    """What the rounds at one chunk size come to.

    Args:
        barred: Whether there are bars in this place.
        over_model: The bar of the time over the model's, in a place with bars.
    """
    prefix = f"{name}, chunk {size_name(chunk)}"
    hiding = barred and chunk >= LEAST_HIDING_CHUNK
    yield row(
        f"{prefix}: read time hidden, of the hideable",
        "ratio",
        [r.hidden for r in rounds],
        at_least(0.80) if hiding else None,
    )
    yield row(
        f"{prefix}: time over the model's",
        "ratio",
        [r.woven.wall_s / r.model.overlapped_s for r in rounds],
        over_model if hiding else None,
    )
    yield row(
        f"{prefix}: time over the plain program's",
        "ratio",
        [r.woven.wall_s / r.plain.wall_s for r in rounds],
        at_most(1.03) if barred else None,
    )
    yield row(
        f"{prefix}: read time hidden by the kernel alone",
        "ratio",
        [r.hidden_by_kernel for r in rounds],
    )
    yield row(f"{prefix}: C over R", "ratio", [r.model.compute_s / r.model.read_s for r in rounds])


def note_misfit(session: Session, name: str, chunk: int, rounds: Sequence[Round]) -> None:
    """Tells where computation is not about as long as reading: the bars assume that it is."""
    ratio = median(r.model.compute_s / r.model.read_s for r in rounds)
    if not FITTING[0] <= ratio <= FITTING[1]:
        session.note(f"{name}, chunk {size_name(chunk)}: C is {ratio:.2f} R, not about R")
