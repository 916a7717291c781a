"""Threads that run calls.

A pool has a queue and so many slots; a call takes `task.cpus` of them. The call at the head of the
queue waits until they are free and nobody passes it, so a large one is not starved. Threads are
made as needed: those that do not wait inside a task are never more than `threads`. A task that
waits for a future gives its slots back meanwhile, and another thread takes them; when it goes on
it takes them again at once, so for a moment more may be taken than there are.

A thread that finds nothing parks on a lock of its own; who has work opens the newest one's.
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

    __slots__ = ("abandoned", "call", "counter", "gate", "pool", "process", "ran", "waiting")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.gate = threading.Lock()
        self.gate.acquire()
        self.call: Call | None = None  # what it runs
        self.ran: object = None  # what it has run, to be let go of without the lock
        self.waiting = False  # it is inside result() or its like
        self.abandoned = False  # it hangs in a task that timed out, and was replaced
        self.process: WorkerProcess | None = None
        self.counter: TaskCounter | None = None  # counts what the thread moves

    def count_for(self, counter: TaskCounter | None) -> None:
        """From now on what the thread moves is for another device. Called on it, without the lock.

        Only there: asking the kernel before and after each call costs more than short calls do."""
        if self.counter is not None:
            self.counter.end()
        self.counter = None
        if counter is not None:
            counter.begin()
            self.counter = counter


_local = threading.local()


def current_worker() -> Worker | None:
    """The worker whose thread this is."""
    worker: Worker | None = getattr(_local, "worker", None)
    return worker


class Pool:
    """Every method needs the runtime's lock.

    Args:
        lock: the runtime's.
        name: of its threads.
        threads: most threads that run at once, and slots.
        run: runs a call that has begun, and returns how it went. Called without the lock.
        ended: told the call and that; returns what is to be called without the lock.
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
        self._ended = ended
        self._queue: deque[Call] = deque()
        self._idle: list[Worker] = []
        self._waiting = 0  # of the workers: inside result() or its like
        self._looking = 0  # about to take a call from the queue, or to park
        self._stopping = False
        self._refused = False  # a thread, which is said once
        self.ended = threading.Lock()  # opens after stop() when no thread is left that can end
        self.ended.acquire()
        self.workers: set[Worker] = set()
        self.free = threads

    def begin(self) -> None:
        """A call will come. When it does it may be too late to start a thread: Python 3.12
        has no new ones when the interpreter ends.

        Raises:
            RuntimeError: this machine has no thread left.
        """
        if not self.workers:
            self._start_thread()

    def push(self, call: Call) -> None:
        """Queues a call that is READY."""
        self._queue.append(call)
        self.call_up()

    def call_up(self) -> None:
        """Sees to it that threads look at the queue, if the call at its head can start."""
        queue = self._queue
        while queue and queue[0].state != READY:  # cancelled meanwhile
            queue.popleft()
        if self._looking >= len(queue) or queue[0].task.cpus > self.free:
            return
        if self._idle:
            self._looking += 1
            self._idle.pop().gate.release()
        elif len(self.workers) - self._waiting < self._most:
            try:
                self._start_thread()
            except RuntimeError as error:
                if not self._refused:
                    self._refused = True
                    _log.error("%s; tasks wait for the %d there are", error, len(self.workers))

    def stop(self) -> None:
        """Lets the threads end as soon as they have nothing to do. Again, after Ctrl-C: `ended`
        opens again."""
        self._stopping = True
        while self._idle:
            self._looking += 1
            self._idle.pop().gate.release()
        if not self.workers and self.ended.locked():
            self.ended.release()

    def begin_wait(self, worker: Worker) -> None:
        """The worker's task is about to wait for other tasks."""
        worker.waiting = True
        self._waiting += 1
        if worker.call is not None:
            self.free += worker.call.task.cpus
        self.call_up()

    def end_wait(self, worker: Worker) -> None:
        if worker.abandoned:
            return
        worker.waiting = False
        self._waiting -= 1
        if worker.call is not None:
            self.free -= worker.call.task.cpus

    def abandon(self, worker: Worker) -> None:
        """Writes off the thread of a worker that hangs, and frees its slots for others."""
        worker.abandoned = True
        self.workers.discard(worker)
        if worker.waiting:
            self._waiting -= 1
        elif worker.call is not None:
            self.free += worker.call.task.cpus
        self.call_up()

    def _start_thread(self) -> None:
        """
        Raises:
            RuntimeError: too many on this machine, or the interpreter ends.
        """
        worker = Worker(self)
        # Daemons: a task that hangs must not keep the interpreter from ending.
        thread = threading.Thread(
            target=self._loop, args=(worker,), name=f"{self._name}-{len(self.workers)}", daemon=True
        )
        self.workers.add(worker)
        self._looking += 1
        try:
            thread.start()
        except RuntimeError:
            self.workers.discard(worker)
            self._looking -= 1
            raise

    def _loop(self, worker: Worker) -> None:
        _local.worker = worker
        lock = self._lock
        lock.acquire()
        while True:
            call = self._take()
            if call is None:
                if self._park(worker):
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
            todo = self._ended(call, outcome)
            if todo:
                self._looking -= 1
                self.call_up()
                lock.release()
                carry_out(todo)
                lock.acquire()
                self._looking += 1
            worker.ran = call, outcome, todo
            del call, outcome, todo
        self.workers.discard(worker)
        if self._stopping and not self.workers and not worker.abandoned:
            self.ended.release()
        lock.release()
        worker.ran = None
        worker.count_for(None)
        if worker.process is not None:
            worker.process.close()

    def _take(self) -> Call | None:
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
                    self.call_up()
                return call
            queue.popleft()
        return None

    def _park(self, worker: Worker) -> bool:
        """Waits until there may be something to do; False if the thread is to end."""
        self._looking -= 1
        if self._stopping or len(self.workers) - self._waiting > self._most:
            return False
        self._idle.append(worker)
        self._lock.release()
        worker.ran = None  # a thread that parks must not keep it
        worker.gate.acquire()
        self._lock.acquire()
        return True
