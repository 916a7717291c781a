"""Transfers in flight, which a program can wait for or await."""

from __future__ import annotations

import errno
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from weakref import WeakValueDictionary

from ioweave import _core

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Request(Generic[T]):
    """A transfer under way: `await` it, or ask for its `result()`.

    A request keeps its buffer and its file until the transfer has ended, even if the request is
    dropped or cancelled, because the storage device may still use them. It releases them when
    somebody takes the result, at the latest with the next call of this package.

    Any number of threads and event loops may wait for one request. In a forked child, requests that
    the parent submitted count as cancelled.
    """

    __slots__ = ("_transfer",)

    def __init__(self, transfer: _core.Transfer | _core.LeaseAsk) -> None:
        self._transfer = transfer

    def done(self) -> bool:
        """Returns whether the transfer has ended, well or not."""
        return self._transfer.done()

    def result(self, timeout: float | None = None) -> T:
        """Waits until the transfer has ended, and returns what the blocking call would return.

        Args:
            timeout: In seconds; None: for ever.

        Raises:
            TimeoutError: The transfer has not ended; it stays in flight.
            concurrent.futures.CancelledError: It was cancelled before any bytes moved.
            OSError: It failed.
        """
        try:
            return cast(T, self._transfer.result(timeout))
        except OSError as error:
            if error.errno != errno.ECANCELED:
                raise
        # Imported here, because this import takes longer than all of this package.
        from concurrent.futures import CancelledError

        raise CancelledError

    def cancel(self) -> bool:
        """Asks to cancel the transfer; returns False if it is too late for that.

        The transfer ends in any case, and only the result says how: storage devices finish what
        they have begun.
        """
        return self._transfer.cancel()

    def __await__(self) -> Generator[Any, None, T]:
        """As result(), on the running event loop. Cancelling the task cancels the request."""
        if not self._transfer.done():
            import asyncio

            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            if _find_arrivals(loop).expect(self._transfer, future):
                try:
                    yield from future
                except asyncio.CancelledError:
                    self.cancel()
                    raise
        return self.result()


class _LoopsOfThread(threading.local):
    """The arrivals of each event loop, by the loop's id. Only the loop itself holds its arrivals,
    so that they go when it is closed.

    A loop runs in one thread, so no thread shares this, and no lock can stay locked after a fork.
    """

    def __init__(self) -> None:
        self.arrivals: WeakValueDictionary[int, _core.Arrivals] = WeakValueDictionary()


_loops = _LoopsOfThread()


def _find_arrivals(loop: asyncio.AbstractEventLoop) -> _core.Arrivals:
    arrivals = _loops.arrivals.get(id(loop))
    if arrivals is None:
        arrivals = _core.Arrivals()
        loop.add_reader(arrivals.fileno(), _resolve_futures, arrivals)
        _loops.arrivals[id(loop)] = arrivals
    return arrivals


def _resolve_futures(arrivals: _core.Arrivals) -> None:
    """Resolves all futures that arrived since the loop last looked."""
    for future in arrivals.take():
        if not future.done():
            future.set_result(None)
