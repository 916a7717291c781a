"""Reports of the scheduler to a client about its tasks, received at once and in order.

Dask's own callbacks of futures come late, in any order, and each costs a coroutine and a switch of
threads. So this wraps the handlers of the client's stream, which are not documented; `check_client`
raises if a version of Dask lacks them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from importlib.metadata import version
from types import TracebackType
from typing import Any

from distributed import Client, Future

from .protocol import TESTED

_HANDLERS = ("key-in-memory", "task-erred", "cancelled-keys")

Heard = Callable[[str, "BaseException | None", "TracebackType | None", Any], None]


def check_client(client: Client) -> None:
    """Checks that the client has what this module uses of its inside.

    Raises:
        RuntimeError: it has not; the text names what is missing.
    """
    handlers = getattr(client, "_stream_handlers", {})
    missing = [f"the handler of {name!r}" for name in _HANDLERS if name not in handlers]
    missing += [f"Client.{name}" for name in ("futures", "loop") if not hasattr(client, name)]
    if missing:
        raise RuntimeError(
            f"distributed {version('distributed')} has changed inside: {', '.join(missing)} of the "
            f"client is missing, which Ioweave needs. Install 'distributed>={TESTED[0]},"
            f"<{TESTED[1]}', or a newer Ioweave"
        )


class Reports:
    """Passes the reports of a client on to a runtime, on the thread of the client's event loop; a
    loss later, on a thread of Dask.

    Args:
        client: the client.
        heard: called with key, error and traceback (None: the task succeeded), and the type of the
            value, or the name that the worker has for it.
        lost: called with the reason after the client has given up all its futures: the cluster was
            restarted, or the connection is lost. The client may be connected again by then.
    """

    def __init__(self, client: Client, heard: Heard, lost: Callable[[str], None]) -> None:
        check_client(client)
        self._client = client
        self._heard = heard
        self._lost = lost
        self._open = True
        handlers = client._stream_handlers
        self._dasks: dict[str, Any] = {name: handlers[name] for name in _HANDLERS}
        ours: list[Any] = [self._handle_memory, self._handle_error, self._handle_cancel]
        self._ours: dict[str, Any] = dict(zip(_HANDLERS, ours, strict=True))
        handlers.update(self._ours)
        self._watch()

    def close(self) -> None:
        self._open = False
        self._watched.release()  # or a client that closes as the interpreter ends would call back
        handlers = self._client._stream_handlers
        for name, ours in self._ours.items():
            if handlers[name] == ours:
                handlers[name] = self._dasks[name]

    def _watch(self) -> None:
        """Makes a future without a task. It ends when the client gives all futures up."""
        self._watched: Future[Any] = Future(f"ioweave-watch-{uuid.uuid4().hex}", self._client)
        self._watched.add_done_callback(self._handle_release)

    def _handle_release(self, future: Future[Any]) -> None:
        if self._open:
            state: Any = future._state
            self._lost(str(state.exception))
            if self._client.status in ("running", "connecting"):
                self._watch()

    def _handle_memory(self, key: Any = None, **message: Any) -> None:
        self._dasks["key-in-memory"](key=key, **message)
        state = self._client.futures.get(key)
        if self._open and state is not None:
            self._heard(key, None, None, state.type)

    def _handle_error(self, key: Any = None, **message: Any) -> None:
        self._dasks["task-erred"](key=key, **message)
        state = self._client.futures.get(key)
        if self._open and state is not None:
            self._heard(key, state.exception, state.traceback, None)

    def _handle_cancel(self, keys: Any = (), **message: Any) -> None:
        self._dasks["cancelled-keys"](keys=keys, **message)
        for key in keys:
            state = self._client.futures.get(key)
            if self._open and state is not None:
                self._heard(key, state.exception, None, None)
