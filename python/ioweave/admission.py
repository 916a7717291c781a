"""When an I/O task may start: the runtime's side of the gate.

A runtime on this machine has one gate. Under the runtime's lock the runtime tells it which
operations are ready and which have ended; the gate says which ones start. A simulation adds its
devices and flows to a policy of its own, and asks that policy itself.
"""

from __future__ import annotations

import functools
import json
import logging
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ._core import Gate, Policy, SetLimit, Start, is_rotational
from .config import did_you_mean
from .constraints import Constraint, constraint_for
from .devices import Device
from .learning import Learned

if TYPE_CHECKING:
    from . import flows
    from .graph import Call
    from .sampling import TaskCounter
    from .tasks import Task

_log = logging.getLogger("ioweave")
_THIS_NODE = platform.node() or "localhost"
_SHOWN = 3  # names of nodes in a message
_AT_FIRST = 8  # operations at once with which `climb` begins


class DeviceState:
    """A device that I/O tasks use."""

    __slots__ = ("beside", "device", "id", "mb_per_s", "moved", "nodes", "tasks")

    def __init__(self, device: Device, number: int, nodes: Sequence[int] = ()) -> None:
        self.device = device
        self.id = number
        self.nodes = nodes  # nodes that have the device, to tell the policy; none: all have it
        self.mb_per_s: float | None = None  # as last sampled
        self.moved = 0  # bytes of the calls that succeeded
        # What flows of the program have moved: a function for each of them.
        self.beside: tuple[Callable[[], int], ...] = ()
        self.tasks: TaskCounter | None = None  # counts what calls move, if the device is sampled


class TaskFlow:
    """The calls of one task on one device."""

    __slots__ = ("device", "done", "id", "limit", "moved", "name", "sampled", "task")

    def __init__(self, task: Task, name: str, device: DeviceState, number: int) -> None:
        self.task = task
        self.name = name
        self.device = device
        self.id = number
        self.sampled = task.constraint is not None and task.constraint.sampled
        self.done = 0  # calls that succeeded
        self.moved = 0  # their bytes
        self.limit = 0  # calls at once, as the policy last set it; 0: no limit


class Names:
    """The names of the I/O tasks that were called. If several tasks on a device have one name, the
    later ones get a number, so that run files and explanations tell them apart: save, save(2)."""

    def __init__(self) -> None:
        self._names: dict[Task, str] = {}
        self._used: dict[tuple[str, str], int] = {}  # (name, device): how many tasks have it

    def make_name(self, task: Task) -> str:
        """Makes a name for a task that is called the first time. add() then keeps it."""
        name, number = task.name, self._used.get((task.name, task.device), 0)
        while (name, task.device) in self._used:
            number += 1
            name = f"{task.name}({number})"
        return name

    def add(self, task: Task, name: str) -> None:
        self._names[task] = name
        for used in {name, task.name}:
            self._used[used, task.device] = self._used.get((used, task.device), 0) + 1

    def name_of(self, task: Task) -> str:
        """Returns the name of a task; the task's own name if none was added."""
        return self._names.get(task, task.name)

    def find(self, task: Task | str) -> Task:
        """Returns the task of this name, or the task itself.

        Raises:
            ValueError: there is no such task, or several tasks have the name.
        """
        names = tuple(self._names.items())  # another thread may add one
        found = [one for one, name in names if task in (one, one.name, name)]
        if len(found) == 1:
            return found[0]
        name = task if isinstance(task, str) else task.name
        if found:
            raise ValueError(f"several I/O tasks are called {name!r}: pass the task itself")
        known = sorted({name for _, name in names})
        raise ValueError(
            f"no I/O task {name!r} was called in this runtime{did_you_mean(name, known)}; "
            f"the called ones are {', '.join(map(repr, known)) or 'none'}"
        )


def unknown_device(who: str, name: str, known: Iterable[str]) -> ValueError:
    """Returns the error for a device that is not configured; `who` asked for it."""
    known = sorted(known)
    return ValueError(
        f"{who}: there is no device {name!r}{did_you_mean(name, known)}; the known ones are "
        f"{', '.join(map(repr, known))}. Describe it with "
        f"Runtime(devices=[ioweave.Device({name!r}, ...)]) or a [[device]] in ioweave.toml"
    )


def find_nodes_with(who: str, device: Device, names: Sequence[str]) -> list[int]:
    """Returns the numbers of the nodes with these names that have the device.

    Raises:
        ValueError: None has it.
    """
    nodes = [number for number, name in enumerate(names) if device.is_on(name)]
    if not nodes:
        here = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if names[_SHOWN:] else "")
        raise ValueError(
            f"{who}: device {device.name!r} is only on nodes "
            f"{', '.join(map(repr, device.nodes or ()))}, and not on {here}: correct its "
            "nodes=, or run on one of them"
        )
    return nodes


def check_here(who: str, device: Device) -> None:
    """Checks that this machine has the device.

    Raises:
        ValueError: It has not.
    """
    find_nodes_with(who, device, [_THIS_NODE])
    if device.path is not None and not Path(device.path).exists():
        raise ValueError(
            f"{who}: the path {str(device.path)!r} of device {device.name!r} does not exist: "
            "mount it, or correct the device's path"
        )


class Core(Protocol):
    """Takes devices and flows: a `_core.Gate`, or a `_core.Policy` in a simulation."""

    def explain(self, flow: int) -> str: ...
    def learned(self, flow: int) -> str: ...
    def flow_counts(self, flow: int) -> tuple[int, int]: ...
    def needs_samples(self, device: int) -> bool: ...


C = TypeVar("C", bound=Core)


class TaskFlows(ABC, Generic[C]):
    """The devices and flows of a runtime's I/O tasks. Every method needs the runtime's lock.

    Args:
        core: the gate or policy that they are added to.
        devices: the devices by name; "default", without a budget, is added if it is not there.
        executors: most I/O tasks at once on a device.
        learned: what policies learned in earlier runs.
        nodes: the names of the nodes.
        limit_changed: called with a flow whose limit was set.
    """

    def __init__(
        self,
        core: C,
        devices: Mapping[str, Device],
        *,
        executors: int,
        learned: Learned,
        nodes: Sequence[str],
        limit_changed: Callable[[TaskFlow], None] | None = None,
    ) -> None:
        self.core = core
        self._nodes = nodes
        self._limit_changed = limit_changed
        self._known = {"default": Device("default"), **devices}
        self._executors = executors
        self._learned = learned
        self._devices: dict[str, DeviceState] = {}
        self._flows: dict[Task, TaskFlow] = {}
        self._names = Names()

    @property
    def devices(self) -> Iterable[DeviceState]:
        return self._devices.values()

    @property
    def flows(self) -> Iterable[TaskFlow]:
        return self._flows.values()

    def flow(self, task: Task) -> TaskFlow:
        """Returns the flow of a task, and makes it when the task is first called.

        Raises:
            ValueError: the task's device is not known, or cannot hold its constraint.
        """
        flow = self._flows.get(task)
        if flow is None:
            flow = self._make_flow(task, self._names.make_name(task))
            self._names.add(task, flow.name)
            self._flows[task] = flow
            # The core tells only when a limit changes, so the first one is asked for.
            self._set_limit(flow, self._explain(flow)["limit"])
        return flow

    def _make_flow(self, task: Task, name: str) -> TaskFlow:
        device = self.device(f"task {task.name!r}", task.device)
        known = self._learned.beginning(task, device.device)
        if known:
            try:
                return self._make_flow_with(task, name, device, known)
            except ValueError as error:
                _log.warning("the learned values of %s are not used: %s", task.key, error)
        return self._make_flow_with(task, name, device, "")

    def _make_flow_with(self, task: Task, name: str, device: DeviceState, learned: str) -> TaskFlow:
        constraint = constraint_for(task, device.device.bandwidth)
        try:
            return TaskFlow(task, name, device, self._add_flow(name, device, constraint, learned))
        except ValueError as error:
            raise ValueError(
                f"task {task.name!r} on device {device.device.name!r}: {error}"
            ) from None

    @abstractmethod
    def _add_flow(
        self, name: str, device: DeviceState, constraint: Constraint, learned: str
    ) -> int:
        """Adds a flow to the core. Returns its number there."""

    @abstractmethod
    def _add_device(self, device: Device, slots: int, nodes: Sequence[int]) -> int:
        """Adds a device of so many operations at once to the core. Returns its number there.
        `nodes` have the device; empty: all nodes have it."""

    def device(self, who: str, name: str) -> DeviceState:
        """Returns the device of that name, which `who` wants to use.

        Raises:
            ValueError: the device is not known, or not on this machine.
        """
        state = self._devices.get(name)
        if state is not None:
            return state
        device = self._known.get(name)
        if device is None:
            raise unknown_device(who, name, self._known)
        nodes = self._find_nodes_with(who, device)
        self._check_device(who, device)
        slots = min(device.max_in_flight or self._executors, self._executors)
        number = self._add_device(device, slots, nodes)
        state = self._devices[name] = DeviceState(device, number, nodes)
        return state

    def _check_device(self, who: str, device: Device) -> None:
        """Checks that the device can be used here.

        Raises:
            ValueError: the device cannot be used here.
        """

    def _find_nodes_with(self, who: str, device: Device) -> list[int]:
        """Returns the numbers of the nodes that have the device; empty if all nodes have it."""
        nodes = find_nodes_with(who, device, self._nodes)
        return nodes if len(nodes) < len(self._nodes) else []

    def _set_limit(self, flow: TaskFlow, limit: int) -> None:
        flow.limit = limit
        if self._limit_changed is not None:
            self._limit_changed(flow)

    # ---- What the policy decided and learned. ---------------------------------------------------

    def explain(self, task: Task | str) -> dict[str, Any]:
        """Returns the policy core's account of why the calls of a task start when they do.

        Raises:
            ValueError: no I/O task of that name was called, or several were.
        """
        return self._explain(self._flows[self._names.find(task)])

    def explanations(self) -> list[dict[str, Any]]:
        """Returns the accounts of all flows."""
        return [self._explain(flow) for flow in self.flows]

    def _explain(self, flow: TaskFlow) -> dict[str, Any]:
        explained: dict[str, Any] = json.loads(self.core.explain(flow.id))
        return explained

    def keep_learned(self) -> None:
        """Keeps what the policy learned, for runs that follow."""
        for flow in self.flows:
            learned = self.core.learned(flow.id)
            if learned:
                self._learned.put(flow.task.key, flow.device.device.name, learned)


class SimulatedFlows(TaskFlows[Policy]):
    """The flows of a simulation, which tells the policy what happens."""

    def _add_flow(
        self, name: str, device: DeviceState, constraint: Constraint, learned: str
    ) -> int:
        text = constraint.text(self._executors)
        return self.core.add_flow(name, device.id, constraint=text, learned=learned)

    def _add_device(self, device: Device, slots: int, nodes: Sequence[int]) -> int:
        return self.core.add_device(
            device.name,
            scope=device.scope,
            budget_mb_per_s=float(device.bandwidth),
            max_in_flight=slots,
            everywhere=not nodes,
        )


class Admission(TaskFlows[Gate]):
    """The I/O tasks of a runtime on this machine. They pass the same gate as its files."""

    def __init__(self, gate: Gate, devices: Mapping[str, Device], **more: Any) -> None:
        super().__init__(gate, devices, nodes=[_THIS_NODE], **more)
        self._by_number: dict[int, TaskFlow] = {}
        self._calls: dict[int, Call] = {}  # the calls that wait or run, by operation
        self._operations = 0
        self._program_flows: dict[object, int] = {}  # by flows.Flow.key
        self._closed: dict[int, dict[str, Any]] | None = None  # accounts of flows, by number

    def counts(self, flow: TaskFlow) -> tuple[int, int]:
        """Returns how many calls of a flow wait, and how many run."""
        return self.core.flow_counts(flow.id) if self._closed is None else (0, 0)

    @property
    def waiting(self) -> int:
        return sum(self.counts(flow)[0] for flow in self.flows)

    @property
    def running(self) -> int:
        return sum(self.counts(flow)[1] for flow in self.flows)

    def needs_samples(self, state: DeviceState) -> bool:
        """Returns whether calls of tasks with `climb` wait or run on the device."""
        return self._closed is None and self.core.needs_samples(state.id)

    def _add_flow(
        self, name: str, device: DeviceState, constraint: Constraint, learned: str
    ) -> int:
        return self.core.add_flow(
            name,
            device.id,
            constraint=constraint.words,
            max_in_flight=self._executors,
            learned=learned,
        )

    def _add_device(self, device: Device, slots: int, nodes: Sequence[int]) -> int:
        return self.core.add_device(
            device.name,
            budget_mb_per_s=float(device.bandwidth),
            max_in_flight=slots,
            begins_at=choose_beginning(device),
        )

    def _check_device(self, who: str, device: Device) -> None:
        check_here(who, device)

    def _make_flow(self, task: Task, name: str) -> TaskFlow:
        flow = super()._make_flow(task, name)
        self._by_number[flow.id] = flow
        return flow

    def add_program_flow(self, flow: flows.Flow) -> int:
        """Returns the number of a flow of the program's own, and makes it when it is first used.

        Raises:
            ValueError: the flow's device is not known, or cannot hold its constraint.
        """
        number = self._program_flows.get(flow.key)
        if number is None:
            who = f"flow {flow.name!r}"
            state = self.device(who, flow.device)
            number = self._program_flows[flow.key] = self.core.add_flow(
                flow.name, state.id, **flow.options_on(state.device)
            )
            state.beside = *state.beside, functools.partial(self.core.moved_bytes, number)
        return number

    def _explain(self, flow: TaskFlow) -> dict[str, Any]:
        return super()._explain(flow) if self._closed is None else self._closed[flow.id]

    def close(self) -> None:
        """Drops the gate, since a process can have a limited number of them. Calls that still run,
        because an interrupt cut the end of the runtime short, keep it."""
        self.core.take()  # the rest of the log
        if not self._calls:
            self._closed = {flow.id: self._explain(flow) for flow in self.flows}
            del self.core

    # ---- Events. Each returns the calls that start. ---------------------------------------------

    def ready(self, call: Call) -> list[Call]:
        assert call.flow is not None  # it is a call of an I/O task
        if self._closed is not None:  # an interrupt cut the end of the runtime short
            return []
        self._operations += 1
        call.operation = self._operations
        self._calls[call.operation] = call
        return self._apply(self.core.ready(call.operation, call.flow.id, call.nbytes))

    def finished(self, call: Call) -> list[Call]:
        flow = call.flow
        assert flow is not None  # it is a call of an I/O task
        flow.done += 1
        flow.moved += call.nbytes
        flow.device.moved += call.nbytes
        return self._apply(self.core.finished(self._forget_call(call), call.nbytes))

    def failed(self, call: Call) -> list[Call]:
        return self._apply(self.core.failed(self._forget_call(call)))

    def cancelled(self, call: Call) -> list[Call]:
        """`call` will not run, or its run does not count."""
        return self._apply(self.core.cancelled(self._forget_call(call)))

    def sample(self, state: DeviceState, bytes_per_second: float, seconds: float) -> list[Call]:
        """Takes a sample: the device's throughput since the last sample, `seconds` ago."""
        state.mb_per_s = bytes_per_second / 1e6
        return self._apply(self.core.sample(state.id, bytes_per_second, seconds))

    def take(self) -> list[Call]:
        """Returns the calls that start because other operations, which are no calls, have ended."""
        return self._apply(self.core.take())

    def _forget_call(self, call: Call) -> int:
        operation = call.operation
        del self._calls[operation]
        call.operation = -1
        return operation

    def _apply(self, decisions: Iterable[Start | SetLimit]) -> list[Call]:
        started: list[Call] = []
        for decision in decisions:
            if isinstance(decision, Start):
                started.append(self._calls[decision.operation])
            elif decision.flow in self._by_number:
                self._set_limit(self._by_number[decision.flow], decision.limit)
        return started


def choose_beginning(device: Device) -> int:
    """Returns with how many operations at once `climb` begins on a device: a number that most
    devices serve well, or 0 for a rotating disk, which does not."""
    try:
        turns = device.path is not None and is_rotational(device.path)
    except OSError:  # gone meanwhile
        turns = False
    return 0 if turns else _AT_FIRST
