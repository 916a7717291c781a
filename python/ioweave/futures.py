"""Futures: the values of tasks that have not ended yet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import DependencyFailed

if TYPE_CHECKING:
    from .graph import Call

T = TypeVar("T")


class Future(Generic[T]):
    """The value of a task that may not have ended; a task called while a runtime is active returns
    it. Any thread may use it.

    Pass it to other tasks, also inside lists, dicts and dataclasses: they start when it is done and
    get its value. `await` works in any asyncio loop; a cancelled `await` does not cancel the task.
    """

    __slots__ = ("__weakref__", "_call", "_index")

    def __init__(self, call: Call, index: int | None = None) -> None:
        self._call = call
        self._index = index  # which of several values (returns=n); None: the only value

    def result(self, timeout: float | None = None) -> T:
        """Returns the task's value; waits for it at most `timeout` seconds.

        Raises:
            TimeoutError: the task is not done by then; it continues.
            CancelledError: the task was cancelled; DependencyFailed: a task that it needs failed.
            CycleError: the value needs the task that calls this.
            Exception: whatever the task raised, with its traceback.
        """
        error = self._wait_for_outcome(timeout)
        if error is None:
            value: T = self._call.runtime.value_of(self, timeout)
            return value
        try:
            # Raised in many places, it begins with the task's own frames each time.
            raise error.with_traceback(self._call.value)
        finally:
            del error, self  # or the traceback and this frame would hold each other

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns what the task raised, or None. Waits, and raises TimeoutError and CancelledError,
        as result() does, but returns a DependencyFailed."""
        error = self._wait_for_outcome(timeout)
        if error is not None and self._call.cancelled and not isinstance(error, DependencyFailed):
            raise error
        return error

    def _wait_for_outcome(self, timeout: float | None) -> BaseException | None:
        call = self._call
        if not call.done and not call.runtime.wait_for((call,), timeout):
            raise TimeoutError(f"task {call.name} is not done after {timeout} s")
        if call.error is not None:
            call.runtime.note_seen(call)
        return call.error

    def done(self) -> bool:
        """Returns whether result() would return or raise at once."""
        return self._call.done

    def running(self) -> bool:
        """Returns whether the task has begun and not ended."""
        return self._call.runtime.is_running(self._call)

    def cancelled(self) -> bool:
        """Returns whether the task was not run, by cancel() or because a task it needs failed."""
        return self._call.done and self._call.cancelled

    def cancel(self) -> bool:
        """Cancels the task unless it has begun; tasks that need it are not run either.

        Returns:
            Whether the task is cancelled. With `returns=n`, so are its other futures.
        """
        return self._call.runtime.cancel(self._call)

    def add_done_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Calls `callback(self)` when the task is done, or at once if it is done already.

        Later callbacks run on a thread of their own, one after another in the order in which tasks
        end. What a callback raises is logged and otherwise ignored. The end of the block waits for
        callbacks, and for the tasks that they submit."""
        self._call.runtime.add_callback(self._call, self, callback)

    def __await__(self) -> Generator[Any, None, T]:
        self._call.runtime.prepare_await(self._call)
        if not self._call.done:
            import asyncio  # slow to import, and most programs have no event loop

            loop = asyncio.get_running_loop()
            waiter = loop.create_future()

            def wake() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            def tell(_: None) -> None:
                with contextlib.suppress(RuntimeError):  # raised by a closed loop: nobody waits
                    loop.call_soon_threadsafe(wake)

            self._call.runtime.add_callback(self._call, None, tell)
            yield from waiter
        fetching = self._call.runtime.start_fetch(self)
        if fetching is not None:
            import asyncio

            yield from asyncio.wrap_future(fetching)
        return self.result()

    def __bool__(self) -> bool:
        # By default every object is true, whatever its value. A program that is correct without a
        # Runtime would then silently go wrong with one.
        raise TypeError(
            f"{self!r} is neither true nor false before its value is known: use "
            "ioweave.wait(future), or `future is None`"
        )

    def __repr__(self) -> str:
        call = self._call
        if not call.done:
            state = "running" if call.running else "pending"
        else:
            state = "done" if call.error is None else type(call.error).__name__
        return f"<Future of {call.name}: {state}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} cannot be pickled: pass it to a task as an argument, or its result()"
        )
