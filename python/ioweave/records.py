"""One record for each call of a runtime, the same for every runtime."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskRecord:
    """When and where a call ran. Times are seconds since the runtime was started.

    Attributes:
        task: the task's name.
        device: the device of an I/O task; None: the task computes.
        node: the node's number; 0 is this machine.
        ready_s: when all that the call needed was there.
        start_s, end_s: when the call began and ended.
        bytes: the bytes that it moved.
    """

    task: str
    device: str | None
    node: int
    ready_s: float
    start_s: float
    end_s: float
    bytes: int

    @property
    def io(self) -> bool:
        """Whether the call is one of an I/O task."""
        return self.device is not None
