"""What a Dask worker adds: it says when a task that was taken back ends, and measures devices."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin
from distributed.worker import Worker
from distributed.worker_state_machine import FreeKeysEvent
from tornado.ioloop import PeriodicCallback

from .._core import DiskCounter, sample_part
from ..sampling import Counter, OtherThreadsCounter
from .protocol import ANSWER, BEGUN, ENDED, MEASURE, MEASURED, TAKEN_BACK
from .queue import ByResource

_PERIOD_MS = 1000
_NOT_BEGUN = ("waiting", "ready", "constrained")  # states in which a task waits to run here
# States in which a task neither runs here nor will.
_OVER = ("released", "forgotten", "memory", "error", "fetch", "flight", "missing")


class _Measured:
    """A device being measured, by the thread of the event loop, which does Dask's communication:
    what tasks move is all that other threads do."""

    __slots__ = ("bytes", "counter", "identity", "since")

    def __init__(self, path: str | None) -> None:
        disk = _disk_below(path)
        self.counter: Counter = disk or OtherThreadsCounter()
        # On this host: what several of its workers see is one.
        self.identity = disk.identity if disk else f"process {os.getpid()}"
        self.bytes = self.counter.read()
        self.since = time.monotonic()  # seconds


def _disk_below(path: str | None) -> DiskCounter | None:
    try:
        return None if path is None else DiskCounter.of_path(path)
    except OSError:  # no such path on this host
        return None


class IoweaveWorkerPlugin(WorkerPlugin):
    """The worker's half of IoweaveSchedulerPlugin; `connect` registers it."""

    name = "ioweave"
    idempotent = True

    _worker: Worker

    def setup(self, worker: Worker) -> None:
        self._worker = worker
        if worker.nanny is not None and threading.current_thread() is threading.main_thread():
            # Ctrl-C in a terminal reaches a local cluster's processes too: the client, which it was
            # meant for, says what becomes of the tasks, and the nanny ends this process.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._taken_back: dict[Any, int] = {}  # tasks, and the last run of each
        self._devices: dict[str, _Measured] = {}
        self._timer = PeriodicCallback(self.measure, _PERIOD_MS * sample_part(0))
        self._samples = 0
        worker.stream_handlers[MEASURE] = self._asked_to_measure
        worker.stream_handlers[TAKEN_BACK] = self._asked_for_the_end
        worker.stream_handlers[BEGUN] = self._asked_what_has_begun
        ByResource.replace(worker.state)

    def teardown(self, worker: Worker) -> None:
        self._timer.stop()

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        # Called for every transition of every task.
        if key in self._taken_back and not self._has(key):
            self._ended(key, self._taken_back.pop(key))

    def _asked_for_the_end(self, key: Any, run: int) -> None:
        if self._has(key):
            self._taken_back[key] = run
        else:
            self._ended(key, run)

    def _has(self, key: Any) -> bool:
        """Whether the task runs here, or waits to."""
        task = self._worker.state.tasks.get(key)
        return task is not None and task.state not in _OVER

    def _ended(self, key: Any, run: int) -> None:
        self._worker.batched_send({"op": ENDED, "key": key, "run": run})

    def _asked_what_has_begun(self, question: int, keys: Iterable[Any], hold: bool) -> None:
        # Tasks start and end on the event loop's thread, which is this one: nothing comes between.
        tasks = self._worker.state.tasks
        idle = [key for key in keys if key in tasks and tasks[key].state in _NOT_BEGUN]
        begun = [key for key in keys if key not in idle]
        if hold:
            self._worker.handle_stimulus(FreeKeysEvent(keys=idle, stimulus_id="ioweave-hold"))
        given_up = idle if hold else []
        answer = {"op": ANSWER, "question": question, "begun": begun, "given_up": given_up}
        self._worker.batched_send(answer)

    def _asked_to_measure(self, device: str, path: str | None, on: bool) -> None:
        if not on:
            self._devices.pop(device, None)
            if not self._devices:
                self._timer.stop()
        elif device not in self._devices:
            self._devices[device] = _Measured(path)
            if not self._timer.is_running():
                self._timer.start()

    def measure(self) -> None:
        """Says what each device moved since the last time."""
        self._samples += 1
        self._timer.callback_time = _PERIOD_MS * sample_part(self._samples)
        now = time.monotonic()
        for device, last in self._devices.items():
            moved = last.counter.read()
            if now <= last.since:
                continue
            self._worker.batched_send(
                {
                    "op": MEASURED,
                    "device": device,
                    "counter": last.identity,
                    "bytes_per_second": max(0, moved - last.bytes) / (now - last.since),
                    "seconds": now - last.since,
                }
            )
            last.bytes, last.since = moved, now
