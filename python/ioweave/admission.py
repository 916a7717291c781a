"""When an I/O task may start: the runtime's side of the policy core.

One `_core.Policy` decides for all I/O tasks of a runtime, under the runtime's lock. The runtime
tells it which operations are ready and which have ended; the policy says which ones start. This
machine is its node 0; a simulation has more nodes.
"""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._core import Policy, SetLimit, Start
from .config import did_you_mean
from .constraints import text_for
from .devices import Device
from .learning import Learned
from .sampling import is_rotational

if TYPE_CHECKING:
    from .graph import Call
    from .sampling import TaskCounter
    from .tasks import Task

_log = logging.getLogger("ioweave")
_NODE = 0
_SHOWN = 3  # names of nodes in a message
_AT_FIRST = 8  # operations at once with which `climb` begins


class DeviceState:
    """A device that I/O tasks use."""

    __slots__ = ("device", "id", "mb_per_s", "moved", "nodes", "tasks")

    def __init__(self, device: Device, number: int, nodes: Sequence[int] = ()) -> None:
        self.device = device
        self.id = number
        self.nodes = nodes  # nodes that have the device, to tell the policy; none: all have it
        self.mb_per_s: float | None = None  # as last sampled
        self.moved = 0  # bytes of the calls that succeeded
        self.tasks: TaskCounter | None = None  # counts what calls move, if the device is sampled


class Flow:
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


def unknown_device(task: Task, name: str, known: Iterable[str]) -> ValueError:
    """Returns the error for a task whose device is not configured."""
    known = sorted(known)
    return ValueError(
        f"task {task.name!r}: there is no device {name!r}{did_you_mean(name, known)}; the known "
        f"ones are {', '.join(map(repr, known))}. Describe it with "
        f"Runtime(devices=[ioweave.Device({name!r}, ...)]) or a [[device]] in ioweave.toml"
    )


class Admission:
    """The I/O tasks of a runtime and the policy that decides for them. Every method needs the
    runtime's lock. The policy's time begins when this is made.

    Args:
        devices: the devices by name; "default", without a budget, is added if it is not there.
        executors: most I/O tasks at once on a device.
        log: gets every line of the policy's event log.
        learned: what policies learned in earlier runs.
        nodes: the names of the simulated nodes; None: this machine alone.
        limit_changed: called with a flow whose limit was set.
    """

    def __init__(
        self,
        devices: Mapping[str, Device],
        *,
        executors: int,
        log: Callable[[str], None] | None,
        learned: Learned,
        nodes: Sequence[str] | None = None,
        limit_changed: Callable[[Flow], None] | None = None,
    ) -> None:
        self._nodes = nodes
        self._began_ns = time.monotonic_ns()
        self._limit_changed = limit_changed
        self._known = {"default": Device("default"), **devices}
        self._executors = executors
        self._learned = learned
        self._policy = Policy(log)
        self._devices: dict[str, DeviceState] = {}
        self._flows: dict[Task, Flow] = {}
        self._flow_ids: list[Flow] = []
        self._names = Names()
        self._calls: dict[int, Call] = {}  # the calls that the policy knows, by operation
        self._operations = 0

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def waiting(self) -> int:
        return self._policy.waiting

    @property
    def running(self) -> int:
        return self._policy.running

    @property
    def devices(self) -> Iterable[DeviceState]:
        return self._devices.values()

    def counts(self, flow: Flow) -> tuple[int, int]:
        return self._policy.flow_counts(flow.id)

    def needs_samples(self, state: DeviceState) -> bool:
        """Returns whether calls of tasks with `climb` wait or run on the device."""
        return self._policy.needs_samples(state.id)

    @property
    def flows(self) -> Iterable[Flow]:
        return self._flow_ids

    def flow(self, task: Task) -> Flow:
        """Returns the flow of a task, and makes it when the task is first called.

        Raises:
            ValueError: the task's device is not known, or cannot hold its constraint.
        """
        flow = self._flows.get(task)
        if flow is None:
            flow = self._make_flow(task, self._names.make_name(task))
            self._names.add(task, flow.name)
            self._flows[task] = flow
            self._flow_ids.append(flow)
            # The policy tells only when a limit changes, so the first one is asked for.
            self._set_limit(flow, self._explain(flow)["limit"])
        return flow

    def _make_flow(self, task: Task, name: str) -> Flow:
        device = self.device(task, task.device)
        text = text_for(task, device.device.bandwidth, self._executors)
        known = self._learned.beginning(task, device.device)
        if known:
            try:
                return self._add_flow(task, name, device, text, known)
            except ValueError as error:
                _log.warning("the learned values of %s are not used: %s", task.key, error)
        return self._add_flow(task, name, device, text, "")

    def _add_flow(
        self, task: Task, name: str, device: DeviceState, text: str, learned: str
    ) -> Flow:
        try:
            number = self._policy.add_flow(name, device.id, constraint=text, learned=learned)
            return Flow(task, name, device, number)
        except ValueError as error:
            raise ValueError(
                f"task {task.name!r} on device {device.device.name!r}: {error}"
            ) from None

    def device(self, task: Task, name: str) -> DeviceState:
        """Returns the device of that name, which a task wants to use.

        Raises:
            ValueError: the device is not known, or not on this machine.
        """
        state = self._devices.get(name)
        if state is not None:
            return state
        device = self._known.get(name)
        if device is None:
            raise unknown_device(task, name, self._known)
        nodes = self._find_nodes_with(task, device)
        if self._nodes is None and device.path is not None and not Path(device.path).exists():
            raise ValueError(
                f"task {task.name!r}: the path {str(device.path)!r} of device {name!r} does not "
                "exist: mount it, or correct the device's path"
            )
        number = self._policy.add_device(
            name,
            scope=device.scope,
            budget_mb_per_s=float(device.bandwidth),
            max_in_flight=min(device.max_in_flight or self._executors, self._executors),
            everywhere=not nodes,
            begins_at=_choose_beginning(device) if self._nodes is None else 0,
        )
        state = self._devices[name] = DeviceState(device, number, nodes)
        return state

    def _find_nodes_with(self, task: Task, device: Device) -> list[int]:
        """Returns the numbers of the nodes that have the device; empty if all nodes have it."""
        names = [platform.node() or "localhost"] if self._nodes is None else self._nodes
        nodes = [number for number, name in enumerate(names) if device.is_on(name)]
        if not nodes:
            here = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if names[_SHOWN:] else "")
            raise ValueError(
                f"task {task.name!r}: device {device.name!r} is only on nodes "
                f"{', '.join(map(repr, device.nodes or ()))}, and not on {here}: correct its "
                "nodes=, or run on one of them"
            )
        return nodes if len(nodes) < len(names) else []

    # ---- Events. Each returns the calls that start. ---------------------------------------------

    def ready(self, call: Call) -> list[Call]:
        assert call.flow is not None  # it is a call of an I/O task
        self._operations += 1
        call.operation = self._operations
        self._calls[call.operation] = call
        return self._apply(
            self._policy.ready(call.operation, call.flow.id, _NODE, call.nbytes, self._now_ns())
        )

    def finished(self, call: Call, seconds: float) -> list[Call]:
        flow = call.flow
        assert flow is not None  # it is a call of an I/O task
        flow.done += 1
        flow.moved += call.nbytes
        flow.device.moved += call.nbytes
        return self._apply(
            self._policy.finished(self._forget_call(call), seconds, call.nbytes, self._now_ns())
        )

    def failed(self, call: Call) -> list[Call]:
        return self._apply(self._policy.failed(self._forget_call(call), self._now_ns()))

    def cancelled(self, call: Call) -> list[Call]:
        """`call` will not run, or its run does not count."""
        return self._apply(self._policy.cancelled(self._forget_call(call), self._now_ns()))

    def sample(self, state: DeviceState, bytes_per_second: float, seconds: float) -> list[Call]:
        """Takes a sample: the device's throughput since the last sample, `seconds` ago."""
        state.mb_per_s = bytes_per_second / 1e6
        return self._apply(
            self._policy.sample(state.id, _NODE, bytes_per_second, self._now_ns(), seconds)
        )

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._began_ns

    def _forget_call(self, call: Call) -> int:
        operation = call.operation
        del self._calls[operation]
        call.operation = -1
        return operation

    def _apply(self, decisions: Iterable[Start | SetLimit]) -> list[Call]:
        started: list[Call] = []
        for decision in decisions:
            if isinstance(decision, SetLimit):
                self._set_limit(self._flow_ids[decision.flow], decision.limit)
                continue
            started.append(self._calls[decision.operation])
        return started

    def _set_limit(self, flow: Flow, limit: int) -> None:
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
        return [self._explain(flow) for flow in self._flow_ids]

    def _explain(self, flow: Flow) -> dict[str, Any]:
        explained: dict[str, Any] = json.loads(self._policy.explain(flow.id))
        return explained

    def keep_learned(self) -> None:
        """Keeps what the policy learned, for runs that follow."""
        for flow in self._flow_ids:
            learned = self._policy.learned(flow.id)
            if learned:
                self._learned.put(flow.task.key, flow.device.device.name, learned)


def _choose_beginning(device: Device) -> int:
    """Returns with how many operations at once `climb` begins on a device: a number that most
    devices serve well, or 0 for a rotating disk, which does not."""
    try:
        turns = device.path is not None and is_rotational(device.path)
    except OSError:  # gone meanwhile
        turns = False
    return 0 if turns else _AT_FIRST
