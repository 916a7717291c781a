"""The simulating runtime: how long a program would take on a cluster that is not at hand.

`Runtime("sim://12x48", costs=..., curves=...)` takes the same calls of tasks as the embedded
runtime and links them by the same rules, but runs no function. A task takes the seconds that
`costs` say. An I/O task moves its bytes over a device whose throughput follows a curve, and starts
when the policy says, which is the same as everywhere. Time is virtual: 10,000 nodes and a million
tasks take minutes.

Values are not computed: a future's result is None. A program whose course depends on values needs
them from elsewhere.

Virtual time advances where the program waits, and at its end. `_advance` does so in pieces under
the runtime's lock, so that another thread can look between two pieces.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._core import Policy, Simulation
from .admission import DeviceState, SimulatedFlows, TaskFlow
from .arguments import Found, replace_futures
from .callbacks import call_back
from .config import did_you_mean, load_nodes
from .devices import Device, Node
from .futures import Future
from .graph import DONE, Call, Direction, Key
from .interrupts import Interrupts
from .learning import Learned
from .numeric import real
from .options import Options, takes_options
from .records import TaskRecord
from .runtime import GUARDED, FlowStats, Runtime, Stats, make_empty_value
from .tasks import Task

_TARGET = re.compile(r"sim://(?:([1-9]\d*)x([1-9]\d*))?")
_MOST_NODES = 1_000_000
_STEPS = 10_000  # simulated events in a piece, during which other threads wait for the lock


@dataclass(frozen=True)
class BlockingIO:
    """The cost of a computing task that does I/O itself, and keeps its cores meanwhile.

    Attributes:
        device: the device's name.
        bytes: the bytes that the task moves after it has computed.
        seconds: how long it computes before.
    """

    device: str
    bytes: int
    seconds: float = 0.0


Cost = float | BlockingIO | Callable[..., "float | BlockingIO"]
Curve = Sequence[tuple[float, float]]


class SimulatedCall(Call):
    """A call, and the number of its task in the simulation, `operation`."""

    __slots__ = ("_core", "cost")

    def __init__(
        self, runtime: SimulatedRuntime, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        super().__init__(runtime, task, args, kwargs)
        self._core = runtime._core
        self.cost: float | BlockingIO = 0.0  # of a computing call

    @property
    def done(self) -> bool:
        if self.state == DONE:
            return True
        with self.runtime._lock:
            return self.has_ended()

    @property
    def running(self) -> bool:
        with self.runtime._lock:
            return self._core.record(self.operation).state == "running"

    def has_ended(self) -> bool:
        """Returns whether the call has ended. Needs the lock."""
        return self.state == DONE or self._core.record(self.operation).state == "ended"


class SimulatedRuntime(Runtime):
    """Simulates the tasks that are called while its block is open: `Runtime("sim://12x48")`.

    It takes the arguments of ioweave.Runtime and has its methods. Tasks neither fail nor are
    cancelled. The `timeout` of result() is ignored, since it would be real time.

    Attributes:
        nodes: how many nodes there are.
        node_names: the names of the nodes, by the number that records have.
        cores: the cores of the node that has most.
    """

    has_threads = False

    @takes_options
    def __init__(self, options: Options) -> None:
        described = _read_nodes(options)
        self.node_names = [name for node in described for name in node.names]
        self._cores_of = [node.cores for node in described for _ in node.names]
        self.nodes, self.cores = len(self._cores_of), max(self._cores_of)
        if len(set(self.node_names)) < self.nodes:
            raise ValueError(f"nodes: two have the same name: {', '.join(self.node_names[:10])}")
        self._io_threads = options.io_threads
        self._simulation: Simulation | None = None
        self._init_calls(options)
        self._keep_records = False  # the simulation keeps them
        self._learned = Learned()  # its own, since the devices are not the real ones
        self._interrupts = Interrupts(GUARDED | {__file__})
        self._costs = dict(options.costs or {})
        self._curves = dict(options.curves or {})
        for name in self._curves.keys() - self._devices.keys() - {"default"}:
            known = sorted({*self._devices, "default"})
            raise ValueError(
                f"curves: there is no device {name!r}{did_you_mean(name, known)}; the known ones "
                f"are {', '.join(map(repr, known))}"
            )
        self._shared_directory = options.shared_directory
        self._sample_period_s = options.sample_period_s
        self._calls: list[SimulatedCall] = []
        self._watched: list[SimulatedCall] = []  # calls with callbacks
        self._written: dict[Key, int] = {}  # files on a node's storage, and the tasks that wrote
        self._introduced: set[int] = set()  # ids of devices that the simulation knows

    # ---- Beginning and end. ---------------------------------------------------------------------

    def start(self) -> SimulatedRuntime:
        super().start()
        return self

    def __enter__(self) -> SimulatedRuntime:
        return self.start()

    def _open(self) -> None:
        policy = Policy(self._open_log())
        self._flows = SimulatedFlows(policy, nodes=self.node_names, **self._make_flow_options())
        self._simulation = Simulation(
            policy,
            cores_of=self._cores_of,
            sample_period_s=self._sample_period_s,
        )

    def _close(self, error: BaseException | None) -> None:
        with self._lock:
            if self._state != "open":
                return
            self._state = "closing"
        failed = True
        try:
            if error is None:
                while self._count_unfinished():  # callbacks may call tasks
                    self.barrier()
                failed = False
        finally:
            self._shut_down(failed=failed)

    def _count_unfinished(self) -> int:
        with self._lock:
            return self._core.unfinished

    def _close_down(self) -> None:
        if self._log_file is not None:
            self._log_file.close()
        if self._recorder is not None:
            for record in self.records():
                self._recorder.add(record)

    def _save_learned(self) -> None:
        """Saves nothing: real runs must not begin with what was learned of simulated devices."""

    def _is_inside_task(self) -> bool:
        return False

    def _find_worker(self) -> None:
        return None

    # ---- Calls. ---------------------------------------------------------------------------------

    def submit(self, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Submits a call at the present virtual time.

        Raises:
            TypeError: the arguments do not fit the function.
            ValueError: `costs` do not name the task, nobody knows what its device moves, or it
                could never run.
        """
        call = SimulatedCall(self, task, args, kwargs)
        found = self._examine_arguments(call)
        uses: dict[Key, tuple[Any, Direction]] = {}
        if task.files or task.objects:
            uses = task.accesses(args, kwargs)
        self._find_cost(call)
        with self._lock:
            self._add_to_simulation(call, found, uses)
        return self._make_futures(call)

    def _take_requests(self, call: Call) -> None:
        """Leaves requests alone: a simulation does not use what real files hold."""

    def _find_cost(self, call: SimulatedCall) -> None:
        """Finds how long the call takes and what it moves, which runs the user's code."""
        task = call.task
        args, kwargs = _drop_futures((call.args, call.kwargs))
        cost = self._costs.get(task.name)
        given = cost(*args, **kwargs) if callable(cost) else cost
        if task.constraint is not None:
            call.nbytes = self._count_bytes(call) if given is None else _check_bytes(task, given)
            if call.nbytes == 0 and given is None and task.bytes is None:
                raise ValueError(
                    f"I/O task {task.name!r}: its arguments hold no bytes that could be counted: "
                    f"give its bytes by @ioweave.io(bytes=...) or costs={{{task.name!r}: ...}}"
                )
        elif given is None:
            raise ValueError(
                f"costs do not say what task {task.name!r} takes"
                f"{did_you_mean(task.name, self._costs)}: give seconds, a BlockingIO, or "
                "a function of its arguments"
            )
        elif isinstance(given, BlockingIO):
            call.cost, call.nbytes = given, given.bytes
        else:
            call.cost, call.nbytes = _check_seconds(task, given), 0

    def _count_bytes(self, call: SimulatedCall) -> int:
        try:
            return call.task.bytes_of(*_drop_futures((call.args, call.kwargs)))
        except Exception as error:
            if not call.has_futures:
                raise
            raise ValueError(
                f"I/O task {call.task.name!r}: bytes= cannot tell from values that are not "
                f"computed (futures are None): give its bytes by "
                f"costs={{{call.task.name!r}: ...}}"
            ) from error

    def _add_to_simulation(
        self, call: SimulatedCall, found: Found | None, uses: dict[Key, tuple[Any, Direction]]
    ) -> None:
        """Adds a call to the simulation, after the calls that it needs. Needs the lock."""
        if self._state == "closed":
            raise RuntimeError(f"task {call.task.name!r} was called after the Runtime was closed")
        call.number = len(self._calls) + 1
        futures: list[Future[Any]] = []
        if found is not None:
            # Futures of another runtime are done, and this simulation does not know them.
            futures = [future for future in found.futures if future._call.runtime is self]
            if Task.some_change_objects:  # otherwise no order follows from shared objects
                for thing in (*found.objects, *futures):
                    uses.setdefault(id(thing), (thing, Direction.In))
        needs = dict.fromkeys(future._call for future in futures)
        for key, (_, direction) in uses.items():
            needs |= dict.fromkeys(self._accesses.before(key, direction))
        after = [other.operation for other in needs]
        # First, since the simulation may refuse the call, which must leave no trace then.
        call.operation, device = self._add_operation(
            call, after, self._find_data_holder(futures, uses, after)
        )
        for key, (keep, direction) in uses.items():
            self._accesses.enter(call, key, keep, direction)
        self._note_written(call, uses, device)
        for other in call.needs or ():
            other.successors = other.followers = None  # the simulation keeps the edges
        call.needs = None
        call.args, call.kwargs = (), {}
        self._calls.append(call)

    def _find_data_holder(
        self,
        futures: list[Future[Any]],
        uses: dict[Key, tuple[Any, Direction]],
        after: list[int],
    ) -> int | None:
        """Returns the task, done or not, on whose node the call's data is."""
        for key, (_, direction) in uses.items():
            if direction is not Direction.Out and key in self._written:
                return self._written[key]
        if futures:
            return futures[0]._call.operation
        return after[0] if after else None

    def _note_written(
        self, call: Call, uses: dict[Key, tuple[Any, Direction]], device: Device | None
    ) -> None:
        for key, (_, direction) in uses.items():
            if direction is Direction.In or not isinstance(key, str):
                continue
            if device is not None and device.scope == "shared":
                self._written.pop(key, None)
            else:
                self._written[key] = call.operation

    def _add_operation(
        self, call: SimulatedCall, after: list[int], near: int | None
    ) -> tuple[int, Device | None]:
        """Adds a task to the simulation; returns its number and the device that it uses, if any."""
        task, cost = call.task, call.cost
        assert self._flows is not None  # it runs
        if task.constraint is not None:
            flow = call.flow = self._flows.flow(task)
            self._introduce_device(task, flow.device, call.nbytes)
            beside = None if self._shared_directory else near
            if beside is not None and beside not in after:
                after.append(beside)
            operation = self._core.io(flow.id, call.nbytes, after=after, beside=beside)
            return operation, flow.device.device
        try:
            if not isinstance(cost, BlockingIO):
                return self._core.compute(cost, cpus=task.cpus, after=after), None
            state = self._flows.device(f"task {task.name!r}", cost.device)
            self._introduce_device(task, state, cost.bytes)
            operation = self._core.blocking_io(
                state.id, cost.bytes, seconds=cost.seconds, cpus=task.cpus, after=after
            )
            return operation, state.device
        except ValueError as error:
            about = f"task {task.name!r}: "
            raise ValueError(about + str(error).removeprefix(about)) from None

    def _introduce_device(self, task: Task, state: DeviceState, nbytes: int) -> None:
        """Makes a device known to the simulation, before a task moves `nbytes` over it."""
        device = state.device
        own = device.curve or ([(1, device.bandwidth)] if device.bandwidth else None)
        curve = self._curves.get(device.name, own)
        if curve is None and nbytes > 0:
            raise ValueError(
                f"task {task.name!r}: the throughput of device {device.name!r} is not known: "
                "measure it with `ioweave measure --toml`, or give "
                f"curves={{{device.name!r}: [(1, 200), (8, 450)]}} (streams, MB/s) or the "
                "bandwidth of the device"
            )
        if state.id in self._introduced:
            return
        self._introduced.add(state.id)
        self._core.set_curve(state.id, list(curve or [(1, 1)]))  # any curve if nothing moves
        for node in state.nodes:
            self._core.device_up(state.id, node)

    @property
    def _core(self) -> Simulation:
        if self._simulation is None:
            raise RuntimeError("the Runtime was not started")
        return self._simulation

    # ---- What futures ask for. ------------------------------------------------------------------

    def wait_for(self, calls: Iterable[Call], timeout: float | None) -> bool:
        """Advances virtual time until the calls have ended. Ignores `timeout`, a real time."""
        for call in calls:
            if call.state != DONE:
                self._advance(call.operation, call.name)
                with self._lock:
                    self._mark_ended(call)
        return True

    def _advance(self, until: int | None, what: str) -> None:
        """Advances virtual time until that task has ended, or all have. Called without the lock."""
        while True:
            with self._lock:
                went = self._core.run(until, steps=_STEPS)
            self._call_back_ended()
            self._interrupts.check()
            if went == "ended":
                return
            if went == "stuck":
                raise RuntimeError(f"{what} never ends: the policy holds an I/O task back for ever")
            if went == "going on":
                time.sleep(0)  # gives other threads a chance to take the lock

    def _mark_ended(self, call: Call) -> None:
        """Marks a call as done. Needs the lock."""
        if call.state != DONE:
            call.value = make_empty_value(call.task)
            call.state = DONE
            self._accesses.leave(call)

    def is_running(self, call: Call) -> bool:
        return call.running

    def cancel(self, call: Call) -> bool:
        """Returns False: a simulation cancels no call."""
        return False

    def add_callback(
        self, call: Call, future: Future[Any] | None, callback: Callable[[Any], object]
    ) -> None:
        """Calls back at the virtual time at which the call ends."""
        assert isinstance(call, SimulatedCall)  # made by submit
        with self._lock:
            if not call.has_ended():
                if call.callbacks is None:
                    call.callbacks = []
                    self._watched.append(call)
                    self._core.watch(call.operation)
                call.callbacks.append((future, callback))
                return
        call_back([(future, callback)])

    def _call_back_ended(self) -> None:
        if not self._watched:
            return
        with self._lock:
            ended = [call for call in self._watched if call.has_ended()]
            self._watched = [call for call in self._watched if not call.has_ended()]
        for call in ended:
            callbacks, call.callbacks = call.callbacks, None
            call_back(callbacks or [])

    def prepare_await(self, call: Call) -> None:
        """Advances virtual time until the call has ended. An event loop would not advance it."""
        self.wait_for((call,), None)

    def barrier(self) -> None:
        """Advances virtual time until all calls have ended."""
        self._advance(None, "the program")
        with self._lock:
            for call in self._calls:
                self._mark_ended(call)

    # ---- Results. -------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """The present virtual time."""
        with self._lock:
            return self._core.now_s

    def _read_clock_s(self) -> float:
        return 0.0 if self._simulation is None else self.now_s

    def records(self) -> list[TaskRecord]:
        """Returns all calls that have ended, in the order of submission."""
        with self._lock:
            found = [(call, self._core.record(call.operation)) for call in self._calls]
        return [
            TaskRecord(
                call.task.name if call.flow is None else call.flow.name,
                None if call.flow is None else call.task.device,
                record.node,
                record.ready_s,
                record.start_s,
                record.end_s,
                call.nbytes,
            )
            for call, record in found
            if record.state == "ended"
        ]

    def stats(self) -> Stats:
        """Returns counts of tasks and operations at the present virtual time; threads are 0."""
        with self._lock:
            return self._make_stats()

    def _make_stats(self) -> Stats:
        flows, core = self._flows, self._simulation
        return Stats(
            **self._count_calls(),
            pending=0 if core is None else core.unfinished,
            pending_bytes=0,
            cpus=sum(self._cores_of),
            cpus_free=sum(self._cores_of) if core is None else core.free_cores,
            threads=0,
            io_threads=0,
            io_waiting=0 if flows is None else flows.core.waiting,
            io_running=0 if flows is None else flows.core.running,
            flows=() if flows is None else tuple(map(self._make_flow_stats, flows.flows)),
        )

    def _count_calls(self) -> dict[str, int]:
        unfinished = 0 if self._simulation is None else self._simulation.unfinished
        self._submitted = len(self._calls)
        self._succeeded = self._submitted - unfinished
        return super()._count_calls()

    def _make_flow_stats(self, flow: TaskFlow) -> FlowStats:
        assert self._flows is not None  # it has the flow
        counts = self._core.counts_of(flow.id)
        return FlowStats(
            task=flow.name,
            device=flow.device.device.name,
            waiting=counts.waiting,
            running=counts.running,
            bytes=counts.bytes,
            limit=self._flows.explain(flow.task)["limit"],
            done=counts.ended,
        )

    def _describe_runtime(self) -> dict[str, Any]:
        return {
            "kind": "simulated",
            "target": f"sim://{self.nodes}x{self.cores}",
            "nodes": self.nodes,
            "cpus": self.cores,
            "io_threads": self._io_threads,
        }

    def change_curve(self, device: str, curve: Curve, *, at_s: float) -> None:
        """Gives a device that was used a new curve, from that virtual time on."""
        assert self._flows is not None  # it was started
        with self._lock:
            for state in self._flows.devices:
                if state.device.name == device:
                    self._core.set_curve(state.id, list(curve), at_s=at_s)
                    return
        raise ValueError(f"no task has used device {device!r} yet")


def _read_nodes(options: Options) -> list[Node]:
    target, nodes = options.target, list(options.nodes)
    matched = _TARGET.fullmatch(target) if isinstance(target, str) else None
    if matched is None:
        raise ValueError(
            f"target {target!r} is not understood: give sim://NODESxCORES, or sim:// and nodes="
        )
    if matched[1] is not None:
        if nodes:
            raise ValueError(f"{target} says how many nodes there are: leave nodes= out, or sim://")
        nodes = [Node("node", count=int(matched[1]), cores=int(matched[2]))]
    nodes = nodes or load_nodes(options.config)
    if sum(node.count or 1 for node in nodes) > _MOST_NODES:
        raise ValueError(f"{target}: at most {_MOST_NODES} nodes can be simulated")
    if not nodes:
        raise ValueError(
            "sim:// has no nodes: give sim://NODESxCORES, nodes=[ioweave.Node(...)], or [[node]] "
            "tables in ioweave.toml"
        )
    return nodes


def _drop_futures(arguments: Any) -> Any:
    return replace_futures(arguments, lambda future: None)


def _check_seconds(task: Task, given: Any) -> float:
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = -1
    if not 0 <= seconds <= 1e9:
        raise ValueError(f"costs of task {task.name!r} must be 0 to 1e9 seconds, not {given!r}")
    return seconds


def _check_bytes(task: Task, given: Any) -> int:
    size = real(given)
    if size is None or not 0 <= size < math.inf:
        raise ValueError(f"costs of I/O task {task.name!r} must be bytes, not {given!r}")
    return int(size)


__all__ = ["BlockingIO", "SimulatedRuntime"]
