"""The calls of `pycompss.api.api`: waiting for tasks, files and groups."""

import contextlib
import functools
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

import ioweave
from ioweave.arguments import replace_futures
from ioweave.errors import GivenUp

__all__ = [
    "TaskGroup",
    "compss_barrier",
    "compss_barrier_group",
    "compss_delete_directory",
    "compss_delete_file",
    "compss_delete_object",
    "compss_file_exists",
    "compss_open",
    "compss_start",
    "compss_stop",
    "compss_wait_on",
    "compss_wait_on_directory",
    "compss_wait_on_file",
]

_NOT_THERE = (
    *("compss_agent_start", "compss_cancel_group", "compss_free_resources"),
    *("compss_get_number_of_resources", "compss_request_resources", "compss_set_wall_clock"),
    "compss_snapshot",
)

_log = logging.getLogger("ioweave")


@ioweave.io(policy="none", bytes=0)
def _claim(path: Annotated[Path, ioweave.Out]) -> None:
    """Ends when no task uses the file any more."""


@ioweave.io(policy="none", bytes=0)
def _delete(path: Annotated[Path, ioweave.Out]) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_given_up(error: ioweave.CancelledError) -> bool:
    """Returns whether a task with on_failure=CANCEL_SUCCESSORS caused it, which is no failure."""
    first = error.__cause__ if isinstance(error, ioweave.DependencyFailed) else error
    return isinstance(first, GivenUp)


def _replace_given_up(future: ioweave.Future[Any]) -> Any:
    try:
        future.result()
    except ioweave.CancelledError as error:
        return None if _is_given_up(error) else future
    except Exception:
        return future
    return future


def _wait_for_value(thing: Any) -> Any:
    """Waits for a value. Values of tasks that were given up become None."""
    try:
        return ioweave.wait(thing)
    except ioweave.CancelledError as error:
        if not _is_given_up(error):
            raise
        _log.warning("compss_wait_on() gives None: %s", error)
    rest = replace_futures(thing, _replace_given_up)
    return None if rest is thing else _wait_for_value(rest)


def _wait_for_file(path: object) -> Path:
    named = Path(str(path))
    try:
        ioweave.wait(named)
    except ioweave.CancelledError as error:
        if not _is_given_up(error):
            raise
    return named


def compss_wait_on(*objects: Any, mode: str = "rw", to_write: bool = True) -> Any:
    """Returns the values of futures, in lists and dictionaries too; for several arguments, a list.
    A value that was not made because of on_failure=CANCEL_SUCCESSORS is None."""
    values = [_wait_for_value(each) for each in objects]
    return values[0] if len(values) == 1 else values


def compss_wait_on_file(*paths: Any, mode: str = "rw") -> Any:
    """Waits for the tasks that write the files; returns their names as they were given."""
    for path in paths:
        _wait_for_file(path)
    return paths[0] if len(paths) == 1 else list(paths)


compss_wait_on_directory = compss_wait_on_file


def compss_open(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> IO[Any]:
    """open(), after the tasks that write the file; to write it, also after those that read it."""
    named = _wait_for_file(path)
    if set(mode) & set("wax+"):
        ioweave.wait(_claim(named))
    return named.open(mode, *args, **kwargs)


def compss_file_exists(*paths: Any) -> Any:
    """Returns whether the files exist after the tasks that write them."""
    found = [_wait_for_file(path).exists() for path in paths]
    return found[0] if len(found) == 1 else found


def compss_delete_file(*paths: Any) -> Any:
    """Deletes files once the tasks that use them have ended. Returns True for each."""
    for path in paths:
        _delete(Path(str(path)))
    return True if len(paths) == 1 else [True] * len(paths)


compss_delete_directory = compss_delete_file


def compss_delete_object(*objects: Any) -> Any:
    """Does nothing: Python deletes objects that nothing holds. Returns True for each."""
    return True if len(objects) == 1 else [True] * len(objects)


def compss_barrier(no_more_tasks: bool = False) -> None:
    """Waits for all tasks so far, and raises the first failure."""
    ioweave.barrier()


def compss_barrier_group(group_name: str) -> None:
    """Waits for all tasks so far, those of the group among them."""
    ioweave.barrier()


def compss_start(*args: Any, **kwargs: Any) -> None:
    """Does nothing: `python -m ioweave.compat.pycompss`, or ioweave.Runtime, starts the runtime."""


compss_stop = compss_start


@contextlib.contextmanager
def TaskGroup(name: str, implicit_barrier: bool = True, *_: Any, **__: Any) -> Iterator[None]:
    """Groups the tasks submitted inside. The barrier at its end waits for all tasks so far."""
    yield
    if implicit_barrier:
        ioweave.barrier()


_THERE = ", ".join(__all__)
__all__ += _NOT_THERE


def _describe_lack(name: str) -> str:
    return f"ioweave.compat.pycompss does not support {name}(). It has {_THERE}."


def _raise_not_there(name: str, *_: object, **__: object) -> None:
    raise NotImplementedError(_describe_lack(name))


# There for `import *`.
globals().update({name: functools.partial(_raise_not_there, name) for name in _NOT_THERE})


def __getattr__(name: str) -> Any:
    if name.startswith("compss_"):
        raise ImportError(_describe_lack(name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
