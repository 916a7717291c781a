"""A call of a task on its way to a worker, and on the worker.

The client pickles function and arguments itself. So what cannot be sent is refused where the task
is called, and futures are found at any depth that pickle reaches. Each future is replaced by the
number of a Dask input, whose value the worker puts in its place.
"""

from __future__ import annotations

import concurrent.futures
import contextvars
import copy
import functools
import importlib
import io
import pickle
import threading
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
from distributed import get_worker

from ..arguments import describe
from ..errors import TaskTimeout
from ..runtime import add_note, log_given_up, split_values
from ..tasks import Task
from .protocol import BYTES

# Whether the current thread runs a task; tasks that are called there are plain calls.
_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("ioweave_inside", default=False)


def is_inside_task() -> bool:
    return _inside.get()


class FailureIgnored(tuple[Any, ...]):
    """The values of a call whose failure is ignored. Dask tells the client their type."""

    __slots__ = ()


class TimeoutIgnored(FailureIgnored):
    __slots__ = ()


IGNORED = (FailureIgnored, TimeoutIgnored)
#: Types of unwrap_single values that are None; a worker that could not send a type sends its name.
NONE = (type(None), "NoneType", *IGNORED)


def unwrap_single(value: Any) -> Any:
    """Returns the value of a call that has one value."""
    return None if isinstance(value, FailureIgnored) else value


# ---- On the client. -----------------------------------------------------------------------------


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles all but the objects that `number_of` has a number for."""

    def __init__(self, file: io.BytesIO, number_of: Callable[[Any], object | None]) -> None:
        super().__init__(file, protocol=5)
        self.persistent_id = number_of

    def reducer_override(self, value: Any) -> Any:
        if type(value) is Task and not _is_found_by_name(value):
            return _make_blank_task, (), vars(value)
        return super().reducer_override(value)


def _make_blank_task() -> Task:
    return Task.__new__(Task)


def _is_found_by_name(task: Task) -> bool:
    """Returns whether a worker finds the task in the task's module."""
    if task.__module__ == "__main__":
        return False
    found: Any = importlib.import_module(task.__module__)
    for name in task.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is task


class _Packed(bytes):
    """Bytes with a short repr(), since Dask may put them into its messages."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


def _dump_value(value: Any, number_of: Callable[[Any], object | None]) -> bytes:
    with io.BytesIO() as file:
        _Pickler(file, number_of).dump(value)
        return _Packed(file.getvalue())


def dumps_task(task: Task) -> bytes:
    """Pickles a task.

    Raises:
        TypeError: the function refers to something that cannot be sent.
    """
    try:
        return _dump_value(task, lambda value: None)
    except Exception as error:
        raise TypeError(
            f"task {task.name!r} cannot be sent to a Dask worker ({error}): its function refers to "
            "something that cannot be pickled: define it at the top of a module that the workers "
            "can import, or make that object inside the function"
        ) from error


def dumps_arguments(
    task: Task,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    number_of: Callable[[Any], object | None],
) -> bytes:
    """Pickles the arguments, but those that `number_of` has a number for: (input, whether the task
    changes it).

    Raises:
        TypeError: an argument cannot be sent; the text says which.
    """
    try:
        return _dump_value((args, kwargs), number_of)
    except Exception as error:
        for name, value in task.signature.bind(*args, **kwargs).arguments.items():
            try:
                _dump_value(value, number_of)
            except Exception as reason:
                raise TypeError(
                    f"task {task.name!r}: argument {name!r} cannot be sent to a Dask worker "
                    f"({reason}): pass what it is made from"
                ) from error
        raise


# ---- On the worker. -----------------------------------------------------------------------------


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, inputs: tuple[Any, ...]) -> None:
        super().__init__(io.BytesIO(data))
        self._inputs = inputs
        self._copies: dict[int, Any] = {}

    def persistent_load(self, number: tuple[int, bool]) -> Any:
        index, changed = number
        if not changed:
            return unwrap_single(self._inputs[index])
        if index not in self._copies:  # a copy, since other tasks may read the old version
            self._copies[index] = copy.deepcopy(unwrap_single(self._inputs[index]))
        return self._copies[index]


@functools.lru_cache(maxsize=1000)
def _load_task(spec: bytes) -> Task:
    task: Task = pickle.loads(spec)
    return task


def run(spec: bytes, arguments: bytes, *inputs: Any) -> Any:
    """Runs a call; returns its value. A call with several values, or with objects that it changes,
    returns a tuple of them all, the objects last."""
    task = _load_task(spec)
    args, kwargs = _Unpickler(arguments, inputs).load()
    worker = get_worker()
    token = _inside.set(True)
    try:
        if task.constraint is not None and inputs and type(task.bytes) is not int:
            running = worker.state.tasks[worker.get_current_task()]
            running.metadata[BYTES] = task.bytes_of(args, kwargs)
        body = functools.partial(task.function, *args, **kwargs)
        try:
            value = body() if task.timeout is None else _run_with_timeout(task, body)
            values = split_values(task, value) if task.returns != 1 else (value,)
        except Exception as error:
            if task.on_failure != "ignore":
                raise
            log_given_up(task, error)
            kind = TimeoutIgnored if isinstance(error, TaskTimeout) else FailureIgnored
            was, kwargs = _Unpickler(arguments, inputs).load()  # as before the run that failed
            return kind((*(None,) * task.returns, *task.written_objects(was, kwargs)))
        if task.objects:
            values = (*values, *task.written_objects(args, kwargs))
        return value if len(values) == 1 else values
    except BaseException as error:
        host = worker.address.rpartition("/")[2].rpartition(":")[0]
        add_note(error, f"in task {describe(task.name, args, kwargs)} on node {host}")
        raise
    finally:
        _inside.reset(token)


def _run_with_timeout(task: Task, body: Callable[[], Any]) -> Any:
    """Runs the body on a thread, which is left to itself if it takes longer than the timeout."""
    outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def fill() -> None:
        try:
            outcome.set_result(body())
        except BaseException as error:
            outcome.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(fill,), daemon=True, name=task.name).start()
    try:
        return outcome.result(task.timeout)
    except concurrent.futures.TimeoutError:
        if outcome.done():
            raise  # raised by the body
        raise TaskTimeout(f"task {task.name} took longer than {task.timeout} s") from None
