"""The arguments of a call: finding futures and bytes in them, and describing them in short."""

from __future__ import annotations

import array
import collections
import contextlib
import copy
import dataclasses
import datetime
import functools
import mmap
import pathlib
import reprlib
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias

from ._request import Request
from .futures import Future

# Types whose values hold no futures, never change, and hold few bytes. Looked up by exact type.
ATOMS: frozenset[type] = frozenset(
    {
        *(int, float, complex, bool, str, type(None), type(...), range, slice, type),
        *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
        *(pathlib.PosixPath, pathlib.PurePosixPath, datetime.datetime, datetime.date),
        *(datetime.timedelta,),
    }
)


@dataclasses.dataclass(frozen=True)
class _Container:
    """How to list the parts of a value of a type, and how to rebuild the value with other parts."""

    parts: Callable[[Any], Collection[Any]]
    rebuilt: Callable[[Any, list[Any]], Any]


def _return_itself(value: Any) -> Any:
    return value


def _list_keys_and_values(value: Any) -> tuple[Any, ...]:
    return (*value.keys(), *value.values())


def _make_dict(parts: list[Any]) -> dict[Any, Any]:
    half = len(parts) // 2
    return dict(zip(parts[:half], parts[half:], strict=True))


def _copy_object(value: Any) -> Any:
    """Copies an object with all that it has besides its parts: a default factory, a length."""
    new = copy.copy(value)
    if new is value:
        raise TypeError(
            f"an argument of type {type(value).__name__} holds futures, which cannot be replaced "
            "by their values, since its copy is itself: pass the futures beside it"
        )
    return new


_BARE = (list, dict, set)  # types with nothing but their parts


def _rebuild_by_filling(
    base: Any, fill: Callable[[Any, list[Any]], object]
) -> Callable[[Any, list[Any]], Any]:
    """Rebuilds by methods of the base: a method of the type may change what its copies share."""

    def rebuilt(value: Any, parts: list[Any]) -> Any:
        if type(value) in _BARE:
            new = base()
        else:
            new = _copy_object(value)
            base.clear(new)
        fill(new, parts)
        return new

    return rebuilt


def _set_items(new: Any, parts: list[Any]) -> None:
    for key, part in _make_dict(parts).items():
        collections.OrderedDict.__setitem__(new, key, part)


def _rebuild_by_new(base: type) -> Callable[[Any, list[Any]], Any]:
    """Rebuilds by the base's __new__, since the type's own may not take the parts."""

    def rebuilt(value: Any, parts: list[Any]) -> Any:
        new: Any = base.__new__(type(value), parts)
        if hasattr(value, "__dict__"):
            new.__dict__.update(value.__dict__)
        return new

    return rebuilt


def _rebuild_partial(value: Any, parts: list[Any]) -> Any:
    function, *given = parts
    number = len(value.args)
    named = dict(zip(value.keywords, given[number:], strict=True))
    return type(value)(function, *given[:number], **named)


# By type; subclasses are handled as their base.
_BASES: dict[type, _Container] = {
    list: _Container(_return_itself, _rebuild_by_filling(list, list.extend)),
    tuple: _Container(_return_itself, _rebuild_by_new(tuple)),
    collections.OrderedDict: _Container(
        _list_keys_and_values, _rebuild_by_filling(collections.OrderedDict, _set_items)
    ),
    dict: _Container(
        _list_keys_and_values,
        _rebuild_by_filling(dict, lambda new, parts: dict.update(new, _make_dict(parts))),
    ),
    set: _Container(_return_itself, _rebuild_by_filling(set, set.update)),
    frozenset: _Container(_return_itself, _rebuild_by_new(frozenset)),
    collections.deque: _Container(
        _return_itself, _rebuild_by_filling(collections.deque, collections.deque.extend)
    ),
    type({}.keys()): _Container(_return_itself, lambda _, parts: dict.fromkeys(parts).keys()),
    type({}.values()): _Container(_return_itself, lambda _, parts: dict(enumerate(parts)).values()),
    type({}.items()): _Container(_return_itself, lambda _, parts: dict(parts).items()),
    types.MappingProxyType: _Container(
        _list_keys_and_values, lambda _, parts: types.MappingProxyType(_make_dict(parts))
    ),
    functools.partial: _Container(
        lambda value: (value.func, *value.args, *value.keywords.values()), _rebuild_partial
    ),
}
# Types whose parts are their attributes, as those of a dataclass.
_RECORDS = (
    types.SimpleNamespace,
    collections.ChainMap,
    collections.UserDict,
    collections.UserList,
)


def _list_attributes(value: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(value):
        own: dict[str, Any] = vars(value)
        return own
    names = (field.name for field in dataclasses.fields(value))
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _set_attributes(value: Any, parts: list[Any]) -> Any:
    new = _copy_object(value)
    for name, part in zip(_list_attributes(value), parts, strict=True):
        object.__setattr__(new, name, part)  # works for frozen ones; nobody else has it yet
    return new


_RECORD = _Container(lambda value: _list_attributes(value).values(), _set_attributes)


def _find_container(kind: type) -> _Container | None:
    if dataclasses.is_dataclass(kind) or issubclass(kind, _RECORDS):
        return _RECORD
    for base, container in _BASES.items():
        if issubclass(kind, base):
            return container
    return None


_container: Callable[[type], _Container | None] = functools.lru_cache(maxsize=1024)(_find_container)
container_of = _container
# Containers of Python's own: copying one runs no code of the user's.
_EXACT = {
    *_BASES,
    *_RECORDS,
    *(collections.defaultdict, collections.Counter),
}
_WAYS_TO_COPY = (
    *("__new__", "__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__"),
    *("__getstate__", "__setstate__"),
)


def _find_plain_container(kind: type) -> _Container | None:
    """Returns the container of a type if rebuilding a value certainly copies it. That holds for
    types of Python's own, named tuples, and dataclasses without own ways to be made or copied."""
    named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    if kind in _EXACT or named_tuple or (dataclasses.is_dataclass(kind) and _copies_plainly(kind)):
        return container_of(kind)
    return None


def _copies_plainly(kind: type) -> bool:
    for name in _WAYS_TO_COPY:
        own, usual = getattr(kind, name, None), getattr(object, name, None)
        # The decorator adds two of these to a frozen dataclass with slots.
        if own is not usual and getattr(own, "__module__", "") != "dataclasses":
            return False
    return True


plain_container_of: Callable[[type], _Container | None] = functools.lru_cache(maxsize=1024)(
    _find_plain_container
)
# Containers that never change themselves, though what they hold may.
FIXED_CONTAINERS = (tuple, frozenset, types.MappingProxyType, functools.partial)


class Found:
    """What examine() found in some arguments."""

    __slots__ = ("bytes", "futures", "held", "objects", "requests")

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []
        self.requests: list[Request[Any]] = []
        self.bytes = 0  # bytes of buffers and arrays, counted each time they occur
        self.held: dict[int, int] = {}  # the bytes of each buffer or array, by id
        self.objects: list[Any] = []  # all objects that could change, containers included


def examine(values: Iterable[Any]) -> Found:
    """Looks through the values, and inside containers (_BASES, _RECORDS) and dataclasses.

    Raises:
        ValueError: a container contains itself and futures, which then cannot be replaced.
    """
    found = Found()
    if _examine(values, found, set()) and (found.futures or found.requests):
        raise ValueError(
            "an argument contains itself and futures, which cannot be replaced by their values: "
            "pass the futures beside it"
        )
    return found


def _examine(values: Iterable[Any], found: Found, inside: set[int]) -> bool:
    """Returns whether a container contains itself. `inside`: ids of the containers around."""
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
        container = _container(kind)
        if container is None:
            size = _measure_size(value)
            if size:
                found.bytes += size
                found.held[id(value)] = size
            continue
        if id(value) in inside:
            cyclic = True
            continue
        parts = container.parts(value)
        if not ATOMS.issuperset(map(type, parts)):  # at the speed of C for a list of numbers
            inside.add(id(value))
            cyclic |= _examine(parts, found, inside)
            inside.discard(id(value))
    return cyclic


def held_by(values: Iterable[Any]) -> dict[int, int]:
    """Returns the bytes of buffers and arrays by id: of the values, and of the parts of values that
    are containers. It looks no deeper, since tasks may return millions of objects."""
    held: dict[int, int] = {}
    for value in values:
        container = _container(type(value))
        for part in (value,) if container is None else tuple(container.parts(value)):
            size = 0 if type(part) in ATOMS else _measure_size(part)
            if size:
                held[id(part)] = size
    return held


def _measure_size(value: Any) -> int:
    if isinstance(value, (bytes, bytearray, mmap.mmap)):
        return len(value)
    if isinstance(value, array.array):
        return len(value) * value.itemsize
    try:
        size = getattr(value, "nbytes", 0)  # memoryview, numpy, torch
    except Exception:  # as an array that is closed may raise
        return 0
    return max(0, size) if type(size) is int else 0


# By id: a container, kept so that its id is not reused, and what replaces it.
Replaced: TypeAlias = dict[int, tuple[Any, Any]]


def replace_futures(
    value: Any, value_of: Callable[[Future[Any]], Any], done: Replaced | None = None
) -> Any:
    """Returns the value with its futures replaced. A container without futures is returned itself,
    not a copy. `done` receives what replaces each container."""
    return _replace(value, Future, value_of, {} if done is None else done)


def replace_requests(value: Any, value_of: Callable[[Request[Any]], Any]) -> Any:
    """Returns the value with its requests replaced, as replace_futures() does for futures."""
    return _replace(value, Request, value_of, {})


def _replace(value: Any, wanted: type, value_of: Callable[[Any], Any], done: Replaced) -> Any:
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is wanted:
        return value_of(value)
    container = _container(kind)
    if container is None:
        return value
    if id(value) in done:
        return done[id(value)][1]
    done[id(value)] = value, value  # a container that contains itself holds no futures
    old = list(container.parts(value))
    if not ATOMS.issuperset(map(type, old)):
        new = [_replace(part, wanted, value_of, done) for part in old]
        if any(a is not b for a, b in zip(old, new, strict=True)):
            done[id(value)] = value, container.rebuilt(value, new)
    return done[id(value)][1]


class _Short(reprlib.Repr):
    """Short texts of values. Paths stay whole, since they say which file it was. Never raises."""

    def repr1(self, x: Any, level: int) -> str:
        # reprlib chooses by the type's name. If that is another type's, the value's own repr().
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
    """Describes a call in a short text: `checkpoint('/tmp/a', block=[1, 2, 3, ...])`.

    It may run the arguments' `__repr__`, and passes no exception of theirs on. Hold no lock.
    """
    texts = [_short.repr(value) for value in args]
    texts += [f"{key}={_short.repr(value)}" for key, value in kwargs.items()]
    text = printable(", ".join(texts))
    return f"{name}({text if len(text) <= 240 else text[:237] + '...'})"


def printable(text: str) -> str:
    """Replaces characters that a terminal would obey, or that a picture could not show."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
