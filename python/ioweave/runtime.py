"""The embedded runtime: tasks on this machine.

What happens to a call, in order:

1. `submit`, on the caller's thread, looks through the arguments (`arguments.py`). Under the lock it
   links the call to the calls that it needs (`graph.py`).
2. When the call needs no other any more, `_release_call` queues it. A computation goes to the
   compute pool. An I/O task with futures among its arguments is first prepared (`_prepare_call`),
   since its bytes may depend on their values; then the gate is asked (`admission.py`). What the
   gate lets start goes to the I/O pool, which has a thread for each.
3. A thread of the pool (`pool.py`) runs the call: `_execute_call`. With worker processes the thread
   sends a computation to a process of its own (`processes.py`) and waits.
4. `_handle_run_end` tells the gate, and runs the call again if retries are left. Otherwise
   `_mark_done` marks the call as done, and `_notify_dependents` releases the calls that need it, or
   fails them.

One lock guards graph, queues, admission and counters. No code of the user's runs under the lock.
What may run such code, preparations and the end of the user's objects, is collected in a `Todo` and
carried out after the release. Callbacks have a thread of their own (`callbacks.py`), but run at
once, on the caller's, if the call is done already. (Python's collector of cycles may run anywhere,
even under the lock.)
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import functools
import inspect
import itertools
import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from . import admission, flows, graph, pool, targets, tasks
from ._core import Gate, Service
from ._request import Request
from .admission import Admission, DeviceState, TaskFlow, TaskFlows
from .arguments import (
    ATOMS,
    Found,
    Replaced,
    describe,
    examine,
    held_by,
    replace_futures,
    replace_requests,
)
from .callbacks import Callback, Callbacks, Todo, call_back, carry_out
from .contents import Snapshot, update_in_place
from .copies import Copier, Copies, Frozen, in_mapped_file, is_array, shows_memory
from .devices import Device
from .errors import CancelledError, DependencyFailed, GivenUp, TaskTimeout, WorkerDied
from .futures import Future
from .graph import DONE, READY, RUNNING, WAITING, Accesses, Call, Direction, Key, Latch
from .interrupts import Interrupts
from .learning import of_this_process
from .log_file import LogFile
from .options import Options, takes_options
from .pool import Outcome, Pool, Worker, current_worker
from .processes import WorkerProcess, check_picklable, pickle_call
from .progress import Progress
from .records import TaskRecord
from .run_file import Recorder
from .sampling import Sampler, counter_of
from .tasks import Task
from .threads import started
from .transfers import Transfers
from .watchdog import Watchdog

_log = logging.getLogger("ioweave")
_NODE_NAME = platform.node() or "localhost"
_NONE: dict[str, Any] = {}  # keyword arguments of a call that is done
KEPT_FAILURES = 1000  # failures that nobody asked for, kept with their tracebacks for barrier()
_SHOWN = 20  # calls in a message
_WRITTEN_OFF = (
    "%s; a thread cannot be stopped: it is written off and replaced, now and each time that this "
    "happens in this run"
)
_START_S = 300  # for a worker process to begin a task with a timeout; it may have to import much

_READ_ONLY = (
    "the arrays that a task gets from the program are read-only: annotate what it changes, as in "
    "Annotated[numpy.ndarray, ioweave.InOut], or pass the object itself, by arguments='share'"
)
_CHANGED_COPY = (
    "task {!r} changed an argument of type {}, which is a copy, so nobody sees the change: "
    "annotate it, as in Annotated[list, ioweave.InOut], or pass the object itself, by "
    "arguments='share'"
)

_TRANSFER = Task(  # calls that need a request wait for a call of this; its function never runs
    lambda: None, cpus=1, retries=0, timeout=None, name="transfer", returns=1
)
_transfer_numbers = itertools.count(1)

_turn = threading.Lock()  # held by the active runtime, from the beginning of its start() on


@dataclass(frozen=True)
class FlowStats:
    """The state of one I/O task on its device."""

    task: str
    device: str
    waiting: int
    running: int
    bytes: int  # moved by the calls that succeeded
    limit: int | None  # calls at once on a node, as the policy last set it; 0: no limit
    done: int = 0  # calls that succeeded
    device_mb_per_s: float | None = None  # throughput of the device; None: it is not measured now


@dataclass(frozen=True)
class Stats:
    """Counts of what a runtime has done and does now."""

    submitted: int
    succeeded: int
    failed: int  # whether the failure is raised or not
    cancelled: int  # including calls that were not run because a dependency failed
    retried: int
    timed_out: int
    pending: int  # submitted and not done
    pending_bytes: int
    cpus: int
    cpus_free: int
    threads: int
    io_threads: int
    io_waiting: int  # I/O calls that wait for the policy
    io_running: int
    flows: tuple[FlowStats, ...]


def _choose_pending_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4


class Runtime:
    """Runs the tasks that are called while its block is open, or between start() and close().

        with ioweave.Runtime(cpus=8):
            ...

    One runtime is active at a time in a process, and each is used once. The end of the block waits
    for all tasks, and raises the first failure that nobody asked for. If the block raises, tasks
    that have not begun are cancelled, which is logged. SystemExit with status 0 is a normal end.

    Every target takes all of the arguments, so that a program changes nothing but its target.
    Options that a target does not use are ignored.

    Args:
        target: None for this machine; "dask://host:8786" or a distributed.Client; "sim://12x48" to
            simulate 12 nodes of 48 cores, called node0 to node11; "sim://" to simulate `nodes`.
        cpus: slots for computations; None: the processors this process may use. Used on this
            machine.
        workers: run computations in "threads" or in "processes". Python's interpreter lock does not
            hold up processes, and they can be killed, but their arguments must be picklable. Used
            on this machine.
        io_threads: most I/O tasks at once on a device of a node; the executors of the policy
            "auto". Used on this machine and in simulation; on Dask the workers say it.
        devices: storage devices; those of ioweave.toml are known too.
        config: read devices and nodes from this file instead of the usual ones.
        max_pending: submitting blocks while so many tasks are pending, but never inside a task.
        max_pending_bytes: submitting also blocks while pending tasks hold so many bytes in buffers,
            arrays and copies of containers; None: a quarter of the memory. Not used in simulation,
            where submitting takes no time.
        log: write the policy's event log to this file; on Dask the scheduler writes it.
        arguments: what happens to arrays, buffers, lists and the like, which the program may change
            after a call: with "snapshot" the task gets a copy; with "freeze" arrays are read-only
            until the task has ended; with "share" the task gets the object itself. What tasks
            return or change (`InOut`) is neither copied nor frozen. On Dask arguments always are
            copies; in simulation they never are.
        on_interrupt: what Ctrl-C means for tasks already submitted: "drain" runs them all (a second
            Ctrl-C cancels), "cancel" runs those that have begun. KeyboardInterrupt is raised
            afterwards. I/O tasks that were not done are in `not_written`, and logged. A simulation
            ends at once, and writes nothing.
        learned: keep what policies learn in this file, beyond this process. A simulation begins
            with what the file holds, and does not change it.
        run_file: write what became of each call, and why, to this file (docs/run-file.md).
        records: keep what records() returns, 45 bytes a call. A simulation always keeps it.
        progress: show on standard error what runs and waits (`progress.py`); needs rich. In a
            simulation its times are virtual.
        shared_directory: data lie in a file system that all nodes see, so that an I/O task runs on
            the first node with budget left; otherwise it runs where its data is. Used in simulation
            and on Dask.
        costs: what calls take in simulation, by task name. For a task that computes: seconds, a
            BlockingIO, or a function of the call's arguments that returns one of these (futures
            among the arguments are None). For an I/O task: the bytes it moves, if its own `bytes`
            does not say.
        curves: the throughput of devices in simulation, by name: points (streams, MB/s of all
            together), ascending, of one node's device or of the shared device. Without an entry the
            device's own `curve` counts, or its bandwidth for any number of streams.
        nodes: the nodes of "sim://"; without it, those of ioweave.toml.
        sample_period_s: how often a simulation tells the policy what devices move.

    Raises:
        ValueError: an argument or a configuration file is wrong, or the target is not known.
        TypeError: there is no such argument, or it is of the wrong type.
        ModuleNotFoundError: progress is wanted, and rich is not installed.
    """

    has_threads = True  # a simulation has none, and continues in a forked process

    def forked_class(self) -> type[Runtime]:
        """Returns the class of this runtime in a forked process."""
        return ForkedRuntime

    __signature__ = inspect.signature(Options)  # for help(), which would show that of __new__

    def __new__(cls, target: Any = None, **options: Any) -> Any:
        # Python calls the __init__ of the returned object, since it is a Runtime.
        if target is None or cls is not Runtime:
            return super().__new__(cls)
        return super().__new__(targets.class_of(target))

    @takes_options
    def __init__(self, options: Options) -> None:
        self._cpus = options.cpus or len(os.sched_getaffinity(0))
        self._processes = options.workers == "processes"
        self._io_threads = options.io_threads
        self._init_calls(options)
        self._compute = Pool(
            self._lock, "ioweave-compute", self._cpus, self._execute_call, self._handle_run_end
        )
        self._io = Pool(
            self._lock, "ioweave-io", sys.maxsize, self._execute_call, self._handle_run_end
        )
        self._watchdog = Watchdog(self._lock, self._handle_timeout)
        self._transfers = Transfers(self._handle_transfer_end)
        self._sampler = Sampler(
            self._lock,
            self._list_devices_to_sample,
            functools.partial(counter_of, pids=self._list_pids),
            self._apply_sample,
        )

    def _init_calls(self, options: Options) -> None:
        """Sets what does not depend on where calls run."""
        self._max_pending = options.max_pending
        self._max_bytes = options.max_pending_bytes or _choose_pending_bytes()
        self._arguments = options.arguments
        self._devices = options.known_devices()
        self._log_path = options.log
        self._log_file: LogFile | None = None
        self._learned = of_this_process
        self._learned_path = None if options.learned is None else Path(options.learned)
        self._cancel_on_interrupt = options.on_interrupt == "cancel"
        self._interrupts = Interrupts(GUARDED)
        self.not_written: list[str] = []

        # The lock guards all attributes below.
        self._lock = threading.Lock()
        self._callbacks = Callbacks(self._lock)
        self._state = "new"
        self._live: set[Call] = set()
        self._accesses = Accesses()
        self._tracking = False  # every object that a call gets is noted, since tasks change some
        self._noting = threading.RLock()  # held to note objects of earlier calls; before the lock
        self._noted = False  # those are noted
        self._failures: dict[Call, None] = {}  # failures that nobody asked for yet, in order
        self._more_failures = 0  # how many more are not kept there
        self.barriers = 0  # how often the program was told of all failures so far
        self._not_run: dict[Call, str] = {}  # I/O calls not run after a failure, as texts
        self._submitters: list[threading.Lock] = []  # doors of submitters that wait for room
        self._held: dict[int, list[int]] = {}  # buffers by id: bytes, and how many calls hold it
        self._pending_bytes = 0  # bytes of all these buffers
        self._frozen = Frozen()
        self._submitted = self._succeeded = self._failed = self._cancelled = 0
        self._retried = self._timed_out = 0
        self._cancelling = False  # no call is run again

        # Admission, records and progress.
        self._flows: TaskFlows[Any] | None = None  # since the runtime was opened
        self._admission: Admission | None = None  # the same, of a runtime on this machine
        self._taker: threading.Thread | None = None  # starts what other operations made room for
        self._run_file = options.run_file
        self._keep_records = options.records
        self._recorder: Recorder | None = None  # set if a run file or records are wanted
        self._began = 0.0
        self._progress: Progress | None = None
        if options.progress:
            self._progress = Progress(self.stats, self._explain_flows, clock=self._read_clock_s)

    def _read_clock_s(self) -> float:
        return time.monotonic()

    # ---- Beginning and end. ---------------------------------------------------------------------

    def start(self) -> Runtime:
        """Makes this the active runtime: calls of tasks are submitted here until close().

        Raises:
            RuntimeError: another runtime is active, or this one was used before.
            OSError: a file named by an option cannot be opened.
        """
        with self._lock:
            if self._state != "new":
                raise RuntimeError("a Runtime is used once: make another one")
            if not _turn.acquire(blocking=False):
                raise RuntimeError("another Runtime is active in this process: close it first")
            self._state = "opening"
        try:
            if self._learned_path is not None:
                self._learned.load(self._learned_path)
            if self._run_file is not None or self._keep_records:
                self._recorder = self._make_recorder()
            self._began = self._read_clock_s()
            self._open()
        except BaseException:
            self._state = "new"
            if self._recorder is not None:
                self._recorder.discard()
            _turn.release()
            raise
        with self._lock:
            self._state = "open"
            tasks.active = self
        self._interrupts.install()
        if self._progress is not None:
            self._progress.start()
        atexit.register(self.close)  # or a program without close() would lose submitted tasks
        return self

    def _open(self) -> None:
        """Makes what is needed to run calls. Called without the lock, since it may take long."""
        recorded = None if self._recorder is None else self._record_limit
        gate = Gate(self._open_log())
        self._flows = self._admission = Admission(
            gate, limit_changed=recorded, **self._make_flow_options()
        )

    def _open_log(self) -> Callable[[str], object] | None:
        """Opens the log. Returns the function that gets every line of the policy's event log."""
        if self._log_path is None:
            return None
        self._log_file = LogFile(self._log_path)
        return self._log_file.write

    def _make_flow_options(self) -> dict[str, Any]:
        """Makes the options of `TaskFlows` that every runtime in this process has."""
        return {
            "devices": self._devices,
            "executors": self._io_threads,
            "learned": self._learned,
        }

    def __enter__(self) -> Runtime:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        normal = isinstance(error, SystemExit) and error.code in (None, 0)
        self._close(None if normal else error)

    def close(self) -> None:
        """Waits for all tasks, and raises the first failure that nobody asked for.

        While a KeyboardInterrupt ends the program, it does what the end of a block does then."""
        self._close(_find_interrupt())

    def _close(self, error: BaseException | None) -> None:
        inside = (
            "callback" if self._callbacks.inside() else "task" if self._is_inside_task() else None
        )
        if inside is not None:
            raise RuntimeError(f"close() inside a {inside} would wait for the {inside} itself")
        with self._lock:
            if self._state != "open":
                return
            self._state = "closing"
        pressed = self._interrupts.caused(error)
        cancel = self._cancel_on_interrupt if pressed else error is not None
        unwritten = self._list_io_calls() if error is not None else []
        ours: KeyboardInterrupt | None = None
        ended = False
        try:
            while True:
                try:
                    self._end_all(cancel)
                    ended = True
                    break
                except KeyboardInterrupt as again:
                    if cancel and pressed:
                        raise  # pressed again while it waits for calls that have begun
                    if pressed:
                        cancel = True
                    else:
                        pressed, ours = True, again
                        cancel = cancel or self._cancel_on_interrupt
                        unwritten = unwritten or self._list_io_calls()
        finally:
            failed = error is not None or ours is not None or not ended
            self._note_not_written(unwritten)
            with contextlib.ExitStack() as then:  # shuts down even if the report raises
                then.callback(self._shut_down, failed=failed)
                if failed:
                    raised = type(error or sys.exc_info()[1]).__name__
                    why = "interrupted" if pressed else f"ended by {raised}"
                    self._report_not_written(why)
                    self._report_failures(why)
                else:
                    self._report_not_written("what they need failed")
        if ours is not None:
            raise ours
        if error is None:
            self._raise_first_failure()

    def _end_all(self, cancel: bool) -> None:
        """Waits until no calls and callbacks are left, closes the runtime, joins threads."""
        while True:
            with self._lock:
                live = tuple(self._live)
                called = self._callbacks.door()
                self._cancelling = cancel
                if not live and called is None:
                    self._state = "closed"
                    self._callbacks.stop()
                    break
            if cancel:
                self._cancel_all(live)
            self.wait_for(live, None)
            if called is not None:
                self._interrupts.block(called)
        self._end_workers()

    def _cancel_all(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self.cancel(call)

    def _end_workers(self) -> None:
        """Ends the threads of the pools. No call is left, and none will come."""
        with self._lock:
            self._compute.stop()
            self._io.stop()
        self._interrupts.block(self._compute.all_ended)
        self._interrupts.block(self._io.all_ended)

    def _shut_down(self, *, failed: bool) -> None:
        with self._lock:
            self._state = "closed"
            tasks.active = None
            _turn.release()
        atexit.unregister(self.close)
        # These run from the last to the first, each even if others raise.
        with contextlib.ExitStack() as then:
            then.callback(self._interrupts.restore)
            then.callback(self._save_learned)
            then.callback(self._close_recorder, failed=failed)
            then.callback(self._close_down)
            if self._progress is not None:
                then.callback(self._progress.stop)

    def _close_recorder(self, *, failed: bool) -> None:
        if self._recorder is not None:
            with self._lock:
                counts = self._count_calls()
            self._recorder.close(
                wall_s=self._read_clock_s() - self._began,
                tasks=counts,
                explanations=self._explain_flows(),
                exit_code=int(failed or bool(self._failures)),
            )

    def _save_learned(self) -> None:
        if self._learned_path is not None:
            try:
                self._learned.save(self._learned_path)
            except OSError as error:  # no reason to fail: the tasks are done
                _log.error("learned values are not saved in %s: %s", self._learned_path, error)

    def _close_down(self) -> None:
        """Closes what _open() made, and keeps what was learned. Called without the lock."""
        self._sampler.stop()
        self._watchdog.stop()
        self._transfers.stop()
        assert self._admission is not None  # since start()
        self._admission.core.stop()
        if self._taker is not None:
            self._taker.join()
        with self._lock:
            self._admission.keep_learned()
            self._admission.close()
            if self._log_file is not None:
                self._log_file.close()

    def _list_io_calls(self) -> list[tuple[Call, tuple[Any, ...], dict[str, Any]]]:
        with self._lock:
            live = sorted(self._live, key=lambda call: call.number)
            io = [call for call in live if call.task.constraint is not None]
            return [(call, call.args, call.kwargs) for call in io]

    def _note_not_written(self, live: list[tuple[Call, tuple[Any, ...], dict[str, Any]]]) -> None:
        """Sets `not_written`. `live`: the I/O calls not done when an exception ended the block."""
        with self._lock:
            found = dict(self._not_run)
        for call, args, kwargs in live:
            if call.state != DONE or call.error is not None:
                found[call] = describe(call.task.name, args, kwargs)
        self.not_written = [found[call] for call in sorted(found, key=lambda call: call.number)]

    def _report_not_written(self, why: str) -> None:
        """Logs I/O tasks that were not done. The program may know of failures, but not of these."""
        if self.not_written:
            more = ", ... (all in not_written)" if len(self.not_written) > _SHOWN else ""
            _log.warning(
                "%s: %d I/O tasks were not done: %s%s",
                why,
                len(self.not_written),
                ", ".join(self.not_written[:_SHOWN]),
                more,
            )

    def _report_failures(self, why: str) -> None:
        """Logs the first failure that nobody asked for, since another exception ends the block."""
        failure = self._take_failures()
        if failure is not None:
            _log.error(
                "%s: tasks failed, and nobody asked for their results; the first failure:",
                why,
                exc_info=failure,
            )

    # ---- Submission. ----------------------------------------------------------------------------

    def submit(self, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Submits a call of a task, as calling the task does.

        Blocks while too many tasks or bytes are pending, but not inside a task or a callback: that
        would keep a thread from the tasks it waits for.

        Returns:
            The Future of the value, or a tuple of as many futures as the task `returns` values.

        Raises:
            TypeError: the arguments do not fit the function, cannot be sent to a worker process,
                or do not fit their In, Out and InOut.
            ValueError: the device is not known or cannot hold the constraint, the task needs more
                cpus than there are, or a future belongs to another runtime.
            RuntimeError: the runtime is closed.
        """
        call = Call(self, task, args, kwargs)
        found = self._examine_arguments(call)
        if task.objects and not self._noted:
            self._begin_tracking()
        in_process = self._processes and task.constraint is None
        pickled = in_process and not call.has_futures and not self._tracking  # at the call
        if found is not None and found.objects and not pickled:
            how = task.arguments or self._arguments
            if how != "share":
                found = self._protect_arguments(
                    call, found, freeze=how == "freeze" and not in_process
                )
                args, kwargs = call.args, call.kwargs
        uses: dict[Key, tuple[Any, Direction]] = {}
        if task.files or task.objects:
            uses = task.accesses(args, kwargs)
        if task.constraint is not None:
            self._ask_flow(call)
            if not call.has_futures:
                call.nbytes = task.bytes_of(args, kwargs)
        elif task.cpus > self._cpus:
            raise ValueError(
                f"task {task.name!r} needs {task.cpus} cpus and the Runtime has {self._cpus}: "
                "lower cpus of the task or raise those of the Runtime"
            )
        elif pickled:
            call.payload = pickle_call(task, args, kwargs)
        elif in_process:
            check_picklable(task, call.args, call.kwargs)
        todo = Todo()
        with self._lock:
            self._wait_for_room(found)
            if found is not None and self._tracking:
                for thing in (*found.objects, *found.futures):
                    uses.setdefault(id(thing), (thing, Direction.In))
            self._begin_threads(call)
            self._add_call(call, found, uses, todo)
        carry_out(todo)
        return self._make_futures(call)

    def _protect_arguments(self, call: Call, found: Found, *, freeze: bool) -> Found:
        """Copies what the program may change after the call, or finds arrays to be frozen."""
        task = call.task
        if not any(type(thing) is not bytes for thing in found.objects):
            return found
        keep = set(map(id, task.written_objects(call.args, call.kwargs))) if task.objects else set()
        memory = [
            thing for thing in found.objects if shows_memory(thing) and not in_mapped_file(thing)
        ]
        freezing: set[int] = set()
        with self._lock:
            self._wait_for_room(found)
            if self._tracking:  # an object that a task changes first is passed on as it is
                keep.update(
                    id(thing)
                    for thing in found.objects
                    if self._accesses.writer(id(thing)) is not None
                )
            changing = {id(one) for one in memory if self._frozen.changes(one)}
            if freeze:
                arrays = filter(is_array, memory)
                freezing = {id(one) for one in arrays if self._frozen.can_thaw(one)}
        guard = task.guards_copies and not (self._processes and task.constraint is None)
        copier = Copier(keep, changing, freezing, guard=guard)
        args, kwargs = copier.copy_arguments(call.args, call.kwargs)
        if not copier.made:
            return found
        call.copies, call.args, call.kwargs = copier.copies, args, kwargs
        found = examine((*args, *kwargs.values()))
        found.held.update(copier.windows)
        return found

    def _begin_threads(self, call: Call) -> None:
        """Starts the threads that the call cannot run without. Needs the lock."""
        if call.flow is None:
            self._compute.begin()
        else:
            self._io.begin()
            if call.flow.sampled:
                self._sampler.begin()
        if call.task.timeout is not None:
            self._watchdog.begin()

    def _examine_arguments(self, call: Call) -> Found | None:
        """Looks through the arguments of a call; returns None if they are plain values."""
        task, args, kwargs = call.task, call.args, call.kwargs
        least, most = task.positional
        if kwargs or not least <= len(args) <= most:
            task.bind(args, kwargs)  # raises what the plain call would
        found: Found | None = None
        for value in args:
            if type(value) not in ATOMS:
                found = examine((*args, *kwargs.values()))
                break
        else:
            if kwargs:
                found = examine(kwargs.values())
        if found is not None:
            if found.requests:
                self._take_requests(call)
                found = examine((*call.args, *call.kwargs.values()))
            if found.futures:
                call.has_futures = True
                self._check_futures(task, found.futures)
        return found

    def _take_requests(self, call: Call) -> None:

        def future_of(request: Request[Any]) -> Future[Any]:
            transfer = Call(self, _TRANSFER, (), {})
            transfer.number = next(_transfer_numbers)
            self._transfers.expect(request, transfer)
            return Future(transfer)

        call.args, call.kwargs = replace_requests((call.args, call.kwargs), future_of)

    def _handle_transfer_end(self, request: Request[Any], transfer: Call) -> None:
        """Releases calls that need a request. Without the lock, on any thread."""
        value, error = None, None
        try:
            value = request.result()
        except BaseException as raised:
            error, value = raised, _trim_trace(raised)
        transfer.brings = held_by((value,))
        todo = Todo()
        with self._lock:
            transfer.value, transfer.error, transfer.state = value, error, DONE
            if error is not None:
                transfer.report_itself()
                self._keep_failure(transfer)  # or tasks would silently not be run
            self._notify_dependents(transfer, todo)
        carry_out(todo)

    def _add_call(
        self,
        call: Call,
        found: Found | None,
        uses: dict[Key, tuple[Any, Direction]],
        todo: Todo,
    ) -> None:
        """Adds a call to the runtime. Needs the lock."""
        if self._state == "closed":
            raise RuntimeError(f"task {call.task.name!r} was called after the Runtime was closed")
        if call.copies is not None:
            call.copies.frozen = self._frozen.freeze(call.copies.arrays)
            self._pending_bytes += call.copies.size
        self._submitted += 1
        call.number = self._submitted
        self._live.add(call)
        if found is not None and found.held:
            self._hold_buffers(call, found.held)
        failed = self._link_call(call, found, uses) if call.has_futures or uses else None
        if failed is not None:
            self._fail_for(call, failed, todo)
        elif call.missing == 0:
            self._release_call(call, todo)

    def _make_futures(self, call: Call) -> Any:
        if self._interrupts.held_back:
            self._interrupts.check()
        if call.task.returns == 1:
            return Future(call)
        return tuple(Future(call, index) for index in range(call.task.returns))

    def _check_futures(self, task: Task, futures: list[Future[Any]]) -> None:
        for future in futures:
            if future._call.runtime is not self and not future.done():
                raise ValueError(
                    f"task {task.name!r}: {future!r} belongs to another Runtime and is not done"
                )

    def _ask_flow(self, call: Call) -> None:
        with self._lock:
            assert self._admission is not None  # since start()
            call.flow = self._admission.flow(call.task)

    def _begin_tracking(self) -> None:
        """Begins to note which calls use which object; notes the objects of earlier calls, too."""
        with self._noting:
            if self._noted:
                return
            with self._lock:
                self._tracking = True
                live = [(call, call.args, call.kwargs) for call in self._live]
            noted = [(call, examine((*args, *kwargs.values()))) for call, args, kwargs in live]
            with self._lock:
                for call, found in noted:
                    if call.state != DONE:
                        for thing in (*found.objects, *found.futures):
                            self._accesses.note_reader(call, id(thing), thing)
                self._noted = True

    def _wait_for_room(self, found: Found | None) -> None:
        """Waits until a call with these arguments may be pending. Releases the lock meanwhile."""
        # A quick check: the bytes of all its buffers are at least those that no call holds yet.
        pending = self._pending_bytes
        if len(self._live) < self._max_pending and (
            pending == 0 or pending + (0 if found is None else found.bytes) <= self._max_bytes
        ):
            return
        while len(self._live) >= self._max_pending or (
            self._live and self._pending_bytes + self._count_unheld_bytes(found) > self._max_bytes
        ):
            if self._find_worker() is not None or self._callbacks.inside():
                return
            door = threading.Lock()
            door.acquire()
            self._submitters.append(door)
            self._lock.release()
            try:
                self._interrupts.block(door)
            finally:
                self._lock.acquire()
                if door in self._submitters:
                    self._submitters.remove(door)

    def _count_unheld_bytes(self, found: Found | None) -> int:
        """Returns the bytes of the buffers that no pending call holds yet."""
        held = {} if found is None else found.held
        return sum(size for number, size in held.items() if number not in self._held)

    def _hold_buffers(self, call: Call, buffers: dict[int, int]) -> None:
        """Notes the buffers of a pending call. Each counts once, however many hold it."""
        more = {number: size for number, size in buffers.items() if number not in call.held}
        call.held = call.held | more
        for number, size in more.items():
            holders = self._held.setdefault(number, [size, 0])
            if holders[1] == 0:
                self._pending_bytes += size
            holders[1] += 1

    def _drop_buffers(self, call: Call) -> None:
        for number in call.held:
            holders = self._held[number]
            holders[1] -= 1
            if holders[1] == 0:
                self._pending_bytes -= holders[0]
                del self._held[number]

    def _link_call(
        self, call: Call, found: Found | None, uses: dict[Key, tuple[Any, Direction]]
    ) -> Call | None:
        """Orders `call` after the calls that it needs; returns one of them that failed, if any."""
        failed: Call | None = None
        for future in found.futures if found is not None else ():
            failed = graph.link(call, future._call, data=True) or failed
            if future._call.brings:
                self._hold_buffers(call, future._call.brings)
        for key, (thing, direction) in uses.items():
            failed = self._accesses.enter(call, key, thing, direction) or failed
        return failed

    # ---- From submitted to done. Methods with _ need the lock, if not said otherwise. -----------

    def _release_call(self, call: Call, todo: Todo) -> None:
        """Queues `call`, which needs no other call any more."""
        if call.needs is not None:
            todo.garbage.append(call.needs)
            call.needs = None
        if self._recorder is not None:
            call.ready_s = time.monotonic()
        if call.flow is None:
            call.state = READY
            self._compute.push(call)
        elif not call.has_futures:
            call.state = READY
            assert self._admission is not None  # since start()
            self._start_io(self._admission.ready(call))
            if call.flow.sampled:
                self._sampler.work_came()
        else:
            todo.append(functools.partial(self._prepare_call, call))

    def place_of(self, flow: flows.Flow) -> tuple[Service, int] | None:
        """Returns the service where a flow of the program takes its turn, and the flow's number
        there. Returns None if the runtime has no place for it. Hold no lock.

        Raises:
            ValueError: the flow's device is not known, or cannot hold its constraint.
        """
        with self._lock:
            if self._admission is None or self._state == "closed":
                return None
            number = self._admission.add_program_flow(flow)
            if flow.constraint.sampled:
                self._sampler.watch()
            if self._taker is None:
                gate = self._admission.core
                self._taker = started(functools.partial(self._take_started, gate), "gate")
            return self._admission.core.service, number

    def _take_started(self, gate: Gate) -> None:
        """Starts the calls for which operations of the program's own flows made room."""
        while gate.wait():
            with self._lock:
                if self._admission is not None and self._state != "closed":
                    self._start_io(self._admission.take())

    def _start_io(self, started: Iterable[Call]) -> None:
        for call in started:
            self._io.push(call)

    def _prepare_call(self, call: Call) -> None:
        """Replaces the futures of an I/O call and finds its bytes. Called without the lock."""
        nbytes, error, trace = 0, None, None
        try:
            args, kwargs = _resolve_arguments(call)
            nbytes = call.task.bytes_of(args, kwargs)
        except BaseException as raised:  # as in _execute_call()
            error, trace = raised, _trim_trace(raised)
        todo = Todo()
        with self._lock:
            if call.state == DONE:  # cancelled meanwhile
                return
            if error is not None:
                self._finish_call(call, trace, error, todo)
            else:
                todo.garbage += call.args, call.kwargs
                call.args, call.kwargs, call.has_futures = args, kwargs, False
                call.nbytes = nbytes
                self._release_call(call, todo)
        carry_out(todo)

    def _execute_call(self, worker: Worker, call: Call) -> Outcome:
        """Runs a call. Called without the lock."""
        task = call.task
        error: BaseException | None = None
        value: Any = None
        if self._recorder is not None:
            call.start_s = time.monotonic()
        counter = call.flow.device.tasks if call.flow is not None and call.flow.sampled else None
        try:
            if counter is not worker.counter:
                worker.count_for(counter)
            if call.has_futures:
                call.args, call.kwargs = _resolve_arguments(call)
                call.has_futures = False
            if self._processes and call.flow is None:
                value = self._run_in_process(worker, call)
            else:
                value = self._run_here(worker, call)
            if task.returns != 1:
                value = split_values(task, value)
            if type(value) not in ATOMS:
                call.brings = held_by((value,))
        except BaseException as raised:
            error, value = raised, _trim_trace(raised)
            if call.attempt > task.retries or _has_changed_copies(call):
                with contextlib.suppress(BaseException):  # it may run code of the user's
                    _annotate_error(call, error)
        if task.timeout is not None:
            self._watchdog.ended(worker)
        return value, error

    def _run_here(self, worker: Worker, call: Call) -> Any:
        """Runs a call on this thread. Called without the lock."""
        task = call.task
        before = call.before
        if before is not None:
            before.restore()  # a run that timed out may have changed them since
        elif task.objects and (task.retries or task.on_failure == "ignore"):
            changed = task.written_objects(call.args, call.kwargs)
            before = call.before = Snapshot(task.name, changed)
        if task.timeout is not None:
            self._watchdog.watch(worker, call, task.timeout)
        copies = call.copies
        try:
            if copies is None:
                return task.function(*call.args, **call.kwargs)
            value = _run_on_copies(call, copies)
            copies.note_returned(value)
            return value
        except BaseException:
            # Nobody must use what a failed run made of the objects that the task changes.
            if before is not None and not worker.abandoned:
                before.restore()
            raise

    def _run_in_process(self, worker: Worker, call: Call) -> Any:
        """Runs a call in the worker's process. Called without the lock."""
        task = call.task
        payload = call.payload or pickle_call(task, call.args, call.kwargs)

        def begun() -> None:
            assert task.timeout is not None  # otherwise the process does not call this
            self._watchdog.watch(worker, call, task.timeout)

        while True:
            process = worker.process
            if process is None or process.doomed:
                if process is not None:
                    process.close()
                process = worker.process = WorkerProcess()
            if task.timeout is not None:
                self._watchdog.watch(worker, call, _START_S)
            try:
                value, written = process.run(payload, begun)
                break
            except WorkerDied:
                if not process.ended_idle:
                    raise
        if written:
            for old, new in zip(task.written_objects(call.args, call.kwargs), written, strict=True):
                update_in_place(task.name, old, new)
        return value

    def _handle_timeout(self, worker: Worker, call: Call) -> Todo:
        """Fails a call that runs for longer than its timeout, or kills its process."""
        error = TaskTimeout(f"task {call.name} took longer than {call.task.timeout} s")
        self._timed_out += 1
        if worker.process is not None:
            if not worker.process.begun:
                error = TaskTimeout(f"task {call.name} has not begun in a process in {_START_S} s")
            worker.process.kill(error)
            return Todo()
        worker.pool.abandon(worker)
        todo = self._handle_run_end(call, (None, error))
        if self._timed_out == 1:
            todo.insert(0, functools.partial(_log.warning, _WRITTEN_OFF, error))
        return todo

    def _handle_run_end(self, call: Call, outcome: Outcome) -> Todo:
        """Handles the end of a run: tells the gate, then runs the call again or finishes it."""
        value, error = outcome
        todo = Todo()
        if self._recorder is not None:
            self._record_call(self._recorder, call, error is not None, todo)
        if call.operation != -1:
            assert self._admission is not None  # since start()
            if error is None:
                started = self._admission.finished(call)
            elif isinstance(error, TaskTimeout):
                started = self._admission.cancelled(call)
            else:
                started = self._admission.failed(call)
            self._start_io(started)
        again = error is not None and call.attempt <= call.task.retries and not self._cancelling
        if again and not _has_changed_copies(call):
            call.attempt += 1
            call.waits_for = ()  # what a thread that timed out still waits for
            self._retried += 1
            call.state = WAITING
            self._release_call(call, todo)
        else:
            if error is not None and call.task.on_failure != "raise":
                todo.append(functools.partial(log_given_up, call.task, error))
                value, error = give_up_call(call, error)
            self._finish_call(call, value, error, todo)
        return todo

    def _finish_call(self, call: Call, value: Any, error: BaseException | None, todo: Todo) -> None:
        """Marks `call` as done; the calls that wait for it are released or fail."""
        self._mark_done(call, value, error, todo)
        if call.successors is not None or call.followers is not None:
            self._notify_dependents(call, todo)

    def _mark_done(self, call: Call, value: Any, error: BaseException | None, todo: Todo) -> None:
        """Marks `call` as done. _notify_dependents() handles its edges."""
        ran = call.state == RUNNING and not call.given_up
        call.cancelled = isinstance(error, CancelledError) and not ran
        todo.garbage += call, call.args, call.kwargs, call.before, call.accesses
        if call.copies is not None:
            self._frozen.thaw(call.copies.frozen, call.copies.returned)
            self._pending_bytes -= call.copies.size
            todo.garbage.append(call.copies)
            call.copies = None
        call.value = value
        call.error = error
        call.state = DONE  # last: a reader without the lock then finds value and error
        self._live.discard(call)
        self._drop_buffers(call)
        call.args, call.kwargs, call.payload, call.before = (), _NONE, None, None
        if call.given_up:
            call.report_itself()
            self._failed += 1
        elif error is None:
            self._succeeded += 1
        else:
            self._count_failure(call)
        if call.operation != -1:
            assert self._admission is not None  # since start()
            self._start_io(self._admission.cancelled(call))
        if call.accesses is not None:
            self._accesses.leave(call)
        if call.latches is not None:
            for latch in call.latches:
                latch.remaining -= 1
                if latch.remaining == 0:
                    latch.door.release()
            call.latches = None
        if call.callbacks is not None:
            self._call_back(call.callbacks, todo)
            call.callbacks = None
        if self._submitters and self._has_room():
            for door in self._submitters:
                door.release()
            self._submitters.clear()

    def _call_back(self, callbacks: list[Callback], todo: Todo) -> None:
        todo += (functools.partial(wake, None) for future, wake in callbacks if future is None)
        self._callbacks.add([entry for entry in callbacks if entry[0] is not None])

    def _has_room(self) -> bool:
        # An eighth below the bounds, so that a submitter is not woken for every task that ends.
        return (
            len(self._live) <= self._max_pending * 7 // 8
            and self._pending_bytes <= self._max_bytes * 7 // 8
        )

    def _fail_for(self, call: Call, needed: Call, todo: Todo) -> None:
        """Fails `call`, which is not run, since it needs a call that failed."""
        if call.task.constraint is not None and len(self._not_run) < KEPT_FAILURES:
            self._not_run[call] = call.name
            todo.append(functools.partial(self._describe_not_run, call, call.args, call.kwargs))
        late = needed.told()
        error = make_not_run_error(call, needed)
        if late:
            call.report_itself()
        else:
            call.report = needed.report
        self._mark_done(call, None, error, todo)
        if late and not isinstance(error.__cause__, GivenUp):
            # The program knows of the failure, but not that this call needed the failed one.
            self._keep_failure(call)

    def _describe_not_run(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Describes a call that was not run. Called without the lock: it runs the user's code."""
        text = describe(call.task.name, args, kwargs)
        with self._lock:
            if call in self._not_run:
                self._not_run[call] = text

    def _count_failure(self, call: Call) -> None:
        if call.report is None:
            call.report_itself()
        if call.cancelled:
            self._cancelled += 1
            return
        self._failed += 1
        self._keep_failure(call)

    def _keep_failure(self, call: Call) -> None:
        """Keeps a failure, so that the end of the block tells of it."""
        if len(self._failures) < KEPT_FAILURES:
            self._failures[call] = None
        else:
            self._more_failures += 1

    def _notify_dependents(self, call: Call, todo: Todo) -> None:
        """Releases or fails the calls that wait for `call`, which is done, and so on."""
        failing: list[tuple[Call, Call]] = []  # a call, and the failed one that it needed
        settled: list[Call] = []  # done, as is all they had to follow: followers may start
        self._tell_successors(call, failing, settled, todo)
        while failing or settled:
            if failing:
                call, needed = failing.pop()
                if call.state != DONE:
                    self._fail_for(call, needed, todo)
                    self._tell_successors(call, failing, settled, todo)
                continue
            call = settled.pop()
            for other in call.followers or ():
                other.missing -= 1
                if other.missing == 0:
                    self._release_or_settle(other, settled, todo)
            todo.garbage.append(call.needs)
            call.followers = call.needs = None

    def _tell_successors(
        self, call: Call, failing: list[tuple[Call, Call]], settled: list[Call], todo: Todo
    ) -> None:
        for other in call.successors or ():
            other.missing -= 1
            if call.error is not None and other.state == WAITING:
                failing.append((other, call))
                continue
            if call.brings and other.state == WAITING:
                self._hold_buffers(other, call.brings)
            if other.missing == 0:
                self._release_or_settle(other, settled, todo)
        call.successors = None
        if call.missing == 0:
            settled.append(call)

    def _release_or_settle(self, call: Call, settled: list[Call], todo: Todo) -> None:
        if call.state == WAITING:
            self._release_call(call, todo)
        else:
            settled.append(call)

    # ---- For futures. ---------------------------------------------------------------------------

    def wait_for(self, calls: Sequence[Call], timeout: float | None) -> bool:
        """Waits until all calls are done; returns False if they are not within `timeout` seconds.

        A computation that waits gives its slots to others meanwhile.

        Raises:
            CycleError: one of the calls needs the task that this is called in.
            RuntimeError: called inside an I/O task, which holds bandwidth.
        """
        worker = self._find_worker()
        with self._lock:
            left = tuple(call for call in calls if call.state != DONE)
            if not left:
                return True
            if worker is not None:
                self._begin_wait(worker, left)
            latch = Latch(len(left))
            for call in left:
                if call.latches is None:
                    call.latches = []
                call.latches.append(latch)
        opened = False
        try:
            opened = self._interrupts.block(latch.door, timeout)
        finally:
            if worker is not None or not opened:
                self._end_wait(worker, left, latch)
        return opened or latch.remaining == 0

    def _begin_wait(self, worker: Worker, left: tuple[Call, ...]) -> None:
        call = worker.call
        if call is not None:
            if call.flow is not None:
                raise RuntimeError(
                    f"I/O task {call.name} would wait for {left[0].name} and hold bandwidth of "
                    f"device {call.flow.device.device.name!r} meanwhile: pass the future to it as "
                    "an argument"
                )
            graph.check_no_cycle(call, left)
            call.waits_for = left
        worker.pool.begin_wait(worker)

    def _end_wait(self, worker: Worker | None, left: tuple[Call, ...], latch: Latch) -> None:
        with self._lock:
            if worker is not None:
                if worker.call is not None and not worker.abandoned:
                    worker.call.waits_for = ()
                worker.pool.end_wait(worker)
            for call in left:
                if call.latches is not None and latch in call.latches:
                    call.latches.remove(latch)

    def _find_worker(self) -> Worker | None:
        """Returns this runtime's worker that the current thread belongs to, if any."""
        worker = current_worker()
        ours = worker is not None and worker.pool in (self._compute, self._io)
        return worker if ours and worker is not None and not worker.abandoned else None

    def _is_inside_task(self) -> bool:
        return self._find_worker() is not None

    def cancel(self, call: Call) -> bool:
        """Cancels a call that has not begun; returns whether it is cancelled now."""
        todo = Todo()
        with self._lock:
            if call.state == DONE:
                return call.cancelled
            if call.state == RUNNING:
                return False
            error = CancelledError(f"task {call.name} was cancelled")
            self._finish_call(call, None, error, todo)
            call.seen = True  # the program itself cancelled it
            self._wake_after_cancel()
        carry_out(todo)
        self._interrupts.check()
        return True

    def _wake_after_cancel(self) -> None:
        """Lets calls start that a cancelled call was holding up. Needs the lock."""
        self._compute.wake_thread()

    def add_callback(
        self, call: Call, future: Future[Any] | None, callback: Callable[[Any], object]
    ) -> None:
        """Calls `callback(future)` when the call is done. Without a future the callback runs on the
        thread that ends the call, and must be as quick as waking an event loop."""
        with self._lock:
            if call.state != DONE:
                if future is not None:
                    self._callbacks.begin()
                if call.callbacks is None:
                    call.callbacks = []
                call.callbacks.append((future, callback))
                return
        call_back([(future, callback)])

    def value_of(self, future: Future[Any], timeout: float | None) -> Any:
        """Returns the value of a future whose call succeeded."""
        value = future._call.value
        return value if future._index is None else value[future._index]

    def fetch(self, futures: Iterable[Future[Any]]) -> None:
        """Brings values to this process, all at once, if they are elsewhere."""

    def start_fetch(self, future: Future[Any]) -> concurrent.futures.Future[Any] | None:
        """Starts to bring the value of a future whose call is done to this process. Returns what
        ends when the value is here; None if it is here already."""
        return None

    def prepare_await(self, call: Call) -> None:
        """Prepares for an event loop that is about to wait for the call."""

    def is_running(self, call: Call) -> bool:
        return call.running

    def note_seen(self, call: Call) -> None:
        """Notes that the program has seen how `call` failed, and what caused that."""
        seen: list[Call] = []  # dropped without the lock
        with self._lock:
            self._not_run.pop(call, None)
            seen.append(call)
            if call.report is not None:
                seen.append(call.report)
            if isinstance(call.error, DependencyFailed) and call.report in (call, None):
                # Its body raised the error, of a task that it called, say.
                cause = call.error.__cause__
                seen += (other for other in self._failures if other.error is cause)
            for other in seen:
                other.seen = True
                self._failures.pop(other, None)

    # ---- For programs. --------------------------------------------------------------------------

    def barrier(self) -> None:
        """Waits for every task submitted so far, and raises the failure that came first of those
        that nobody asked for. It drops the others, since each is in its future.

        Raises:
            RuntimeError: called inside a task.
        """
        if self._is_inside_task():
            raise RuntimeError(
                "barrier() inside a task would wait for the task itself: "
                "wait for the futures that it needs"
            )
        with self._lock:
            live = tuple(self._live)
        self.wait_for(live, None)
        self._interrupts.check()
        self._raise_first_failure()

    def _raise_first_failure(self) -> None:
        failure = self._take_failures()
        if failure is not None:
            raise failure

    def _take_failures(self) -> BaseException | None:
        """Returns the first failure that nobody asked for, with a note of how many follow."""
        with self._lock:
            failed, more = list(self._failures), self._more_failures
            self._failures.clear()
            self._more_failures = 0
            self.barriers += 1
        if not failed:
            return None
        first = failed[0]
        assert first.error is not None  # it failed
        more += len(failed) - 1
        if more > 0:
            add_note(first.error, f"and {more} more tasks failed")
        return first.error.with_traceback(first.value)

    def bring_back(self, objects: Iterable[Any]) -> None:
        """Gives objects their new contents if tasks have changed them elsewhere."""

    def find_writers(self, things: Iterable[Any]) -> list[Call]:
        """Returns the calls that write these objects or paths and are not done, or failed."""
        # There may be a million texts. They take no lock, as long as none names a file of a task.
        keys = [key for key in map(self._make_key, things) if self._accesses.knows(key)]
        if not keys:
            return []
        with self._lock:
            return self._find_writers(keys)

    def _make_key(self, thing: Any) -> Key:
        if not is_path(thing) or not self._accesses.has_files:
            return id(thing)
        try:
            return graph.file_key(thing)
        except OSError:  # a relative path in a deleted folder names no file
            return id(thing)

    def _find_writers(self, keys: Iterable[Key]) -> list[Call]:
        found = map(self._accesses.writer, keys)
        return [call for call in found if call is not None]

    def explain(self, task: Task | str) -> dict[str, Any]:
        """Says why the calls of an I/O task start when they do: its constraint, and what the policy
        learned and how.

        Raises:
            ValueError: no I/O task of that name was called, or several were.
        """
        with self._lock:
            if self._flows is None:
                raise ValueError("the Runtime was not started: no I/O task was called")
            return self._flows.explain(task)

    def records(self) -> list[TaskRecord]:
        """Returns when and where each call ran that has ended by now, in the order of their ends. A
        call that was run again has a record for each run.

        Raises:
            RuntimeError: records are not kept.
        """
        if self._recorder is None or not self._keep_records:
            raise RuntimeError("records are not kept: use Runtime(records=True), and start it")
        return self._recorder.records()

    def stats(self) -> Stats:
        """Returns counts of tasks, threads and operations as they are now."""
        with self._lock:
            admission = self._admission
            return Stats(
                **self._count_calls(),
                pending=len(self._live),
                pending_bytes=self._pending_bytes,
                cpus=self._cpus,
                cpus_free=self._compute.free,
                threads=len(self._compute.workers),
                io_threads=len(self._io.workers),
                io_waiting=admission.waiting if admission is not None else 0,
                io_running=admission.running if admission is not None else 0,
                flows=()
                if admission is None
                else tuple(map(self._make_flow_stats, admission.flows)),
            )

    def _make_flow_stats(self, flow: TaskFlow) -> FlowStats:
        admission = self._admission
        assert admission is not None  # it has the flow
        waiting, running = admission.counts(flow)
        is_sampled = admission.needs_samples(flow.device)
        return FlowStats(
            task=flow.name,
            device=flow.device.device.name,
            waiting=waiting,
            running=running,
            bytes=flow.moved,
            limit=flow.limit,
            done=flow.done,
            device_mb_per_s=flow.device.mb_per_s if is_sampled else None,
        )

    # ---- For progress and the run file. ---------------------------------------------------------

    def _explain_flows(self) -> list[dict[str, Any]]:
        with self._lock:
            return [] if self._flows is None else self._flows.explanations()

    def _make_recorder(self) -> Recorder:
        return Recorder(
            self._run_file,
            keep=self._keep_records,
            runtime=self._describe_runtime(),
            devices=({"default": Device("default")} | self._devices).values(),
        )

    def _describe_runtime(self) -> dict[str, Any]:
        """Describes this runtime for the run file (docs/run-file.md)."""
        return {
            "kind": "embedded",
            "target": None,
            "nodes": 1,
            "cpus": self._cpus,
            "workers": "processes" if self._processes else "threads",
            "io_threads": self._io_threads,
        }

    def _record_call(self, recorder: Recorder, call: Call, failed: bool, todo: Todo) -> None:
        flow, began = call.flow, self._began
        due = recorder.call(
            call.task.name if flow is None else flow.name,
            None if flow is None else flow.device.device.name,
            0,
            call.ready_s - began,
            call.start_s - began,
            time.monotonic() - began,
            0 if flow is None or failed else call.nbytes,
            failed,
        )
        if due:
            todo.append(recorder.flush)

    def _record_limit(self, flow: TaskFlow) -> None:
        assert self._recorder is not None  # otherwise nobody calls this
        at_s = time.monotonic() - self._began
        self._recorder.limit(flow.name, flow.device.device.name, flow.limit, at_s)

    def _count_calls(self) -> dict[str, int]:
        return {
            "submitted": self._submitted,
            "succeeded": self._succeeded,
            "failed": self._failed,
            "cancelled": self._cancelled,
            "retried": self._retried,
            "timed_out": self._timed_out,
        }

    # ---- For the sampler and the log. -----------------------------------------------------------

    def _list_devices_to_sample(self) -> Iterable[DeviceState]:
        admission = self._admission
        assert admission is not None  # since start()
        return [state for state in admission.devices if admission.needs_samples(state)]

    def _apply_sample(self, device: DeviceState, bytes_per_second: float, seconds: float) -> None:
        assert self._admission is not None  # since start()
        self._start_io(self._admission.sample(device, bytes_per_second, seconds))

    def _list_pids(self) -> list[int]:
        with self._lock:
            processes = [worker.process for worker in self._compute.workers]
        return [os.getpid(), *(process.pid for process in processes if process is not None)]


class ForkedRuntime(Runtime):
    """A Runtime in a process that was forked while the runtime was active. The child lacks its
    threads, and one of them may hold its lock. So this class never waits and takes no lock."""

    def _refuse_call(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(_NOT_HERE)

    submit = barrier = explain = stats = records = start = _refuse_call

    def forked_class(self) -> type[Runtime]:
        return type(self)

    def wait_for(self, calls: Sequence[Call], timeout: float | None) -> bool:
        for call in calls:
            self._check_done(call)
        return True

    def cancel(self, call: Call) -> bool:
        self._check_done(call)
        return call.cancelled

    def add_callback(
        self, call: Call, future: Future[Any] | None, callback: Callable[[Any], object]
    ) -> None:
        self._check_done(call)
        call_back([(future, callback)])

    def place_of(self, flow: flows.Flow) -> tuple[Service, int] | None:
        return None

    def is_running(self, call: Call) -> bool:
        self._check_done(call)
        return False

    def find_writers(self, things: Iterable[Any]) -> list[Call]:
        return self._find_writers(map(self._make_key, things))

    def _check_done(self, call: Call) -> None:
        if call.state != DONE:
            self._refuse_call()

    def note_seen(self, call: Call) -> None:
        """Does nothing: the parent reports failures."""

    def _close(self, error: BaseException | None) -> None:
        """Does nothing: the parent waits for its tasks."""


_NOT_HERE = (
    "this process was forked from the one whose Runtime runs the tasks, and has none of its "
    "threads: call tasks and ask for futures there (multiprocessing.get_context('spawn') forks "
    "nothing), open a Runtime of its own here, or call the plain function, `task.function(...)`"
)


def _after_fork() -> None:
    """Makes the active runtime a forked one. Runs in the child."""
    global _turn
    runtime = tasks.active
    if runtime is not None and runtime.has_threads:
        runtime.__class__ = runtime.forked_class()
        runtime._interrupts.give_up()
        _turn = threading.Lock()  # so that the child may have a Runtime of its own


os.register_at_fork(after_in_child=_after_fork)


def _find_interrupt() -> KeyboardInterrupt | None:
    """Returns the KeyboardInterrupt that is being handled, or that has ended the program."""
    error = sys.exc_info()[1]
    if error is None and not hasattr(sys, "ps1"):  # at a prompt the program continues after it
        error = getattr(sys, "last_value", None)
    return error if isinstance(error, KeyboardInterrupt) else None


def wait(value: Any) -> Any:
    """Waits for all futures in the value, and returns the value with their results in their place.

    Futures, and requests of files, may lie at any depth of containers and dataclasses. The call
    also waits for the tasks that change an object (`Annotated[T, InOut]`), and for the tasks that
    write the file of a path, or of each path in a list or tuple; a path may be a text. A value
    without futures is returned as it is, so a program reads the same with and without a runtime.

    Raises:
        Exception: what the first of them raised, in the order in which they stand.
    """
    runtime = tasks.active
    found = examine((value,))
    calls = [future._call for future in found.futures]
    if runtime is not None:
        things = [*found.objects, *found.futures]
        things += filter(is_path, value if isinstance(value, (list, tuple)) else (value,))
        writers = runtime.find_writers(things)
        runtime.wait_for((*calls, *writers), None)
        for writer in writers:
            Future[Any](writer).exception()  # marks it as seen; raises if it was cancelled
            if writer.error is not None:
                raise writer.error.with_traceback(writer.value)
        runtime.bring_back(found.objects)
    elif calls:
        calls[0].runtime.wait_for(calls, None)
    if calls:
        calls[0].runtime.fetch(found.futures)
    value = _resolve_futures(value)
    return replace_requests(value, Request.result) if found.requests else value


def is_path(thing: Any) -> bool:
    """Returns whether `thing` may name a file. A text that is no file of a task does no harm."""
    return isinstance(thing, (str, os.PathLike))


def barrier() -> None:
    """Calls Runtime.barrier() of the active runtime; without one it does nothing."""
    if tasks.active is not None:
        tasks.active.barrier()


def _resolve_futures(value: Any) -> Any:
    return replace_futures(value, Future.result)


def _resolve_arguments(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call with the values of their futures, which are done."""
    done: Replaced = {}
    args, kwargs = replace_futures((call.args, call.kwargs), Future.result, done)
    if call.copies is not None:
        call.copies.note_replaced(done)
    return args, kwargs


def _run_on_copies(call: Call, copies: Copies) -> Any:
    """Runs a call on the copies of its arguments.

    Raises:
        TypeError: the task changed a copy, and either did not fail or would be run again.
    """
    if not copies.begin():  # a run that timed out has changed them since
        raise _make_copy_error(call, copies)
    try:
        value = call.task.function(*call.args, **call.kwargs)
    except BaseException:
        if call.attempt <= call.task.retries and not copies.check():
            raise _make_copy_error(call, copies)  # noqa: B904 (its context says how the run failed)
        raise
    if not copies.check():
        raise _make_copy_error(call, copies)
    return value


def _make_copy_error(call: Call, copies: Copies) -> TypeError:
    return TypeError(_CHANGED_COPY.format(call.task.name, copies.changed))


def _has_changed_copies(call: Call) -> bool:
    """Returns whether the call cannot be run again, since it changed copies of its arguments."""
    copies = call.copies
    return copies is not None and copies.changed is not None


def make_not_run_error(call: Call, needed: Call) -> DependencyFailed:
    error = needed.error
    assert error is not None  # or `call` could run
    if isinstance(error, DependencyFailed) and error.__cause__ is not None:
        return DependencyFailed((*error.chain, call.name), error.__cause__)
    return DependencyFailed((needed.name, call.name), error)


def give_up_call(call: Call, error: BaseException) -> tuple[Any, CancelledError | None]:
    """Returns value and error of a call whose failure is not to be raised."""
    call.given_up = True
    if call.task.on_failure == "ignore":
        return make_empty_value(call.task), None
    cancelled = GivenUp(f"task {call.name} failed, and what needs it is not run")
    cancelled.__cause__ = error
    return None, cancelled


def make_empty_value(task: Task) -> Any:
    """Returns the value of a task that was not computed: None, or a tuple of them."""
    return None if task.returns == 1 else (None,) * task.returns


def log_given_up(task: Task, error: BaseException) -> None:
    _log.warning("task %r failed, and the failure is not raised: %r", task.name, error)


def split_values(task: Task, value: Any) -> tuple[Any, ...]:
    """Splits the value of a task with `returns` into that many values.

    Raises:
        TypeError: the value does not hold so many.
    """
    try:
        values = tuple(value)
    except TypeError:
        values = None
    if values is None or len(values) != task.returns:
        held = ", which holds none" if values is None else f" with {len(values)} values"
        raise TypeError(
            f"task {task.name!r} has returns={task.returns}, but its value is "
            f"{type(value).__name__}{held}"
        )
    return values


def _trim_trace(error: BaseException) -> TracebackType | None:
    """Returns the traceback from the user's code on, without the frames that called it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FRAMES:
        trace = trace.tb_next
    return trace


def _annotate_error(call: Call, error: BaseException) -> None:
    attempt = f", attempt {call.attempt}" if call.attempt > 1 else ""
    text = describe(call.task.name, call.args, call.kwargs)
    add_note(error, f"in task {text} on node {_NODE_NAME}{attempt}")
    # str(error) would run code of the user's.
    raised = type(error) in (TypeError, ValueError) and call.copies is not None
    if raised and any(type(text) is str and "read-only" in text for text in error.args):
        add_note(error, _READ_ONLY)


def add_note(error: BaseException, note: str) -> None:
    with contextlib.suppress(Exception):  # some classes allow no new attributes
        # Python 3.10 keeps notes but does not print them.
        error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]


# Files whose code Ctrl-C must not interrupt half way, and whose frames users need not see.
GUARDED = frozenset(
    module.__file__ for module in (admission, graph, pool, sys.modules[__name__]) if module.__file__
)
_OWN_FRAMES = GUARDED | {str(Path(__file__).with_name("processes.py"))}
