"""Plans: reads that a program names in advance are made while it computes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from ioweave import _core
from ioweave._blocks import Closing
from ioweave._file import File
from ioweave._service import default_service

if TYPE_CHECKING:
    from ioweave._core import BufferLike


class HasFileno(Protocol):
    """What has a descriptor: files of `open()`, for example."""

    def fileno(self) -> int: ...


#: A file that is open: `ioweave.File`, a descriptor, or an object with `fileno()`.
AnyFile: TypeAlias = "File | int | HasFileno"


@dataclass(frozen=True)
class PlanStats:
    """What became of a plan. Times are nanoseconds.

    Attributes:
        depth: Slices at once, as found so far.
        schedule: The one in use: "auto" goes from "ppis" to "pp" where that is better.
        settled: Whether depth and schedule were given, or have been measured.
        gain_of_two: Bytes per second with two slices at once, over those with one; 0: not measured.
        planned_reads: How many reads were planned.
        planned_bytes: Bytes of these.
        ahead_bytes: Bytes that were read ahead.
        reads: Calls of `read()` and `read_into()` that returned bytes.
        hit_reads: Of these: all bytes were there, and were copied.
        late_reads: Of these: waited for bytes under way, or read planned bytes themselves.
        unplanned_reads: Of these: no byte was planned.
        hit_bytes: Bytes that were copied.
        own_bytes: Bytes that these calls read themselves.
        wait_ns: How long they waited for bytes under way.
        read_ns: How long they read themselves.
        unread_bytes: Bytes that were read ahead and dropped before they were read.
        stale_bytes: Of these: the file had changed, or was written.
        failed_slices: Reads ahead that failed.
        cached_bytes: Bytes of small planned reads that were in the page cache, and were left there.
    """

    depth: int
    schedule: str
    settled: bool
    gain_of_two: float
    planned_reads: int
    planned_bytes: int
    ahead_bytes: int
    reads: int
    hit_reads: int
    late_reads: int
    unplanned_reads: int
    hit_bytes: int
    own_bytes: int
    wait_ns: int
    read_ns: int
    unread_bytes: int
    stale_bytes: int
    failed_slices: int
    cached_bytes: int


def core_file(file: AnyFile) -> _core.Descriptor | int | HasFileno:
    """Returns the file as the core takes it."""
    return file._file if isinstance(file, File) else file


class Plan(Closing):
    """Makes reads that are to come ahead of the program, while it computes.

        with open("rows.bin", "rb") as file, ioweave.Plan() as plan:
            for row in order:
                plan.add(file, row * nbytes, nbytes)
            for row in order:
                use(np.frombuffer(plan.read(file, row * nbytes, nbytes)))

    A file is an `ioweave.File`, a descriptor, or an object with `fileno()`, open for reading; only
    regular files can be planned. `read()` copies what was read ahead, waits for what is under way,
    and reads everything else itself. So it always returns what the file holds: reads may come in
    another order than planned, in other sizes, or not at all. What others write is found by the
    size and the times of the file; changes by a memory map must be named by `invalidate()`.

    A plan reads ahead from a descriptor of its own for each file, so you may close yours at any
    time. For the system the file stays open, with its flock(2), until `forget()` or `close()`; the
    end of that descriptor drops locks of fcntl(2), as the end of any descriptor of the file does.
    The flow of an `ioweave.File` does not count here.

    Any thread may call any method. No call holds the GIL while it reads, waits or writes. After
    os.fork() the child can only `read()`, `write()` and `close()`.

    Args:
        service: The service that moves the bytes; None: one that all such plans share.
        budget_bytes: Memory for what is read ahead, 64 KiB to 1 TiB; 0: 256 MiB.
        slice_bytes: Most bytes of one read ahead, 4 KiB to 1 GiB in whole pages; 0: 1 MiB, but at
            most a quarter of the budget.
        depth: Reads ahead at once, 1 to 256; 0: found while reading.
        schedule: Who goes first, the program or reads ahead. "normal": nothing is read ahead. "pp":
            reads ahead are made whenever possible. "ppis": one begins only while the program reads
            and writes nothing by this service. "weighted": both at once; if more than eight are
            under way, they take turns by bytes, 16 to 1. "auto": "ppis", and then "pp" where it
            turns out that reads at the same time do not slow each other down.
        sole_writer: Nobody but `write()` of this plan writes to its files. What was read ahead then
            stays of use while the plan writes elsewhere in the file, as a loop that writes where it
            reads needs it. Without it, the times of a file do not tell others' writes from the
            plan's, and what was read ahead before a write is read again.

    Raises:
        ValueError: An option is out of range; the text names it.
    """

    def __init__(
        self,
        service: _core.Service | None = None,
        *,
        budget_bytes: int = 0,
        slice_bytes: int = 0,
        depth: int = 0,
        schedule: Literal["auto", "normal", "pp", "ppis", "weighted"] = "auto",
        sole_writer: bool = False,
    ) -> None:
        self._plan = _core.Plan(
            service or default_service(),
            budget_bytes=budget_bytes,
            slice_bytes=slice_bytes,
            depth=depth,
            schedule=schedule,
            sole_writer=sole_writer,
        )

    def add(self, file: AnyFile, offset: int, nbytes: int) -> None:
        """Adds a read at the end of the plan. Returns at once; reading may begin.

        Raises:
            TypeError: It is no file.
            ValueError: It is no regular file, a number is out of range, or the plan is closed.
            OSError: fstat(2) failed; there are too many open files (EMFILE), or 2**20 reads that
                were not made yet (ENOBUFS).
        """
        self._plan.add(core_file(file), offset, nbytes)

    def add_strided(
        self, file: AnyFile, offset: int, nbytes: int, *, stride: int, count: int
    ) -> None:
        """Adds `count` reads that begin `stride` bytes apart, the first one at `offset`. A stride
        below 0 goes backwards. `count` may be any number.

        Raises:
            As `add()`, for the first and the last read.
        """
        self._plan.add(core_file(file), offset, nbytes, stride, count)

    def add_sequential(
        self, file: AnyFile, nbytes: int, *, offset: int = 0, end: int | None = None
    ) -> None:
        """Adds the file piece by piece, `nbytes` each, from `offset` to `end`; None: as far as it
        reaches now.

        Raises:
            As `add()`.
        """
        if end is None:
            end = os.fstat(file if isinstance(file, int) else file.fileno()).st_size
        if nbytes < 1:
            raise ValueError(f"nbytes must be 1 or more, not {nbytes}")
        if end > offset:
            count = (end - offset + nbytes - 1) // nbytes
            self.add_strided(file, offset, nbytes, stride=nbytes, count=count)

    def add_from(self, reads: Iterable[tuple[AnyFile, int, int]]) -> None:
        """Adds the reads that an iterable names, as (file, offset, nbytes).

        It is asked as late as possible, inside later calls of the plan, by one thread at a time; 16
        reads at a time. It may not call the plan. What is added after it comes when it has ended.
        Where nothing is read ahead (schedule "normal") it is not asked.

        Raises:
            Whatever it raises, or `add()` would: that ends it, and is raised by the call inside
            which it happened: this one, `add()`, or a read, which then can be repeated.
        """
        named = self._plan.named
        self._plan.add_from(
            named(core_file(file), offset, nbytes) for file, offset, nbytes in reads
        )

    def read(self, file: AnyFile, offset: int, nbytes: int) -> bytes:
        """Returns `nbytes` bytes from `offset` on; fewer only at the end of the file.

        Raises:
            OSError: The read failed. A failed read ahead is made again, and raises nothing.
            ValueError: The plan or the file is closed, or a number is below 0.
        """
        return self._plan.read(core_file(file), offset, nbytes)

    def lease(self, file: AnyFile, offset: int, nbytes: int) -> _core.PlanLease:
        """Returns a buffer with `nbytes` bytes from `offset` on; fewer only at the end of the file.

            with plan.lease(file, row * nbytes, nbytes) as lease:
                use(np.frombuffer(lease))

        Nothing is copied where these very bytes were planned as one read: the buffer is the memory
        that they were read into. It is the program's until the lease is released, and counts in the
        budget until then. A plan that is closed is freed with its last lease.

        Raises:
            OSError: As `read()`, like ValueError.
        """
        return self._plan.lease(core_file(file), offset, nbytes)

    def read_into(self, file: AnyFile, offset: int, buffer: BufferLike) -> int:
        """Fills `buffer`, such as a bytearray or a numpy array, from `offset` on. Returns the
        number of bytes, which is smaller than the buffer only at the end of the file.

        Raises:
            TypeError: `buffer` is no buffer, or it is read-only or not C-contiguous.
            OSError: As `read()`, like ValueError.
        """
        return self._plan.read_into(core_file(file), offset, buffer)

    def write(self, file: AnyFile, offset: int, data: BufferLike) -> int:
        """Writes all of `data` at `offset`, and drops what was read ahead of these bytes. Returns
        the number of bytes.

        Raises:
            TypeError: `data` is no buffer, or it is not C-contiguous.
            OSError: Not all of it could be written; a part may be written.
            ValueError: The plan or the file is closed, or `offset` is below 0.
        """
        return self._plan.write(core_file(file), offset, data)

    def invalidate(self, file: AnyFile, offset: int = 0, nbytes: int = 0) -> None:
        """Drops what was read ahead of these bytes; `nbytes` of 0: up to the end of the file. They
        stay planned."""
        self._plan.invalidate(core_file(file), offset, nbytes)

    def forget(self, file: AnyFile) -> None:
        """Forgets all planned reads of this file, but for those that an iterable has yet to name,
        waits for its reads under way, and lets go of the file. Where an iterable goes on, or
        another thread is reading, the file is let go of by `close()`."""
        self._plan.forget(core_file(file))

    def close(self) -> None:
        """Waits for reads ahead that are under way, and frees the memory. Leases stay usable until
        they are released; the last one frees it then. Twice is allowed."""
        self._plan.close()

    @property
    def closed(self) -> bool:
        return self._plan.closed

    def stats(self) -> PlanStats:
        """Returns what became of the plan so far.

        Raises:
            OSError: This is a forked child.
        """
        return PlanStats(**self._plan.stats())

    def __repr__(self) -> str:
        return f"<ioweave.Plan{' closed' if self.closed else ''}>"
