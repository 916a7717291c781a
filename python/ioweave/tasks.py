"""The decorators that make a function a task or an I/O task."""

from __future__ import annotations

import functools
import inspect
import os
import re
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, overload

from .arguments import examine
from .constraints import Constraint, constraint_of
from .graph import Direction, Key, file_key
from .numeric import MOST_BYTES, real, whole

if typing.TYPE_CHECKING:
    from .runtime import Runtime

# The runtime that was started and not closed. At most one in a process; only Runtime.start() and
# close() change it.
active: Runtime | None = None


class Task:
    """A function whose calls a runtime schedules. Immutable; made by `task` and `io`.

    Calling it while a runtime is active returns a Future, or a tuple of n futures with `returns=n`.
    Otherwise it calls the function and returns its value. Attributes are the options of the
    decorators.
    """

    some_change_objects: typing.ClassVar[bool] = False  # whether any task of this process does

    # What happens to a call whose last run failed: "raise": the failure is raised; "ignore": its
    # value is None and it does not count as failed; "cancel": it is treated as cancelled. Set by
    # ioweave.compat.pycompss.
    on_failure: Literal["raise", "ignore", "cancel"] = "raise"

    # Whether a fixed bandwidth on a device without a budget is an error; otherwise it is a warning.
    # Set by ioweave.compat.pycompss.
    needs_budget: bool = True

    # Whether it is an error that a task changes a copy that it got, since nobody would see the
    # change. Not so in ioweave.compat.pycompss, where arguments always are copies.
    guards_copies: bool = True

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        cpus: int,
        retries: int,
        timeout: float | None,
        name: str | None,
        returns: int,
        constraint: Constraint | None = None,
        device: str = "default",
        bytes: int | Callable[..., int] | None = None,
        arguments: str | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name: str = name or function.__name__
        self.cpus = cpus  # 0 for an I/O task
        self.retries = retries
        self.timeout = timeout
        self.returns = returns
        self.constraint = constraint  # None: not an I/O task
        self.device = device
        self.bytes = bytes
        self.arguments = arguments  # None: as the runtime says
        self.signature = inspect.signature(function)
        self.positional = _count_positional(self.signature)
        self.files, self.objects = _find_directions(function, self.signature)
        if any(direction is not Direction.In for direction in self.objects.values()):
            Task.some_change_objects = True

    @property
    def key(self) -> str:
        """The name of the task between runs; what policies learn for it is kept under this name."""
        return f"{self.function.__module__}:{self.function.__qualname__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        runtime = active
        if runtime is None:
            return self.function(*args, **kwargs)
        return runtime.submit(self, args, kwargs)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Returns the arguments by the names of the parameters.

        Raises:
            TypeError: they do not fit the function.
        """
        try:
            return self.signature.bind(*args, **kwargs)
        except TypeError as error:
            hint = ""
            if next(iter(self.signature.parameters), "") == "self":
                hint = " (a method gets no self as a task: make it a function of its object)"
            raise TypeError(f"task {self.name!r}: {error}{hint}") from None

    def bytes_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Returns the bytes that a call of this I/O task moves. The arguments hold no futures."""
        given: Any = self.bytes
        if given is None:
            given = examine((*args, *kwargs.values())).bytes
        elif callable(given):
            given = given(*args, **kwargs)
        size = whole(given)
        if size is None or not 0 <= size <= MOST_BYTES:
            raise ValueError(
                f"task {self.name!r}: bytes must give a whole number of bytes, 0 to 2^63 - 1, not "
                f"{given!r}"
            )
        return size

    def accesses(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[Key, tuple[Any, Direction]]:
        """Returns what a call uses by its annotated parameters: files by absolute path, objects by
        id.

        Raises:
            TypeError: a parameter for a file got something else, or a parameter for an object that
                is written got something that cannot change in place.
        """
        used: dict[Key, tuple[Any, Direction]] = {}
        bound = self.bind(args, kwargs)
        bound.apply_defaults()
        for parameter, direction in self.files.items():
            for path in self._list_paths(parameter, bound.arguments[parameter]):
                _merge(used, file_key(path), path, direction)
        for parameter, direction in self.objects.items():
            for value in self._list_values(parameter, bound.arguments[parameter]):
                if direction is not Direction.In and immutable(value):
                    raise TypeError(
                        f"task {self.name!r}: {parameter!r} is {direction.name}, but "
                        f"{type(value).__name__} cannot change in place: return the new value"
                    )
                _merge(used, id(value), value, direction)
        return used

    def written_objects(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Returns the objects that a call changes, in the order of their parameters."""
        bound = self.bind(args, kwargs)
        bound.apply_defaults()
        return [
            value
            for parameter, direction in self.objects.items()
            if direction is not Direction.In
            for value in self._list_values(parameter, bound.arguments[parameter])
        ]

    def _list_values(self, parameter: str, value: Any) -> tuple[Any, ...]:
        kind = self.signature.parameters[parameter].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            return tuple(value)
        return tuple(value.values()) if kind is inspect.Parameter.VAR_KEYWORD else (value,)

    def _list_paths(self, parameter: str, value: Any) -> list[str]:
        paths: list[str] = []
        for item in self._list_values(parameter, value):
            for path in item if isinstance(item, (list, tuple)) else (item,):
                if path is None:
                    continue
                if not isinstance(path, (str, os.PathLike)):
                    raise TypeError(
                        f"task {self.name!r}: {parameter!r} names a file and needs a path when "
                        f"it is called, not {path!r}: the order of tasks depends on it"
                    )
                paths.append(os.fspath(path))
        return paths

    def __reduce__(self) -> str:
        return self.__qualname__  # unpickling finds it by name, like a function

    def __repr__(self) -> str:
        return f"<{'I/O task' if self.constraint else 'task'} {self.key}>"

    # Set by functools.update_wrapper.
    __qualname__: str


def _count_positional(signature: inspect.Signature) -> tuple[int, float]:
    """Returns the least and the most positional arguments with which a call certainly fits."""
    least = 0
    most: float = 0
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            most = float("inf")
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            if parameter.default is inspect.Parameter.empty:
                return 1, 0  # no number certainly fits: each call is checked
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            most += 1
            least += parameter.default is inspect.Parameter.empty
    return least, most


def _merge(
    used: dict[Key, tuple[Any, Direction]], key: Key, value: Any, direction: Direction
) -> None:
    if key in used and used[key][1] is not direction:
        direction = Direction.InOut
    used[key] = value, direction


def immutable(value: Any) -> bool:
    return isinstance(value, (int, float, complex, str, bytes, tuple, frozenset, type(None)))


def _find_directions(
    function: Callable[..., Any], signature: inspect.Signature
) -> tuple[dict[str, Direction], dict[str, Direction]]:
    """The directions of parameters that name files, and of those that are objects."""
    files: dict[str, Direction] = {}
    objects: dict[str, Direction] = {}
    for parameter in signature.parameters.values():
        hint = _find_hint(function, parameter)
        if typing.get_origin(hint) is not Annotated:
            continue
        kind, *marks = typing.get_args(hint)
        directions = [mark for mark in marks if isinstance(mark, Direction)]
        if len(directions) > 1:
            raise TypeError(
                f"task {function.__name__!r}: {parameter.name!r} has two directions: "
                "give one of In, Out and InOut"
            )
        if directions:
            (files if _names_files(kind) else objects)[parameter.name] = directions[0]
    return files, objects


def _find_hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    hint = parameter.annotation
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, getattr(function, "__globals__", {}))
    except Exception as error:
        if re.search(r"\b(In|Out|InOut)\b", hint):
            raise TypeError(
                f"task {function.__name__!r}: the annotation {hint!r} of {parameter.name!r} is "
                f"not understood ({error}): its names must be known in the module"
            ) from error
        return None  # somebody else's annotation: a name for type checkers only


def _names_files(kind: Any) -> bool:
    """Whether a type is a path, perhaps optional, or a list or tuple of paths."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType, list, tuple):
        parts = [part for part in typing.get_args(kind) if part not in (type(None), ...)]
        return bool(parts) and all(map(_names_files, parts))
    kind = origin or kind
    return isinstance(kind, type) and (kind is str or issubclass(kind, os.PathLike))


def _check_function(thing: Any) -> Callable[..., Any]:
    if isinstance(thing, Task):
        raise TypeError(
            f"task {thing.name!r} is a task already: use one decorator for a function, or "
            "@ioweave.io above @ioweave.task"
        )
    if not callable(thing):
        raise TypeError(f"a task is made from a function, not from {thing!r}")
    for test in (inspect.iscoroutinefunction, inspect.isgeneratorfunction):
        if test(thing):
            raise TypeError(
                f"task {thing.__name__!r}: a function with async or yield cannot be a task: "
                "write a plain one and await its future"
            )
    return thing  # type: ignore[no-any-return]


def _check_options(
    function: Callable[..., Any],
    *,
    cpus: int,
    retries: int,
    timeout: float | None,
    returns: int,
    name: str | None,
    arguments: str | None,
) -> dict[str, Any]:
    """Checks the options; returns them with Python's own numbers."""

    def refuse(option: str, value: object, wanted: str) -> ValueError:
        return ValueError(f"task {function.__name__!r}: {option} must be {wanted}, not {value!r}")

    if name is not None and not (isinstance(name, str) and name and name.isprintable()):
        raise refuse("name", name, "text that can be printed")
    if arguments not in (None, "snapshot", "freeze", "share"):
        raise refuse("arguments", arguments, "'snapshot', 'freeze', 'share' or None")
    options: dict[str, Any] = {"timeout": None, "name": name, "arguments": arguments}
    for option, value, least in (
        ("cpus", cpus, 1),
        ("retries", retries, 0),
        ("returns", returns, 1),
    ):
        number = options[option] = whole(value)
        if number is None or number < least:
            raise refuse(option, value, f"a whole number from {least} on")
    if timeout is not None:
        seconds = options["timeout"] = real(timeout)
        if seconds is None or not seconds > 0:
            raise refuse("timeout", timeout, "seconds above 0, or None")
    return options


@overload
def task(function: Callable[..., Any], /) -> Task: ...
@overload
def task(
    *,
    cpus: int = 1,
    retries: int = 0,
    timeout: float | None = None,
    name: str | None = None,
    returns: int = 1,
    arguments: str | None = None,
) -> Callable[[Callable[..., Any]], Task]: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    cpus: int = 1,
    retries: int = 0,
    timeout: float | None = None,
    name: str | None = None,
    returns: int = 1,
    arguments: str | None = None,
) -> Task | Callable[[Callable[..., Any]], Task]:
    """Makes a function a task that computes.

    Args:
        function: what to run.
        cpus: slots of the runtime that a call takes while it runs.
        retries: how often a call that fails is run again.
        timeout: seconds that one run may take; after that the call fails with TaskTimeout.
        name: the task's name in messages; None: the function's name.
        returns: how many values the function returns; a call returns as many futures.
        arguments: "snapshot", "freeze" or "share" what the program may change after the call
            (`copies.py`); None: as the runtime says.

    Raises:
        TypeError: this is not a plain function, or an annotation is wrong.
        ValueError: an option is out of bounds.
    """

    def make(function: Callable[..., Any]) -> Task:
        function = _check_function(function)
        options = _check_options(
            function,
            cpus=cpus,
            retries=retries,
            timeout=timeout,
            returns=returns,
            name=name,
            arguments=arguments,
        )
        return Task(function, **options)

    return make if function is None else make(function)


@overload
def io(function: Callable[..., Any], /) -> Task: ...
@overload
def io(
    *,
    bandwidth: float | str | None = None,
    device: str | None = None,
    policy: str | None = None,
    bytes: int | Callable[..., int] | None = None,
    retries: int = 0,
    timeout: float | None = None,
    name: str | None = None,
    arguments: str | None = None,
) -> Callable[[Callable[..., Any]], Task]: ...
def io(
    function: Callable[..., Any] | None = None,
    /,
    *,
    bandwidth: float | str | None = None,
    device: str | None = None,
    policy: str | None = None,
    bytes: int | Callable[..., int] | None = None,
    retries: int = 0,
    timeout: float | None = None,
    name: str | None = None,
    arguments: str | None = None,
) -> Task | Callable[[Callable[..., Any]], Task]:
    """Makes a function a task that only reads or writes storage; it takes no CPU slot.

    The policy of its device says when a call starts. The decorator may stand above `@ioweave.task`,
    whose retries, timeout, name and returns then count if they are not given here.

    Args:
        function: what to run.
        bandwidth: MB/s of its device's budget that a call holds while it runs: a number; "auto" or
            "auto(min,max,delta)", which find the number while running, as in the paper; None: see
            `policy`.
        device: the name of a device of the runtime or of ioweave.toml; None: "default".
        policy: "none", "fixed", "paper-unbounded", "paper-bounded", or "climb" (default), which
            measures the device and needs no number.
        bytes: the bytes that a call moves, or a function of its arguments that returns them; None:
            the size of the buffers and arrays among the arguments.
        retries, timeout, name, arguments: as for `task`.

    Raises:
        TypeError: this is not a plain function, or an annotation is wrong.
        ValueError: `bandwidth` is malformed or contradicts `policy`, or another option is wrong.
    """

    def make(thing: Callable[..., Any] | Task) -> Task:
        # _check_function() refuses a task that is an I/O task already.
        inner = thing if isinstance(thing, Task) and thing.constraint is None else None
        if inner is not None and inner.cpus != 1:
            raise ValueError(
                f"task {inner.name!r}: an I/O task takes no CPU slot: leave cpus={inner.cpus} out"
            )
        function = inner.function if inner else _check_function(thing)
        options = _check_options(
            function,
            cpus=1,
            retries=retries or (inner.retries if inner else 0),
            timeout=timeout if timeout is not None or inner is None else inner.timeout,
            returns=inner.returns if inner else 1,
            name=name if name is not None or inner is None else inner.name,
            arguments=arguments if arguments is not None or inner is None else inner.arguments,
        )
        size = bytes if bytes is None or callable(bytes) else whole(bytes)
        out_of_range = isinstance(size, int) and not 0 <= size <= MOST_BYTES
        if (size is None and bytes is not None) or out_of_range:
            raise ValueError(
                f"task {function.__name__!r}: bytes must be a whole number, 0 to 2^63 - 1, or a "
                f"function of the arguments, not {bytes!r}"
            )
        if device is not None and (not isinstance(device, str) or not device):
            raise ValueError(
                f"task {function.__name__!r}: device must be the name of a device, as in "
                f"device='scratch', not {device!r}: Runtime(devices=[...]) describes it"
            )
        try:
            constraint = constraint_of(bandwidth, policy)
        except ValueError as error:
            raise ValueError(f"task {function.__name__!r}: {error}") from None
        return Task(
            function,
            **{**options, "cpus": 0},
            constraint=constraint,
            device="default" if device is None else device,
            bytes=size,
        )

    return make if function is None else make(function)
