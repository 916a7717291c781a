"""What policies learned about a task on a device, kept for the runs that follow.

Within a process by itself, and beyond it in a file of JSON, if one is named. Of a device whose
curve was measured, that is known in the beginning. The learned text is the policy core's own and
opaque here.
"""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from ._core import learned_from_curve
from .devices import Device

if TYPE_CHECKING:
    from .constraints import Constraint
    from .tasks import Task

_KIND = "ioweave-learned/1"


class Learned:
    """Learned texts by (task type, device). Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[tuple[str, str], str] = {}

    def get(self, task: str, device: str) -> str:
        """The text, empty if nothing was learned."""
        with self._lock:
            return self._texts.get((task, device), "")

    def beginning(self, task: Task, device: Device) -> str:
        """What the policy begins with: what was learned, or what the device's curve promises."""
        known = self.get(task.key, device.name)
        if not known and task.constraint is not None:
            return learned_of_curve(task.constraint, device)
        return known

    def put(self, task: str, device: str, text: str) -> None:
        with self._lock:
            self._texts[task, device] = text

    def load(self, path: Path) -> None:
        """Adds what the file holds, which may not exist yet.

        Raises:
            OSError: it cannot be read, or its folder is not there.
            ValueError: it is not such a file.
        """
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            if path.absolute().parent.is_dir():
                return
            raise  # save() would not find the folder either, when all is done
        try:
            document = json.loads(text)
            if document["kind"] != _KIND:
                raise ValueError(f"its kind is {document['kind']!r}, not {_KIND!r}")
            texts = {
                (str(row["task"]), str(row["device"])): str(row["learned"])
                for row in document["flows"]
            }
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} holds no learned values ({error}): delete it, or name another file"
            ) from error
        with self._lock:
            self._texts.update(texts)

    def save(self, path: Path) -> None:
        """Replaces the file as a whole, so that a reader finds the old values or the new ones."""
        with self._lock:
            rows = [
                {"task": task, "device": device, "learned": text}
                for (task, device), text in sorted(self._texts.items())
            ]
        text = json.dumps({"kind": _KIND, "flows": rows}, indent=1) + "\n"
        new = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            new.write_text(text, "utf-8")
            if path.exists():
                shutil.copymode(path, new)
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise


def learned_of_curve(constraint: Constraint, device: Device) -> str:
    """What such a constraint begins with on a device whose curve was measured; else empty."""
    return learned_from_curve(device.curve) if constraint.sampled else ""


of_this_process = Learned()
