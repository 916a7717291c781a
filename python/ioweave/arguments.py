"""The arguments of a call: the futures in them, the bytes they hold, and a short text of them."""

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

# Types whose values hold no futures, do not change, and hold few bytes. Looked up by exact type.
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
    """What values of a type hold, and how one of them becomes one that holds other parts."""

    parts: Callable[[Any], Collection[Any]]
    rebuilt: Callable[[Any, list[Any]], Any]


def _itself(value: Any) -> Any:
    return value


def _keys_and_values(value: Any) -> tuple[Any, ...]:
    return (*value.keys(), *value.values())


def _dict_of(parts: list[Any]) -> dict[Any, Any]:
    half = len(parts) // 2
    return dict(zip(parts[:half], parts[half:], strict=True))


def _copy(value: Any) -> Any:
    """Another object of its type, with what else it has: a default factory, a length."""
    new = copy.copy(value)
    if new is value:
        raise TypeError(
            f"an argument of type {type(value).__name__} holds futures, which cannot be replaced "
            "by their values, since its copy is itself: pass the futures beside it"
        )
    return new


_BARE = (list, dict, set)  # with nothing but their parts


def _refilled(
    base: Any, fill: Callable[[Any, list[Any]], object]
) -> Callable[[Any, list[Any]], Any]:
    """By methods of the base, since those of the type may reach what its copies share."""

    def rebuilt(value: Any, parts: list[Any]) -> Any:
        if type(value) in _BARE:
            new = base()
        else:
            new = _copy(value)
            base.clear(new)
        fill(new, parts)
        return new

    return rebuilt


def _set_items(new: Any, parts: list[Any]) -> None:
    for key, part in _dict_of(parts).items():
        collections.OrderedDict.__setitem__(new, key, part)


def _made_again(base: type) -> Callable[[Any, list[Any]], Any]:
    """Without the type's own __new__, which may take something else than the parts."""

    def rebuilt(value: Any, parts: list[Any]) -> Any:
        new: Any = base.__new__(type(value), parts)
        if hasattr(value, "__dict__"):
            new.__dict__.update(value.__dict__)
        return new

    return rebuilt


def _partial_of(value: Any, parts: list[Any]) -> Any:
    function, *given = parts
    number = len(value.args)
    named = dict(zip(value.keywords, given[number:], strict=True))
    return type(value)(function, *given[:number], **named)


# By type; those of subclasses are likewise.
_BASES: dict[type, _Container] = {
    list: _Container(_itself, _refilled(list, list.extend)),
    tuple: _Container(_itself, _made_again(tuple)),
    collections.OrderedDict: _Container(
        _keys_and_values, _refilled(collections.OrderedDict, _set_items)
    ),
    dict: _Container(
        _keys_and_values, _refilled(dict, lambda new, parts: dict.update(new, _dict_of(parts)))
    ),
    set: _Container(_itself, _refilled(set, set.update)),
    frozenset: _Container(_itself, _made_again(frozenset)),
    collections.deque: _Container(_itself, _refilled(collections.deque, collections.deque.extend)),
    type({}.keys()): _Container(_itself, lambda _, parts: dict.fromkeys(parts).keys()),
    type({}.values()): _Container(_itself, lambda _, parts: dict(enumerate(parts)).values()),
    type({}.items()): _Container(_itself, lambda _, parts: dict(parts).items()),
    types.MappingProxyType: _Container(
        _keys_and_values, lambda _, parts: types.MappingProxyType(_dict_of(parts))
    ),
    functools.partial: _Container(
        lambda value: (value.func, *value.args, *value.keywords.values()), _partial_of
    ),
}
# Whose parts are their attributes, as those of a dataclass.
_RECORDS = (
    types.SimpleNamespace,
    collections.ChainMap,
    collections.UserDict,
    collections.UserList,
)


def _attributes(value: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(value):
        own: dict[str, Any] = vars(value)
        return own
    names = (field.name for field in dataclasses.fields(value))
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _with_attributes(value: Any, parts: list[Any]) -> Any:
    new = _copy(value)
    for name, part in zip(_attributes(value), parts, strict=True):
        object.__setattr__(new, name, part)  # a frozen one too; it is nobody's yet
    return new


_RECORD = _Container(lambda value: _attributes(value).values(), _with_attributes)


def _container_of(kind: type) -> _Container | None:
    if dataclasses.is_dataclass(kind) or issubclass(kind, _RECORDS):
        return _RECORD
    for base, container in _BASES.items():
        if issubclass(kind, base):
            return container
    return None


_container: Callable[[type], _Container | None] = functools.lru_cache(maxsize=1024)(_container_of)
container_of = _container
# Containers of Python's own: no code of the user's runs where one is copied.
_EXACT = {
    *_BASES,
    *_RECORDS,
    *(collections.defaultdict, collections.Counter),
}
_WAYS_TO_COPY = (
    *("__new__", "__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__"),
    *("__getstate__", "__setstate__"),
)


def _plain_container_of(kind: type) -> _Container | None:
    """That of a type which is surely copied by rebuilding it: one of Python's own, a named tuple,
    or a dataclass that says nothing about how it is made or copied."""
    named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    if kind in _EXACT or named_tuple or (dataclasses.is_dataclass(kind) and _says_nothing(kind)):
        return container_of(kind)
    return None


def _says_nothing(kind: type) -> bool:
    for name in _WAYS_TO_COPY:
        own, usual = getattr(kind, name, None), getattr(object, name, None)
        # With slots, and frozen, a dataclass gets two by its decorator.
        if own is not usual and getattr(own, "__module__", "") != "dataclasses":
            return False
    return True


plain_container_of: Callable[[type], _Container | None] = functools.lru_cache(maxsize=1024)(
    _plain_container_of
)
# That do not change themselves, though what they hold may.
FIXED_CONTAINERS = (tuple, frozenset, types.MappingProxyType, functools.partial)


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
    """Looks through the values and, inside containers (_BASES, _RECORDS) and dataclasses, theirs.

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
        container = _container(kind)
        if container is None:
            size = _size(value)
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
    """The bytes of those values that are buffers or arrays, or containers of such, by id. It looks
    no deeper: what tasks return may be millions of objects."""
    held: dict[int, int] = {}
    for value in values:
        container = _container(type(value))
        for part in (value,) if container is None else tuple(container.parts(value)):
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
    return max(0, size) if type(size) is int else 0


# Containers by id, which keep their ids so, and what stands in their place.
Replaced: TypeAlias = dict[int, tuple[Any, Any]]


def replace_futures(
    value: Any, value_of: Callable[[Future[Any]], Any], done: Replaced | None = None
) -> Any:
    """The value with futures replaced; a container without futures is itself, not a copy. `done`
    gets what became of containers."""
    return _replace(value, Future, value_of, {} if done is None else done)


def replace_requests(value: Any, value_of: Callable[[Request[Any]], Any]) -> Any:
    """The same for requests."""
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
    done[id(value)] = value, value  # for one that contains itself, which holds no futures
    old = list(container.parts(value))
    if not ATOMS.issuperset(map(type, old)):
        new = [_replace(part, wanted, value_of, done) for part in old]
        if any(a is not b for a, b in zip(old, new, strict=True)):
            done[id(value)] = value, container.rebuilt(value, new)
    return done[id(value)][1]


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
