"""Finds calls that run for longer than their timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .callbacks import Todo, carry_out
from .threads import started

if TYPE_CHECKING:
    from .graph import Call
    from .pool import Worker


class Watchdog:
    """Tells when a call takes too long, on a thread that begins with the first such call.

    Args:
        lock: the runtime's lock.
        expired: takes worker and call, with the lock held, while the worker still runs the call;
            returns the steps to run without the lock.
    """

    def __init__(
        self,
        lock: threading.Lock,
        expired: Callable[[Worker, Call], Todo],
    ) -> None:
        self._expired = expired
        self._changed = threading.Condition(lock)
        self._deadlines: dict[Worker, tuple[float, Call]] = {}
        self._next = float("inf")  # when the thread wakes by itself, time.monotonic()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def begin(self) -> None:
        """Starts the thread, for a call with a timeout that will come. Needs the lock."""
        if self._thread is None:
            self._thread = started(self._watch_calls, "watchdog")

    def watch(self, worker: Worker, call: Call, timeout: float) -> None:
        """Watches a call that `worker` begins and that may take `timeout` seconds. Hold no lock."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._deadlines[worker] = deadline, call
            if deadline < self._next:
                self._changed.notify()

    def ended(self, worker: Worker) -> None:
        """Stops watching the worker's call, which has ended. Hold no lock."""
        with self._changed:
            self._deadlines.pop(worker, None)

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _watch_calls(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                now = time.monotonic()
                expired = self._expire_calls(now)
                if not expired:
                    # threading.TIMEOUT_MAX: a wait of 300 years is as good as for ever.
                    self._changed.wait(max(0, min(self._next - now, threading.TIMEOUT_MAX)))
            while expired:
                carry_out(expired.pop(0))

    def _expire_calls(self, now: float) -> list[Todo]:
        """Tells of the calls whose time is over; returns the steps to run. Needs the lock."""
        late = [(worker, call) for worker, (end, call) in self._deadlines.items() if end <= now]
        for worker, _ in late:
            del self._deadlines[worker]
        self._next = min((end for end, _ in self._deadlines.values()), default=float("inf"))
        return [self._expired(worker, call) for worker, call in late]
