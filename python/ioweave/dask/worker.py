"""The plugin of Dask workers: it reports the ends of tasks that were taken back, and measures
devices."""

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
    """A device that is being measured. It is made and read on the thread of the event loop, which
    does Dask's communication: the I/O of all other threads is that of tasks."""

    __slots__ = ("bytes", "counter", "identity", "since")

    def __init__(self, path: str | None) -> None:
        disk = _find_disk(path)
        self.counter: Counter = disk or OtherThreadsCounter()
        # Names the counter on this host, so that a disk which several workers see counts once.
        self.identity = disk.identity if disk else f"process {os.getpid()}"
        self.bytes = self.counter.read()
        self.since = time.monotonic()  # seconds


def _find_disk(path: str | None) -> DiskCounter | None:
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
            # Ctrl-C in a terminal reaches a local cluster's processes, too. It is meant for the
            # client, which decides what happens to the tasks; the nanny ends this process.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._taken_back: dict[Any, int] = {}  # the last run of each task that was taken back
        self._devices: dict[str, _Measured] = {}
        self._timer = PeriodicCallback(self.measure, _PERIOD_MS * sample_part(0))
        self._samples = 0
        worker.stream_handlers[MEASURE] = self._switch_measuring
        worker.stream_handlers[TAKEN_BACK] = self._handle_taken_back
        worker.stream_handlers[BEGUN] = self._answer_begun
        ByResource.replace(worker.state)

    def teardown(self, worker: Worker) -> None:
        self._timer.stop()

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        # Called for every transition of every task.
        if key in self._taken_back and not self._has_task(key):
            self._report_end(key, self._taken_back.pop(key))

    def _handle_taken_back(self, key: Any, run: int) -> None:
        if self._has_task(key):
            self._taken_back[key] = run
        else:
            self._report_end(key, run)

    def _has_task(self, key: Any) -> bool:
        task = self._worker.state.tasks.get(key)
        return task is not None and task.state not in _OVER

    def _report_end(self, key: Any, run: int) -> None:
        self._worker.batched_send({"op": ENDED, "key": key, "run": run})

    def _answer_begun(self, question: int, keys: Iterable[Any], hold: bool) -> None:
        # Tasks start and end on this thread, the event loop's, so none does so meanwhile.
        tasks = self._worker.state.tasks
        idle = [key for key in keys if key in tasks and tasks[key].state in _NOT_BEGUN]
        begun = [key for key in keys if key not in idle]
        if hold:
            self._worker.handle_stimulus(FreeKeysEvent(keys=idle, stimulus_id="ioweave-hold"))
        given_up = idle if hold else []
        answer = {"op": ANSWER, "question": question, "begun": begun, "given_up": given_up}
        self._worker.batched_send(answer)

    def _switch_measuring(self, device: str, path: str | None, on: bool) -> None:
        if not on:
            self._devices.pop(device, None)
            if not self._devices:
                self._timer.stop()
        elif device not in self._devices:
            self._devices[device] = _Measured(path)
            if not self._timer.is_running():
                self._timer.start()

    def measure(self) -> None:
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
