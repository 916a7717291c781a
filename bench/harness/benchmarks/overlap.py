"""Hill at C about R: how much of the read time `ioweave run` hides, chunk size by chunk size.

Three contenders run in turn: reading alone (R), Hill plainly, Hill under `ioweave run`. What the
figures mean is defined in bench/README.md, "demo".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from harness.files import installed_tar
from harness.hill_bench import Bench, Round, size_name
from harness.places import PlaceUnavailable, on_limited_disk, on_raw_disk, on_slowfs
from harness.result import Row, at_least, at_most, row
from harness.session import Session

KIB, MIB = 1 << 10, 1 << 20

#: From this chunk size on, the bars on hidden time and on the model hold; below it, only that of
#: never being slower than the plain program.
LEAST_HIDING_CHUNK = MIB

#: C over R that passes for "about equal".
FITTING = (0.9, 1.2)


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    file_bytes: int
    chunks: tuple[int, ...]
    rounds: int
    raw_rounds: int  # on the raw disk, which is bimodal


FULL = Effort(
    1024 * MIB,
    (64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB),
    rounds=3,
    raw_rounds=5,
)
QUICK = Effort(128 * MIB, (256 * KIB, 4 * MIB, 32 * MIB), rounds=1, raw_rounds=1)


def rows_of(name: str, chunk: int, rounds: Sequence[Round], *, barred: bool) -> Iterator[Row]:
    """What the rounds at one chunk size come to."""
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
        at_most(1.10) if hiding else None,
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


PLACES = ((on_slowfs, True), (on_limited_disk, True), (on_raw_disk, False))


def run(session: Session) -> Iterator[Row]:
    """All places and chunk sizes."""
    effort = QUICK if session.quick else FULL
    data = session.data / f"installed-{effort.file_bytes // MIB}M.tar"
    # The data where it is not there yet, two outputs, and a sample.
    session.need_space(effort.file_bytes * (2 if data.exists() else 3) + (256 << 20))
    session.progress(f"data: {data}")
    installed_tar(data, effort.file_bytes)
    for open_place, barred in PLACES:
        try:
            with open_place(session, data) as place:
                bench = Bench(session, place, data.name)
                for chunk in effort.chunks:
                    session.progress(f"{place.name}, chunk {size_name(chunk)}")
                    key_size = bench.fit_key_size(chunk)
                    session.note(f"{place.name}, chunk {size_name(chunk)}: key {key_size}")
                    if chunk == effort.chunks[0]:
                        bench.encrypt(
                            chunk, key_size, woven=True
                        )  # a warm-up; fitting was the other's
                    count = effort.rounds if barred else effort.raw_rounds
                    rounds = list(bench.rounds(chunk, key_size, count))
                    note_misfit(session, place.name, chunk, rounds)
                    yield from rows_of(place.name, chunk, rounds, barred=barred)
        except PlaceUnavailable as error:
            session.note(str(error))
