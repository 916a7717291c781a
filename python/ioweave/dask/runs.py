"""The tasks of a Runtime, to the scheduler: when they were ready, and when and where they ran."""

from __future__ import annotations

from collections import deque
from typing import Any, TypeAlias

_MOST = 1_000_000  # records kept until the Runtime takes them; beyond it the oldest are dropped

# Key, device, node; when it was ready, began and ended; bytes.
Record: TypeAlias = tuple[Any, str | None, int, float, float, float, int]


class Run:
    """A Runtime, to the scheduler. Times are seconds since it began, on the scheduler's clock.

    Args:
        client: the client of the Runtime.
        began: when the Runtime began.
        keep: whether it wants records.
    """

    def __init__(self, client: str, began: float, *, keep: bool) -> None:
        self.client = client
        self._keep = keep
        self._began = began
        self.retried = 0  # runs that failed and were followed by another
        self._retries: dict[Any, int] = {}  # retries left, of tasks that have some
        self._ready: dict[Any, float] = {}
        self._records: deque[Record] = deque(maxlen=_MOST)

    def note_waiting(self, key: Any, retries: int) -> None:
        """Notes that the task waits for its inputs, for the first time or again."""
        if retries or key in self._retries:
            self.retried += retries < self._retries.get(key, 0)
            self._retries[key] = retries

    def note_ready(self, key: Any, now: float) -> None:
        if self._keep:
            self._ready[key] = now

    def forget(self, key: Any) -> None:
        self._ready.pop(key, None)
        self._retries.pop(key, None)

    def note_run(
        self, key: Any, device: str | None, node: int, span: tuple[float, float], size: int
    ) -> None:
        self._retries.pop(key, None)
        if not self._keep:
            return
        times = (self._ready.pop(key, span[0]), *span)
        ready, start, end = (time - self._began for time in times)
        self._records.append((key, device, node, ready, start, end, size))

    def take_records(self) -> list[Record]:
        taken = list(self._records)
        self._records.clear()
        return taken
