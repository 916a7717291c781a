"""Replaces the contents of objects that tasks change: by those of a copy that a task changed
elsewhere, or, before a task is run again, by the contents that they had."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable
from typing import Any


def replacer(task: str, thing: Any) -> Callable[[Any], None]:
    """Returns a function that gives `thing` the contents of another object of its type.

    Raises:
        TypeError: its type has no contents that could be replaced.
    """
    if isinstance(thing, (list, bytearray)):
        return functools.partial(operator.setitem, thing, slice(None))
    if hasattr(thing, "__array_interface__"):
        return functools.partial(operator.setitem, thing, ...)
    if isinstance(thing, (dict, set)):
        return functools.partial(_replace_contents, thing)
    if hasattr(thing, "__dict__"):
        return lambda other: _replace_contents(vars(thing), vars(other))
    raise TypeError(
        f"task {task!r} changes an object of type {type(thing).__name__}, whose contents cannot be "
        "replaced by those of a copy: return the new value instead"
    )


def _replace_contents(thing: Any, contents: Any) -> None:
    thing.clear()
    thing.update(contents)


def update_in_place(task: str, old: Any, new: Any) -> None:
    """Gives `old` the contents of `new`, which another process made of a copy. So a task that
    changes an object has the same effect there as in a thread.

    Raises:
        TypeError: as replacer().
    """
    replacer(task, old)(new)


class Snapshot:
    """The contents that the objects which a task changes had before.

    Raises:
        TypeError: an object cannot be copied, or as replacer().
    """

    def __init__(self, task: str, things: list[Any]) -> None:
        self._replacers = [replacer(task, thing) for thing in things]
        try:
            self._contents = copy.deepcopy(things)
        except Exception as error:
            raise TypeError(
                f"task {task!r} changes an object that cannot be copied ({error}), and so cannot "
                "be restored after a run that fails: leave out retries and on_failure, or return "
                "the new value instead"
            ) from error

    def restore(self) -> None:
        contents = copy.deepcopy(self._contents)  # a copy: restore() may be called again
        for replace, content in zip(self._replacers, contents, strict=True):
            replace(content)
