"""Helpers of tests that every runtime passes: `test_dask_runtime.py` runs them on a cluster."""

from __future__ import annotations

import contextlib
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

import ioweave


class RuntimeTest(unittest.TestCase):
    LONG = 5000  # calls in a row
    SEEDS = 20  # random runs

    def runtime(self, **options: Any) -> Any:
        return ioweave.Runtime(**options)


def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds; raises AssertionError after a minute."""
    for _ in range(60_000):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError("what was waited for did not come")


class Gate:
    """Keeps a task running until open(). Tasks in this process find it by its number."""

    def __init__(self, submit: Callable[[int], Any] | None = None) -> None:
        self._begun, self._go = threading.Event(), threading.Event()
        number = len(_gates)
        _gates.append((self._begun, self._go))
        self.future = (submit or hold)(number)
        if not self._begun.wait(60):
            self.open()
            raise AssertionError("the task has not begun")

    def open(self) -> None:
        self._go.set()

    def open_when(self, condition: Callable[[], bool]) -> None:
        """Opens when the condition holds, or after a minute, so that the test does not hang."""

        def wait() -> None:
            with contextlib.suppress(AssertionError):
                until(condition)
            self.open()

        threading.Thread(target=wait, daemon=True).start()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()  # a test that fails must not hang


_gates: list[tuple[threading.Event, threading.Event]] = []


def pass_gate(number: int) -> None:
    """Waits until the gate is open. Called in a task."""
    begun, go = _gates[number]
    begun.set()
    go.wait()


@ioweave.task
def hold(number: int) -> str:
    pass_gate(number)
    return "held"
