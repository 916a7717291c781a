"""What the program may change after a call, while the task has not read it yet.

`u += 1; save(u)` in a loop must not save the last `u` five times. What becomes of the arguments of
a call is the option `arguments` of a Runtime, or of a task:

- "snapshot": the task gets a copy, made at the call. A copy that the task changes would be lost in
  silence: arrays and memoryviews are therefore read-only to it, and of lists, dicts and bytearrays
  it is found out afterwards.
- "freeze": NumPy arrays are read-only, to the program as well, until the task has ended; the rest
  is copied.
- "share": the task gets the object itself.

Copied are lists, dicts and other containers of Python's own, named tuples, dataclasses that say
nothing about how they are copied, bytearrays, arrays and memoryviews, at any depth, where they can
change. What cannot, what tasks returned, and objects of other classes (and arrays in a mapped file)
are passed on.

Arrays that are read-only for a call, be they its copies or the program's own, are in `Frozen`
until the call is done. What reads them later, such as another task, must not take them for arrays
that never change.
"""

from __future__ import annotations

import array
import contextlib
import copy
import mmap
import operator
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ._request import Request
from .arguments import ATOMS, FIXED_CONTAINERS, Replaced, container_of, plain_container_of
from .futures import Future

CHOICES = ("snapshot", "freeze", "share")
_ATOMS = ATOMS | {bytes, Future, Request}


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # who has an array has imported it
    return numpy is not None and isinstance(value, numpy.ndarray)


def shows_memory(value: Any) -> bool:
    """Whether the value is an array or a memoryview."""
    return isinstance(value, memoryview) or is_array(value)


def _root(value: Any) -> Any:
    """The last array that `value` is a part of."""
    while is_array(value.base):
        value = value.base
    return value


def in_mapped_file(value: Any) -> bool:
    """Whether an array or a memoryview shows a file, or memory shared with other processes."""
    # What NumPy's as_strided() returns belongs to an object that has the array in question as base.
    while shows_memory(value) or hasattr(value, "__array_interface__"):
        value = value.obj if isinstance(value, memoryview) else getattr(value, "base", None)
    if not isinstance(value, mmap.mmap):
        return False
    try:
        value.size()
    except OSError:  # of anonymous memory there is none
        return False
    return True


class Frozen:
    """Arrays that are read-only for calls that are not done. Needs the runtime's lock."""

    def __init__(self) -> None:
        self._arrays: dict[int, _FrozenArray] = {}  # by id

    def changes(self, value: Any) -> bool:
        """Whether an array or a memoryview shows memory that may change, now or when the calls are
        done that it is read-only for."""
        changes = False
        while True:
            if isinstance(value, memoryview):
                changes = changes or not value.readonly
                value = value.obj
            elif is_array(value):
                changes = changes or value.flags.writeable or id(value) in self._arrays
                if value.base is None:
                    return changes
                value = value.base
            else:
                return not isinstance(value, bytes)

    def can_thaw(self, one: Any) -> bool:
        """Whether NumPy would let an array that is frozen become writable again."""
        root = _root(one)
        if root.base is None:
            return root.flags.writeable or id(root) in self._arrays
        try:
            return not memoryview(root.base).readonly
        except TypeError:  # an owner that says nothing of its memory
            return False

    def freeze(self, arrays: Iterable[Any]) -> list[int]:
        """Returns what thaw() takes."""
        frozen = []
        for one in arrays:
            root = _root(one)
            while is_array(one):  # and what it shows a part of
                known = self._arrays.get(id(one))
                if known is not None:
                    known.calls += 1
                    frozen.append(id(one))
                elif one.flags.writeable:
                    self._arrays[id(one)] = _FrozenArray(one, id(root), 1)
                    one.setflags(write=False)
                    frozen.append(id(one))
                one = one.base
        return frozen

    def thaw(self, frozen: list[int], returned: Sequence[Any] = ()) -> None:
        """A call is done, and has returned these arrays, of which parts of the frozen ones become
        writable with them."""
        numbers = frozen[::-1]  # the whole before its parts
        wholes = set(frozen) if returned else ()
        for one in returned:
            root = _root(one)
            if id(root) in wholes and id(one) not in self._arrays:
                self._arrays[id(one)] = _FrozenArray(one, id(root), 1)
                numbers.append(id(one))
        for number in numbers:
            known = self._arrays[number]
            known.calls -= 1
            if known.calls == 0:
                self._thaw(number, known)

    def _thaw(self, number: int, known: _FrozenArray) -> None:
        """A part becomes writable only after its whole, which other calls may need."""
        root = self._arrays.get(known.root)
        if root is not None and root.calls > 0:
            if root.parts is None:
                root.parts = set()
            root.parts.add(number)
            return
        try:  # noqa: SIM105 (suppress() takes longer than all the rest)
            known.array.setflags(write=True)
        except ValueError:  # its owner has become read-only
            pass
        del self._arrays[number]
        for other in known.parts or ():
            part = self._arrays.get(other)
            if part is not None and part.calls == 0:
                self._thaw(other, part)


class _FrozenArray:
    __slots__ = ("array", "calls", "parts", "root")

    def __init__(self, array: Any, root: int, calls: int) -> None:
        self.array = array
        self.root = root  # its id
        self.calls = calls  # that need it
        self.parts: set[int] | None = None  # which no call needs any more


class Copier:
    """Makes the copies of what can change in the arguments of one call.

    Args:
        keep: ids of what is passed on as it is: the task changes it, or another one does.
        changing: ids of the arrays and memoryviews that can change.
        freezing: ids of those arrays that are frozen rather than copied.
        guard: the task may not change its copies.
    """

    def __init__(
        self, keep: set[int], changing: set[int], freezing: set[int], *, guard: bool
    ) -> None:
        self._keep = keep
        self._changing = changing
        self._freezing = freezing
        self._guard = guard
        self._done: Replaced = {}
        self.made = False  # there are any, or arrays to be frozen
        self.windows: dict[int, int] = {}  # by id, the bytes of arrays that show some many times
        self.copies = Copies()

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The arguments that the task gets."""
        return tuple(map(self._of, args)), {name: self._of(kwargs[name]) for name in kwargs}

    def _of(self, value: Any) -> Any:
        kind = type(value)
        if kind in _ATOMS or id(value) in self._keep:
            return value
        if id(value) in self._done:
            return self._done[id(value)][1]
        self._done[id(value)] = value, value  # for one that contains itself
        if id(value) in self._changing:
            new = self._memory(value)
        elif kind is bytearray or kind is array.array:
            new = self._made(copy.copy(value))
        else:
            container = plain_container_of(kind)
            new = value if container is None else self._container(value, container)
        self._done[id(value)] = value, new
        return new

    def _memory(self, value: Any) -> Any:
        self.made = True
        if isinstance(value, memoryview):
            return _read_only(value)
        if id(value) not in self._freezing:
            value = self._copy_of_array(value)
            if not self._guard:
                return value
        self.copies.arrays.append(value)
        return value

    def _copy_of_array(self, value: Any) -> Any:
        made = None if value.flags.forc else _window(value)
        if made is None:
            return value.copy(order="K")
        self.windows[id(made)] = made.base.nbytes
        return made

    def _container(self, value: Any, container: Any) -> Any:
        old = list(container.parts(value))
        new = old if _ATOMS.issuperset(map(type, old)) else [self._of(part) for part in old]
        if isinstance(value, FIXED_CONTAINERS) and all(map(operator.is_, old, new)):
            return value
        made = container.rebuilt(value, new)
        self.copies.size += sys.getsizeof(made)
        return self._made(made)

    def _made(self, made: Any) -> Any:
        self.made = True
        if self._guard and not isinstance(made, (tuple, frozenset)):
            self.copies.guarded.append(made)
        return made


class Copies:
    """The copies that one call got. They hold nothing of the program's but arrays to be frozen."""

    __slots__ = ("_before", "arrays", "changed", "frozen", "guarded", "returned", "size")

    def __init__(self) -> None:
        self.size = 0  # of containers, in bytes
        self.arrays: list[Any] = []  # to be frozen
        self.frozen: list[int] = []  # of Frozen
        self.returned: list[Any] = []  # read-only arrays, by the task
        self.guarded: list[Any] = []  # whose changes are found out
        # What is shown of each of them, and was when the task began.
        self._before: list[tuple[Any, Callable[[Any], object], object]] | None = None
        self.changed: str | None = None  # the type of a copy that the task changed

    def replaced(self, done: Replaced) -> None:
        """Futures in copies have become values, in copies of these copies."""
        self.guarded = [done.get(id(made), (made, made))[1] for made in self.guarded]

    def begin(self) -> bool:
        """The task is about to run. If it did before: whether copies are as they were then."""
        if self._before is not None:
            return self.check()
        self._before = []
        for made in self.guarded:
            show = zlib.crc32 if container_of(type(made)) is None else _parts
            before = show(made)
            if _same_contents(show(made), before):  # parts of a view of items are new each time
                self._before.append((made, show, before))
        return True

    def check(self) -> bool:
        """Whether the copies are as they were when the task began for the first time."""
        for made, show, before in self._before or ():
            if not _same_contents(show(made), before):
                self.changed = type(made).__name__
                return False
        return True

    def returns(self, value: Any) -> None:
        """What the task returned may show parts of arrays that are frozen for it."""
        if self.arrays:
            container = container_of(type(value))
            parts = (value,) if container is None else tuple(container.parts(value))
            self.returned = [one for one in parts if is_array(one) and not one.flags.writeable]


def _window(value: Any) -> Any:
    """Of an array that shows its memory many times, as those of broadcast_to() and
    sliding_window_view() do, such a view of a copy of the memory; None of another."""
    numpy = sys.modules["numpy"]
    if type(value) is not numpy.ndarray or value.dtype.hasobject:
        return None
    item, steps = value.itemsize, value.strides
    span = item + sum((n - 1) * step for n, step in zip(value.shape, steps, strict=True))
    if value.nbytes <= span or any(step < 0 or step % item for step in steps):
        return None
    memory = numpy.lib.stride_tricks.as_strided(value, (span // item,), (item,)).copy()
    return numpy.ndarray(value.shape, value.dtype, memory, 0, steps)


def _read_only(shown: memoryview) -> memoryview:
    """A copy of its bytes, of the same format and shape where that can be said."""
    if shown.nbytes == 0:
        return shown.toreadonly()  # nothing is in it that could change
    for way in (_cast, _by_numpy):
        with contextlib.suppress(Exception):
            return way(shown)
    return memoryview(shown.tobytes())


def _cast(shown: memoryview) -> memoryview:
    """In formats of this machine; those of ctypes say that they are."""
    bytes_of: Any = memoryview(shown.tobytes())  # its stub knows fewer formats and shapes
    cast: memoryview = bytes_of.cast(shown.format.lstrip(_HERE), shown.shape)
    if cast.itemsize != shown.itemsize:
        raise ValueError(shown.format)
    return cast


_HERE = "<" if sys.byteorder == "little" else ">"


def _by_numpy(shown: memoryview) -> memoryview:
    copied: memoryview = memoryview(sys.modules["numpy"].array(shown, order="C"))
    return copied.toreadonly()


def _parts(value: Any) -> list[Any]:
    """Themselves rather than their ids, which new objects may have once the old ones are gone."""
    container = container_of(type(value))
    assert container is not None  # as it was
    return list(container.parts(value))


def _same_contents(one: Any, other: Any) -> bool:
    if not isinstance(one, list):
        return bool(one == other)
    return len(one) == len(other) and all(map(operator.is_, one, other))
