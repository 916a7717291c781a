"""Finds calls that run for longer than their timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .callbacks import carry_out

if TYPE_CHECKING:
    from .graph import Call
    from .pool import Worker


class Watchdog:
    """A thread that tells when a call takes too long, made when the first call with a timeout runs.

    Args:
        lock: the runtime's.
        expired: told worker and call, with the lock held, while the worker still runs the call;
            returns what is to be called without it.
    """

    def __init__(
        self,
        lock: threading.Lock,
        expired: Callable[[Worker, Call], list[Callable[[], object]]],
    ) -> None:
        self._expired = expired
        self._changed = threading.Condition(lock)
        self._deadlines: dict[Worker, tuple[float, Call]] = {}
        self._next = float("inf")  # when the thread wakes by itself, time.monotonic()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def watch(self, worker: Worker, call: Call, timeout: float) -> None:
        """`worker` begins a call that may take `timeout` seconds. Hold no lock."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._deadlines[worker] = deadline, call
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._loop, name="ioweave-watchdog", daemon=True
                )
                self._thread.start()
            elif deadline < self._next:
                self._changed.notify()

    def ended(self, worker: Worker) -> None:
        """The call ended. Hold no lock."""
        with self._changed:
            self._deadlines.pop(worker, None)

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _loop(self) -> None:
        while True:
            todo: list[Callable[[], object]] = []
            with self._changed:
                if self._stopping:
                    return
                now = time.monotonic()
                for worker, (deadline, call) in list(self._deadlines.items()):
                    if deadline <= now:
                        del self._deadlines[worker]
                        todo += self._expired(worker, call)
                if not todo:
                    self._next = min(
                        (deadline for deadline, _ in self._deadlines.values()),
                        default=float("inf"),
                    )
                    # threading.TIMEOUT_MAX: a wait of 300 years is as good as for ever.
                    self._changed.wait(max(0, min(self._next - now, threading.TIMEOUT_MAX)))
            carry_out(todo)
