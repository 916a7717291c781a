"""Admission of I/O tasks, inside the Dask scheduler.

An I/O task is a Dask task that asks for a resource that no worker offers. So Dask parks it in the
state `no-worker`, unless the policy starts it at once. In this order:

1. `transition` hears that a `waiting` task misses no input any more, so that Dask is about to look
   for a worker. It tells the policy that the operation is ready: for the node that holds most of
   its inputs, or for any node.
2. An operation that the policy starts is queued for its node. It gets a worker there that has a
   thread for I/O free, or will have one very soon (`_has_room`). If Dask was about to look for a
   worker, it finds that one. Otherwise the task is parked, and `_release_tasks` lets it go with all
   others in the next pass of the event loop: within `transition` Dask is in the middle of other
   transitions. Workers run no more I/O tasks than they have threads for (`queue.py`).
3. `transition` hears how the task left `processing`. It restores the resources that park the task,
   which may be retried or recomputed, and tells the policy. A task that was taken back while it ran
   continues to run, since a thread cannot be stopped: it holds its place until its worker reports
   that it has left.

So nothing polls, and the policy knows an operation exactly as long as its task is ready, in
`no-worker` or `processing`, or still running somewhere.

`check` lists the undocumented parts of the scheduler that this needs.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time as scheduler_time
from distributed.scheduler import Scheduler, TaskState, WorkerState
from distributed.worker_state_machine import WorkerState as Worker

from .._core import is_one_of
from ..log_file import LogFile
from ..numeric import MOST_BYTES
from .admission import Admission, Device, DeviceSettings, Flow, Operation
from .protocol import (
    ANSWER,
    ANYWHERE,
    BEGUN,
    BYTES,
    CPU,
    ENDED,
    FLOW,
    IO,
    MEASURE,
    MEASURED,
    SIZE,
    TAKEN_BACK,
    TESTED,
)
from .queue import QUEUE_NEEDS
from .runs import Run
from .sampling import Samples

_log = logging.getLogger("ioweave.dask")

_SILENT_S = 10  # how long to wait for the answer of a worker
_LATE_S = 60  # a task's graph comes at most so much later than what its client says of the task

# The work for each thread that may wait on a worker, by the mean time of tasks so far. A message to
# a worker and back takes some milliseconds, and brief tasks would leave the thread idle meanwhile.
_AHEAD_S = 0.05
_MOST_AHEAD = 1000  # tasks for each thread; parking a trivial task costs more than running it

_TRANSITIONS = (
    ("waiting", "no-worker"),
    ("waiting", "processing"),
    ("no-worker", "processing"),
    ("no-worker", "released"),
    ("processing", "released"),
    ("processing", "memory"),
    ("processing", "erred"),
)
_OF_SCHEDULER = (
    *("tasks", "workers", "handlers", "stream_handlers", "unrunnable", "no_workers_timeout"),
    *("transition", "transitions", "worker_send", "plugins", "report", "client_releases_keys"),
)
_OF_TASK = (
    *("annotations", "dependencies", "host_restrictions", "key", "processing_on", "run_id"),
    *("resource_restrictions", "state", "waiting_on", "who_has", "worker_restrictions"),
    *("dependents", "get_nbytes"),
)


def check(scheduler: Scheduler) -> None:
    """Checks that the scheduler has what this plugin uses of its inside.

    Raises:
        RuntimeError: it has not; the text names what is missing.
    """
    table = getattr(scheduler, "_TRANSITIONS_TABLE", {})
    missing = [f"Scheduler.{name}" for name in _OF_SCHEDULER if not hasattr(scheduler, name)]
    missing += [f"TaskState.{name}" for name in _OF_TASK if not hasattr(TaskState, name)]
    missing += [f"the worker's {name}" for name in QUEUE_NEEDS if not hasattr(Worker, name)]
    missing += [f"the transition {a} -> {b}" for a, b in _TRANSITIONS if (a, b) not in table]
    if missing:
        raise RuntimeError(
            f"distributed {version('distributed')} has changed inside: {', '.join(missing)} is "
            f"missing, which Ioweave needs. Install 'distributed>={TESTED[0]},<{TESTED[1]}', or a "
            "newer Ioweave"
        )


class IoweaveSchedulerPlugin(SchedulerPlugin):
    """Lets I/O tasks start when the policy says; `connect` registers this plugin.

    Args:
        log: the scheduler writes the policy's event log to this file, on its own machine.
    """

    name = "ioweave"
    idempotent = True  # the first plugin of a cluster stays, with what it knows

    _scheduler: Scheduler
    _admission: Admission
    _samples: Samples

    def __init__(self, log: str | None = None) -> None:
        self._log_path = log

    async def start(self, scheduler: Scheduler) -> None:
        check(scheduler)
        if scheduler.no_workers_timeout is not None:
            raise RuntimeError(
                "this cluster fails tasks that no worker takes after "
                f"{scheduler.no_workers_timeout:g} s (distributed.scheduler.no-workers-timeout), "
                "and so would fail I/O tasks that wait for their turn: start the scheduler without "
                "this option"
            )
        self._scheduler = scheduler
        self._log_file: LogFile | None = None
        if self._log_path is not None:
            self._log_file = LogFile(self._log_path, by_line=True)
        self._admission = Admission(None if self._log_file is None else self._log_file.write)
        # Operations of tasks that are ready, in no-worker or in processing, by key.
        self._live: dict[Any, Operation] = {}
        # Operations whose tasks were taken back and may still run, by worker and key.
        self._left_behind: dict[tuple[str, Any], list[Operation]] = {}
        self._nodes: dict[str, int] = {}  # by host, for ever
        self._hosts: list[str] = []  # by node
        self._workers: dict[int, set[str]] = {}  # addresses by node; only nodes that are up
        self._started: dict[int, deque[Operation]] = {}  # by node: they wait for a thread
        self._free: dict[str, int] = {}  # free threads for I/O by worker; below 0: tasks sent ahead
        self._to_release: set[int] = set()  # nodes to look at in the next pass of the event loop
        self._going: list[Operation] = []  # parked, with a worker: they go in that pass
        self._samples = Samples(self._admission, self._workers)
        self._runs: dict[str, Run] = {}  # the Runtimes, by their ids
        self._withdrawn: dict[Any, str] = {}  # clients of withdrawn tasks that have not come yet
        # Questions to workers: the worker and its answer, by number.
        self._asked: dict[int, tuple[str, asyncio.Future[list[Any] | None]]] = {}
        self._last_question = 0
        self._questions: dict[str, Callable[..., Any]] = {
            "device": self._add_device,
            "flow": self._admission.add_flow,
            "budgets": lambda: self._admission.budgets,
            "capacity": self._find_capacity,
            "learned": lambda flow: self._admission.policy.learned(flow),
            "begin": self._begin_run,
            "look": self._report_run,
            "end": self._end_run,
            "begun": self._find_begun,
            "withdraw": self._withdraw_tasks,
            "explain": self._explain_flow,
            "explain_flow": lambda flow: self._describe_flow(self._admission.flows[flow]),
            "log": lambda: self._log_path,
            "stats": self._collect_stats,
        }
        scheduler.handlers["ioweave"] = self._answer_client
        scheduler.stream_handlers.update(
            {
                ENDED: _log_errors(self._handle_left),
                MEASURED: _log_errors(self._handle_measurement),
                ANSWER: _log_errors(self._handle_answer),
            }
        )
        for worker in scheduler.workers.values():
            self._add_worker(worker)

    async def close(self) -> None:
        if self._log_file is not None:
            self._log_file.close()

    # ---- Tasks. ---------------------------------------------------------------------------------

    def transition(
        self, key: Any, start: str, finish: str, *args: Any, stimulus_id: str, **kwargs: Any
    ) -> None:
        # Dask calls this for every transition of every task, and most are not of I/O tasks. A task
        # that finds no worker first makes a transition to the state that it has.
        if start == finish:
            return
        operation = self._live.get(key)
        try:
            if operation is not None:
                self._follow_task(operation, key, start, finish, kwargs)
            elif finish in ("waiting", "no-worker"):
                self._admit_if_ready(self._scheduler.tasks[key])
            if finish == "memory":
                for task in self._scheduler.tasks[key].dependents:
                    self._admit_if_ready(task)
            if self._runs or self._withdrawn:
                self._note_transition(key, start, finish, operation, kwargs)
        except Exception:  # Dask would hide the error
            _log.exception("Ioweave lost track of %r (%s -> %s)", key, start, finish)

    def _follow_task(
        self, operation: Operation, key: Any, start: str, finish: str, about: dict[str, Any]
    ) -> None:
        if finish == "processing":
            run = self._scheduler.tasks[key].run_id
            assert run is not None  # Dask has just numbered it
            operation.run = run
        elif start == "processing":
            self._end_operation(operation, finish, about)
        elif finish != "no-worker":
            self._forget_operation(operation)
            self._cancel_operation(operation)

    def _admit_if_ready(self, task: TaskState) -> None:
        """Tells the policy of an I/O task that misses no input, unless the policy knows it."""
        mark = _find_io_mark(task)
        if mark is None or task.key in self._live:
            return
        if task.state != "no-worker" and (task.state != "waiting" or task.waiting_on):
            return
        flows = self._admission.flows
        number = mark[FLOW]
        size = mark.get(SIZE)
        if size is None:
            size = sum(dependency.get_nbytes() for dependency in task.dependencies)
        if number not in range(len(flows)):
            self._fail_task(
                task, f"this scheduler does not know its flow ({mark}): connect() again"
            )
        elif task.worker_restrictions or task.host_restrictions:
            self._fail_task(task, "its worker is chosen by the policy: leave workers= out")
        elif not 0 <= size <= MOST_BYTES:
            self._fail_task(task, f"its bytes are not from 0 to 2**63 - 1, but {size}")
        else:
            flow = flows[number]
            bound = None if ANYWHERE in mark else self._find_node_of_inputs(task, flow.device)
            operation = self._live[task.key] = Operation(task.key, flow, size, bound)
            self._queue_started(self._admission.ready(operation))

    def _find_node_of_inputs(self, task: TaskState, device: Device) -> int | None:
        """Returns the node with the device that holds most bytes of the task's inputs, or None."""
        held: dict[int, int] = {}
        for dependency in task.dependencies:
            hosts = {worker.host for worker in dependency.who_has or ()}
            for node in (self._nodes[host] for host in hosts):
                if node in self._workers and self._admission.has(node, device):
                    held[node] = held.get(node, 0) + dependency.get_nbytes()
        return max(held, key=lambda node: (held[node], -node)) if held else None

    def _fail_task(self, task: TaskState, why: str) -> None:
        """Fails a task, in the next pass of the event loop."""
        error = ValueError(f"I/O task {task.key!r} cannot be admitted: {why}")

        def fail() -> None:
            if task.state == "no-worker":
                stimulus = f"ioweave-refuse-{time.time()}"
                recommendations = self._scheduler.transition(
                    task.key,
                    "erred",
                    stimulus,
                    exception=pickle.dumps(error),
                    exception_text=repr(error),
                    cause=task.key,
                )
                self._scheduler.transitions(recommendations, stimulus)

        asyncio.get_running_loop().call_soon(fail)

    def _queue_started(self, started: Iterable[Operation]) -> None:
        for operation in started:
            assert operation.node is not None
            self._started.setdefault(operation.node, deque()).append(operation)
            task = self._scheduler.tasks.get(operation.key)
            if task is not None and task.state == "waiting":  # Dask looks for its worker next
                self._going += self._assign_workers(operation.node)
            if self._going or task is None or task.state != "waiting":
                self._schedule_release(operation.node)

    def _schedule_release(self, node: int) -> None:
        if not self._to_release:
            asyncio.get_running_loop().call_soon(self._release_tasks)
        self._to_release.add(node)

    def _release_tasks(self) -> None:
        """Lets tasks go that the policy started and whose nodes have threads for them."""
        nodes, self._to_release = self._to_release, set()
        going, self._going = self._going, []
        for node in sorted(nodes):
            going += self._assign_workers(node)
        recommendations: dict[Any, Any] = {}
        for operation in reversed(going):  # Dask takes the last one first
            if self._live.get(operation.key) is operation and operation.worker is not None:
                recommendations[operation.key] = "processing"
        self._scheduler.transitions(recommendations, f"ioweave-release-{time.time()}")

    def _assign_workers(self, node: int) -> list[Operation]:
        """Gives queued operations of a node a worker; returns those whose tasks are parked."""
        parked = []
        queue = self._started.get(node, ())
        while queue and (worker := self._choose_worker(queue[0])):
            operation = queue.popleft()
            if not self._waits_for_thread(operation, node):
                continue
            operation.worker = worker
            self._free[worker] -= 1
            device = operation.flow.device
            if operation.flow.sampled and self._samples.begin(device, node):
                for address in self._workers[node]:
                    self._ask_to_measure(address, device.name, True)
            task = self._scheduler.tasks[operation.key]
            task.worker_restrictions = {worker}
            offers = IO in self._scheduler.workers[worker].resources
            task.resource_restrictions = {IO: 1} if offers else None
            if task.state == "no-worker":
                parked.append(operation)
        return parked

    def _waits_for_thread(self, operation: Operation, node: int) -> bool:
        """Returns whether it was neither taken back nor sent elsewhere since it was queued."""
        live = self._live.get(operation.key) is operation
        return live and operation.node == node and operation.worker is None

    def _choose_worker(self, operation: Operation) -> str | None:
        """Returns the best worker of the operation's node: one with a free thread, then most
        inputs, then most free threads. None if all have enough to do."""
        workers = self._scheduler.workers
        room = [
            address
            for address in self._workers.get(operation.node or 0, ())
            if address in workers  # a lost worker is not, while Dask takes its tasks back
            and self._has_room(workers[address], operation.flow)
        ]
        if len(room) < 2:
            return room[0] if room else None
        task = self._scheduler.tasks.get(operation.key)

        def merits(address: str) -> tuple[bool, bool, int, int]:
            worker = workers[address]
            held = sum(
                dependency.get_nbytes()
                for dependency in (task.dependencies if task else ())
                if worker in (dependency.who_has or ())
            )
            free = self._free[address]
            return free > 0, worker in self._scheduler.running, held, free

        return max(room, key=merits)

    def _has_room(self, worker: WorkerState, flow: Flow) -> bool:
        """Returns whether a thread for I/O is free, or will be when the task arrives."""
        free = self._free[worker.address]
        if free > 0 or flow.seconds == 0:
            return free > 0
        return free > -int(_count_io_slots(worker) * min(_AHEAD_S / flow.seconds, _MOST_AHEAD))

    def _end_operation(self, operation: Operation, finish: str, about: dict[str, Any]) -> None:
        self._forget_operation(operation)
        if finish == "memory":
            operation.bytes = (about.get("metadata") or {}).get(BYTES, operation.bytes)
            started = self._admission.finished(operation, _count_seconds(about["startstops"]))
        elif finish == "erred":
            started = self._admission.failed(operation)
        else:
            self._keep_until_left(operation)
            return
        self._give_thread_back(operation)
        self._queue_started(started)
        # The worker continues a run that was taken back and asked for again before it ended. So
        # runs that were taken back end with this one.
        self._cancel_left_runs(str(operation.worker), operation.key, operation.run)

    def _keep_until_left(self, operation: Operation) -> None:
        """Keeps the place of an operation until its worker says that its task has left."""
        worker = operation.worker
        if worker in self._scheduler.workers:
            self._left_behind.setdefault((worker, operation.key), []).append(operation)
            message = {"op": TAKEN_BACK, "key": operation.key, "run": operation.run}
            self._scheduler.worker_send(worker, message)
        else:
            self._cancel_operation(operation)

    def _cancel_operation(self, operation: Operation) -> None:
        started = self._admission.cancelled(operation)
        self._give_thread_back(operation)
        self._queue_started(started)

    def _give_thread_back(self, operation: Operation) -> None:
        node, worker = operation.node, operation.worker
        if worker in self._free and node is not None:
            self._free[worker] += 1
            if self._started.get(node):
                self._schedule_release(node)

    def _forget_operation(self, operation: Operation) -> None:
        """Forgets an operation. Its task is parked if it comes again."""
        del self._live[operation.key]
        self._park_task(self._scheduler.tasks[operation.key])

    def _park_task(self, task: TaskState) -> None:
        task.worker_restrictions = None
        task.resource_restrictions = _find_io_mark(task)

    def _handle_left(self, key: Any, run: int, worker: str) -> None:
        self._cancel_left_runs(worker, key, run)

    def _cancel_left_runs(self, worker: str, key: Any, run: int) -> None:
        """Cancels operations of a task that were taken back on this worker, up to this run."""
        operations = self._left_behind.pop((worker, key), [])
        later = [operation for operation in operations if operation.run > run]
        if later:
            self._left_behind[worker, key] = later
        for operation in operations:
            if operation.run <= run:
                self._cancel_operation(operation)

    def restart(self, scheduler: Scheduler) -> None:
        """Dask has forgotten all tasks; tasks that run continue until their workers end."""
        for operation in list(self._live.values()):
            del self._live[operation.key]
            self._keep_until_left(operation)

    # ---- Runtimes. ------------------------------------------------------------------------------

    def _begin_run(self, run: str, of: str, records: bool) -> None:
        self._runs[run] = Run(of, scheduler_time(), keep=records)

    def _end_run(self, run: str) -> bool:
        """Forgets a Runtime; returns whether it was known."""
        asyncio.get_running_loop().call_later(_LATE_S, self._forget_withdrawn, run)
        return self._runs.pop(run, None) is not None

    def _forget_withdrawn(self, run: str) -> None:
        """Forgets withdrawn tasks of a run that never came, since their inputs were gone before."""
        for key in [key for key in self._withdrawn if str(key).endswith(run)]:
            del self._withdrawn[key]

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        asyncio.get_running_loop().call_later(_LATE_S, self._forget_runs, client)
        self._withdrawn = {key: of for key, of in self._withdrawn.items() if of != client}

    def _forget_runs(self, client: str) -> None:
        """Forgets the runs of a client, unless it has connected again, with the same name."""
        if client not in self._scheduler.clients:
            self._runs = {name: run for name, run in self._runs.items() if run.client != client}

    def _note_transition(
        self,
        key: Any,
        start: str,
        finish: str,
        operation: Operation | None,
        about: dict[str, Any],
    ) -> None:
        if key in self._withdrawn:
            client = self._withdrawn.pop(key)
            asyncio.get_running_loop().call_soon(
                self._scheduler.client_releases_keys, [key], client
            )
        run = self._runs.get(str(key).rpartition("-")[2])
        if run is None:
            return
        if finish == "waiting":
            run.note_waiting(key, self._scheduler.tasks[key].retries)
        elif start == "waiting":
            run.note_ready(key, scheduler_time())
        elif finish == "memory" and start == "processing":
            node = self._nodes[self._scheduler.workers[about["worker"]].host]
            size = (about.get("metadata") or {}).get(BYTES, operation.bytes if operation else 0)
            device = operation.flow.device.name if operation else None
            run.note_run(key, device, node, _find_span(about["startstops"]), size)
        elif finish in ("forgotten", "erred"):
            run.forget(key)

    def _report_run(self, run: str, flows: Sequence[int]) -> dict[str, Any]:
        kept = self._runs.get(run)  # None: its client was out of reach for too long
        return {
            "stats": self._collect_stats(),
            "accounts": [self._describe_flow(self._admission.flows[flow]) for flow in flows],
            "retried": None if kept is None else kept.retried,
            "records": [] if kept is None else kept.take_records(),
        }

    async def _find_begun(self, keys: Sequence[str]) -> list[str]:
        """Returns which of these tasks run or have run, as far as the workers say."""
        there, begun, _ = self._sort_by_worker(keys)
        answers = await self._ask_workers(there, hold=False)
        return begun + [key for answer in answers if answer for key in answer]

    def _sort_by_worker(
        self, keys: Sequence[str]
    ) -> tuple[dict[str, dict[str, int]], list[str], list[str]]:
        """Returns the tasks on workers, {worker: {key: run}}, the ended ones, and the others."""
        there: dict[str, dict[str, int]] = {}
        ended, others = [], []
        for key in keys:
            task = self._scheduler.tasks.get(key)
            if task is None or task.state in ("released", "waiting", "no-worker", "queued"):
                others.append(key)
            elif task.processing_on is None:
                ended.append(key)
            else:
                there.setdefault(task.processing_on.address, {})[key] = task.run_id or 0
        return there, ended, others

    async def _withdraw_tasks(self, keys: Sequence[str], of: str) -> list[str]:
        """Takes back those tasks of a client that have not begun; returns those that have.

        A worker that says that a task has not begun drops it at the same time. This repeats until
        each task is either taken back or has begun, since a task may move to another worker while
        its worker is asked.

        Dask may hear of a task after its client has cancelled it, because it unpacks graphs on
        another thread. Such a task is forgotten when it comes.
        """
        begun: list[str] = []
        while keys:
            there, ended, others = self._sort_by_worker(keys)
            begun += ended
            self._withdrawn |= {key: of for key in others if key not in self._scheduler.tasks}
            self._take_tasks_back(others, of)
            keys = []
            answers = await self._ask_workers(there, hold=True)
            for runs, answer in zip(there.values(), answers, strict=True):
                idle = [key for key in runs if answer is None or key not in answer]
                begun += [key for key in runs if key not in idle]
                same = [
                    key for key in idle if answer is not None and self._is_same_run(key, runs[key])
                ]
                self._take_tasks_back(same, of)
                keys += [key for key in idle if key not in same]
        return begun

    def _is_same_run(self, key: str, run: int) -> bool:
        task = self._scheduler.tasks.get(key)
        return task is not None and task.state == "processing" and task.run_id == run

    def _take_tasks_back(self, keys: Sequence[str], of: str) -> None:
        """Releases tasks for a client, with all tasks that need them, and tells the client."""
        taken: dict[Any, None] = {key: None for key in keys if key in self._scheduler.tasks}
        left = list(taken)
        while left:
            for task in self._scheduler.tasks[left.pop()].dependents:
                if task.key not in taken:
                    taken[task.key] = None
                    left.append(task.key)
        if taken and of in self._scheduler.clients:
            self._scheduler.client_releases_keys(list(taken), of)
            # Without a reason, which clients of 2024 do not understand.
            self._scheduler.report({"op": "cancelled-keys", "keys": list(taken)}, client=of)

    async def _ask_workers(
        self, there: dict[str, dict[str, int]], *, hold: bool
    ) -> list[list[str] | None]:
        """Returns for each worker which of its tasks have begun: all if the worker does not answer,
        None if it is lost. With `hold` the workers drop the others."""
        return await asyncio.gather(
            *(self._ask_worker(worker, list(runs), hold) for worker, runs in there.items())
        )

    async def _ask_worker(self, worker: str, keys: list[str], hold: bool) -> list[str] | None:
        if worker not in self._scheduler.workers:  # lost since its tasks were looked up
            return None
        answer: asyncio.Future[list[Any] | None] = asyncio.get_running_loop().create_future()
        self._last_question = number = self._last_question + 1
        self._asked[number] = worker, answer
        question = {"op": BEGUN, "question": number, "keys": keys, "hold": hold}
        try:
            self._scheduler.worker_send(worker, question)
            return await asyncio.wait_for(answer, _SILENT_S)
        except asyncio.TimeoutError:
            return keys
        finally:
            self._asked.pop(number, None)

    def _handle_answer(
        self, question: int, begun: Sequence[str], given_up: Sequence[str], worker: str
    ) -> None:
        asked = self._asked.pop(question, None)
        if asked is not None and not asked[1].done():
            asked[1].set_result(list(begun))
            return
        # The answer comes too late, so the tasks that the worker dropped must run again.
        state = self._scheduler.workers.get(worker)
        tasks = (self._scheduler.tasks.get(key) for key in given_up)
        again = {task.key: "released" for task in tasks if task and task.processing_on is state}
        self._scheduler.transitions(again, f"ioweave-again-{time.time()}")  # type: ignore[arg-type]

    # ---- Workers. -------------------------------------------------------------------------------

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self._add_worker(scheduler.workers[worker])

    def _add_worker(self, worker: WorkerState) -> None:
        node = self._nodes.setdefault(worker.host, len(self._hosts))
        if node == len(self._hosts):
            self._hosts.append(worker.host)
        if CPU not in worker.resources:
            _log.warning(
                "worker %s offers no resource %r: it runs no task of submit_compute(). Start it "
                "with the options of ioweave.dask.worker_options()",
                worker.address,
                CPU,
            )
        self._free[worker.address] = _count_io_slots(worker)
        if node in self._workers:
            self._workers[node].add(worker.address)
            self._schedule_release(node)
            for device in self._samples.measured_on(node):
                self._ask_to_measure(worker.address, device.name, True)
        else:
            self._workers[node] = {worker.address}
            self._queue_started(self._admission.node_up(node))
        for device in self._admission.devices.values():
            self._find_device(device, node)

    def _find_device(self, device: Device, node: int) -> None:
        """Tells the policy if the globs of the device name the node or one of its workers."""
        if self._admission.has(node, device):
            return
        workers = [self._scheduler.workers[address] for address in self._workers[node]]
        names = {str(name) for worker in workers for name in (worker.host, worker.name)}
        if any(is_one_of(name, device.settings.nodes or ()) for name in names):
            self._queue_started(self._admission.device_up(device, node))

    def remove_worker(
        self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **kwargs: Any
    ) -> None:
        """Removes a worker. Dask has taken back the worker's tasks before."""
        for address, answer in list(self._asked.values()):
            if address == worker and not answer.done():
                answer.set_result(None)
        del self._free[worker]
        for address, key in list(self._left_behind):
            if address == worker:
                for operation in self._left_behind.pop((address, key)):
                    self._cancel_operation(operation)
        node = next(node for node, workers in self._workers.items() if worker in workers)
        self._workers[node].discard(worker)
        for operation in self._live.values():
            if operation.worker == worker:  # let go while the worker was paused, so still parked
                operation.worker = None
                self._park_task(scheduler.tasks[operation.key])
                self._queue_started([operation])
        if self._workers[node]:
            return
        del self._workers[node]
        self._started.pop(node, None)
        self._samples.forget(node)
        lost, started = self._admission.node_down(node)
        self._queue_started(started)
        for operation in lost:  # to Dask they still wait, so they start somewhere else
            task = scheduler.tasks[operation.key]
            self._park_task(task)
            if operation.bound is not None:
                operation.bound = self._find_node_of_inputs(task, operation.flow.device)
            self._queue_started(self._admission.ready(operation))

    # ---- Throughput. ----------------------------------------------------------------------------

    def _ask_to_measure(self, worker: str, device: str, on: bool) -> None:
        path = self._admission.devices[device].settings.path
        message = {"op": MEASURE, "device": device, "path": path, "on": on}
        self._scheduler.worker_send(worker, message)

    def _handle_measurement(
        self, device: str, counter: str, bytes_per_second: float, seconds: float, worker: str
    ) -> None:
        state = self._scheduler.workers.get(worker)
        if state is None:
            return
        on = self._admission.devices[device]
        if self._admission.needs_samples(on):
            node = self._nodes[state.host]
            self._queue_started(
                self._samples.add_measurement(on, node, worker, counter, bytes_per_second, seconds)
            )
        else:
            self._ask_to_measure(worker, device, False)
            self._samples.end(on)

    # ---- What clients ask. ----------------------------------------------------------------------

    async def _answer_client(self, question: str, arguments: dict[str, Any]) -> str:
        """Answers a client in JSON: {"value": ...}, or {"error": text} for wrong arguments."""
        try:
            value = self._questions[question](**arguments)
            return json.dumps({"value": await value if inspect.isawaitable(value) else value})
        except ValueError as error:  # an error of the client, not of the scheduler
            return json.dumps({"error": str(error)})

    def _add_device(
        self,
        name: str,
        scope: str,
        bandwidth: float,
        max_in_flight: int,
        path: str | None,
        nodes: list[str] | None = None,
    ) -> None:
        globs = None if nodes is None else tuple(nodes)
        settings = DeviceSettings(scope, bandwidth, max_in_flight, path, globs)
        self._admission.add_device(
            name, settings, slots=int(self._find_capacity()["io_slots"] or 0)
        )
        for node in self._workers:
            self._find_device(self._admission.devices[name], node)

    def _find_capacity(self) -> dict[str, float | None]:
        """Returns the most cores of a worker and I/O slots of a node; None: no worker yet."""
        workers = self._scheduler.workers
        cpus = [worker.resources.get(CPU, 0.0) for worker in workers.values()]
        slots = [
            sum(_count_io_slots(workers[address]) for address in addresses)
            for addresses in self._workers.values()
        ]
        return {"cpus": max(cpus, default=None), "io_slots": max(slots, default=None)}

    def _explain_flow(
        self, name: str, device: str | None, constraint: str | None
    ) -> dict[str, Any]:
        return self._describe_flow(self._find_flow(name, device, constraint))

    def _describe_flow(self, flow: Flow) -> dict[str, Any]:
        account: dict[str, Any] = json.loads(self._admission.policy.explain(flow.id))
        return self._admission.describe(flow) | account

    def _find_flow(self, name: str, device: str | None, constraint: str | None) -> Flow:
        flows = [
            flow
            for flow in self._admission.flows
            if flow.name == name
            and device in (None, flow.device.name)
            and constraint in (None, flow.constraint)
        ]
        if len(flows) == 1:
            return flows[0]
        if flows:
            found = "; ".join(
                f"device={flow.device.name!r}, constraint={flow.constraint!r}" for flow in flows
            )
            raise ValueError(f"several flows are called {name!r}: say which one of {found}")
        known = ", ".join(sorted({repr(flow.name) for flow in self._admission.flows})) or "none"
        raise ValueError(f"there is no flow {name!r} on this cluster; the known ones are {known}")

    def _collect_stats(self) -> dict[str, Any]:
        admission = self._admission
        workers = self._scheduler.workers.values()
        cpus = sum(worker.resources.get(CPU, 0) for worker in workers)
        return {
            "waiting": admission.policy.waiting,
            "running": admission.policy.running,
            "cpus": cpus,
            "cpus_free": cpus - sum(worker.used_resources.get(CPU, 0) for worker in workers),
            "threads": sum(worker.nthreads for worker in workers),
            "io_slots": sum(map(_count_io_slots, workers)),
            "nodes": {
                self._hosts[node]: {
                    "workers": len(workers),
                    "io_running": admission.policy.running_on(node),
                }
                for node, workers in self._workers.items()
            },
            "flows": [admission.describe(flow) for flow in admission.flows],
        }


def _log_errors(handler: Callable[..., None]) -> Callable[..., None]:
    """Wraps a handler so that its errors are only logged: Dask would drop the worker."""

    def handle(**message: Any) -> None:
        try:
            handler(**message)
        except Exception:
            _log.exception("Ioweave failed to deal with %r", message)

    return handle


def _find_io_mark(task: TaskState) -> dict[str, Any] | None:
    """Returns the resources that describe an I/O task; None: it is no I/O task."""
    resources: dict[str, Any] | None = (task.annotations or {}).get("resources")
    return resources if resources and FLOW in resources else None


def _count_io_slots(worker: WorkerState) -> int:
    return int(worker.resources.get(IO, worker.nthreads))


def _find_span(startstops: Iterable[dict[str, Any]]) -> tuple[float, float]:
    """Returns when the function began and ended, by the scheduler's clock."""
    spans = [span for span in startstops if span["action"] == "compute"]
    return (spans[0]["start"], spans[-1]["stop"]) if spans else (0.0, 0.0)


def _count_seconds(startstops: Iterable[dict[str, Any]]) -> float:
    """Returns how long the function itself ran, without the transfer of its inputs."""
    spans = (span for span in startstops if span["action"] == "compute")
    seconds: float = sum(span["stop"] - span["start"] for span in spans)
    return max(0.0, seconds)  # the worker's clock may be set back
