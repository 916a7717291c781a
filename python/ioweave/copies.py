"""Copies of arguments that the program may change after a call, before the task has read them.

`u += 1; save(u)` in a loop must not save the last `u` five times. The option `arguments` of a
Runtime, or of a task, says what happens to the arguments of a call:

- "snapshot": the task gets a copy, made at the call. A change that the task made to its copy would
  be lost in silence. So arrays and memoryviews are read-only to the task, and changes of lists,
  dicts and bytearrays are detected afterwards.
- "freeze": NumPy arrays are read-only until the task has ended, also to the program; the rest is
  copied.
- "share": the task gets the object itself.

These are copied, at any depth, if they can change: lists, dicts and other containers of Python's
own, named tuples, dataclasses without an own way to be copied, bytearrays, arrays and memoryviews.
Objects that cannot change, objects that tasks returned, objects of other classes, and arrays in a
mapped file are passed on as they are.

Arrays that are read-only for a call, its copies or the program's own, are in `Frozen` until the
call is done. A reader of such an array, another task say, must not conclude that it never changes.
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
    numpy = sys.modules.get("numpy")  # a program with an array has imported it
    return numpy is not None and isinstance(value, numpy.ndarray)


def shows_memory(value: Any) -> bool:
    return isinstance(value, memoryview) or is_array(value)


def _find_root(value: Any) -> Any:
    """Returns the largest array that `value` is a part of."""
    while is_array(value.base):
        value = value.base
    return value


def in_mapped_file(value: Any) -> bool:
    """Returns whether an array or a memoryview shows a file or memory that processes share."""
    # The base of what NumPy's as_strided() returns is an object whose own base is the array.
    while shows_memory(value) or hasattr(value, "__array_interface__"):
        value = value.obj if isinstance(value, memoryview) else getattr(value, "base", None)
    if not isinstance(value, mmap.mmap):
        return False
    try:
        value.size()
    except OSError:  # anonymous memory has no size
        return False
    return True


class Frozen:
    """The arrays that are read-only for calls that are not done. Needs the runtime's lock."""

    def __init__(self) -> None:
        self._arrays: dict[int, _FrozenArray] = {}  # by id

    def changes(self, value: Any) -> bool:
        """Returns whether a value shows memory that may change, now or after it is thawed."""
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
        """Returns whether NumPy would let a frozen array become writable again."""
        root = _find_root(one)
        if root.base is None:
            return root.flags.writeable or id(root) in self._arrays
        try:
            return not memoryview(root.base).readonly
        except TypeError:  # an owner that does not show its memory
            return False

    def freeze(self, arrays: Iterable[Any]) -> list[int]:
        """Makes arrays read-only; returns the argument for thaw()."""
        frozen = []
        for one in arrays:
            root = _find_root(one)
            while is_array(one):  # the array, and all arrays that it is a part of
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
        """Releases the arrays of a call that is done. Arrays that the call returned and that are
        parts of frozen ones become writable with them."""
        numbers = frozen[::-1]  # the whole before its parts
        wholes = set(frozen) if returned else ()
        for one in returned:
            root = _find_root(one)
            if id(root) in wholes and id(one) not in self._arrays:
                self._arrays[id(one)] = _FrozenArray(one, id(root), 1)
                numbers.append(id(one))
        for number in numbers:
            known = self._arrays[number]
            known.calls -= 1
            if known.calls == 0:
                self._thaw_array(number, known)

    def _thaw_array(self, number: int, known: _FrozenArray) -> None:
        """Makes an array writable, but a part only after its whole, which other calls may need."""
        root = self._arrays.get(known.root)
        if root is not None and root.calls > 0:
            if root.parts is None:
                root.parts = set()
            root.parts.add(number)
            return
        try:  # noqa: SIM105 (suppress() takes longer than all the rest)
            known.array.setflags(write=True)
        except ValueError:  # its owner became read-only
            pass
        del self._arrays[number]
        for other in known.parts or ():
            part = self._arrays.get(other)
            if part is not None and part.calls == 0:
                self._thaw_array(other, part)


class _FrozenArray:
    __slots__ = ("array", "calls", "parts", "root")

    def __init__(self, array: Any, root: int, calls: int) -> None:
        self.array = array
        self.root = root  # the id of the whole
        self.calls = calls  # how many calls need it
        self.parts: set[int] | None = None  # ids of parts that no call needs any more


class Copier:
    """Copies what can change in the arguments of one call.

    Args:
        keep: ids of objects to pass on as they are, since this task or another one changes them.
        changing: ids of the arrays and memoryviews that can change.
        freezing: ids of the arrays to freeze instead of copying them.
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
        self.made = False  # whether there are copies, or arrays to be frozen
        self.windows: dict[int, int] = {}  # copies that show memory many times: bytes by id
        self.copies = Copies()

    def copy_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        return tuple(map(self._copy_value, args)), {
            name: self._copy_value(kwargs[name]) for name in kwargs
        }

    def _copy_value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _ATOMS or id(value) in self._keep:
            return value
        if id(value) in self._done:
            return self._done[id(value)][1]
        self._done[id(value)] = value, value  # for a container that contains itself
        if id(value) in self._changing:
            new = self._copy_memory(value)
        elif kind is bytearray or kind is array.array:
            new = self._note_copy(copy.copy(value))
        else:
            container = plain_container_of(kind)
            new = value if container is None else self._copy_container(value, container)
        self._done[id(value)] = value, new
        return new

    def _copy_memory(self, value: Any) -> Any:
        self.made = True
        if isinstance(value, memoryview):
            return _copy_read_only(value)
        if id(value) not in self._freezing:
            value = self._copy_array(value)
            if not self._guard:
                return value
        self.copies.arrays.append(value)
        return value

    def _copy_array(self, value: Any) -> Any:
        made = None if value.flags.forc else _copy_window(value)
        if made is None:
            return value.copy(order="K")
        self.windows[id(made)] = made.base.nbytes
        return made

    def _copy_container(self, value: Any, container: Any) -> Any:
        old = list(container.parts(value))
        new = old if _ATOMS.issuperset(map(type, old)) else [self._copy_value(part) for part in old]
        if isinstance(value, FIXED_CONTAINERS) and all(map(operator.is_, old, new)):
            return value
        made = container.rebuilt(value, new)
        self.copies.size += sys.getsizeof(made)
        return self._note_copy(made)

    def _note_copy(self, made: Any) -> Any:
        self.made = True
        if self._guard and not isinstance(made, (tuple, frozenset)):
            self.copies.guarded.append(made)
        return made


class Copies:
    """The copies that one call got. Of the program's objects it holds only arrays to be frozen."""

    __slots__ = ("_before", "arrays", "changed", "frozen", "guarded", "returned", "size")

    def __init__(self) -> None:
        self.size = 0  # bytes of containers
        self.arrays: list[Any] = []  # arrays to be frozen
        self.frozen: list[int] = []  # what Frozen.freeze() returned
        self.returned: list[Any] = []  # read-only arrays that the task returned
        self.guarded: list[Any] = []  # copies whose changes are detected
        # Of each guarded copy: how to look at its contents, and those when the task began.
        self._before: list[tuple[Any, Callable[[Any], object], object]] | None = None
        self.changed: str | None = None  # the type of a copy that the task changed

    def note_replaced(self, done: Replaced) -> None:
        """Notes that copies with futures were replaced by copies with their values."""
        self.guarded = [done.get(id(made), (made, made))[1] for made in self.guarded]

    def begin(self) -> bool:
        """Looks at the copies before the task runs. Before a further run, returns whether they are
        as they were before the first one."""
        if self._before is not None:
            return self.check()
        self._before = []
        for made in self.guarded:
            show = zlib.crc32 if container_of(type(made)) is None else _list_parts
            before = show(made)
            if _has_same_contents(
                show(made), before
            ):  # not for views that make new parts each time
                self._before.append((made, show, before))
        return True

    def check(self) -> bool:
        """Returns whether the copies are as they were when the task first began."""
        for made, show, before in self._before or ():
            if not _has_same_contents(show(made), before):
                self.changed = type(made).__name__
                return False
        return True

    def note_returned(self, value: Any) -> None:
        """Notes arrays in the task's value, which may be parts of arrays frozen for the task."""
        if self.arrays:
            container = container_of(type(value))
            parts = (value,) if container is None else tuple(container.parts(value))
            self.returned = [one for one in parts if is_array(one) and not one.flags.writeable]


def _copy_window(value: Any) -> Any:
    """Copies an array that shows its memory many times, as broadcast_to() and sliding_window_view()
    make them: returns such a view of a copy of the memory. Returns None for other arrays."""
    numpy = sys.modules["numpy"]
    if type(value) is not numpy.ndarray or value.dtype.hasobject:
        return None
    item, steps = value.itemsize, value.strides
    span = item + sum((n - 1) * step for n, step in zip(value.shape, steps, strict=True))
    if value.nbytes <= span or any(step < 0 or step % item for step in steps):
        return None
    memory = numpy.lib.stride_tricks.as_strided(value, (span // item,), (item,)).copy()
    return numpy.ndarray(value.shape, value.dtype, memory, 0, steps)


def _copy_read_only(shown: memoryview) -> memoryview:
    """Copies the bytes of a memoryview, read-only, with its format and shape where possible."""
    if shown.nbytes == 0:
        return shown.toreadonly()  # it holds nothing that could change
    for way in (_copy_by_cast, _copy_by_numpy):
        with contextlib.suppress(Exception):
            return way(shown)
    return memoryview(shown.tobytes())


def _copy_by_cast(shown: memoryview) -> memoryview:
    """Copies a memoryview whose format has this machine's byte order, which ctypes states."""
    bytes_of: Any = memoryview(shown.tobytes())  # Any: the stub knows fewer formats and shapes
    cast: memoryview = bytes_of.cast(shown.format.lstrip(_HERE), shown.shape)
    if cast.itemsize != shown.itemsize:
        raise ValueError(shown.format)
    return cast


_HERE = "<" if sys.byteorder == "little" else ">"


def _copy_by_numpy(shown: memoryview) -> memoryview:
    copied: memoryview = memoryview(sys.modules["numpy"].array(shown, order="C"))
    return copied.toreadonly()


def _list_parts(value: Any) -> list[Any]:
    """Returns the parts themselves. Their ids would not do, since new objects may reuse them."""
    container = container_of(type(value))
    assert container is not None  # begin() checked that
    return list(container.parts(value))


def _has_same_contents(one: Any, other: Any) -> bool:
    if not isinstance(one, list):
        return bool(one == other)
    return len(one) == len(other) and all(map(operator.is_, one, other))
