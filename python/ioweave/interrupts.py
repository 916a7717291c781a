"""Ctrl-C while a runtime is active.

A KeyboardInterrupt may come between any two steps of the main thread, and so leave a call that is
counted but in no queue, for which the end of the block would wait for ever. While a runtime is
active the signal is therefore held back as long as the main thread is inside the runtime's own
code, except where it waits (`block`), and raised when it leaves (`check`).

A handler of the program's own is left alone.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Interrupts:
    """The SIGINT handler of an active runtime. Belongs to the main thread.

    Args:
        guarded: files of code that must not be left half way.
    """

    def __init__(self, guarded: frozenset[str]) -> None:
        self._guarded = guarded
        self._installed = False
        self.held_back = False

    def install(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True

    def restore(self) -> None:
        """Also raises what was held back and not raised yet."""
        if self._installed and threading.current_thread() is threading.main_thread():
            self._installed = False
            if signal.getsignal(signal.SIGINT) == self._handle:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        self.check()

    def block(self, gate: threading.Lock, timeout: float | None = None) -> bool:
        """Waits until `gate` opens; False if it did not within `timeout` seconds. Here alone in the
        runtime's code Ctrl-C is raised at once."""
        self.check()
        if timeout is None:
            return gate.acquire()
        return gate.acquire(timeout=min(max(timeout, 0), threading.TIMEOUT_MAX))

    def check(self) -> None:
        """Raises the KeyboardInterrupt that was held back, on the main thread."""
        if self.held_back and threading.current_thread() is threading.main_thread():
            self.held_back = False
            raise KeyboardInterrupt

    def _handle(self, _signal: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code is not _BLOCK:
            if frame.f_code.co_filename in self._guarded:
                self.held_back = True
                return
            frame = frame.f_back
        raise KeyboardInterrupt


_BLOCK = Interrupts.block.__code__
