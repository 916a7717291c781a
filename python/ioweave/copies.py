"""What the program may change after a call, while the task has not read it yet.

`u += 1; save(u)` in a loop must not save the last `u` five times. What becomes of the arguments of
a call is the option `arguments` of a Runtime, or of a task:

- "snapshot": the task gets a copy, made at the call. A copy that the task changes would be lost in
  silence: arrays and memoryviews are therefore read-only to it, and of lists, dicts and bytearrays
  it is found out afterwards.
- "freeze": NumPy arrays are read-only, to the program as well, until the task has ended; the rest
  is copied.
- "share": the task gets the object itself.

Copied are lists, dicts and other containers, dataclasses, bytearrays, arrays and memoryviews, at
any depth, where they can change. What cannot, what tasks returned, and objects of other classes
(and arrays in a mapped file) are passed on.
"""

from __future__ import annotations

import array
import contextlib
import copy
import mmap
import operator
import sys
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from ._request import Request
from .arguments import ATOMS, FIXED_CONTAINERS, container_of
from .futures import Future

CHOICES = ("snapshot", "freeze", "share")
_ATOMS = ATOMS | {bytes, Future, Request}


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # who has an array has imported it
    return numpy is not None and isinstance(value, numpy.ndarray)


def _in_buffer(value: Any) -> bool:
    """Whether an array or a memoryview shows memory that may change and is no mapped file."""
    changes = False
    while True:
        if isinstance(value, memoryview):
            changes = changes or not value.readonly
            value = value.obj
        elif is_array(value):
            changes = changes or value.flags.writeable
            if value.base is None:
                return changes
            value = value.base
        else:
            return not isinstance(value, (bytes, mmap.mmap))


def can_change(value: Any) -> bool:
    """Whether the value itself, which holds no others, would be copied."""
    if isinstance(value, (bytearray, array.array)):
        return True
    return (isinstance(value, memoryview) or is_array(value)) and _in_buffer(value)


class Copies:
    """Copies of what can change in the arguments of one call.

    Args:
        keep: ids of what is passed on as it is: the task changes it, or another one does.
        freeze: arrays are collected in `arrays` rather than copied.
    """

    def __init__(self, keep: set[int], *, freeze: bool) -> None:
        self._keep = keep
        self.freeze = freeze
        self._done: dict[int, tuple[Any, Any]] = {}  # a value, which keeps its id so, and its copy
        self.frozen: list[int] = []  # of Frozen
        self.arrays: list[Any] = []  # the copies, or with `freeze` those to be frozen
        self._others: list[tuple[Any, Callable[[Any], object], object]] = []

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind in _ATOMS or id(value) in self._keep:
            return value
        if id(value) in self._done:
            return self._done[id(value)][1]
        self._done[id(value)] = value, value  # for one that contains itself
        container = container_of(kind)
        new = self._leaf(value) if container is None else self._container(value, container)
        self._done[id(value)] = value, new
        return new

    def _leaf(self, value: Any) -> Any:
        if not can_change(value):
            return value
        if is_array(value):
            if not self.freeze:
                value = value.copy()
            self.arrays.append(value)
            return value
        if isinstance(value, memoryview):
            shown = memoryview(value.tobytes())
            if value.format == "B" and value.ndim == 1:
                return shown
            whole: Any = shown  # its stub knows fewer formats and shapes
            return whole.cast(value.format, value.shape)
        return copy.copy(value)

    def _container(self, value: Any, container: Any) -> Any:
        old = list(container.parts(value))
        new = old if _ATOMS.issuperset(map(type, old)) else [self.of(part) for part in old]
        if isinstance(value, FIXED_CONTAINERS) and all(map(operator.is_, old, new)):
            return value
        return container.rebuilt(value, new)

    def made(self) -> bool:
        """Whether there are any."""
        return bool(self.arrays) or any(made is not value for value, made in self._done.values())

    def begin(self, *, guard: bool) -> None:
        """The task is about to run. Without `guard` it may change its copies."""
        if not self.freeze:
            for made in self.arrays:
                made.flags.writeable = not guard
        if not guard:
            return
        self._others = []  # of a run that failed
        for value, made in self._done.values():
            if made is value or is_array(made) or isinstance(made, memoryview):
                continue
            if container_of(type(made)) is None:
                self._others.append((made, zlib.crc32, zlib.crc32(made)))
                continue
            parts = _parts(made)
            if _same_contents(_parts(made), parts):  # those of a view of items are new each time
                self._others.append((made, _parts, parts))

    def end(self) -> str | None:
        """The task has run. The type of a copy that it changed, which nobody will see."""
        if not self.freeze:
            for made in self.arrays:
                made.flags.writeable = True  # the task may have returned it
        others, self._others = self._others, []
        for made, show, before in others:
            if not _same_contents(show(made), before):
                return type(made).__name__
        return None


def _parts(value: Any) -> list[Any]:
    """Themselves rather than their ids, which new objects may have once the old ones are gone."""
    container = container_of(type(value))
    assert container is not None  # as it was
    return list(container.parts(value))


def _same_contents(one: Any, other: Any) -> bool:
    if not isinstance(one, list):
        return bool(one == other)
    return len(one) == len(other) and all(map(operator.is_, one, other))


class Frozen:
    """Arrays that are read-only for calls that are not done. Needs the runtime's lock."""

    def __init__(self) -> None:
        self._arrays: dict[int, list[Any]] = {}  # by id: the array, and how many calls need it

    def freeze(self, arrays: Iterable[Any]) -> list[int]:
        """Returns what thaw() takes."""
        frozen = []
        for one in arrays:
            while is_array(one):  # and what it shows a part of
                known = self._arrays.get(id(one))
                if known is not None:
                    known[1] += 1
                    frozen.append(id(one))
                elif one.flags.writeable:
                    one.flags.writeable = False
                    self._arrays[id(one)] = [one, 1]
                    frozen.append(id(one))
                one = one.base
        return frozen

    def thaw(self, frozen: Iterable[int]) -> None:
        for number in frozen:
            self._arrays[number][1] -= 1
        progress = True
        while progress:  # a part becomes writeable only after its whole, which others may need
            progress = False
            for number, (one, calls) in list(self._arrays.items()):
                if calls == 0:
                    with contextlib.suppress(ValueError):
                        one.flags.writeable = True
                        del self._arrays[number]
                        progress = True
