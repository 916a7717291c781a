"""The graph of calls: which call waits for which, and when a call may use a file or an object.

A `Call` is one call of a task. It is WAITING while calls that it needs are not DONE (`missing`
counts them), then READY until it has a place to run, RUNNING, and DONE. An edge to a *successor*
carries data: if this call fails, the successor is not run. An edge to a *follower* is only of
order: a call that writes a file after another read it runs even if the reader failed.

`Accesses` remembers for each file (by absolute path) and object (by identity) the last call that
writes it and the calls that read it since. From this follow read after write, write after read and
write after write. A task changes an object in place, so later calls that get the same object, or
the same future, get its new version.

A writer that failed spoils what it should have written, until the program has been told
(`Call.told`), by a barrier or because it asked. From then on the program knows what happened, so
calls take the file or object as it is, as the same program does without a runtime.

The runtime's lock guards all of it.
"""

from __future__ import annotations

import enum
import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from .errors import CycleError

if TYPE_CHECKING:
    from .admission import TaskFlow
    from .callbacks import Callback
    from .contents import Snapshot
    from .copies import Copies
    from .runtime import Runtime
    from .tasks import Task

WAITING, READY, RUNNING, DONE = range(4)


class Direction(enum.Enum):
    """What a task does with a parameter: `Annotated[Path, ioweave.Out]`."""

    In = "In"
    Out = "Out"
    InOut = "InOut"


class Latch:
    """Opens `door` when `remaining` calls are done."""

    __slots__ = ("door", "remaining")

    def __init__(self, remaining: int) -> None:
        self.remaining = remaining
        self.door = threading.Lock()
        self.door.acquire()


_NOTHING: dict[int, int] = {}


class Call:
    """One call of a task, from submission on. Once it is done, only value and error remain."""

    __slots__ = (
        *("runtime", "task", "args", "kwargs", "number", "state", "value", "error"),
        *("has_futures", "nbytes", "held", "brings", "payload", "attempt", "before"),
        *("given_up", "cancelled"),
        *("report", "seen", "barriers", "copies"),
        *("operation", "flow"),
        *("missing", "needs", "successors", "followers", "accesses"),
        *("latches", "callbacks", "waits_for"),
        *("ready_s", "start_s"),  # monotonic time; set only if the runtime records them
    )

    def __init__(
        self, runtime: Runtime, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.ready_s: float
        self.start_s: float
        self.runtime = runtime
        self.task = task
        self.args = args
        self.kwargs = kwargs
        self.number = 0
        self.state = WAITING
        self.value: Any = None  # of a call that failed: its traceback
        self.error: BaseException | None = None
        self.has_futures = False  # the arguments hold futures, to be replaced before it runs
        self.nbytes = 0  # bytes that an I/O task moves
        self.held = _NOTHING  # bytes of buffers and arrays among its arguments, by id
        self.brings: dict[int, int] | None = None  # bytes of buffers in its value, by id
        self.payload: bytes | None = None  # the arguments, if they could be pickled early
        self.attempt = 1
        self.before: Snapshot | None = None  # of what it changes, if it may be run again
        self.given_up = False  # it failed, and the failure is not raised
        self.cancelled = False  # it was not run, or was given up with those that need it
        self.report: Call | None = None  # the call whose failure explains why this one failed
        self.copies: Copies | None = None  # the copies made of its arguments
        self.seen: bool  # somebody asked how it failed
        self.barriers: int  # how many barriers had told of failures when it failed
        self.operation = -1  # its number in the policy; -1: the policy does not know it
        self.flow: TaskFlow | None = None  # the flow of an I/O task
        self.missing = 0
        self.needs: list[Call] | None = None
        self.successors: list[Call] | None = None
        self.followers: list[Call] | None = None
        self.accesses: list[tuple[Key, Access]] | None = None
        self.latches: list[Latch] | None = None
        self.callbacks: list[Callback] | None = None
        self.waits_for: tuple[Call, ...] = ()  # the calls that its body waits for now

    @property
    def name(self) -> str:
        """The task's name and a number: unique in a run, and runs none of the user's code."""
        return f"{self.task.name}#{self.number}"

    @property
    def done(self) -> bool:
        return self.state == DONE

    @property
    def running(self) -> bool:
        return self.state == RUNNING

    def report_itself(self) -> None:
        """Notes that the call failed and that the program is to be told. Needs the lock."""
        self.report, self.seen, self.barriers = self, False, self.runtime.barriers

    def told(self) -> bool:
        """Returns whether the program was told of the failure of this call. Needs the lock."""
        report = self.report
        if report is None:
            return False
        # A program that asks for the value of a call that was given up does not learn of a failure.
        asked = report.seen and not report.given_up
        return asked or report.barriers < report.runtime.barriers


def link(call: Call, other: Call, *, data: bool) -> Call | None:
    """Orders `call` after `other`. Returns `other` if it has failed and `call` needs its data."""
    if other is call:
        return None
    failed = None
    if other.state == DONE:
        failed = other if data and other.error is not None else None
        if other.missing == 0:
            return failed
        data = False  # not run, but what it had to follow still runs: `call` follows that, too
    edges = other.successors if data else other.followers
    if edges is None:
        edges = []
        if data:
            other.successors = edges
        else:
            other.followers = edges
    edges.append(call)
    if call.needs is None:
        call.needs = []
    call.needs.append(other)
    call.missing += 1
    return failed


def check_no_cycle(waiter: Call, targets: Iterable[Call]) -> None:
    """Raises CycleError if one of the targets cannot be done before `waiter` is."""
    seen: set[int] = set()
    stack: list[tuple[Call, tuple[str, ...]]] = [(call, (call.name,)) for call in targets]
    while stack:
        call, way = stack.pop()
        if call is waiter:
            through = f" (through {', '.join(way[:-1][:6])})" if len(way) > 1 else ""
            raise CycleError(
                f"task {waiter.name} waits for a future that waits for {waiter.name} "
                f"itself{through}: it would never end"
            )
        if id(call) in seen or call.state == DONE:
            continue
        seen.add(id(call))
        stack += [(n, (*way[:8], n.name)) for n in (*(call.needs or ()), *call.waits_for)]


Key: TypeAlias = str | int  # a file's absolute path, or an object's id


def file_key(path: str | os.PathLike[str]) -> Key:
    """Returns the absolute path. Symbolic links stay: they may change before the task runs."""
    return os.path.abspath(path)  # noqa: PTH100 (Path has no such function)


class Access:
    """The calls that use a file or an object."""

    __slots__ = ("keep", "readers", "users", "writer")

    def __init__(self, keep: object) -> None:
        self.keep = keep  # the object itself: its id is the key and must not be reused meanwhile
        self.writer: Call | None = None  # the last writer, if it is not done or has failed
        self.readers: set[Call] = set()  # the readers since then that are not done
        self.users = 0  # calls that use it and are not done


class Accesses:
    """The files and objects that calls in a runtime use."""

    __slots__ = ("_table", "has_files")

    def __init__(self) -> None:
        self._table: dict[Key, Access] = {}
        self.has_files = False  # a call has used one

    def enter(self, call: Call, key: Key, keep: object, direction: Direction) -> Call | None:
        """Orders `call` among the users of `key`; returns the failed writer whose data it needs."""
        access = self._table.get(key)
        if access is None:
            access = self._table[key] = Access(keep)
            self.has_files = self.has_files or isinstance(key, str)
        failed = None
        reads = direction is not Direction.Out
        writer = access.writer
        if writer is not None:
            told = writer.told()
            failed = link(call, writer, data=reads and not told)
            if told and writer.missing == 0:
                access.writer = None
        if direction is Direction.In:
            access.readers.add(call)
        else:
            for reader in access.readers:
                link(call, reader, data=False)
            access.readers = set()
            access.writer = call
        access.users += 1
        if call.accesses is None:
            call.accesses = []
        call.accesses.append((key, access))
        return failed

    def before(self, key: Key, direction: Direction) -> list[Call]:
        """Returns the calls that a call would have to follow if it entered now."""
        access = self._table.get(key)
        if access is None:
            return []
        found = [] if access.writer is None else [access.writer]
        return found if direction is Direction.In else [*found, *access.readers]

    def note_reader(self, call: Call, key: Key, keep: object) -> None:
        """Notes that `call`, submitted before any call wrote `key`, reads it."""
        access = self._table.get(key)
        if access is None:
            access = self._table[key] = Access(keep)
        access.readers.add(call)
        access.users += 1
        if call.accesses is None:
            call.accesses = []
        call.accesses.append((key, access))

    def leave(self, call: Call) -> None:
        """Removes `call`, which is done. The list of its accesses keeps the objects it used."""
        for key, access in call.accesses or ():
            access.users -= 1
            access.readers.discard(call)
            if access.writer is call and call.error is None:
                access.writer = None
            # A failed writer stays, or later readers would get half of it without knowing.
            if access.users == 0 and access.writer is None and self._table.get(key) is access:
                del self._table[key]
        call.accesses = None

    def knows(self, key: Key) -> bool:
        """Returns whether calls use it. Needs no lock, but may miss a call being submitted."""
        return key in self._table

    def writer(self, key: Key) -> Call | None:
        """Returns the call to wait for before reading what `key` names."""
        access = self._table.get(key)
        writer = access.writer if access is not None else None
        return None if writer is None or writer.told() else writer
