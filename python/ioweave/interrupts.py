"""Ctrl-C while a runtime is active.

A KeyboardInterrupt may come between any two steps of the main thread. It could leave a call that is
counted but in no queue, and the end of the block would wait for that call for ever. So while a
runtime is active, and the main thread is inside the runtime's own code, the signal is held back. It
is raised where that code waits (`block`) and when the main thread leaves the code (`check`).

A handler that the program has set stays in place. The handler of `asyncio.run()` is wrapped: it
cancels the main coroutine, and the CancelledError that then ends the block does not say why.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType


class Interrupts:
    """The SIGINT handler of an active runtime. Belongs to the main thread.

    Args:
        guarded: files of code that must not be interrupted half way.
    """

    def __init__(self, guarded: frozenset[str]) -> None:
        self._guarded = guarded
        self._installed = False
        self._before: Callable[..., object] = signal.default_int_handler
        self._pressed = False
        self.held_back = False

    def install(self) -> None:
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            owner = getattr(before, "__self__", None)
            while isinstance(owner, Interrupts) and not owner._installed:
                before = owner._before  # that runtime was closed on another thread
                owner = getattr(before, "__self__", None)
            if callable(before) and (
                before is signal.default_int_handler or _is_from_asyncio(before)
            ):
                self._before = before
                signal.signal(signal.SIGINT, self._handle_signal)
                self._installed = True

    def restore(self) -> None:
        """Puts the previous handler back, and raises a KeyboardInterrupt that was held back.

        Only the main thread can set handlers. On another thread this handler stays in place and
        passes every signal on to the previous one."""
        self._installed = False
        on_main = threading.current_thread() is threading.main_thread()
        if on_main and signal.getsignal(signal.SIGINT) == self._handle_signal:
            signal.signal(signal.SIGINT, self._before)
        self.check()

    def give_up(self) -> None:
        """As restore(), in a forked process, where a Ctrl-C held back is the parent's."""
        self.held_back = False
        self.restore()

    def caused(self, error: BaseException | None) -> bool:
        """Returns whether this exception ends the block because of Ctrl-C."""
        if self._pressed and "asyncio" in sys.modules:
            return isinstance(error, (KeyboardInterrupt, sys.modules["asyncio"].CancelledError))
        return isinstance(error, KeyboardInterrupt)

    def block(self, gate: threading.Lock, timeout: float | None = None) -> bool:
        """Waits until `gate` opens, and lets Ctrl-C through; returns False after `timeout` s."""
        self.check()
        if timeout is None:
            return gate.acquire()
        return gate.acquire(timeout=min(max(timeout, 0), threading.TIMEOUT_MAX))

    def check(self) -> None:
        """Raises the KeyboardInterrupt that was held back, if this is the main thread."""
        if self.held_back and threading.current_thread() is threading.main_thread():
            self.held_back = False
            raise KeyboardInterrupt

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        self._pressed = True
        try:
            self._before(number, frame)
        except KeyboardInterrupt:
            if not (self._installed and self._guards_frame(frame)):
                raise
            self.held_back = True

    def _guards_frame(self, frame: FrameType | None) -> bool:
        while frame is not None and frame.f_code is not _BLOCK:
            if frame.f_code.co_filename in self._guarded:
                return True
            frame = frame.f_back
        return False


def _is_from_asyncio(handler: Callable[..., object]) -> bool:
    function = getattr(handler, "func", None)  # it is a functools.partial, from Python 3.11 on
    return getattr(function, "__module__", None) == "asyncio.runners"


_BLOCK = Interrupts.block.__code__
