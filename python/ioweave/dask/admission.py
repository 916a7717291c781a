"""The policy and what waits or runs under it: the side of the scheduler plugin that knows no Dask.

A host with workers is a node of the policy. Each event returns the operations that start. One
thread, the scheduler's event loop, calls everything here.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from .._core import Policy, SetLimit, Start
from ..constraints import no_budget

_log = logging.getLogger("ioweave.dask")

_LATE = 0.125  # the weight of the last operation in a mean of how long they take


@dataclass(frozen=True)
class DeviceSettings:
    """Of a device: MB/s (10^6 bytes) per node or for all of them; 0 stands for no bound."""

    scope: str = "node"
    bandwidth: float = 0.0
    max_in_flight: int = 0
    path: str | None = None  # a file or folder on it, to measure its throughput on the workers
    nodes: tuple[str, ...] | None = None  # globs of the nodes that have it; None: all


class Device:
    """A device and its operations. A *scope* of it is a node, or None where all nodes share it."""

    __slots__ = ("held_back", "id", "mb_per_s", "name", "running", "sampled", "settings", "waiting")

    def __init__(self, name: str, settings: DeviceSettings, number: int) -> None:
        self.name = name
        self.settings = settings
        self.id = number
        self.running: Counter[int] = Counter()  # by node
        self.waiting: Counter[int | None] = Counter()  # by the node they are bound to
        self.sampled = 0  # operations, waiting or running, of flows that need samples
        self.held_back: set[int | None] = set()  # scopes where something waited ever since a sample
        self.mb_per_s: dict[int | None, float] = {}  # by scope, as last sampled

    @property
    def measured_mb_per_s(self) -> float | None:
        """What all of it moves; None: it is not measured now."""
        return sum(self.mb_per_s.values()) if self.sampled and self.mb_per_s else None

    def scope(self, node: int) -> int | None:
        return None if self.settings.scope == "shared" else node

    def running_in(self, scope: int | None) -> int:
        return self.running.total() if scope is None else self.running[scope]

    def waiting_in(self, scope: int | None) -> int:
        if scope is None:
            return self.waiting.total()
        return self.waiting[None] + self.waiting[scope]


class Flow:
    """Tasks of one name, device and constraint, from whichever clients."""

    __slots__ = (
        "bytes",
        "constraint",
        "device",
        "done",
        "id",
        "limit",
        "name",
        "running",
        "sampled",
        "seconds",
        "waiting",
    )

    def __init__(self, name: str, device: Device, constraint: str, number: int) -> None:
        self.name = name
        self.device = device
        self.constraint = constraint
        self.sampled = constraint == "climb"
        self.id = number
        self.waiting = 0
        self.running: Counter[int] = Counter()  # by node
        self.done = 0  # tasks that ended well
        self.bytes = 0  # moved by them
        self.seconds = 0.0  # that one takes: of late ones more than of earlier ones; 0: not known
        self.limit: int | None = None  # at once on a node, as the policy last said; 0: no bound


class Operation:
    """A run of an I/O task: a retry is another one."""

    __slots__ = ("bound", "bytes", "flow", "id", "key", "node", "run", "worker")

    def __init__(self, key: Any, flow: Flow, bytes: int, bound: int | None) -> None:
        self.key = key
        self.flow = flow
        self.bytes = bytes
        self.bound = bound  # the node that it has to run on; None: any
        self.id = -1  # the policy's
        self.node: int | None = None  # where the policy started it
        self.worker: str | None = None  # the address where it got a thread
        self.run = -1  # Dask's number of that


class Admission:
    """Devices, flows and operations of a cluster, and the one policy that decides for them.

    Args:
        log: gets every line of the policy's event log.
    """

    def __init__(self, log: Callable[[str], None] | None) -> None:
        self.policy = Policy(log)
        self.policy.node_down(0, time.monotonic_ns())  # up from the beginning; no worker is
        self.devices: dict[str, Device] = {}
        self.flows: list[Flow] = []
        self._flow_ids: dict[tuple[str, str, str], int] = {}
        self._operations: dict[int, Operation] = {}  # all that the policy knows
        self._next = 0

    def add_device(self, name: str, settings: DeviceSettings, *, slots: int = 0) -> None:
        """Makes the device known. Again with the same settings: nothing happens.

        Args:
            slots: the threads for I/O of a node, the bound of a node's device without one of its
                own: else the policy would look for a limit that cannot be reached. 0: not known.

        Raises:
            ValueError: the settings are wrong, or others than before.
        """
        known = self.devices.get(name)
        if known is None:
            number = self.policy.add_device(
                name,
                scope=settings.scope,
                budget_mb_per_s=settings.bandwidth,
                max_in_flight=settings.max_in_flight or (slots if settings.scope == "node" else 0),
                everywhere=settings.nodes is None,
            )
            self.devices[name] = Device(name, settings, number)
        elif known.settings != settings:
            wanted = asdict(settings)
            differ = ", ".join(
                f"{setting}={value!r}, not {wanted[setting]!r}"
                for setting, value in asdict(known.settings).items()
                if value != wanted[setting]
            )
            raise ValueError(
                f"device {name!r} was declared on this cluster with {differ}: "
                "declare it alike, or under another name"
            )

    @property
    def budgets(self) -> dict[str, float]:
        """In MB/s, of the devices that a flow may be on; 0: none."""
        declared = {name: device.settings.bandwidth for name, device in self.devices.items()}
        return {"default": 0.0} | declared

    def add_flow(self, name: str, device: str, constraint: str, learned: str = "") -> int:
        """The id of the flow, the same for the same arguments. What was `learned` earlier counts if
        the flow is new, and is left aside where the policy does not understand it.

        Raises:
            ValueError: the device is not known, or the constraint wrong for it.
        """
        key = (name, device, constraint)
        if key not in self._flow_ids:
            if device == "default" and device not in self.devices:  # nobody declared it
                self.add_device(device, DeviceSettings())
            on = self.devices.get(device)
            if on is None:
                raise ValueError(
                    f"flow {name!r}: there is no device {device!r}; known are "
                    f"{', '.join(map(repr, self.budgets))}. "
                    f"Declare it first: handle.declare_device({device!r}, ...)"
                )
            if constraint.startswith("fixed:") and not on.settings.bandwidth:
                raise ValueError(f"flow {name!r}: {no_budget(device)}")
            number = self._make_flow(name, on, constraint, learned)
            self.flows.append(Flow(name, on, constraint, number))
            self._flow_ids[key] = number
        return self._flow_ids[key]

    def _make_flow(self, name: str, device: Device, constraint: str, learned: str) -> int:
        if learned:
            try:
                return self.policy.add_flow(name, device.id, constraint=constraint, learned=learned)
            except ValueError as error:
                _log.warning("what was learned for %s is not used: %s", name, error)
        return self.policy.add_flow(name, device.id, constraint=constraint)

    # ---- Events. --------------------------------------------------------------------------------

    def ready(self, operation: Operation) -> list[Operation]:
        """It may start; also told again of one that `node_down` returned."""
        flow = operation.flow
        operation.id = self._next
        operation.node = operation.worker = None
        self._next += 1
        self._operations[operation.id] = operation
        flow.waiting += 1
        flow.device.waiting[operation.bound] += 1
        flow.device.sampled += flow.sampled
        return self._apply(
            self.policy.ready(
                operation.id, flow.id, operation.bound, operation.bytes, time.monotonic_ns()
            )
        )

    def finished(self, operation: Operation, seconds: float) -> list[Operation]:
        flow, node = operation.flow, operation.node
        assert node is not None  # it ran
        flow.done += 1
        flow.bytes += operation.bytes
        flow.seconds += (seconds - flow.seconds) * (_LATE if flow.seconds else 1)
        concurrency = flow.running[node]
        self._forget(operation)
        return self._apply(
            self.policy.finished(
                operation.id, seconds, operation.bytes, concurrency, time.monotonic_ns()
            )
        )

    def failed(self, operation: Operation) -> list[Operation]:
        self._forget(operation)
        return self._apply(self.policy.failed(operation.id, time.monotonic_ns()))

    def cancelled(self, operation: Operation) -> list[Operation]:
        """It will not run, or what it ran is void, and it has left the device."""
        self._forget(operation)
        return self._apply(self.policy.cancelled(operation.id, time.monotonic_ns()))

    def node_up(self, node: int) -> list[Operation]:
        return self._apply(self.policy.node_up(node, time.monotonic_ns()))

    def node_down(self, node: int) -> tuple[list[Operation], list[Operation]]:
        """Those that waited for the node or ran there, which are forgotten; and those that start
        elsewhere."""
        lost = [
            operation
            for operation in self._operations.values()
            if (operation.bound if operation.node is None else operation.node) == node
        ]
        for operation in lost:
            self._forget(operation)
        for device in self.devices.values():
            device.mb_per_s.pop(node, None)
        return lost, self._apply(self.policy.node_down(node, time.monotonic_ns()))

    def device_up(self, device: Device, node: int) -> list[Operation]:
        """The node, which is up, has the device, which not all nodes have."""
        return self._apply(self.policy.device_up(device.id, node, time.monotonic_ns()))

    def has(self, node: int, device: Device) -> bool:
        """Whether the node, which is up, does."""
        return device.settings.nodes is None or self.policy.has(node, device.id)

    def sample(
        self, device: Device, node: int, bytes_per_second: float, seconds: float
    ) -> list[Operation]:
        """What the device moved in the scope of `node` since the last sample, that long."""
        scope = device.scope(node)
        held_back = scope in device.held_back
        device.mb_per_s[scope] = bytes_per_second / 1e6
        if device.waiting_in(scope):
            device.held_back.add(scope)
        return self._apply(
            self.policy.sample(
                device.id,
                node,
                bytes_per_second,
                device.running_in(scope),
                held_back,
                time.monotonic_ns(),
                seconds,
            )
        )

    def _forget(self, operation: Operation) -> None:
        del self._operations[operation.id]
        flow = operation.flow
        if operation.node is None:
            self._waits_no_more(operation)
        else:
            flow.running[operation.node] -= 1
            flow.device.running[operation.node] -= 1
        flow.device.sampled -= flow.sampled

    def _waits_no_more(self, operation: Operation) -> None:
        device = operation.flow.device
        operation.flow.waiting -= 1
        device.waiting[operation.bound] -= 1
        if device.held_back:
            device.held_back = {scope for scope in device.held_back if device.waiting_in(scope)}

    def _apply(self, decisions: Iterable[Start | SetLimit]) -> list[Operation]:
        started = []
        for decision in decisions:
            if isinstance(decision, SetLimit):
                self.flows[decision.flow].limit = decision.limit
                continue
            operation = self._operations[decision.operation]
            self._waits_no_more(operation)
            operation.node = decision.node
            operation.flow.running[decision.node] += 1
            operation.flow.device.running[decision.node] += 1
            started.append(operation)
        return started

    # ---- What is known. -------------------------------------------------------------------------

    def describe(self, flow: Flow) -> dict[str, Any]:
        return {
            "id": flow.id,
            "flow": flow.name,
            "device": flow.device.name,
            "constraint": flow.constraint,
            "limit": flow.limit,
            "waiting": flow.waiting,
            "running": flow.running.total(),
            "done": flow.done,
            "bytes": flow.bytes,
            "device_mb_per_s": flow.device.measured_mb_per_s,
        }
