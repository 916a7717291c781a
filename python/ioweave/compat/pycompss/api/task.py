"""`@task`: a function whose calls run as tasks."""

import functools
import inspect
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, overload

import ioweave
from ioweave import tasks

from .parameter import IN, INOUT, Parameter, Use, parameter_of

__all__ = ["task"]

# Options of @task that do not change the result: hints for COMPSs' scheduler or its caches.
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
# The values of on_failure, and those of ioweave.Task.on_failure.
_ON_FAILURE: dict[str, Literal["raise", "cancel", "ignore"]] = {
    "RETRY": "raise",
    "FAIL": "raise",
    "CANCEL_SUCCESSORS": "cancel",
    "IGNORE": "ignore",
}
_COMPSS_RETRIES = 2  # COMPSs submits a failed task twice more

_DIRECTIONS = {Use.IN: ioweave.In, Use.OUT: ioweave.Out, Use.INOUT: ioweave.InOut}


def number_of_returns(given: object) -> int:
    """Returns how many values `returns=` means: a number, a list of so many types, or one type."""
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
    """A task, with what `@constraint` and `@IO` above it add.

    Its attribute `task` is the ioweave.Task. It is made when somebody first asks for it, such as a
    worker process that looks it up by this name. The attribute `task+a+b` is the ioweave.Task for
    calls whose arguments a and b cannot change, although the task changes these parameters.
    """

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
        self._parameters = self._read_parameters(options)
        self._changes = _list_changed(function, self._parameters)
        self._warned: set[str] = set()

    def _read_parameters(self, options: dict[str, Any]) -> dict[str, Parameter]:
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

    def __getattr__(self, name: str) -> ioweave.Task:
        task, *fixed = name.split("+")
        if task != "task":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return vars(self).setdefault(name, self._build_task(name, fixed))  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the tasks, which are made anew elsewhere: Dask sends classes with methods."""
        return {name: it for name, it in vars(self).items() if not isinstance(it, ioweave.Task)}

    def _build_task(self, name: str, fixed: list[str]) -> ioweave.Task:
        function = self.function

        @functools.wraps(function)
        def body(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        body.__annotations__ = {
            name: Annotated[_choose_type(parameter), _DIRECTIONS[parameter.use]]
            for name, parameter in self._parameters.items()
            if parameter != IN and name not in fixed
        }
        body.__signature__ = _make_signature(function, body.__annotations__)  # type: ignore[attr-defined]
        task = ioweave.task(
            cpus=1 if self.is_io else self.cpus,
            returns=max(1, self._returns),
            name=function.__name__,
            retries=_COMPSS_RETRIES if self._on_failure == "RETRY" else 0,
            timeout=self._timeout,
        )(body)
        if self.is_io:
            bandwidth = self.storage_bandwidth
            policy = "none" if bandwidth is None else None  # as in PyCOMPSs, which does not wait
            task = ioweave.io(bandwidth=bandwidth, policy=policy)(task)
            task.needs_budget = False  # a program must not fail because a budget is not known
        task.on_failure = _ON_FAILURE[self._on_failure]
        task.guards_copies = False
        task.__qualname__ = f"{function.__qualname__}.{name}"
        return task

    def _find_fixed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """Returns the parameters that the task changes, but whose arguments cannot change.

        PyCOMPSs takes them as IN, too: the function can only bind its own name to another object.
        """
        if not self._changes:
            return []
        bound = self.task.bind(args, kwargs)
        bound.apply_defaults()
        fixed = [name for name in self._changes if tasks.immutable(bound.arguments[name])]
        for name in fixed:
            value = bound.arguments[name]
            if value is not None:
                self._warn_once(
                    name,
                    f"parameter {name!r} is {self._parameters[name].use.name}, but "
                    f"{type(value).__name__} cannot change in place: it is taken as IN, and "
                    "nobody sees what the task makes of it: return the new value",
                    stacklevel=4,
                )
        return fixed

    def _warn_once(self, about: str, text: str, *, stacklevel: int) -> None:
        if about not in self._warned:
            self._warned.add(about)
            warnings.warn(f"task {self.function.__name__!r}: {text}", stacklevel=stacklevel)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        runtime = tasks.active
        if runtime is not None and runtime._is_inside_task():
            return self.function(*args, **kwargs)  # as in PyCOMPSs
        if self.storage_bandwidth is not None and not self.is_io:
            self._warn_once(
                "storageBW=",
                "@constraint(storageBW=...) holds no bandwidth without @IO(): it is for I/O tasks",
                stacklevel=3,
            )
        name = "+".join(("task", *self._find_fixed(args, kwargs)))
        return getattr(self, name)(*args, **kwargs)


def _list_changed(
    function: Callable[..., Any], parameters: dict[str, Parameter]
) -> tuple[str, ...]:
    """Returns the parameters whose objects the task changes, without *args and **kwargs."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    known = inspect.signature(function).parameters
    return tuple(
        name
        for name, parameter in parameters.items()
        if parameter.use is not Use.IN and not parameter.is_file and known[name].kind not in several
    )


def _choose_type(parameter: Parameter) -> Any:
    if parameter.is_collection:
        return list[Path]
    return Path if parameter.is_file else object


def _make_signature(function: Callable[..., Any], annotations: dict[str, Any]) -> inspect.Signature:
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


def task_below(decorator: str, decorated: object) -> TaskFunction:
    """Returns the task below a decorator; raises TypeError if there is none."""
    if isinstance(decorated, TaskFunction):
        return decorated
    raise TypeError(f"{decorator} must stand above @task: {decorated!r} is not a task")


def from_environment(value: object) -> object:
    """Replaces "$NAME" and "${NAME}" by the environment's value, as PyCOMPSs does."""
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
