"""Requests of `ioweave.File` that tasks need: a thread waits for their ends."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import Any

from ._core import Arrivals
from ._request import Request
from .threads import started


class Transfers:
    """Tells when requests have ended. Its thread starts with the first request. Any thread may use
    it.

    Args:
        ended: called with the arguments of expect() once the request has ended; on the thread of
            this, or inside expect().
    """

    def __init__(self, ended: Callable[[Request[Any], Any], None]) -> None:
        self._ended = ended
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._arrivals: Arrivals
        self._stopping = -1  # an eventfd

    def expect(self, request: Request[Any], what: Any) -> None:
        with self._lock:
            if self._thread is None:
                self._arrivals = Arrivals()
                self._stopping = os.eventfd(0, os.EFD_CLOEXEC)
                self._thread = started(self._wait_for_ends, "transfers")
        if not self._arrivals.expect(request._transfer, (request, what)):
            self._ended(request, what)

    def stop(self) -> None:
        """Stops the thread. Requests that have not ended are forgotten. Hold no lock."""
        if self._thread is not None:
            os.eventfd_write(self._stopping, 1)
            self._thread.join()
            os.close(self._stopping)

    def _wait_for_ends(self) -> None:
        poll = select.poll()
        for file in (self._arrivals.fileno(), self._stopping):
            poll.register(file, select.POLLIN)
        while all(file != self._stopping for file, _ in poll.poll()):
            for request, what in self._arrivals.take():
                self._ended(request, what)
