"""The runtime whose tasks run on a Dask cluster: `Runtime("dask://host:8786")`, `Runtime(client)`.

It consists of parts of the embedded runtime, and links calls by the same rules. What differs:

1. `submit` pickles the arguments (`calls.py`). The futures in them become inputs of a Dask task,
   and so do objects that an earlier task changes: each version of an object is a Dask key.
2. A call goes to Dask as soon as all calls whose *data* it needs have gone, so that Dask starts it
   without asking here. A call that only has to follow others (it writes a file that they read)
   stays here until they are done: with a dependency of Dask's it would fail if they fail.
3. `Reports` receives what Dask tells the client about keys. `_handle_report` then marks calls as
   done, on the thread of Dask's event loop, under the lock. The user's callbacks run on a thread of
   their own.
4. Values stay on the cluster until somebody asks for them (`fetch`). Only a value of None is known
   from the report.

Inside a task, on a worker, tasks are plain calls.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import logging
import operator
import os
import re
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import distributed
from dask.delayed import Delayed

from .. import graph
from .._request import Request
from ..admission import Names, unknown_device
from ..arguments import Found, replace_requests
from ..callbacks import Todo, carry_out
from ..constraints import constraint_for
from ..contents import update_in_place
from ..devices import Device
from ..errors import CancelledError, TaskTimeout, WorkerDied
from ..futures import Future
from ..graph import DONE, READY, RUNNING, WAITING, Call, Direction, Key
from ..interrupts import Interrupts
from ..learning import of_this_process
from ..options import Options, takes_options
from ..records import TaskRecord
from ..runtime import (
    GUARDED,
    FlowStats,
    ForkedRuntime,
    Runtime,
    Stats,
    give_up_call,
    is_path,
    log_given_up,
)
from ..tasks import Task
from ..threads import started
from . import calls
from .client import Handle, ask, connect
from .protocol import CPU, io_resources
from .reports import Reports

_log = logging.getLogger("ioweave")
_LOOK_S = 1.0  # between two questions to the scheduler about what ran
_TARGET = re.compile(r"dask://[^/]+:\d+")
_NO_CLUSTER = {"cpus": 0, "cpus_free": 0, "threads": 0, "io_slots": 0, "flows": ()}


class DaskCall(Call):
    """A call and its Dask task."""

    __slots__ = (
        *("arguments", "inputs", "after", "ordered"),
        *("key", "sent", "dask", "heard", "parts", "values", "lease", "versions"),
    )

    def __init__(
        self, runtime: DaskRuntime, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        super().__init__(runtime, task, args, kwargs)
        self.key = ""
        self.arguments = b""  # pickled
        # A call and the index of one of its values, or a future of Dask's own.
        self.inputs: list[tuple[DaskCall | distributed.Future[Any], int]] = []
        self.after: list[Any] = []  # calls that write files which it needs
        self.ordered = False  # it has to follow calls whose data it does not need
        self.sent = False  # it went to Dask, or is about to
        self.dask: distributed.Future[Any] | None = None
        self.heard: tuple[Any, ...] | None = None  # the report of its end, if `dask` was not set
        self.parts: dict[int, distributed.Future[Any]] = {}  # Dask futures of its values, by index
        self.values: dict[int, Any] = {}  # values that were fetched, by index
        self.lease: Lease | None = None
        self.versions: list[Version] = []  # the versions that it makes

    def forget_arguments(self) -> None:
        self.arguments, self.inputs, self.after = b"", [], []

    def forget_versions(self) -> None:
        """Drops the versions before its own, which nobody asks for once it succeeded."""
        if self.state == DONE and self.error is None:
            for version in self.versions:
                version.before = None
            self.versions = []

    @property
    def many(self) -> bool:
        """Whether the Dask task returns a tuple: several values, or objects that it changes."""
        return self.task.returns != 1 or bool(_list_changed(self.task))


def _list_changed(task: Task) -> list[str]:
    return [name for name, way in task.objects.items() if way is not Direction.In]


class Lease:
    """Keeps a client that the runtime made open, as long as values may be fetched."""

    def __init__(self, client: distributed.Client) -> None:
        # On a thread: closing waits for the client's event loop, which may drop the last reference.
        close = threading.Thread(target=client.close, daemon=True, name="ioweave-dask-close")
        weakref.finalize(self, close.start).atexit = False


class Version:
    """A version of an object, or of the value of a future, that a task changes."""

    __slots__ = ("before", "index", "keep", "writer")

    def __init__(
        self,
        thing: Any,
        writer: DaskCall,
        index: int,
        before: Version | None,
        gone: Callable[[Version], None],
    ) -> None:
        self.writer = writer
        self.index = index  # its place among the values of the writer
        self.before = before  # the version if the writer fails; None: the object as it is here
        self.keep: Callable[[], Any]  # returns the object
        try:
            self.keep = weakref.ref(thing, lambda _: gone(self))
        except TypeError:  # lists and dicts are kept, or another object could get the id
            self.keep = lambda: thing


class Versions:
    """The last version of each object that tasks change."""

    def __init__(self) -> None:
        # Guards the step from one version to the next. Its holder may take the runtime's lock.
        self.lock = threading.RLock()
        self._table: dict[int, Version] = {}  # by id

    def add(self, thing: Any, writer: DaskCall, index: int) -> None:
        number = id(thing)

        def gone(version: Version) -> None:  # takes no lock: it may run anywhere, under any lock
            if self._table.get(number) is version:
                del self._table[number]

        with self.lock:
            version = Version(thing, writer, index, self.of(thing), gone)
            self._table[number] = version
        writer.versions.append(version)
        writer.forget_versions()  # if it is done already

    def of(self, thing: Any, *, unknown: bool = False) -> Version | None:
        """Returns the last version. The version of a failed call counts until the program has been
        told of the failure. After that, or with `unknown`, the version before it counts."""
        version = self._table.get(id(thing))
        if version is None or version.keep() is not thing:
            return None
        if version.writer.error is None:
            return version
        with self.lock:
            version = self._table.get(id(thing))
            while version is not None and version.writer.error is not None:
                if not (unknown or version.writer.told()):
                    return version
                version = version.before
                if version is None:
                    self._table.pop(id(thing), None)
                else:
                    self._table[id(thing)] = version
            return version

    def knows(self, thing: Any) -> bool:
        """Returns whether a task changes the object. Takes no lock: for forked processes."""
        version = self._table.get(id(thing))
        return version is not None and version.keep() is thing

    def drop(self, thing: Any, version: Version) -> bool:
        """Removes a version whose contents the object gets now; returns False if there is a later
        version. Needs the lock until the object has the contents."""
        last = self._table.get(id(thing)) is version
        if last:
            del self._table[id(thing)]
        return last

    def things(self) -> list[Any]:
        found = [version.keep() for version in tuple(self._table.values())]
        return [thing for thing in found if thing is not None]


class DaskRuntime(Runtime):
    """Runs the tasks that are called while its block is open on a Dask cluster.

    It takes the arguments of ioweave.Runtime. The target is "dask://host:port", or a
    distributed.Client (for TLS, say), which stays open. Devices are declared on the cluster when a
    task first uses them. Only calls that succeeded have records, which are fetched now and then.

    Raises:
        ValueError: an argument is wrong, or the client is asynchronous.
    """

    @takes_options
    def __init__(self, options: Options) -> None:
        target = options.target
        if isinstance(target, distributed.Client):
            if target.asynchronous:
                raise ValueError(
                    "Runtime(client) needs a client that is not asynchronous; tasks can be awaited "
                    "with any client"
                )
        elif not (isinstance(target, str) and _TARGET.fullmatch(target)):
            raise ValueError(
                f"target {target!r} is not understood: give dask://HOST:PORT, as the scheduler "
                "prints it (tcp://HOST:PORT; its usual port is 8786)"
            )
        self._init_calls(options)
        self._interrupts = Interrupts(GUARDED | {__file__})
        self._target: str | distributed.Client = target
        self._anywhere = options.shared_directory
        self._id = uuid.uuid4().hex[:12]
        self._client: distributed.Client
        self._handle: Handle
        self._reports: Reports
        self._lease: Lease | None = None
        self._flow_numbers: dict[Task, int] = {}
        self._names = Names()
        self._declaring = threading.Lock()  # held to declare a flow, which asks the scheduler
        self._specs: dict[Task, bytes] = {}
        self._versions = Versions()
        self._by_key: dict[str, DaskCall] = {}  # calls that were sent and are not done
        self._withdrawing = 0  # threads that cancel calls
        self._heard_meanwhile: list[tuple[str, BaseException]] = []  # calls that Dask cancelled
        # What the scheduler last said; it is asked until the runtime is closed.
        self._over = True  # closed, or not begun
        self._looking = threading.Lock()  # held while records come from the scheduler
        self._closing = threading.Event()
        self._looker: threading.Thread | None = None
        self._cluster: dict[str, Any] = dict(_NO_CLUSTER)
        self._explained: dict[int, dict[str, Any]] = {}

    # ---- Beginning and end. ---------------------------------------------------------------------

    def _open(self) -> None:
        if isinstance(self._target, distributed.Client):
            self._client = self._target
        else:
            address = "tcp://" + self._target.removeprefix("dask://")
            try:
                self._client = distributed.Client(address, set_as_default=False)
            except OSError as error:
                raise ConnectionError(
                    f"{self._target}: no Dask scheduler answers there ({error}): start one with "
                    "`dask scheduler`, or correct the address"
                ) from error
            self._lease = Lease(self._client)
        try:
            log = None if self._log_path is None else os.fspath(self._log_path)
            self._handle = connect(self._client, log=log)
            if log is not None and self._ask_scheduler("log") != log:
                raise ValueError(
                    f"log={log!r}: Ioweave was brought to this cluster before, and its log is "
                    f"{self._ask_scheduler('log')!r}: the first connection says where it is"
                )
            self._ask_scheduler(
                "begin",
                run=self._id,
                of=self._client.id,
                records=self._recorder is not None,
            )
            self._reports = Reports(self._client, self._handle_report, self._handle_loss)
        except BaseException:
            self._lease = None
            raise
        self._over = False
        if self._recorder is not None:
            self._looker = started(self._poll_reports, "dask-records")

    def _ask_scheduler(self, question: str, **arguments: Any) -> Any:
        """Asks the scheduler plugin a question.

        Raises:
            TimeoutError: the scheduler does not answer.
        """
        loop: Any = self._client.loop
        asking = asyncio.run_coroutine_threadsafe(
            ask(self._client, question, **arguments), loop.asyncio_loop
        )
        self._wait_for_loop(asking, None)
        return asking.result()

    def _wait_for_loop(
        self, awaited: concurrent.futures.Future[Any], timeout: float | None
    ) -> bool:
        """Waits for the client's event loop, but Ctrl-C ends it; False after `timeout`."""
        gate = threading.Lock()
        gate.acquire()
        awaited.add_done_callback(lambda _: gate.release())
        over = False
        try:
            over = self._interrupts.block(gate, timeout)
        finally:
            if not over:
                awaited.cancel()
        return over

    def _end_workers(self) -> None:
        """Gives objects that tasks changed their new contents in this process."""
        if not self._cancelling:
            things = self._versions.things()
            # Their last versions become those of the last tasks that did not fail.
            for thing in things:
                self._versions.of(thing, unknown=True)
            self.bring_back([thing for thing in things if not isinstance(thing, Future)])

    def _close_down(self) -> None:
        self._closing.set()
        if self._looker is not None:
            self._looker.join()
        try:
            if self._is_reachable():
                self._end_session()
        except Exception as error:
            _log.warning("the cluster did not return what it kept for this Runtime: %s", error)
        finally:
            self._over = True
            self._reports.close()
            self._handle_loss(
                "the Runtime was closed"
            )  # calls still running: nobody hears of their ends
            self._lease = None

    def _end_session(self) -> None:
        for task, flow in self._flow_numbers.items():
            learned = self._ask_scheduler("learned", flow=flow)
            if learned:
                of_this_process.put(task.key, task.device, learned)
        self._fetch_reports()
        if not self._ask_scheduler("end", run=self._id):
            _log.warning(
                "the cluster forgot this Runtime, which was out of reach for too long: records of "
                "its tasks since then are missing"
            )

    def _is_reachable(self) -> bool:
        """Returns whether the scheduler can be asked and knows this runtime."""
        return not self._over and self._client.status == "running"

    def _is_inside_task(self) -> bool:
        return calls.is_inside_task()

    def _find_worker(self) -> None:
        return None

    # ---- Submission. ----------------------------------------------------------------------------

    def submit(self, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As Runtime.submit(), but inside a task it is the plain call.

        Raises:
            TypeError: an argument cannot be sent to a worker.
        """
        if calls.is_inside_task():
            return task.function(*args, **kwargs)
        call = DaskCall(self, task, args, kwargs)
        found = self._examine_arguments(call)
        if task.constraint is None:
            self._check_cpus(task)
        else:
            with self._declaring:
                if task not in self._flow_numbers:
                    self._flow_numbers[task] = self._make_flow(task)
        if task not in self._specs:
            self._specs[task] = calls.dumps_task(task)
        uses = task.accesses(args, kwargs) if task.files or task.objects else {}
        todo = Todo()
        with self._lock:
            if len(self._live) >= self._max_pending or self._pending_bytes > 0:
                self._wait_for_room(found)
        # One step: it reads the last version of an object and makes the next one.
        with self._versions.lock:
            changed = self._pickle_arguments(call, uses)
            if task.constraint is not None and not call.has_futures:
                call.nbytes = task.bytes_of(args, kwargs)
            files: dict[Key, Any] = {key: use for key, use in uses.items() if isinstance(key, str)}
            with self._lock:
                self._add_call(call, found, files, todo)
            for index, thing in enumerate(changed, task.returns):
                self._versions.add(thing, call, index)
        carry_out(todo)
        return self._make_futures(call)

    def _take_requests(self, call: Call) -> None:
        # A request reads into this process, so its result can be sent only when it has ended.
        call.args, call.kwargs = replace_requests((call.args, call.kwargs), Request.result)

    def _check_cpus(self, task: Task) -> None:
        try:
            self._handle.check_cpus(task.cpus)
        except ValueError as error:
            raise ValueError(f"task {task.name!r}: {error}") from None

    def _make_flow(self, task: Task) -> int:
        device = self._devices.get(task.device)
        if device is None:
            budgets = self._ask_scheduler("budgets")
            if task.device not in budgets:
                raise unknown_device(f"task {task.name!r}", task.device, {*self._devices, *budgets})
            budget = budgets[task.device]
        else:
            budget = device.bandwidth
            self._handle.declare_device(
                device.name,
                scope=device.scope,
                bandwidth=device.bandwidth,
                max_in_flight=device.max_in_flight,
                path=None if device.path is None else os.fspath(device.path),
                nodes=device.nodes,
            )
        name = self._names.make_name(task)
        constraint = constraint_for(task, budget).text(int(self._handle.io_slots or 1))
        try:
            flow: int = self._ask_scheduler(
                "flow",
                name=name,
                device=task.device,
                constraint=constraint,
                learned=of_this_process.beginning(task, device or Device(task.device)),
            )
            self._names.add(task, name)
            return flow
        except ValueError as error:
            raise ValueError(f"task {task.name!r} on device {task.device!r}: {error}") from None

    def _pickle_arguments(
        self, call: DaskCall, uses: dict[Key, tuple[Any, Direction]]
    ) -> list[Any]:
        """Pickles the arguments; returns the objects that the call changes, in their order."""
        task = call.task
        changed = task.written_objects(call.args, call.kwargs) if _list_changed(task) else []
        ids = {id(thing) for thing in changed}
        reads = {id(t) for t, way in uses.values() if way is not Direction.Out}
        numbers: dict[int, tuple[int, bool]] = {}

        def number_of(value: Any) -> tuple[int, bool] | None:
            source: tuple[DaskCall | distributed.Future[Any], int]
            if id(value) in numbers:
                return numbers[id(value)]
            version = self._versions.of(value)
            if version is not None and (id(value) in reads or id(value) not in ids):
                source = version.writer, version.index
            elif type(value) is Future and value._call.runtime is self:
                assert isinstance(value._call, DaskCall)  # made by submit
                source = value._call, value._index or 0
            elif isinstance(value, (distributed.Future, Delayed)):
                source = self._as_client_future(value), 0
            else:
                return None
            numbers[id(value)] = len(call.inputs), id(value) in ids
            call.inputs.append(source)
            return numbers[id(value)]

        call.arguments = calls.dumps_arguments(task, call.args, call.kwargs, number_of)
        call.has_futures = bool(call.inputs)
        return changed

    def _as_client_future(
        self, value: distributed.Future[Any] | Delayed
    ) -> distributed.Future[Any]:
        """Returns a Dask object among the arguments as a future of this runtime's client."""
        if isinstance(value, Delayed):
            computed: distributed.Future[Any] = self._client.compute(value)
            return computed
        # A task of another client may reach the scheduler after our task that needs it.
        if value.client is not self._client:
            raise ValueError(f"{value!r} belongs to another Client than that of this Runtime")
        return value

    def _link_call(
        self, call: Call, found: Found | None, uses: dict[Key, tuple[Any, Direction]]
    ) -> Call | None:
        assert isinstance(call, DaskCall)  # made by submit
        failed: Call | None = None
        for needed, _ in call.inputs:
            if isinstance(needed, DaskCall):
                failed = graph.link(call, needed, data=True) or failed
        for key, (thing, direction) in uses.items():
            failed = self._accesses.enter(call, key, thing, direction) or failed
        # If `call` follows `need`, it is the last follower in the list.
        needs = dict.fromkeys(call.needs or ())
        call.ordered = any(need.followers and need.followers[-1] is call for need in needs)
        inputs = {needed for needed, _ in call.inputs}
        call.after = [need for need in needs if need not in inputs]
        return failed

    # ---- From submitted to done. ----------------------------------------------------------------

    def _add_call(
        self,
        call: Call,
        found: Found | None,
        uses: dict[Key, tuple[Any, Direction]],
        todo: Todo,
    ) -> None:
        assert isinstance(call, DaskCall)  # made by submit
        super()._add_call(call, found, uses, todo)
        call.key = f"{self._names.name_of(call.task)}-{call.number}-{self._id}"
        if self._can_send(call):
            self._send_soon(call, todo)

    def _release_call(self, call: Call, todo: Todo) -> None:
        assert isinstance(call, DaskCall)  # made by submit
        call.state = READY
        call.needs = None
        self._send_soon(call, todo)

    def _can_send(self, call: Call) -> bool:
        """Returns whether Dask can wait for all that `call` needs. Needs the lock."""
        assert isinstance(call, DaskCall)  # made by submit
        if call.state != WAITING or call.ordered or call.sent:
            return False
        return all(
            need.state == DONE or (isinstance(need, DaskCall) and need.dask is not None)
            for need in call.needs or ()
        )

    def _send_soon(self, call: DaskCall, todo: Todo) -> None:
        if not call.sent:
            call.sent = True
            todo.append(functools.partial(self._send_calls, call))

    def _send_calls(self, call: DaskCall) -> None:
        """Hands `call` to Dask, then the calls that waited for that. Called without the lock."""
        going = [call]
        while going:
            call = going.pop()
            self._send_call(call)
            with self._lock:
                for other in call.successors or ():
                    if self._can_send(other):
                        assert isinstance(other, DaskCall)  # made by submit
                        other.sent = True
                        going.append(other)

    def _send_call(self, call: DaskCall) -> None:
        try:
            future = self._submit_call(call)
        except Exception as error:
            todo = Todo()
            with self._lock:
                if call.state != DONE:
                    self._finish_call(call, error.__traceback__, error, todo)
            carry_out(todo)
            return
        with self._lock:
            if call.state != DONE:
                call.dask, call.lease = future, self._lease
            call.forget_arguments()
            heard, call.heard = call.heard, None
        if heard is None and future is not None and future.cancelled():
            heard = (CancelledError("the connection was lost"), None, None)  # while it was sent
        if heard is not None:
            self._handle_report(call.key, *heard)

    def _submit_call(self, call: DaskCall) -> distributed.Future[Any] | None:
        """Submits a call to Dask; None: it is done already, since its input failed, say."""
        task = call.task
        with self._lock:
            if call.state == DONE:
                return None
            self._by_key[call.key] = call
            # Copied now, under the lock, because a call that fails drops all of this.
            arguments = call.arguments
            needs = [
                (needed, index, needed.dask if isinstance(needed, DaskCall) else needed)
                for needed, index in call.inputs
            ]
            after = [needed.dask for needed in call.after if needed.dask is not None]
        resources: dict[str, float] = {CPU: task.cpus}
        if task.constraint is not None:
            size = None if call.has_futures else call.nbytes  # None: that of its inputs
            if type(task.bytes) is int:
                size = task.bytes
            resources = io_resources(self._flow_numbers[task], size, anywhere=self._anywhere)
        return self._client.submit(
            calls.run,
            self._specs[task],
            arguments,
            *(self._make_input(*need) for need in needs),
            *after,
            key=call.key,
            resources=resources,
            retries=task.retries,
            pure=False,
        )

    def _make_input(
        self,
        call: DaskCall | distributed.Future[Any],
        index: int,
        dask: distributed.Future[Any] | None,
    ) -> Any:
        """Returns one of the values of a call as an argument of a Dask task. `dask` is the call's
        Dask future; a call whose value is None has none."""
        if not isinstance(call, DaskCall) or not call.many:
            return dask
        part = call.parts.get(index)
        if part is None:
            key = f"{call.task.name}-{call.number}-{self._id}-{index}"
            part = self._client.submit(operator.getitem, dask, index, key=key, pure=False)
            part = call.parts.setdefault(index, part)
        return part

    def _handle_report(self, key: str, error: BaseException | None, trace: Any, kind: Any) -> None:
        """Handles Dask's report that a task has ended, with an error or with a value of type
        `kind`. Runs on the thread of Dask's event loop."""
        todo = Todo()
        with self._lock:
            call = self._by_key.get(key)
            if call is None or call.state == DONE:
                return
            if call.dask is None:  # calls that need this one could not name its value yet
                call.heard = call.heard or (error, trace, kind)
                return
            if self._withdrawing and trace is None and isinstance(error, CancelledError):
                # It may need a call that is being cancelled, which will say why it was not run.
                self._heard_meanwhile.append((key, error))
                return
            if error is not None:
                error, trace = _translate_error(call, error, trace)
                self._timed_out += isinstance(error, TaskTimeout)
                if call.task.on_failure == "cancel":
                    todo.append(functools.partial(log_given_up, call.task, error))
                    trace, error = give_up_call(call, error)
                elif isinstance(error, CancelledError):
                    if trace is None:  # the cluster cancelled it
                        self._keep_failure(call)
                    else:  # its body raised it, which is a failure like any other
                        call.state = RUNNING
            elif kind in calls.IGNORED:
                call.given_up = True
                self._timed_out += kind is calls.TimeoutIgnored
            if error is None and kind in calls.NONE and not call.many:
                call.values[0] = None
                call.dask = None  # Dask need not run it again if its worker is lost
            self._finish_call(call, trace, error, todo)
        carry_out(todo)

    def _handle_loss(self, reason: str) -> None:
        """Cancels the calls that the client gave up: the cluster has forgotten the tasks, or the
        connection is lost. It runs late: calls sent since then live on."""
        todo = Todo()
        with self._lock:
            for call in list(self._by_key.values()):
                if call.state != DONE and call.dask is not None and call.dask.cancelled():
                    error = CancelledError(f"task {call.name} was cancelled: {reason}")
                    self._keep_failure(call)
                    self._finish_call(call, None, error, todo)
        carry_out(todo)

    def _mark_done(self, call: Call, value: Any, error: BaseException | None, todo: Todo) -> None:
        assert isinstance(call, DaskCall)  # made by submit
        super()._mark_done(call, value, error, todo)
        self._by_key.pop(call.key, None)
        call.forget_versions()
        if error is not None:
            call.dask = None  # Dask releases a task that nobody holds
            call.parts = {}
        if call.sent is False or error is not None:
            call.forget_arguments()

    # ---- For futures. ---------------------------------------------------------------------------

    def cancel(self, call: Call) -> bool:
        self._withdraw([call])
        return call.state == DONE and call.cancelled

    def _cancel_all(self, calls: Iterable[Call]) -> None:
        self._withdraw(calls)

    def _withdraw(self, withdrawn: Iterable[Call]) -> None:
        """Cancels the calls that have not begun."""
        with self._lock:
            live = {
                call.key: call
                for call in withdrawn
                if isinstance(call, DaskCall) and call.state != DONE
            }
            sent = [key for key, call in live.items() if call.sent]
            self._withdrawing += 1
        try:
            if sent:
                for key in self._ask_scheduler("withdraw", keys=sent, of=self._client.id):
                    del live[key]
            for call in live.values():
                super().cancel(call)
        finally:
            heard = []
            with self._lock:
                self._withdrawing -= 1
                if self._withdrawing == 0:
                    heard, self._heard_meanwhile = self._heard_meanwhile, []
            for key, error in heard:
                self._handle_report(key, error, None, None)

    def _wake_after_cancel(self) -> None:
        pass

    def is_running(self, call: Call) -> bool:
        assert isinstance(call, DaskCall)  # made by submit
        return not call.done and call.sent and bool(self._ask_scheduler("begun", keys=[call.key]))

    def value_of(self, future: Future[Any], timeout: float | None) -> Any:
        source = self._find_source(future)
        self._fetch_values([source], timeout)
        call, index = source
        return call.values[index]

    def _find_source(self, future: Future[Any]) -> tuple[DaskCall, int]:
        """Returns the call, and the index of its value, that last changed or made a future."""
        version = self._versions.of(future)
        if version is not None and version.writer.done and version.writer.error is None:
            return version.writer, version.index
        call = future._call
        assert isinstance(call, DaskCall)  # made by submit
        return call, future._index or 0

    def fetch(self, futures: Iterable[Future[Any]]) -> None:
        ended = [f for f in futures if f._call.runtime is self and f._call.error is None]
        self._fetch_values([self._find_source(future) for future in ended], None)

    def _fetch_values(self, sources: Iterable[tuple[DaskCall, int]], timeout: float | None) -> None:
        """Brings values to this process.

        Raises:
            TimeoutError: they are not here within `timeout` seconds.
        """
        far = {(call, index): None for call, index in sources if index not in call.values}
        if not far:
            return
        gathering = self._start_gathering(list(far))
        if not self._wait_for_loop(gathering, timeout):
            raise TimeoutError(f"the value is not here after {timeout} s")
        gathering.result()

    def _start_gathering(self, far: list[tuple[DaskCall, int]]) -> concurrent.futures.Future[None]:
        keys = [self._make_input(call, index, call.dask) for call, index in far]

        async def gather() -> None:
            values = await self._client.gather(keys, asynchronous=True)
            for (call, index), value in zip(far, values, strict=True):
                call.values.setdefault(index, calls.unwrap_single(value))

        loop: Any = self._client.loop
        return asyncio.run_coroutine_threadsafe(gather(), loop.asyncio_loop)

    def start_fetch(self, future: Future[Any]) -> concurrent.futures.Future[Any] | None:
        call, index = self._find_source(future)
        if call.error is not None or index in call.values:
            return None
        return self._start_gathering([(call, index)])

    def bring_back(self, objects: Iterable[Any]) -> None:
        ready = []
        for thing in objects:
            version = self._versions.of(thing)
            if version is not None and version.writer.done and version.writer.error is None:
                ready.append((thing, version))
        self._fetch_values([(version.writer, version.index) for _, version in ready], None)
        for thing, version in ready:
            with self._versions.lock:  # or a reader on another thread would get the old contents
                if self._versions.drop(thing, version):
                    new = version.writer.values[version.index]
                    update_in_place(version.writer.task.name, thing, new)

    def forked_class(self) -> type[Runtime]:
        return ForkedDaskRuntime

    def find_writers(self, things: Iterable[Any]) -> list[Call]:
        found: list[Call] = []
        files = []
        for thing in things:
            version = self._versions.of(thing)
            if version is not None:
                found.append(version.writer)
            elif is_path(thing):
                files.append(thing)
        return [*found, *super().find_writers(files)]

    # ---- Statistics and records. ----------------------------------------------------------------

    def explain(self, task: Task | str) -> dict[str, Any]:
        flow = self._flow_numbers[self._names.find(task)]
        if self._is_reachable():
            self._explained[flow] = self._ask_scheduler("explain_flow", flow=flow)
        if flow not in self._explained:
            raise RuntimeError("the cluster is gone, and only it can explain its decisions")
        return self._explained[flow]

    def stats(self) -> Stats:
        """Returns counts of this runtime's tasks, and of the cluster's cores and threads."""
        self._fetch_reports()
        cluster = self._cluster
        flows = {flow["id"]: flow for flow in cluster["flows"]}
        ours = [flows[n] for n in dict.fromkeys(self._flow_numbers.values()) if n in flows]
        with self._lock:
            return Stats(
                **self._count_calls(),
                pending=len(self._live),
                pending_bytes=self._pending_bytes,
                cpus=int(cluster["cpus"]),
                cpus_free=int(cluster["cpus_free"]),
                threads=cluster["threads"],
                io_threads=cluster["io_slots"],
                io_waiting=sum(flow["waiting"] for flow in ours),
                io_running=sum(flow["running"] for flow in ours),
                flows=tuple(
                    FlowStats(
                        task=flow["flow"],
                        device=flow["device"],
                        waiting=flow["waiting"],
                        running=flow["running"],
                        bytes=flow["bytes"],
                        limit=flow["limit"],
                        done=flow["done"],
                        device_mb_per_s=flow["device_mb_per_s"],
                    )
                    for flow in ours
                ),
            )

    def records(self) -> list[TaskRecord]:
        self._fetch_reports()
        return super().records()

    def _explain_flows(self) -> list[dict[str, Any]]:
        return list(self._explained.values())  # as stats() last found them

    def _describe_runtime(self) -> dict[str, Any]:
        target = self._target if isinstance(self._target, str) else "dask"
        return {"kind": "dask", "target": target}

    def _fetch_reports(self) -> None:
        with self._looking:
            if not self._is_reachable():
                return
            flows = list(self._flow_numbers.values())
            found = self._ask_scheduler("look", run=self._id, flows=flows)
            self._cluster = found["stats"]
            if found["retried"] is not None:  # None: forgotten, so the last number stays
                self._retried = found["retried"]
            self._explained |= zip(flows, found["accounts"], strict=True)
            if self._recorder is None:
                return
            for key, device, node, ready, start, end, size in found["records"]:
                name = key.rsplit("-", 2)[0]
                self._recorder.add(TaskRecord(name, device, node, ready, start, end, size))

    def _poll_reports(self) -> None:
        """Fetches records every second, for the run file, and so that the scheduler keeps few."""
        while not self._closing.wait(_LOOK_S):
            try:
                self._fetch_reports()
            except Exception as error:
                _log.debug("the scheduler was not asked for records: %s", error)


class ForkedDaskRuntime(ForkedRuntime):
    """A DaskRuntime in a forked process, which has only the values that were fetched before."""

    _versions: Versions

    def value_of(self, future: Future[Any], timeout: float | None) -> Any:
        call, index = future._call, future._index or 0
        assert isinstance(call, DaskCall)  # made by submit
        if index not in call.values or self._versions.knows(future):
            self._refuse_call()
        return call.values[index]

    def find_writers(self, things: Iterable[Any]) -> list[Call]:
        things = list(things)
        if any(map(self._versions.knows, things)):
            self._refuse_call()
        return super().find_writers(things)


def _translate_error(
    call: Call, error: BaseException, trace: TracebackType | None
) -> tuple[BaseException, TracebackType | None]:
    """Translates an error of Dask's; its traceback begins with the user's code."""
    if isinstance(error, distributed.KilledWorker):
        died = WorkerDied(f"task {call.name}: {error}")
        died.__cause__ = error
        return died, None
    if isinstance(error, concurrent.futures.CancelledError) and trace is None:
        return CancelledError(f"task {call.name} was cancelled on the cluster: {error}"), None
    notes: list[str] = getattr(error, "__notes__", [])
    if call.task.retries and notes:
        notes[-1] += f", attempt {call.task.retries + 1}"
    while trace is not None and trace.tb_frame.f_code.co_filename.endswith(_CALLS):
        trace = trace.tb_next
    return error, trace


_CALLS = "ioweave/dask/calls.py"  # the end of its path on any worker
