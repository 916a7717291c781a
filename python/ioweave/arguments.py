"""The arguments of a call: the futures in them, the bytes they hold, and a short text of them."""

from __future__ import annotations

import array
import contextlib
import copy
import dataclasses
import datetime
import functools
import mmap
import pathlib
import reprlib
import types
from collections.abc import Callable, Iterable
from typing import Any

from ._request import Request
from .futures import Future

# Types whose values hold no futures, do not change, and hold few bytes. Looked up by exact type.
ATOMS: frozenset[type] = frozenset(
    {
        *(int, float, complex, bool, str, type(None), type(...), range, slice, type),
        *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType, functools.partial),
        *(pathlib.PosixPath, pathlib.PurePosixPath, datetime.datetime, datetime.date),
        *(datetime.timedelta,),
    }
)
_CONTAINERS: frozenset[type] = frozenset({list, tuple, dict, set, frozenset})


class Found:
    """What examine() found in some arguments."""

    __slots__ = ("bytes", "futures", "held", "objects", "requests")

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []
        self.requests: list[Request[Any]] = []
        self.bytes = 0  # of buffers and arrays, whatever their owner
        self.held: dict[int, int] = {}  # the same by id: each once
        self.objects: list[Any] = []  # all that could change, containers too


def examine(values: Iterable[Any]) -> Found:
    """Looks through the values and, inside lists, tuples, dicts, sets and dataclasses, theirs.

    Raises:
        ValueError: a container contains itself and futures, so they cannot be replaced by values.
    """
    found = Found()
    if _examine(values, found, set()) and (found.futures or found.requests):
        raise ValueError(
            "an argument contains itself and futures, which cannot be replaced by their values: "
            "pass the futures beside it"
        )
    return found


def _examine(values: Iterable[Any], found: Found, inside: set[int]) -> bool:
    """Whether a container contains itself; `inside` holds the ids of those being looked through."""
    cyclic = False
    for value in values:
        kind = type(value)
        if kind in ATOMS:
            continue
        if kind is Future:
            found.futures.append(value)
            continue
        if kind is Request:
            found.requests.append(value)
            continue
        found.objects.append(value)
        parts = _parts(value, kind)
        if parts is None:
            size = _size(value)
            if size:
                found.bytes += size
                found.held[id(value)] = size
        elif id(value) in inside:
            cyclic = True
        elif not ATOMS.issuperset(map(type, parts)):  # at the speed of C for a list of numbers
            inside.add(id(value))
            cyclic |= _examine(parts, found, inside)
            inside.discard(id(value))
    return cyclic


def _parts(value: Any, kind: type) -> Iterable[Any] | None:
    """What a container holds; None if it is none."""
    if kind in _CONTAINERS:
        parts: Iterable[Any] = (*value.keys(), *value.values()) if kind is dict else value
        return parts
    if isinstance(value, tuple) and hasattr(value, "_make"):  # a named one
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return None


def held_by(values: Iterable[Any]) -> dict[int, int]:
    """The bytes of those values that are buffers or arrays, or containers of such, by id. It looks
    no deeper: what tasks return may be millions of objects."""
    held: dict[int, int] = {}
    for value in values:
        parts = _parts(value, type(value))
        for part in (value,) if parts is None else tuple(parts):
            size = 0 if type(part) in ATOMS else _size(part)
            if size:
                held[id(part)] = size
    return held


def _size(value: Any) -> int:
    if isinstance(value, (bytes, bytearray, mmap.mmap)):
        return len(value)
    if isinstance(value, array.array):
        return len(value) * value.itemsize
    try:
        size = getattr(value, "nbytes", 0)  # memoryview, numpy, torch
    except Exception:  # of an array that is closed, say
        return 0
    return size if type(size) is int else 0


def replace_futures(value: Any, value_of: Callable[[Future[Any]], Any]) -> Any:
    """The value with futures replaced; a container without futures is itself, not a copy."""
    return _replace(value, Future, value_of, {})


def replace_requests(value: Any, value_of: Callable[[Request[Any]], Any]) -> Any:
    """The same for requests."""
    return _replace(value, Request, value_of, {})


def _replace(value: Any, wanted: type, value_of: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is wanted:
        return value_of(value)
    if id(value) in done:
        return done[id(value)]
    done[id(value)] = value  # for one that contains itself, which holds no futures
    parts = _parts(value, kind)
    if parts is None or ATOMS.issuperset(map(type, parts)):
        return value
    old = list(parts)
    new = [_replace(part, wanted, value_of, done) for part in old]
    if any(a is not b for a, b in zip(old, new, strict=True)):
        done[id(value)] = _rebuilt(value, kind, new)
    return done[id(value)]


def _rebuilt(value: Any, kind: type, parts: list[Any]) -> Any:
    if kind is dict:
        half = len(parts) // 2
        return dict(zip(parts[:half], parts[half:], strict=True))
    if kind in _CONTAINERS:
        return kind(parts)
    if isinstance(value, tuple):
        return kind._make(parts)  # type: ignore[attr-defined]
    new = copy.copy(value)
    for field, part in zip(dataclasses.fields(value), parts, strict=True):
        if hasattr(value, field.name):
            object.__setattr__(new, field.name, part)  # a frozen one too; it is nobody's yet
    return new


class _Short(reprlib.Repr):
    """Paths are whole: which file it was is what one wants to know. It raises nothing."""

    def repr1(self, x: Any, level: int) -> str:
        # By the name of its type, which may be another's: then what it says itself, if it does.
        for way in (super().repr1, self.repr_instance):
            with contextlib.suppress(BaseException):
                return way(x, level)
        return f"<{type(x).__name__}>"

    def repr_PosixPath(self, path: pathlib.PosixPath, level: int) -> str:  # by the name of the type
        return repr(path)


_short = _Short()
_short.maxstring = 80
_short.maxother = 32
_short.maxlist = _short.maxtuple = _short.maxset = _short.maxdict = 3
_short.maxlevel = 2


def describe(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The call as a short text: `checkpoint('/tmp/a', block=[1, 2, 3, ...])`.

    It may run the arguments' `__repr__`, whatever that raises: hold no lock.
    """
    texts = [_short.repr(value) for value in args]
    texts += [f"{key}={_short.repr(value)}" for key, value in kwargs.items()]
    text = printable(", ".join(texts))
    return f"{name}({text if len(text) <= 240 else text[:237] + '...'})"


def printable(text: str) -> str:
    """The text without what a terminal would obey, or a picture could not hold."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
