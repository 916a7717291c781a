"""Measures how fast a device moves bytes, for the policies that need it: about once a second, and
more often at first, when a policy may learn much from little."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ._core import DiskCounter, sample_part
from .threads import started

if TYPE_CHECKING:
    from .admission import DeviceState

_log = logging.getLogger("ioweave")


class Counter(Protocol):
    """Counts the bytes moved so far, reads and writes together."""

    def read(self) -> int: ...


class ProcessCounter:
    """Counts what some processes read and wrote by system calls, on any device and in the page
    cache. `pids` is called each time; a process that has ended adds nothing more."""

    def __init__(self, pids: Callable[[], Iterable[int]], proc: Path = Path("/proc")) -> None:
        self._pids = pids
        self._proc = proc
        self._last: dict[int, int] = {}
        self._sum = 0

    def read(self) -> int:
        now: dict[int, int] = {}
        for pid in self._pids():
            try:
                lines = (self._proc / str(pid) / "io").read_text("ascii").splitlines()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            fields = dict(line.split(": ") for line in lines)
            now[pid] = int(fields["rchar"]) + int(fields["wchar"])
        # The sum of differences, so that it keeps the bytes of a process that ends.
        self._sum += sum(moved - self._last.get(pid, 0) for pid, moved in now.items())
        self._last = now
        return self._sum


class TaskCounter:
    """Counts what the I/O tasks on a device moved by system calls of their own threads, so that
    other I/O of the program does not count. A thread calls begin() before the first of its calls on
    the device and end() after the last one.

    Tasks may leave their I/O to others: programs that they start, asynchronous requests. So if the
    threads moved nothing, or less than half of the bytes of the calls that ended, all that the
    process moves counts.

    Flows of the program move bytes beside the tasks, and say how many: these count, too.

    Args:
        said: returns the bytes of the calls that have ended.
        process: counts all bytes of the process.
        beside: returns the bytes of the operations of other flows that have ended.
    """

    def __init__(
        self, said: Callable[[], int], process: Counter, beside: Callable[[], int] = lambda: 0
    ) -> None:
        self._said = said
        self._process = process
        self._beside = beside
        self._last_beside = 0
        self._lock = threading.Lock()
        self._ended = 0
        self._running: dict[_ThreadIo, int] = {}  # what the thread had moved before it began
        self._last = (0, process.read())
        self._sum = 0

    def begin(self) -> None:
        thread = _this_thread()
        before = thread.read()
        with self._lock:
            self._running[thread] = before

    def end(self) -> None:
        thread = _this_thread()
        now = thread.read()
        with self._lock:
            self._ended += now - self._running.pop(thread, now)

    def read(self) -> int:
        with self._lock:
            running = sum(thread.read() - before for thread, before in self._running.items())
            by_threads = self._ended + running
        by_process = self._process.read()
        last_by_threads, last_by_process = self._last
        self._last = by_threads, by_process
        beside, last_beside = self._beside(), self._last_beside
        self._last_beside = beside
        if by_threads > 0 and 2 * by_threads >= self._said():
            self._sum += by_threads - last_by_threads + beside - last_beside
        else:  # the process counts what flows moved, but for what io_uring did
            self._sum += max(by_process - last_by_process, beside - last_beside)
        return self._sum


class _ThreadIo:
    """Counts what a thread read and wrote by system calls. Any thread may call it while that thread
    lives."""

    def __init__(self) -> None:
        try:
            self._fd = os.open("/proc/thread-self/io", os.O_RDONLY)
        except OSError:  # forbidden, or a kernel that does not count
            self._fd = -1
        self._last = 0

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def read(self) -> int:
        if self._fd >= 0:
            try:
                rchar, wchar, _ = os.pread(self._fd, 512, 0).split(b"\n", 2)
                self._last = int(rchar[7:]) + int(wchar[7:])
            except (OSError, ValueError):  # the program closed it, and it may be another file now
                self._fd = -1
        return self._last


class OtherThreadsCounter:
    """Counts what this process moved by system calls, without the calling thread, which serves its
    sockets, as Dask's event loop does."""

    def __init__(self) -> None:
        self._process = ProcessCounter(lambda: [os.getpid()])

    def read(self) -> int:
        return self._process.read() - _this_thread().read()


_here = threading.local()


def _this_thread() -> _ThreadIo:
    if not hasattr(_here, "io"):
        _here.io = _ThreadIo()  # closed with the thread
    found: _ThreadIo = _here.io
    return found


def counter_of(state: DeviceState, pids: Callable[[], Iterable[int]]) -> Counter:
    """Returns the counter of a device: that of its disk if it has a path and the kernel counts
    there, or else that of its tasks, which find it in the device's state."""
    path = state.device.path
    counter = DiskCounter.of_path(path) if path is not None else None
    if counter is not None:
        return counter
    state.tasks = TaskCounter(
        lambda: state.moved,
        ProcessCounter(pids),
        lambda: sum(moved() for moved in state.beside),
    )
    return state.tasks


#: Operations seldom come alone. The first sample begins when those that come with the first one
#: wait; an earlier sample would measure a device that is not asked for all it can do.
_GATHERING_S = 0.02


class Sampler:
    """A thread that measures devices while operations that need it wait or run there.

    Args:
        lock: the runtime's.
        devices: returns the devices to measure; called with the lock held.
        counter: makes the counter of a device.
        tell: called with a device, its bytes per second and the seconds that it was measured, with
            the lock held.
        period: seconds between two samples, after the first ones.
    """

    def __init__(
        self,
        lock: threading.Lock,
        devices: Callable[[], Iterable[DeviceState]],
        counter: Callable[[DeviceState], Counter],
        tell: Callable[[DeviceState, float, float], None],
        period: float = 1.0,
    ) -> None:
        self._lock = lock
        self._devices = devices
        self._counter = counter
        self._tell = tell
        self._period = period
        self._counters: dict[int, Counter] = {}
        self._last: dict[int, tuple[float, int]] = {}  # (time, bytes) of the last sample, by device
        self._failed = False  # logged once
        self._wake = threading.Event()
        self._stopping = False
        self._watching = False  # for operations without a work_came()
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        """Measures from now on all the time, since operations may come unannounced. Needs the
        lock."""
        if not self._watching:
            self.begin()
            self._watching = True
            self.work_came()

    def begin(self) -> None:
        """Starts the thread, as Pool.begin(): something to measure will come. Needs the lock."""
        if self._thread is None:
            self._thread = started(self._sample_repeatedly, "sampler")

    def work_came(self) -> None:
        """Wakes the thread, since there is something to measure. Needs the lock."""
        if not self._wake.is_set():
            self._wake.set()

    def stop(self) -> None:
        """Ends the thread and waits for it. Hold no lock."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _sample_repeatedly(self) -> None:
        samples = 0
        busy = False
        while not self._stopping:
            if not busy:
                self._wake.wait()
                if self._stopping:
                    return
                period = _GATHERING_S
            self._wake.clear()
            # New work sets the event, too, but only the end of the run cuts a period short.
            end = time.monotonic() + period
            while not self._stopping and (left := end - time.monotonic()) > 0:
                if self._wake.wait(left):
                    self._wake.clear()
            period = self._period * sample_part(samples)
            is_measuring = self.sample(time.monotonic())
            samples += is_measuring
            busy = is_measuring or self._watching

    def sample(self, now: float) -> bool:
        """Measures each device that has something to measure, at `now` in seconds. Reports the
        devices that were measured the last time, too. Returns whether there was any device."""
        with self._lock:
            busy = list(self._devices())
        moved = {state.id: self._read_counter(state) for state in busy}  # takes time: no lock
        with self._lock:
            latest: dict[int, tuple[float, int]] = {}
            for state in busy:
                last, bytes_moved = self._last.get(state.id), moved[state.id]
                if bytes_moved is None:  # the next sample covers both periods
                    if last is not None:
                        latest[state.id] = last
                    continue
                latest[state.id] = now, bytes_moved
                if last is not None and now > last[0]:
                    seconds = now - last[0]
                    self._tell(state, max(0, bytes_moved - last[1]) / seconds, seconds)
            self._last = latest
        return bool(busy)

    def _read_counter(self, state: DeviceState) -> int | None:
        """Returns the bytes that the device moved so far; None if they cannot be read now."""
        try:
            if state.id not in self._counters:
                self._counters[state.id] = self._counter(state)
            return self._counters[state.id].read()
        except (OSError, ValueError) as error:  # such as too few descriptors
            if not self._failed:
                self._failed = True
                _log.warning("device %s is not measured for now: %s", state.device.name, error)
            return None
