"""Worker processes: each belongs to a thread of the pool, which sends it a call and waits.

They are spawned, not forked: in a fork of a process with threads, locks may stay locked for ever. A
worker process finds a function by its module and name, and so imports the module anew. A program's
main module must therefore keep what it does under `if __name__ == "__main__":`.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import pickle
import signal
import sys
import traceback
import types
from typing import TYPE_CHECKING, Any

from .errors import WorkerDied
from .futures import Future
from .tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection


_BEGUN = b""  # the message of a worker process before it runs a task with a timeout


class RemoteError(Exception):
    """The traceback of an exception in a worker process, as text: the `__cause__` of that
    exception. It stands for the exception itself if that cannot be sent."""


class _Checker(pickle.Pickler):
    """Finds out whether something can be pickled once its futures have values."""

    def persistent_id(self, value: Any) -> Any:
        return 0 if type(value) is Future else None

    def reducer_override(self, value: Any) -> Any:
        named = isinstance(value, (type, types.FunctionType, Task))
        if named and value.__module__ == "__main__" and not _can_import_main():
            raise pickle.PicklingError(
                f"{value.__qualname__!r} is defined in a notebook, at a prompt, in `python -c` or "
                "in the __main__.py of a package, which a worker process cannot import"
            )
        return NotImplemented


def _can_import_main() -> bool:
    """Returns whether worker processes can import the program, as multiprocessing does."""
    main = sys.modules["__main__"]
    name: str | None = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:  # started by `python -m`; for a package this is its __main__.py
        return name.rpartition(".")[2] != "__main__"
    return os.path.isfile(getattr(main, "__file__", None) or "")  # noqa: PTH113


def _check_pickles(value: Any) -> None:
    # Large arrays are not copied (buffer_callback), since nobody reads what is written here.
    with io.BytesIO() as nowhere:
        _Checker(nowhere, protocol=5, buffer_callback=lambda _: False).dump(value)


def check_picklable(task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Checks that a call can be sent to another process.

    Raises:
        TypeError: the task or an argument cannot be sent; the text says which.
    """
    try:
        _check_pickles((task, args, kwargs))
        return
    except Exception:
        pass  # now find out which one
    way_out = "use Runtime(workers='threads')"
    try:
        _check_pickles(task)
    except Exception as error:
        raise TypeError(
            f"task {task.name!r} cannot be found by a worker process ({error}): define it at the "
            f"top of a module, a file of its own, under its own name, or {way_out}"
        ) from error
    for name, value in task.signature.bind(*args, **kwargs).arguments.items():
        try:
            _check_pickles(value)
        except Exception as error:
            raise TypeError(
                f"task {task.name!r}: argument {name!r} cannot be sent to a worker process "
                f"({error}): pass what it is made from, or {way_out}"
            ) from error


def pickle_call(task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Pickles a call for WorkerProcess.run().

    Raises:
        TypeError: as check_picklable().
    """
    try:
        payload = pickle.dumps((task, args, kwargs), protocol=5)
    except Exception:
        check_picklable(task, args, kwargs)
        raise
    if not _can_import_main() and b"__main__" in payload:
        check_picklable(task, args, kwargs)
    return payload


class WorkerProcess:
    """A process that runs one call at a time. One thread runs calls; another may kill()."""

    def __init__(self) -> None:
        import multiprocessing  # slow to import, and most programs have no worker processes

        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve_calls, args=(theirs,), name="ioweave-worker", daemon=True
        )
        self._process.start()
        theirs.close()
        self._killed: BaseException | None = None
        self.doomed = False  # it has ended or is about to: do not call run() any more
        self._served = False  # it has run a call
        self.ended_idle = False  # it ended between two calls, and never read the last one
        self.begun = False  # it has begun the last call, if the task has a timeout

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def run(self, payload: bytes, begun: Callable[[], None]) -> tuple[Any, list[Any]]:
        """Runs a call; returns its value, and the new contents of the objects that it changes.

        Args:
            payload: from pickle_call().
            begun: called when a task with a timeout begins, after the process has started and
                imports and arguments are loaded.

        Raises:
            WorkerDied: the process ended first; after kill(), the reason that it was given.
            Exception: what the task raised.
        """
        self.begun = False
        try:
            self._connection.send_bytes(payload)
            reply = self._connection.recv_bytes()
            if reply == _BEGUN:
                self.begun = True
                begun()
                reply = self._connection.recv_bytes()
        except (EOFError, OSError) as lost:
            self.doomed = True
            # A socket is reset if its other end was closed with something unread.
            self.ended_idle = self._served and isinstance(lost, ConnectionError)
            self._process.join()
            if self._killed is not None:
                raise self._killed from None
            raise WorkerDied(_describe_end(self._process.exitcode)) from None
        self._served = True
        value, written, error, text = pickle.loads(reply)
        if error is None:
            return value, written
        raise pickle.loads(error) from RemoteError(f"\n{text}")

    def kill(self, reason: BaseException) -> None:
        """Ends the process; run() raises `reason`."""
        self._killed = reason
        self.doomed = True
        self._process.kill()

    def close(self) -> None:
        """Lets the process end. It must be idle."""
        self._connection.close()
        self._process.join()


def _describe_end(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"the worker process was killed by {signal.Signals(-code).name}"
    return f"the worker process ended with exit code {code} before the task did"


def _serve_calls(connection: Connection) -> None:
    """The main loop of a worker process. It ends when the runtime's end of the pipe is closed."""
    import multiprocessing

    _die_with(multiprocessing.parent_process())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which decides
    # To the program this is a daemon process, so that it can end. Here tasks may start processes.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    while True:
        try:
            payload = connection.recv_bytes()
        except (EOFError, OSError):
            return
        reply = _run_payload(connection, payload)
        try:
            connection.send_bytes(reply)
        except OSError:  # the program was killed
            return


_PR_SET_PDEATHSIG = 1


def _die_with(parent: Any) -> None:
    """Lets the kernel kill this process, however busy it is, when the program is killed.

    The kernel does so when the *thread* ends that started the process. That thread first waits for
    the end of the process (`Pool._loop`).
    """
    if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0 and (
        parent is not None and os.getppid() != parent.pid
    ):
        os._exit(1)  # the program was killed before


def _run_payload(connection: Connection, payload: bytes) -> bytes:
    try:
        task, args, kwargs = pickle.loads(payload)
        if task.timeout is not None:
            connection.send_bytes(_BEGUN)
        value = task.function(*args, **kwargs)
        written = task.written_objects(args, kwargs) if task.objects else []
    except BaseException as error:
        return _pack_error(error)
    try:
        return pickle.dumps((value, written, None, ""), protocol=5)
    except Exception as error:
        return _pack_error(
            TypeError(f"task {task.name!r}: its value cannot be sent to the program: {error}")
        )


def _pack_error(error: BaseException) -> bytes:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        sent = pickle.dumps(error, protocol=5)
        pickle.loads(sent)  # some exceptions can be pickled but not unpickled
    except Exception:
        sent = pickle.dumps(RemoteError(f"{type(error).__qualname__}: {error}"), protocol=5)
    return pickle.dumps((None, [], sent, text), protocol=5)
