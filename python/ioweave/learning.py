"""What policies learned about a task on a device, kept for later runs.

A process keeps it in memory, and in a JSON file if one is named. For a device whose curve was
measured, the curve is known from the beginning. The learned text is the policy core's own and
opaque here.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from . import _core
from .devices import Device

if TYPE_CHECKING:
    from .constraints import Constraint
    from .tasks import Task


class Learned:
    """Learned texts by (task type, device). Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[tuple[str, str], str] = {}

    def get(self, task: str, device: str) -> str:
        """Returns the text; empty if nothing was learned."""
        with self._lock:
            return self._texts.get((task, device), "")

    def beginning(self, task: Task, device: Device) -> str:
        """Returns what the policy begins with: what was learned, or else what the device's curve
        says."""
        known = self.get(task.key, device.name)
        if not known and task.constraint is not None:
            return learned_of_curve(task.constraint, device)
        return known

    def put(self, task: str, device: str, text: str) -> None:
        with self._lock:
            self._texts[task, device] = text

    def load(self, path: Path) -> None:
        """Adds the values of the file. The file need not exist yet.

        Raises:
            OSError: the file cannot be read, or its folder does not exist.
            ValueError: the file holds no learned values.
        """
        try:
            texts = _core.read_learned(path)
        except ValueError as error:
            raise ValueError(
                f"{path} holds no learned values ({error}): delete it, or name another file"
            ) from error
        with self._lock:
            self._texts.update(texts)

    def save(self, path: Path) -> None:
        """Replaces the file as a whole, so that a reader finds the old values or the new ones."""
        with self._lock:
            texts = dict(self._texts)
        _core.write_learned(path, texts)


def learned_of_curve(constraint: Constraint, device: Device) -> str:
    """Returns what the constraint begins with on a device whose curve was measured; otherwise an
    empty text."""
    return _core.learned_from_curve(device.curve) if constraint.sampled else ""


of_this_process = Learned()
