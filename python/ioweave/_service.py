"""The service of all files and flows that name none."""

from __future__ import annotations

import os

from . import _core

_default: _core.Service | None = None


def _drop_service() -> None:
    """Drops the parent's service in a forked child, where it has no threads."""
    global _default
    _default = None


os.register_at_fork(after_in_child=_drop_service)


def default_service() -> _core.Service:
    """Returns the service, and makes it at the first call. Two threads may each make one; one
    stays."""
    global _default
    service = _default
    if service is None:
        service = _default = _core.Service()
    return service
