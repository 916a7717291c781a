"""Hill at C about R: how much of the read time `ioweave run` hides, chunk size by chunk size.

Three contenders run in turn: reading alone (R), Hill plainly, Hill under `ioweave run`. What the
figures mean is defined in bench/README.md, "demo".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.files import installed_tar
from harness.hill_bench import Bench, size_name
from harness.overlap_rows import note_misfit, rows_of
from harness.places import PlaceUnavailable, on_limited_disk, on_raw_disk, on_slowfs
from harness.result import Row
from harness.session import Session

KIB, MIB = 1 << 10, 1 << 20


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
                        # A warm-up; fitting was the other's.
                        bench.encrypt(chunk, key_size, "woven")
                    count = effort.rounds if barred else effort.raw_rounds
                    rounds = list(bench.rounds(chunk, key_size, count))
                    note_misfit(session, place.name, chunk, rounds)
                    yield from rows_of(place.name, chunk, rounds, barred=barred)
        except PlaceUnavailable as error:
            session.note(str(error))
