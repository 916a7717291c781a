"""`@task`: a function whose calls run as tasks."""

import functools
import inspect
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, overload

import ioweave

from .parameter import IN, INOUT, Parameter, Use, parameter_of

__all__ = ["task"]

# Options of @task that change nothing of the result: hints for COMPSs' scheduler or its caches.
_HINTS = frozenset(
    {
        "cache_returns",
        "chunk_size",
        "computing_nodes",
        "defaults",
        "get_all",
        "is_distributed",
        "is_reduce",
        "is_replicated",
        "jvm_flags",
        "label",
        "numba",
        "numba_declaration",
        "numba_flags",
        "numba_signature",
        "priority",
        "process_per_node",
        "tracing_hook",
        "varargs_type",
    }
)
_ON_FAILURE = ("RETRY", "FAIL", "CANCEL_SUCCESSORS", "IGNORE")
_COMPSS_RETRIES = 2  # COMPSs submits a failed task twice more

_DIRECTIONS = {Use.IN: ioweave.In, Use.OUT: ioweave.Out, Use.INOUT: ioweave.InOut}


def number_of_returns(given: object) -> int:
    """What `returns=` means: a type or a value is one, a number or a list of types as many."""
    if given is None or given is False:
        return 0
    if isinstance(given, bool):
        return 1
    if isinstance(given, int):
        return given
    if isinstance(given, str) and given.isdecimal():
        return int(given)
    if isinstance(given, (tuple, list)):
        return len(given)
    return 1


class TaskFunction:
    """A task, with what `@constraint` and `@IO` above it add. Built when it is first called."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.is_io = False
        self.cpus = 1
        self.storage_bandwidth: float | str | None = None
        self._returns = number_of_returns(options.pop("returns", None))
        self._timeout = float(options.pop("time_out", options.pop("timeOut", 0))) or None
        self._on_failure = _on_failure(options.pop("on_failure", "RETRY"))
        self._target = parameter_of("target_direction", options.pop("target_direction", INOUT))
        self._parameters = self._parameters_of(options)
        self._submit: Callable[..., Any] | None = None

    def _parameters_of(self, options: dict[str, Any]) -> dict[str, Parameter]:
        known = inspect.signature(self.function).parameters
        found = {}
        for name, given in options.items():
            if name in known or name.lstrip("*") in known:
                found[name.lstrip("*")] = parameter_of(name, given)
            elif name in _HINTS:
                continue
            else:
                raise TypeError(
                    f"@task of {self.function.__qualname__}: {name!r} is neither one of its "
                    f"parameters ({', '.join(known)}) nor an option that is supported (returns, "
                    "on_failure, time_out, target_direction)"
                )
        if next(iter(known), None) == "self":
            found.setdefault("self", self._target)
        return found

    def _build(self) -> Callable[..., Any]:
        function = (
            _ignoring_failures(self.function) if self._on_failure == "IGNORE" else self.function
        )

        @functools.wraps(function)
        def body(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        body.__annotations__ = {
            name: Annotated[_type_of(parameter), _DIRECTIONS[parameter.use]]
            for name, parameter in self._parameters.items()
            if parameter != IN
        }
        body.__signature__ = _signature(self.function, body.__annotations__)  # type: ignore[attr-defined]
        options: dict[str, Any] = {
            "name": self.function.__name__,
            "retries": _COMPSS_RETRIES if self._on_failure == "RETRY" else 0,
            "timeout": self._timeout,
        }
        task = ioweave.task(
            cpus=1 if self.is_io else self.cpus, returns=max(1, self._returns), **options
        )(body)
        if not self.is_io:
            return task
        if self.storage_bandwidth is None:  # PyCOMPSs: it is not held back
            return ioweave.io(policy="none")(task)
        return ioweave.io(bandwidth=self.storage_bandwidth)(task)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._submit is None:
            self._submit = self._build()
        return self._submit(*args, **kwargs)


def _type_of(parameter: Parameter) -> Any:
    if parameter.is_collection:
        return list[Path]
    return Path if parameter.is_file else object


def _signature(function: Callable[..., Any], annotations: dict[str, Any]) -> inspect.Signature:
    signature = inspect.signature(function)
    return signature.replace(
        parameters=[
            parameter.replace(annotation=annotations.get(name, inspect.Parameter.empty))
            for name, parameter in signature.parameters.items()
        ],
        return_annotation=inspect.Signature.empty,
    )


def _on_failure(given: object) -> str:
    if given not in _ON_FAILURE:
        raise ValueError(
            f"@task: on_failure must be one of {', '.join(_ON_FAILURE)}, not {given!r}"
        )
    return str(given)


def _ignoring_failures(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def ignoring(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            warnings.warn(
                f"task {function.__name__} failed, on_failure=IGNORE: {error!r}", stacklevel=2
            )
            return None

    return ignoring


def task_below(decorator: str, decorated: object) -> TaskFunction:
    """The task that a decorator stands above; TypeError where there is none."""
    if isinstance(decorated, TaskFunction):
        return decorated
    raise TypeError(f"{decorator} must stand above @task: {decorated!r} is not a task")


def from_environment(value: object) -> object:
    """PyCOMPSs replaces "$NAME" and "${NAME}" by the environment's value."""
    return os.path.expandvars(value) if isinstance(value, str) else value


@overload
def task(function: Callable[..., Any], /) -> TaskFunction: ...
@overload
def task(**options: Any) -> Callable[[Callable[..., Any]], TaskFunction]: ...
def task(*args: Any, **options: Any) -> Any:
    """`@task()` or `@task(returns=int, parameter=FILE_IN, ...)`, as in PyCOMPSs."""
    if len(args) == 1 and callable(args[0]) and not options:
        return TaskFunction(args[0], {})
    if args:
        raise TypeError("@task takes its options by name")
    return lambda function: TaskFunction(function, dict(options))
