"""The service that all share who name none."""

from __future__ import annotations

import os

from . import _core

_default: _core.Service | None = None


def _forget() -> None:
    """In a forked child: that of the parent has no threads here."""
    global _default
    _default = None


os.register_at_fork(after_in_child=_forget)


def default_service() -> _core.Service:
    """Made when it is first asked for. Two threads may each make one; one stays."""
    global _default
    service = _default
    if service is None:
        service = _default = _core.Service()
    return service
