"""The service of all files and flows that name none."""

from __future__ import annotations

import os
import threading

from . import _core

_lock = threading.Lock()
_default: _core.Service | None = None


def _drop_service() -> None:
    """Drops the parent's service in a forked child, where it has no threads."""
    global _default, _lock
    _lock = threading.Lock()
    _default = None


os.register_at_fork(after_in_child=_drop_service)


def default_service() -> _core.Service:
    """Returns the service, and makes it when it is first asked for."""
    global _default
    with _lock:
        if _default is None:
            _default = _core.Service()
        return _default
