"""Pre-execution: a loop is run ahead of itself, so that its reads are known in time.

The loop ahead is a thread of Python's. It names reads without computing, and shares the GIL with
the loop: so it hands what it has named to the plan in batches, and gives the GIL up with each. A
batch is half a millisecond of naming, of which the loop hardly notices anything; the first ones are
shorter.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn, ParamSpec, TypeVar

from ioweave._plan import AnyFile, HasFileno, Plan, core_file

if TYPE_CHECKING:
    from ioweave import _core
    from ioweave._core import BufferLike

P = ParamSpec("P")
T = TypeVar("T")

_BATCH_SECONDS = 0.0005


@dataclass(frozen=True)
class PreExecution:
    """What became of a loop that was run ahead of itself.

    Attributes:
        planned_reads: How many reads the loop ahead has named, too late ones included.
        waits: How often it waited for a write whose bytes it would have read.
        stopped: Why it ended early; "": it came to its end, or the loop did.
    """

    planned_reads: int
    waits: int
    stopped: str


class _Stopped(BaseException):
    """Raised in the loop ahead, to end it: no `except Exception` of the loop's keeps it."""


@dataclass(frozen=True)
class _Write:
    file: tuple[int, int]
    begin: int
    end: int
    number: int


def _file_id(file: AnyFile) -> tuple[int, int]:
    status = os.fstat(file if isinstance(file, int) else file.fileno())
    return status.st_dev, status.st_ino


def _nbytes(buffer: BufferLike) -> int:
    return memoryview(buffer).nbytes  # type: ignore[arg-type]  # by the stubs of numpy


class _Progress:
    """How far the loop and the one ahead of it are. What begins with `note` is for the loop, all
    else for the one ahead."""

    def __init__(self, plan: Plan, most_ahead: int, stops_at_writes: bool) -> None:
        self._plan = plan
        self._most_ahead = most_ahead
        self._stops_at_writes = stops_at_writes
        self._changed = threading.Condition()
        self._is_over = False
        self._begun_reads = 0
        self._done_reads = 0
        self._done_writes = 0
        self._awaited_reads = self._awaited_writes = -1
        # Of the loop ahead alone:
        self._batch: list[tuple[_core.Descriptor | int | HasFileno, int, int]] = []
        self._handed_over = 0.0
        self._named_writes = 0
        self._writes: deque[_Write] = deque()
        self.planned_reads = 0
        self.waits = 0
        self.stopped = ""

    def note_begin_of_read(self) -> None:
        with self._changed:
            self._begun_reads += 1

    def note_read(self) -> None:
        with self._changed:
            self._done_reads += 1
            if self._done_reads == self._awaited_reads:
                self._changed.notify()

    def note_write(self) -> None:
        with self._changed:
            self._done_writes += 1
            if self._done_writes == self._awaited_writes:
                self._changed.notify()

    def note_end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def plan_read(self, file: AnyFile, offset: int, nbytes: int) -> None:
        self.wait_for_writes(file, offset, nbytes)
        if self._is_over:
            raise _Stopped
        if self.planned_reads - self._done_reads >= self._most_ahead:
            # It goes on when it has half of its lead left, rather than for each read.
            self._wait(reads=self.planned_reads - self._most_ahead // 2)
        self.planned_reads += 1
        self._batch.append((core_file(file), offset, nbytes))
        is_beginning = len(self._batch) > self.planned_reads // 2
        if is_beginning or time.monotonic() - self._handed_over > _BATCH_SECONDS:
            self.hand_over()

    def hand_over(self) -> None:
        """Gives the plan what was named since the last time. What the loop has begun to read comes
        too late for a plan."""
        batch, self._batch = self._batch, []
        with self._changed:  # so that it begins none of these meanwhile
            passed = max(self._begun_reads - (self.planned_reads - len(batch)), 0)
            self._plan._plan.add_all([read for read in batch[passed:] if read[2] != 0])
        self._handed_over = time.monotonic()

    def note_write_to_come(self, file: AnyFile, offset: int, nbytes: int) -> None:
        self._named_writes += 1
        self._writes.append(_Write(_file_id(file), offset, offset + nbytes, self._named_writes))

    def wait_for_writes(self, file: AnyFile, offset: int, nbytes: int) -> None:
        """What is to be read must be what the loop will find."""
        while self._writes and self._writes[0].number <= self._done_writes:
            self._writes.popleft()
        if not self._writes:
            return
        found = _file_id(file)
        number = max(
            (
                write.number
                for write in self._writes
                if write.file == found and write.begin < offset + nbytes and offset < write.end
            ),
            default=0,
        )
        if number == 0:
            return
        if self._stops_at_writes:
            self._stop(
                f"read {self.planned_reads} wants bytes at offset {offset} that write {number - 1} "
                "has not written yet"
            )
        self.waits += 1
        self._wait(writes=number)

    def _stop(self, why: str) -> NoReturn:
        self.stopped = why
        self._is_over = True
        self.hand_over()
        raise _Stopped

    def _wait(self, reads: int = 0, writes: int = 0) -> None:
        self.hand_over()
        with self._changed:
            self._awaited_reads, self._awaited_writes = reads, writes
            self._changed.wait_for(
                lambda: self._is_over or (self._done_reads >= reads and self._done_writes >= writes)
            )
        if self._is_over:
            raise _Stopped


class LoopIo:
    """By this a loop reads, computes and writes, so that it can be run ahead of itself.

    Arguments and errors are those of the methods of `Plan`.
    """

    def __init__(self, plan: Plan, progress: _Progress, is_ahead: bool) -> None:
        self._plan = plan
        self._progress = progress
        self._is_ahead = is_ahead
        self._zeros = b""

    @property
    def is_ahead(self) -> bool:
        """Whether this is the loop ahead, which leaves out all but the choice of what is read."""
        return self._is_ahead

    def read(self, file: AnyFile, offset: int, nbytes: int) -> bytes:
        """Reads. The loop ahead plans the read, and gets zeros."""
        if self._is_ahead:
            self._progress.plan_read(file, offset, nbytes)
            if len(self._zeros) != nbytes:
                self._zeros = bytes(nbytes)
            return self._zeros
        self._progress.note_begin_of_read()
        data = self._plan.read(file, offset, nbytes)
        self._progress.note_read()
        return data

    def read_into(self, file: AnyFile, offset: int, buffer: BufferLike) -> int:
        """Reads into a buffer. The loop ahead plans the read, leaves the buffer alone, and gets its
        size."""
        if self._is_ahead:
            nbytes = _nbytes(buffer)
            self._progress.plan_read(file, offset, nbytes)
            return nbytes
        self._progress.note_begin_of_read()
        nbytes = self._plan.read_into(file, offset, buffer)
        self._progress.note_read()
        return nbytes

    def read_now(self, file: AnyFile, offset: int, nbytes: int) -> bytes:
        """Reads in the loop ahead, too: bytes that say what is read next, as an index does."""
        if self._is_ahead:
            self._progress.wait_for_writes(file, offset, nbytes)
            self._progress.hand_over()
        return self._plan.read(file, offset, nbytes)

    def write(self, file: AnyFile, offset: int, data: BufferLike) -> int:
        """Writes. The loop ahead does not."""
        if self._is_ahead:
            nbytes = _nbytes(data)
            self._progress.note_write_to_come(file, offset, nbytes)
            return nbytes
        nbytes = self._plan.write(file, offset, data)
        self._progress.note_write()
        return nbytes

    def compute(self, work: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T | None:
        """Calls `work` and returns what it returns. The loop ahead does not call it, and gets
        None."""
        return None if self._is_ahead else work(*arguments, **options)


def pre_execute(
    plan: Plan,
    loop: Callable[[LoopIo], object],
    *,
    most_ahead: int = 4096,
    read_after_write: Literal["wait", "stop"] = "wait",
) -> PreExecution:
    """Runs a loop, and the same loop ahead of it, where computation is left out and reads become
    entries of the plan.

        def loop(io: ioweave.LoopIo) -> None:
            row = np.empty(columns)
            for place in places:
                io.read_into(file, place, row)
                io.compute(encrypt, row)         # left out in the loop ahead
                io.write(out, place, row)        # left out, too

        with ioweave.Plan() as plan:
            ioweave.pre_execute(plan, loop)

    Both run at the same time, the loop ahead on a thread of its own. So what the loop changes must
    be its own, like `row`, or be changed inside `io.compute()` only. Reads and writes by other ways
    than `io` are made twice. Where the loop ahead raises it ends, and the loop goes on with what is
    planned. An exception of the loop ends both.

    The loop ahead needs the GIL to name reads. It gets it while the loop reads, or computes without
    it as numpy does for large arrays. A loop that computes in Python shares the GIL with it.

    Args:
        plan: What reads ahead. It stays open.
        loop: The loop; called once here, and once on the other thread.
        most_ahead: Reads that the loop ahead may be in advance of the loop; 1 or more.
        read_after_write: What the loop ahead does when it would read bytes that the loop has yet to
            write. "wait": it goes on when they are written. "stop": it ends, and
            `PreExecution.stopped` names the bytes.

    Raises:
        ValueError: An argument is out of range.
        Whatever the loop raises.
    """
    if most_ahead < 1:
        raise ValueError(f"most_ahead must be 1 or more, not {most_ahead}")
    if read_after_write not in ("wait", "stop"):
        raise ValueError(f"read_after_write must be 'wait' or 'stop', not {read_after_write!r}")
    progress = _Progress(plan, most_ahead, read_after_write == "stop")

    def run_ahead() -> None:
        try:
            loop(LoopIo(plan, progress, True))
            progress.hand_over()
        except _Stopped:
            pass
        except BaseException as error:  # whatever it is, the loop meets it itself
            progress.stopped = f"{type(error).__name__}: {error}"

    context = contextvars.copy_context()
    ahead = threading.Thread(target=context.run, args=(run_ahead,), name="ioweave-ahead")
    ahead.start()
    try:
        loop(LoopIo(plan, progress, False))
    finally:
        progress.note_end()
        ahead.join()
    return PreExecution(progress.planned_reads, progress.waits, progress.stopped)
