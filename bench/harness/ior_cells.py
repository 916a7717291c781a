"""What `bench/run ior` runs: IOR's patterns, how much each moves, and the layout of files."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from harness.hill_bench import size_name

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

#: The paper's.
SEGMENTS = 16
RAW_SIZES = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB)
PROCESSES = (1, 4)

#: For people, and the phases of `drivers/ior_patterns.c`.
PATTERNS = {
    "write": ("sequential write", ("write",)),
    "random": ("random write", ("random", "write")),
    "read": ("sequential read", ("read",)),
    "mixed": ("write and read back", ("write", "read")),
}
#: For people, and the driver's words.
ACCESSES = {
    "buffered": ("buffered", ()),
    "fsync": ("buffered and fsync", ("fsync",)),
    "direct": ("O_DIRECT", ("direct",)),
}

#: Of a file on the raw disk, unless 16 segments of one transfer take more.
RAW_BUFFERED_BYTES = 512 * MIB
RAW_DIRECT_BYTES = 256 * MIB
#: By O_DIRECT, so that small ones end.
RAW_DIRECT_TRANSFERS = 4096
#: Of all processes, on the raw disk.
MOST_BYTES = 1 * GIB
#: Of a file on slowfs, by the size of a transfer: each of them takes a millisecond and more.
SLOWFS_BYTES = {4 * KIB: 2 * MIB, 64 * KIB: 16 * MIB, 1 * MIB: 64 * MIB}
#: The kernel reads ahead there, so that small reads take less.
SLOWFS_CACHED_READ_BYTES = 64 * MIB


@dataclass(frozen=True)
class Cell:
    """One configuration of IOR in a place.

    Attributes:
        place: "raw" or "slowfs".
        pattern: A key of `PATTERNS`.
        access: A key of `ACCESSES`.
    """

    place: str
    pattern: str
    transfer_bytes: int
    access: str
    processes: int

    @property
    def name(self) -> str:
        """For people, and for `ior_pictures`."""
        pattern, access = PATTERNS[self.pattern][0], ACCESSES[self.access][0]
        who = "1 process" if self.processes == 1 else f"{self.processes} processes"
        return f"{self.place}, {pattern}, {size_name(self.transfer_bytes)}, {access}, {who}"

    @property
    def word(self) -> str:
        """For the command line."""
        kib = self.transfer_bytes // KIB
        size = f"{kib // KIB}m" if kib >= KIB else f"{kib}k"
        return f"{self.place}-{self.pattern}-{size}-{self.access}-{self.processes}p"

    @property
    def reads_only(self) -> bool:
        """Whether the file is there before, and cold."""
        return self.pattern == "read"

    @property
    def is_gain_judged(self) -> bool:
        """Whether the program waits for the device in each call: there is much to gain."""
        return self.access == "direct" or self.place == "slowfs"

    @property
    def file_bytes(self) -> int:
        """The size of the file, whatever the number of processes unless that asks for more."""
        if self.place == "slowfs":
            if self.reads_only and self.access == "buffered":
                return SLOWFS_CACHED_READ_BYTES
            return SLOWFS_BYTES[self.transfer_bytes]
        wanted = RAW_BUFFERED_BYTES
        if self.access == "direct":
            wanted = min(RAW_DIRECT_BYTES, RAW_DIRECT_TRANSFERS * self.transfer_bytes)
        whole = SEGMENTS * self.processes * self.transfer_bytes
        return min(max(wanted, whole), MOST_BYTES)

    @property
    def block_bytes(self) -> int:
        """What a process moves of a segment: a transfer at least."""
        return max(self.file_bytes // (SEGMENTS * self.processes), self.transfer_bytes)

    @property
    def segments(self) -> int:
        """16, or as many as the file has room for."""
        return self.file_bytes // (self.block_bytes * self.processes)

    def shape(self) -> tuple[str, ...]:
        """The numbers that the driver takes behind the file."""
        numbers = (self.transfer_bytes, self.block_bytes, self.segments, self.processes)
        return tuple(map(str, numbers))

    def how(self) -> tuple[str, ...]:
        """The driver's words behind the numbers."""
        return (*ACCESSES[self.access][1], *PATTERNS[self.pattern][1])


def _cells(place: str, sizes: tuple[int, ...]) -> tuple[Cell, ...]:
    """All of a place; who only reads has nothing to sync."""
    return tuple(
        Cell(place, pattern, size, access, processes)
        for processes, access, pattern, size in product(PROCESSES, ACCESSES, PATTERNS, sizes)
        if (pattern, access) != ("read", "fsync")
    )


CELLS = (*_cells("raw", RAW_SIZES), *_cells("slowfs", tuple(SLOWFS_BYTES)))

#: Enough to see that all of it works.
QUICK = (
    *(Cell("raw", pattern, 64 * KIB, "direct", 1) for pattern in PATTERNS),
    Cell("raw", "write", 1 * MIB, "buffered", 1),
    Cell("raw", "mixed", 1 * MIB, "fsync", 1),
    Cell("raw", "read", 1 * MIB, "buffered", 4),
    Cell("raw", "write", 64 * MIB, "direct", 4),
    Cell("slowfs", "write", 4 * KIB, "direct", 1),
    Cell("slowfs", "read", 64 * KIB, "buffered", 1),
    Cell("slowfs", "mixed", 1 * MIB, "fsync", 4),
)
