"""Threads that run calls.

A pool has a queue and a number of slots; a call takes `task.cpus` slots. The call at the head of
the queue waits until enough slots are free, and no call overtakes it, so a large call is not
starved. The pool makes threads as needed: at most `threads` of them do not wait inside a task. A
task that waits for a future gives its slots to others meanwhile. It takes them again as soon as it
continues, so for a moment more slots may be taken than exist.

A thread that finds no call parks on a lock of its own. Whoever has work opens the lock of the
thread that parked last.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from .callbacks import Todo, carry_out
from .graph import READY, RUNNING

if TYPE_CHECKING:
    from .graph import Call
    from .processes import WorkerProcess
    from .sampling import TaskCounter

_log = logging.getLogger("ioweave")


# The value of a call, or the traceback of the exception; and the exception.
Outcome: TypeAlias = tuple[Any, BaseException | None]


class Worker:
    """A thread of a pool."""

    __slots__ = ("abandoned", "call", "counter", "door", "pool", "process", "ran", "waiting")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.door = threading.Lock()
        self.door.acquire()
        self.call: Call | None = None  # the call that it runs
        self.ran: object = None  # the last call and its outcome, to be dropped without the lock
        self.waiting = False  # it is inside result() or its like
        self.abandoned = False  # it hangs in a task that timed out, and was replaced
        self.process: WorkerProcess | None = None
        self.counter: TaskCounter | None = None  # counts the bytes that the thread moves

    def count_for(self, counter: TaskCounter | None) -> None:
        """Counts what the thread moves from now on for another device.

        Called on that thread, without the lock, and only when the device changes: asking the kernel
        before and after each call would take longer than a short call does."""
        if self.counter is not None:
            self.counter.end()
        self.counter = None
        if counter is not None:
            counter.begin()
            self.counter = counter


_local = threading.local()


def current_worker() -> Worker | None:
    worker: Worker | None = getattr(_local, "worker", None)
    return worker


class Pool:
    """A queue of calls and the threads that run them. Every method needs the runtime's lock.

    Args:
        lock: the runtime's lock.
        name: the name of its threads.
        threads: how many threads may run at once, and the number of slots.
        run: runs a call that has begun, and returns its outcome. Called without the lock.
        ended: takes the call and its outcome; returns the steps to run without the lock.
    """

    def __init__(
        self,
        lock: threading.Lock,
        name: str,
        threads: int,
        run: Callable[[Worker, Call], Outcome],
        ended: Callable[[Call, Outcome], Todo],
    ) -> None:
        self._lock = lock
        self._name = name
        self._most = threads
        self._run = run
        self._handle_end = ended
        self._queue: deque[Call] = deque()
        self._idle: list[Worker] = []
        self._waiting = 0  # workers inside result() or its like
        self._looking = 0  # workers about to take a call from the queue, or to park
        self._stopping = False
        self._refused = False  # no thread could be started, which is logged once
        self.all_ended = threading.Lock()  # opens after stop(), once no thread is left to end
        self.all_ended.acquire()
        self.workers: set[Worker] = set()
        self.free = threads

    def begin(self) -> None:
        """Starts the first thread, for a call that will come. Later may be too late: Python 3.12
        starts no threads while the interpreter ends.

        Raises:
            RuntimeError: this machine has no thread left.
        """
        if not self.workers:
            self._start_thread()

    def push(self, call: Call) -> None:
        self._queue.append(call)
        self.wake_thread()

    def wake_thread(self) -> None:
        """Wakes or starts a thread if the call at the head of the queue can start."""
        queue = self._queue
        while queue and queue[0].state != READY:  # cancelled meanwhile
            queue.popleft()
        if self._looking >= len(queue) or queue[0].task.cpus > self.free:
            return
        if self._idle:
            self._looking += 1
            self._idle.pop().door.release()
        elif len(self.workers) - self._waiting < self._most:
            try:
                self._start_thread()
            except RuntimeError as error:
                if not self._refused:
                    self._refused = True
                    _log.error("%s; tasks wait for the %d threads", error, len(self.workers))

    def stop(self) -> None:
        """Lets idle threads end. Called again, after Ctrl-C, it opens `all_ended` again."""
        self._stopping = True
        while self._idle:
            self._looking += 1
            self._idle.pop().door.release()
        if not self.workers and self.all_ended.locked():
            self.all_ended.release()

    def begin_wait(self, worker: Worker) -> None:
        """Gives the slots of a worker to others, since its task is about to wait for tasks."""
        worker.waiting = True
        self._waiting += 1
        if worker.call is not None:
            self.free += worker.call.task.cpus
        self.wake_thread()

    def end_wait(self, worker: Worker) -> None:
        if worker.abandoned:
            return
        worker.waiting = False
        self._waiting -= 1
        if worker.call is not None:
            self.free -= worker.call.task.cpus

    def abandon(self, worker: Worker) -> None:
        """Gives up the thread of a worker that hangs, and frees its slots for others."""
        worker.abandoned = True
        self.workers.discard(worker)
        if worker.waiting:
            self._waiting -= 1
        elif worker.call is not None:
            self.free += worker.call.task.cpus
        self.wake_thread()

    def _start_thread(self) -> None:
        """Starts one more thread.

        Raises:
            RuntimeError: this machine has too many threads, or the interpreter ends.
        """
        worker = Worker(self)
        # A daemon thread: a task that hangs must not keep the interpreter from ending.
        thread = threading.Thread(
            target=self._run_calls,
            args=(worker,),
            name=f"{self._name}-{len(self.workers)}",
            daemon=True,
        )
        self.workers.add(worker)
        self._looking += 1
        try:
            thread.start()
        except RuntimeError:
            self.workers.discard(worker)
            self._looking -= 1
            raise

    def _run_calls(self, worker: Worker) -> None:
        _local.worker = worker
        lock = self._lock
        lock.acquire()
        while True:
            call = self._take_call()
            if call is None:
                if self._park_worker(worker):
                    continue
                break
            worker.call = call
            lock.release()
            worker.ran = None
            outcome = self._run(worker, call)
            lock.acquire()
            if worker.abandoned:
                break
            worker.call = None
            self.free += call.task.cpus
            self._looking += 1
            todo = self._handle_end(call, outcome)
            if todo:
                self._looking -= 1
                self.wake_thread()
                lock.release()
                carry_out(todo)
                lock.acquire()
                self._looking += 1
            worker.ran = call, outcome, todo
            del call, outcome, todo
        self.workers.discard(worker)
        if self._stopping and not self.workers and not worker.abandoned:
            self.all_ended.release()
        lock.release()
        worker.ran = None
        worker.count_for(None)
        if worker.process is not None:
            worker.process.close()

    def _take_call(self) -> Call | None:
        queue = self._queue
        while queue:
            call = queue[0]
            if call.state == READY:
                cpus = call.task.cpus
                if cpus > self.free:
                    return None
                queue.popleft()
                self.free -= cpus
                call.state = RUNNING
                self._looking -= 1
                if queue:
                    self.wake_thread()
                return call
            queue.popleft()
        return None

    def _park_worker(self, worker: Worker) -> bool:
        """Waits until there may be something to do; returns False if the thread is to end."""
        self._looking -= 1
        if self._stopping or len(self.workers) - self._waiting > self._most:
            return False
        self._idle.append(worker)
        self._lock.release()
        worker.ran = None  # a parked thread must not keep the call's objects
        worker.door.acquire()
        self._lock.acquire()
        return True
