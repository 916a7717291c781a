"""Threads that a runtime keeps beside those that run calls."""

from __future__ import annotations

import threading
from collections.abc import Callable


def started(loop: Callable[[], object], name: str) -> threading.Thread:
    """A thread that runs. It keeps no interpreter from ending.

    Who assigns it has none where it could not start, and may try again.

    Raises:
        RuntimeError: there are too many on this machine, or the interpreter ends (Python 3.12).
    """
    thread = threading.Thread(target=loop, name=f"ioweave-{name}", daemon=True)
    thread.start()
    return thread
