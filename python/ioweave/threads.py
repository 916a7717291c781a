"""Threads that a runtime keeps beside those that run calls."""

from __future__ import annotations

import threading
from collections.abc import Callable


def started(loop: Callable[[], object], name: str) -> threading.Thread:
    """Starts a thread and returns it. The thread does not keep the interpreter from ending.

    Raises:
        RuntimeError: this machine has too many threads, or the interpreter ends (Python 3.12).
    """
    thread = threading.Thread(target=loop, name=f"ioweave-{name}", daemon=True)
    thread.start()
    return thread
