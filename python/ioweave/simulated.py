"""The simulating runtime: what a program would take on a cluster that is not at hand.

`Runtime("sim://12x48", costs=..., curves=...)` takes the same calls of tasks as the embedded one
and links them by the same rules, but runs no function: a task takes the seconds that `costs` say,
and an I/O task moves its bytes over a device whose throughput follows a curve, when the same policy
as everywhere lets it. Time is virtual: 10,000 nodes and a million tasks take minutes.

Values are not computed: a future's result is None. Programs whose course depends on values need
them from elsewhere.

Time goes on where the program waits, and at its end: `_go_on`, in pieces, under the runtime's lock,
so that another thread can look between them.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._core import Policy, Simulation
from .admission import DeviceState, Flow, SimulatedFlows
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
from .runtime import GUARDED, FlowStats, Runtime, Stats, nothing
from .tasks import Task

_TARGET = re.compile(r"sim://(?:([1-9]\d*)x([1-9]\d*))?")
_MOST_NODES = 1_000_000
_STEPS = 10_000  # things that happen between two looks of other threads


@dataclass(frozen=True)
class BlockingIO:
    """The cost of a computing task that does I/O itself, and keeps its cores meanwhile.

    Attributes:
        device: the device's name.
        bytes: what it moves, after it has computed.
        seconds: what it computes before.
    """

    device: str
    bytes: int
    seconds: float = 0.0


Cost = float | BlockingIO | Callable[..., "float | BlockingIO"]
Curve = Sequence[tuple[float, float]]


class SimulatedCall(Call):
    """A call and its task in the simulation, `operation`."""

    __slots__ = ("_core", "cost")

    def __init__(
        self, runtime: SimulatedRuntime, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        super().__init__(runtime, task, args, kwargs)
        self._core = runtime._core
        self.cost: float | BlockingIO = 0.0  # of a computing one

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
        """Needs the lock."""
        return self.state == DONE or self._core.record(self.operation).state == "ended"


class SimulatedRuntime(Runtime):
    """Simulates the tasks that are called while its block is open: `Runtime("sim://12x48")`.

    It takes the arguments of ioweave.Runtime and has its methods. Tasks do not fail, and are not
    cancelled; `timeout` of result() would be of real time, and is not looked at.

    Attributes:
        nodes: how many there are.
        node_names: by the number that records have.
        cores: of the node with most.
    """

    has_threads = False

    @takes_options
    def __init__(self, options: Options) -> None:
        described = _nodes_of(options)
        self.node_names = [name for node in described for name in node.names]
        self._cores_of = [node.cores for node in described for _ in node.names]
        self.nodes, self.cores = len(self._cores_of), max(self._cores_of)
        if len(set(self.node_names)) < self.nodes:
            raise ValueError(f"nodes: two have one name: {', '.join(self.node_names[:10])}")
        self._io_threads = options.io_threads
        self._simulation: Simulation | None = None
        self._init_calls(options)
        self._keep_records = False  # the simulation has them
        self._learned = Learned()  # what is learned here is not of the real devices
        self._interrupts = Interrupts(GUARDED | {__file__})
        self._costs = dict(options.costs or {})
        self._curves = dict(options.curves or {})
        for name in self._curves.keys() - self._devices.keys() - {"default"}:
            known = sorted({*self._devices, "default"})
            raise ValueError(
                f"curves: there is no device {name!r}{did_you_mean(name, known)}; known are "
                f"{', '.join(map(repr, known))}"
            )
        self._shared_directory = options.shared_directory
        self._sample_period_s = options.sample_period_s
        self._calls: list[SimulatedCall] = []
        self._watched: list[SimulatedCall] = []  # that have callbacks
        self._written: dict[Key, int] = {}  # on a node's storage: files, and the tasks that did
        self._introduced: set[int] = set()  # devices, by id

    # ---- Beginning and end. ---------------------------------------------------------------------

    def start(self) -> SimulatedRuntime:
        super().start()
        return self

    def __enter__(self) -> SimulatedRuntime:
        return self.start()

    def _open(self) -> None:
        policy = Policy(self._open_log())
        self._flows = SimulatedFlows(policy, nodes=self.node_names, **self._flow_options())
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
                while self._unfinished():  # callbacks may call tasks
                    self.barrier()
                failed = False
        finally:
            self._shut_down(failed=failed)

    def _unfinished(self) -> int:
        with self._lock:
            return self._core.unfinished

    def _close_down(self) -> None:
        if self._log_file is not None:
            self._log_file.close()
        if self._recorder is not None:
            for record in self.records():
                self._recorder.add(record)

    def _save_learned(self) -> None:
        """What was learned of devices that are not there is not for real runs to begin with."""

    def _inside_task(self) -> bool:
        return False

    def _worker(self) -> None:
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
        found = self._examine(call)
        uses: dict[Key, tuple[Any, Direction]] = {}
        if task.files or task.objects:
            uses = task.accesses(args, kwargs)
        self._price(call)
        with self._lock:
            self._enter_simulation(call, found, uses)
        return self._futures_of(call)

    def _take_requests(self, call: Call) -> None:
        """What real files hold is nothing to a simulation."""

    def _price(self, call: SimulatedCall) -> None:
        """Finds what the call takes, which runs the user's code."""
        task = call.task
        args, kwargs = _without_futures((call.args, call.kwargs))
        cost = self._costs.get(task.name)
        given = cost(*args, **kwargs) if callable(cost) else cost
        if task.constraint is not None:
            call.nbytes = self._bytes_of(call) if given is None else _bytes(task, given)
            if call.nbytes == 0 and given is None and task.bytes is None:
                raise ValueError(
                    f"I/O task {task.name!r}: its arguments hold no bytes that could be counted: "
                    f"say what it moves, by @ioweave.io(bytes=...) or costs={{{task.name!r}: ...}}"
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
            call.cost, call.nbytes = _seconds(task, given), 0

    def _bytes_of(self, call: SimulatedCall) -> int:
        """By what the task itself says."""
        try:
            return call.task.bytes_of(*_without_futures((call.args, call.kwargs)))
        except Exception as error:
            if not call.has_futures:
                raise
            raise ValueError(
                f"I/O task {call.task.name!r}: bytes= cannot tell from values that are not "
                f"computed (futures are None): say what it moves, by "
                f"costs={{{call.task.name!r}: ...}}"
            ) from error

    def _enter_simulation(
        self, call: SimulatedCall, found: Found | None, uses: dict[Key, tuple[Any, Direction]]
    ) -> None:
        """Needs the lock."""
        if self._state == "closed":
            raise RuntimeError(f"task {call.task.name!r} was called after the Runtime was closed")
        call.number = len(self._calls) + 1
        futures: list[Future[Any]] = []
        if found is not None:
            # Those of another runtime are done, and nothing of them is here.
            futures = [future for future in found.futures if future._call.runtime is self]
            if Task.some_change_objects:  # else who uses which object is nothing to anybody
                for thing in (*found.objects, *futures):
                    uses.setdefault(id(thing), (thing, Direction.In))
        needs = dict.fromkeys(future._call for future in futures)
        for key, (_, direction) in uses.items():
            needs |= dict.fromkeys(self._accesses.before(key, direction))
        after = [other.operation for other in needs]
        # It may be refused, and has not been here then.
        call.operation, device = self._add(call, after, self._holder(futures, uses, after))
        for key, (keep, direction) in uses.items():
            self._accesses.enter(call, key, keep, direction)
        self._note_written(call, uses, device)
        for other in call.needs or ():
            other.successors = other.followers = None  # the simulation has the edges
        call.needs = None
        call.args, call.kwargs = (), {}
        self._calls.append(call)

    def _holder(
        self,
        futures: list[Future[Any]],
        uses: dict[Key, tuple[Any, Direction]],
        after: list[int],
    ) -> int | None:
        """The task, be it done or not, on whose node the call's data is."""
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

    def _add(
        self, call: SimulatedCall, after: list[int], near: int | None
    ) -> tuple[int, Device | None]:
        """The simulation's task, and the device that it uses, if any."""
        task, cost = call.task, call.cost
        assert self._flows is not None  # it runs
        if task.constraint is not None:
            flow = call.flow = self._flows.flow(task)
            self._introduce(task, flow.device, call.nbytes)
            beside = None if self._shared_directory else near
            if beside is not None and beside not in after:
                after.append(beside)
            operation = self._core.io(flow.id, call.nbytes, after=after, beside=beside)
            return operation, flow.device.device
        try:
            if not isinstance(cost, BlockingIO):
                return self._core.compute(cost, cpus=task.cpus, after=after), None
            state = self._flows.device(f"task {task.name!r}", cost.device)
            self._introduce(task, state, cost.bytes)
            operation = self._core.blocking_io(
                state.id, cost.bytes, seconds=cost.seconds, cpus=task.cpus, after=after
            )
            return operation, state.device
        except ValueError as error:
            about = f"task {task.name!r}: "
            raise ValueError(about + str(error).removeprefix(about)) from None

    def _introduce(self, task: Task, state: DeviceState, nbytes: int) -> None:
        """The device to the simulation, before a task uses it to move so much."""
        device = state.device
        own = device.curve or ([(1, device.bandwidth)] if device.bandwidth else None)
        curve = self._curves.get(device.name, own)
        if curve is None and nbytes > 0:
            raise ValueError(
                f"task {task.name!r}: what device {device.name!r} moves is not known, and so not "
                "how long the task takes: `ioweave measure --toml` finds out, or say it, as "
                f"curves={{{device.name!r}: [(1, 200), (8, 450)]}} (streams, MB/s) or as the "
                "bandwidth of the device"
            )
        if state.id in self._introduced:
            return
        self._introduced.add(state.id)
        self._core.set_curve(state.id, list(curve or [(1, 1)]))  # whichever: nothing is moved
        for node in state.nodes:
            self._core.device_up(state.id, node)

    @property
    def _core(self) -> Simulation:
        """For this module."""
        if self._simulation is None:
            raise RuntimeError("the Runtime was not started")
        return self._simulation

    # ---- What futures ask for. ------------------------------------------------------------------

    def wait_for(self, calls: Iterable[Call], timeout: float | None) -> bool:
        """Goes on in virtual time until the calls have ended. `timeout` would be of real time."""
        for call in calls:
            if call.state != DONE:
                self._go_on(call.operation, call.name)
                with self._lock:
                    self._end(call)
        return True

    def _go_on(self, until: int | None, what: str) -> None:
        """Until that task has ended, or all have. Without the lock."""
        while True:
            with self._lock:
                went = self._core.run(until, steps=_STEPS)
            self._call_back_those_that_ended()
            self._interrupts.check()
            if went == "ended":
                return
            if went == "stuck":
                raise RuntimeError(f"{what} never ends: the policy holds an I/O task back for ever")
            if went == "going on":
                time.sleep(0)  # or the lock is free for a moment only

    def _end(self, call: Call) -> None:
        """Needs the lock."""
        if call.state != DONE:
            call.value = nothing(call.task)
            call.state = DONE
            self._accesses.leave(call)

    def is_running(self, call: Call) -> bool:
        return call.running

    def cancel(self, call: Call) -> bool:
        """What is simulated is not cancelled."""
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

    def _call_back_those_that_ended(self) -> None:
        if not self._watched:
            return
        with self._lock:
            ended = [call for call in self._watched if call.has_ended()]
            self._watched = [call for call in self._watched if not call.has_ended()]
        for call in ended:
            callbacks, call.callbacks = call.callbacks, None
            call_back(callbacks or [])

    def awaited(self, call: Call) -> None:
        """An event loop would wait for ever: nothing happens but here."""
        self.wait_for((call,), None)

    def barrier(self) -> None:
        """Goes on until all calls have ended."""
        self._go_on(None, "the program")
        with self._lock:
            for call in self._calls:
                self._end(call)

    # ---- What came of it. -----------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """The present virtual time."""
        with self._lock:
            return self._core.now_s

    def _clock_s(self) -> float:
        return 0.0 if self._simulation is None else self.now_s

    def records(self) -> list[TaskRecord]:
        """All calls that have ended, in the order of submission."""
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
        """Counts of tasks and operations at the present virtual time; there are no threads."""
        with self._lock:
            return self._stats()

    def _stats(self) -> Stats:
        flows, core = self._flows, self._simulation
        return Stats(
            **self._counts(),
            pending=0 if core is None else core.unfinished,
            pending_bytes=0,
            cpus=sum(self._cores_of),
            cpus_free=sum(self._cores_of) if core is None else core.free_cores,
            threads=0,
            io_threads=0,
            io_waiting=0 if flows is None else flows.core.waiting,
            io_running=0 if flows is None else flows.core.running,
            flows=() if flows is None else tuple(map(self._flow_stats, flows.flows)),
        )

    def _counts(self) -> dict[str, int]:
        unfinished = 0 if self._simulation is None else self._simulation.unfinished
        self._submitted = len(self._calls)
        self._succeeded = self._submitted - unfinished
        return super()._counts()

    def _flow_stats(self, flow: Flow) -> FlowStats:
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

    def _described(self) -> dict[str, Any]:
        return {
            "kind": "simulated",
            "target": f"sim://{self.nodes}x{self.cores}",
            "nodes": self.nodes,
            "cpus": self.cores,
            "io_threads": self._io_threads,
        }

    def change_curve(self, device: str, curve: Curve, *, at_s: float) -> None:
        """From that virtual time on the device, which has been used, moves what the curve says."""
        assert self._flows is not None  # it was started
        with self._lock:
            for state in self._flows.devices:
                if state.device.name == device:
                    self._core.set_curve(state.id, list(curve), at_s=at_s)
                    return
        raise ValueError(f"no task has used device {device!r} yet")


def _nodes_of(options: Options) -> list[Node]:
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


def _without_futures(arguments: Any) -> Any:
    return replace_futures(arguments, lambda future: None)


def _seconds(task: Task, given: Any) -> float:
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = -1
    if not 0 <= seconds <= 1e9:
        raise ValueError(f"costs of task {task.name!r} must be 0 to 1e9 seconds, not {given!r}")
    return seconds


def _bytes(task: Task, given: Any) -> int:
    size = real(given)
    if size is None or not 0 <= size < math.inf:
        raise ValueError(f"costs of I/O task {task.name!r} must be bytes, not {given!r}")
    return int(size)


__all__ = ["BlockingIO", "SimulatedRuntime"]
