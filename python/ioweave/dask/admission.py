"""The policy and the operations under it: the part of the scheduler plugin that knows no Dask.

A host with workers is a node of the policy. Each event returns the operations that start. Only the
thread of the scheduler's event loop calls this module.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from .._core import Policy, SetLimit, Start
from ..constraints import no_budget

_log = logging.getLogger("ioweave.dask")

_LATE = 0.125  # the weight of the latest operation in the mean time of an operation


@dataclass(frozen=True)
class DeviceSettings:
    """The settings of a device: MB/s (10^6 bytes), per node or of all nodes; 0: no limit."""

    scope: str = "node"
    bandwidth: float = 0.0
    max_in_flight: int = 0
    path: str | None = None  # a file or folder on it, to measure its throughput on the workers
    nodes: tuple[str, ...] | None = None  # globs of the nodes that have it; None: all


class Device:
    """A device. Its *scope* is a node, or None if all nodes share it."""

    __slots__ = ("id", "mb_per_s", "name", "settings")

    def __init__(self, name: str, settings: DeviceSettings, number: int) -> None:
        self.name = name
        self.settings = settings
        self.id = number
        self.mb_per_s: dict[int | None, float] = {}  # by scope, as last sampled

    def scope(self, node: int) -> int | None:
        return None if self.settings.scope == "shared" else node


class Flow:
    """The tasks of one name, device and constraint, of any client."""

    __slots__ = (
        "bytes",
        "constraint",
        "device",
        "done",
        "id",
        "limit",
        "name",
        "sampled",
        "seconds",
    )

    def __init__(self, name: str, device: Device, constraint: str, number: int) -> None:
        self.name = name
        self.device = device
        self.constraint = constraint
        self.sampled = constraint == "climb"
        self.id = number
        self.done = 0  # tasks that succeeded
        self.bytes = 0  # that they moved
        self.seconds = 0.0  # mean time of a task, later ones weigh more; 0: not known
        self.limit: int | None = None  # at once on a node, as the policy last set it; 0: no limit


class Operation:
    """A run of an I/O task. A retry is another operation."""

    __slots__ = ("bound", "bytes", "flow", "id", "key", "node", "run", "worker")

    def __init__(self, key: Any, flow: Flow, bytes: int, bound: int | None) -> None:
        self.key = key
        self.flow = flow
        self.bytes = bytes
        self.bound = bound  # the node that it has to run on; None: any node
        self.id = -1  # its number in the policy
        self.node: int | None = None  # the node where the policy started it
        self.worker: str | None = None  # the address of the worker where it got a thread
        self.run = -1  # Dask's number of the run there


class Admission:
    """Devices, flows and operations of a cluster, and the one policy that decides for them.

    Args:
        log: gets every line of the policy's event log.
    """

    def __init__(self, log: Callable[[str], None] | None) -> None:
        self.policy = Policy(log)
        self.policy.node_down(0, time.monotonic_ns())  # node 0 is up at first, but has no worker
        self.devices: dict[str, Device] = {}
        self.flows: list[Flow] = []
        self._flow_ids: dict[tuple[str, str, str], int] = {}
        self._operations: dict[int, Operation] = {}  # those that the policy knows
        self._next = 0

    def add_device(self, name: str, settings: DeviceSettings, *, slots: int = 0) -> None:
        """Adds a device. Adding it again with the same settings has no effect.

        Args:
            slots: the threads for I/O of a node; 0: not known. They are the limit of a node's
                device that has no limit of its own: otherwise the policy would look for a limit
                that cannot be reached.

        Raises:
            ValueError: the settings are wrong, or differ from those before.
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
                "declare it with the same settings, or under another name"
            )

    @property
    def budgets(self) -> dict[str, float]:
        """The budgets in MB/s of the devices that a flow may be on; 0: no budget."""
        declared = {name: device.settings.bandwidth for name, device in self.devices.items()}
        return {"default": 0.0} | declared

    def add_flow(self, name: str, device: str, constraint: str, learned: str = "") -> int:
        """Adds a flow; returns its id, which is the same for the same arguments. `learned` counts
        only for a new flow, and is ignored if the policy does not understand it.

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
                    f"flow {name!r}: there is no device {device!r}; the known ones are "
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
                _log.warning("the learned values of %s are not used: %s", name, error)
        return self.policy.add_flow(name, device.id, constraint=constraint)

    # ---- Events. --------------------------------------------------------------------------------

    def ready(self, operation: Operation) -> list[Operation]:
        """The operation may start; also called for operations that `node_down` returned."""
        operation.id = self._next
        operation.node = operation.worker = None
        self._next += 1
        self._operations[operation.id] = operation
        return self._apply(
            self.policy.ready(
                operation.id,
                operation.flow.id,
                operation.bound,
                operation.bytes,
                time.monotonic_ns(),
            )
        )

    def finished(self, operation: Operation, seconds: float) -> list[Operation]:
        flow = operation.flow
        flow.done += 1
        flow.bytes += operation.bytes
        flow.seconds += (seconds - flow.seconds) * (_LATE if flow.seconds else 1)
        del self._operations[operation.id]
        return self._apply(
            self.policy.finished(operation.id, seconds, operation.bytes, time.monotonic_ns())
        )

    def failed(self, operation: Operation) -> list[Operation]:
        del self._operations[operation.id]
        return self._apply(self.policy.failed(operation.id, time.monotonic_ns()))

    def cancelled(self, operation: Operation) -> list[Operation]:
        """The operation will not run, or its run does not count, and it has left the device."""
        del self._operations[operation.id]
        return self._apply(self.policy.cancelled(operation.id, time.monotonic_ns()))

    def node_up(self, node: int) -> list[Operation]:
        return self._apply(self.policy.node_up(node, time.monotonic_ns()))

    def node_down(self, node: int) -> tuple[list[Operation], list[Operation]]:
        """Returns the operations lost with the node, and those that start elsewhere."""
        lost = [
            operation
            for operation in self._operations.values()
            if (operation.bound if operation.node is None else operation.node) == node
        ]
        for operation in lost:
            del self._operations[operation.id]
        for device in self.devices.values():
            device.mb_per_s.pop(node, None)
        return lost, self._apply(self.policy.node_down(node, time.monotonic_ns()))

    def device_up(self, device: Device, node: int) -> list[Operation]:
        """A node that is up has the device, which not all nodes have."""
        return self._apply(self.policy.device_up(device.id, node, time.monotonic_ns()))

    def has(self, node: int, device: Device) -> bool:
        return device.settings.nodes is None or self.policy.has(node, device.id)

    def sample(
        self, device: Device, node: int, bytes_per_second: float, seconds: float
    ) -> list[Operation]:
        """Takes a sample: the throughput in the scope of `node` in the last `seconds`."""
        device.mb_per_s[device.scope(node)] = bytes_per_second / 1e6
        return self._apply(
            self.policy.sample(device.id, node, bytes_per_second, time.monotonic_ns(), seconds)
        )

    def needs_samples(self, device: Device) -> bool:
        """Returns whether operations with `climb` wait or run on the device."""
        return self.policy.needs_samples(device.id)

    def measured_mb_per_s(self, device: Device) -> float | None:
        """Returns the device's throughput over all nodes; None: it is not measured now."""
        is_measured = device.mb_per_s and self.needs_samples(device)
        return sum(device.mb_per_s.values()) if is_measured else None

    def _apply(self, decisions: Iterable[Start | SetLimit]) -> list[Operation]:
        started = []
        for decision in decisions:
            if isinstance(decision, SetLimit):
                self.flows[decision.flow].limit = decision.limit
                continue
            operation = self._operations[decision.operation]
            operation.node = decision.node
            started.append(operation)
        return started

    # ---- What is known. -------------------------------------------------------------------------

    def describe(self, flow: Flow) -> dict[str, Any]:
        waiting, running = self.policy.flow_counts(flow.id)
        return {
            "id": flow.id,
            "flow": flow.name,
            "device": flow.device.name,
            "constraint": flow.constraint,
            "limit": flow.limit,
            "waiting": waiting,
            "running": running,
            "done": flow.done,
            "bytes": flow.bytes,
            "device_mb_per_s": self.measured_mb_per_s(flow.device),
        }
