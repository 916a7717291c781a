"""What users want called when a task is done, and steps of the runtime's that may run their code.

Callbacks run one after another, in the order in which their tasks ended, on a thread of their own:
one that is slow, waits for tasks or ends its thread holds up none of the runtime's.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from .threads import started

if TYPE_CHECKING:
    from .futures import Future

_log = logging.getLogger("ioweave")

# Without a future: wakes an event loop, which is no code of the user's.
Callback: TypeAlias = "tuple[Future[Any] | None, Callable[[Any], object]]"


class Todo(list[Callable[[], object]]):
    """What is to be done when the runtime's lock is free again: steps to be called, and what may be
    let go of only then, since the end of the user's objects runs their code (`__del__`, the closing
    of a file), or takes long."""

    __slots__ = ("garbage",)

    def __init__(self) -> None:  # of an empty list, which needs no more
        self.garbage: list[object] = []


class Callbacks:
    """Every method needs the runtime's lock, if not said otherwise.

    Args:
        lock: the runtime's.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._came = threading.Condition(lock)
        self._queue: list[Callback] = []
        self._calling = False
        self._gates: list[threading.Lock] = []  # of those that wait until all were called
        self._stopping = False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """There will be something to call. When it comes it may be too late to start a thread: the
        interpreter ends."""
        if self._thread is None:
            self._thread = started(self._loop, "callbacks")

    def add(self, callbacks: list[Callback]) -> None:
        if callbacks:
            self._queue += callbacks
            self._came.notify()

    def gate(self) -> threading.Lock | None:
        """Opens when all have been called; None: they have."""
        if not self._queue and not self._calling:
            return None
        gate = threading.Lock()
        gate.acquire()
        self._gates.append(gate)
        return gate

    def inside(self) -> bool:
        """Whether a callback asks. Without the lock."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """Lets the thread end: none will come."""
        self._stopping = True
        self._came.notify()

    def _loop(self) -> None:
        with self._came:
            while True:
                if self._queue:
                    callbacks, self._queue = self._queue, []
                    self._calling = True
                    self._came.release()
                    call_back(callbacks)
                    del callbacks  # a thread that waits must not keep what it called
                    self._came.acquire()
                    self._calling = False
                    continue
                for gate in self._gates:
                    gate.release()
                self._gates.clear()
                if self._stopping:
                    return
                self._came.wait()


def call_back(callbacks: Iterable[Callback]) -> None:
    for future, callback in callbacks:
        _guarded(functools.partial(callback, future), "a callback of %r failed", future)


def carry_out(todo: Iterable[Callable[[], object]]) -> None:
    """Calls what was to be called without the runtime's lock."""
    for step in todo:
        _guarded(step, "%r failed", step)


def _guarded(step: Callable[[], object], message: str, what: object) -> None:
    """Whatever escaped, be it a SystemExit, would end a thread of the runtime's, and the program
    would wait for ever."""
    try:
        step()
    except BaseException as error:
        main = threading.current_thread() is threading.main_thread()
        if main and isinstance(error, KeyboardInterrupt):
            raise
        _log.exception(message, what)
