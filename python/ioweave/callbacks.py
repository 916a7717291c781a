"""Callbacks that users want called when a task is done, and steps that may run users' code.

Callbacks run one after another, in the order in which their tasks ended, on a thread of their own.
So a callback that is slow, waits for tasks or ends its thread holds up no thread of the runtime.
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

# A callback without a future wakes an event loop and runs no code of the user's.
Callback: TypeAlias = "tuple[Future[Any] | None, Callable[[Any], object]]"


class Todo(list[Callable[[], object]]):
    """The steps to call once the runtime's lock is free again, and the objects to drop only then:
    the end of a user's object may run its code (`__del__`, the closing of a file) or take long."""

    __slots__ = ("garbage",)

    def __init__(self) -> None:  # the list is empty, so list.__init__() has nothing to do
        self.garbage: list[object] = []


class Callbacks:
    """The callbacks of a runtime. Every method needs the runtime's lock, if not said otherwise.

    Args:
        lock: the runtime's lock.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._came = threading.Condition(lock)
        self._queue: list[Callback] = []
        self._calling = False
        self._doors: list[threading.Lock] = []  # of threads that wait until all were called
        self._stopping = False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Starts the thread now, since an interpreter that ends starts no threads."""
        if self._thread is None:
            self._thread = started(self._loop, "callbacks")

    def add(self, callbacks: list[Callback]) -> None:
        if callbacks:
            self._queue += callbacks
            self._came.notify()

    def door(self) -> threading.Lock | None:
        """Returns a lock that opens when all callbacks have run; None if they have."""
        if not self._queue and not self._calling:
            return None
        door = threading.Lock()
        door.acquire()
        self._doors.append(door)
        return door

    def inside(self) -> bool:
        """Returns whether the caller is a callback. Does not need the lock."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
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
                    del callbacks  # a waiting thread must not keep what it called
                    self._came.acquire()
                    self._calling = False
                    continue
                for door in self._doors:
                    door.release()
                self._doors.clear()
                if self._stopping:
                    return
                self._came.wait()


def call_back(callbacks: Iterable[Callback]) -> None:
    for future, callback in callbacks:
        _call_guarded(functools.partial(callback, future), "a callback of %r failed", future)


def carry_out(todo: Iterable[Callable[[], object]]) -> None:
    """Calls the steps of a Todo. Call it without the runtime's lock."""
    for step in todo:
        _call_guarded(step, "%r failed", step)


def _call_guarded(step: Callable[[], object], message: str, what: object) -> None:
    """Calls a step and logs all that it raises, which would otherwise end the calling thread."""
    try:
        step()
    except BaseException as error:
        main = threading.current_thread() is threading.main_thread()
        if main and isinstance(error, KeyboardInterrupt):
            raise
        _log.exception(message, what)
