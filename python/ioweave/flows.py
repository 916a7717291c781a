"""Flows: operations of one kind that take their turn at a storage device.

Each call of an I/O task (`@ioweave.io`) is an operation of the task's flow. A `Flow` of the
program's own is for I/O beside tasks: that of another library, and the requests of files. In a
program with a Runtime on this machine all of them share the budgets of the runtime's devices.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import _core, tasks
from ._service import default_service
from .admission import check_here, choose_beginning, unknown_device
from .config import load_devices
from .constraints import Constraint, constraint_of, no_budget
from .devices import Device
from .learning import learned_of_curve
from .numeric import MOST_BYTES, whole
from .pool import current_worker

if TYPE_CHECKING:
    from .runtime import Runtime

PRIORITIES = ("foreground", "write_behind", "prefetch")


class Operation:
    """An operation that is under way."""

    __slots__ = ("_nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    @property
    def nbytes(self) -> int:
        """The bytes that the operation moves. Set them where they are known only now.

        Raises:
            ValueError: It is set to what is no number of bytes.
        """
        return self._nbytes

    @nbytes.setter
    def nbytes(self, value: int) -> None:
        number = whole(value)
        if number is None or not 0 <= number <= MOST_BYTES:
            raise ValueError(f"nbytes must be a whole number from 0 on, not {value!r}")
        self._nbytes = number


class Flow:
    """Operations of one kind on one device. They start when the device has room for them.

        saves = ioweave.Flow("save", device="pfs", policy="climb")
        with saves.admitted(array.nbytes):
            dataset[:] = array  # HDF5 writes
        with ioweave.open("next.bin", flow=ioweave.Flow("ahead", priority="prefetch")) as file:
            file.apread_into(buffer, 0)

    While a Runtime on this machine is active, the flow's operations take their turn beside the I/O
    tasks of that runtime, on its devices. Otherwise they take their turn beside other flows of the
    process, on the devices of ioweave.toml. Any thread may use a flow.

    Args:
        name: The name of the flow in messages and in the policy's log.
        device: The name of a storage device; "default" has no budget.
        bandwidth: As for `@ioweave.io`: the MB/s that an operation holds, "auto(min,max,delta)", or
            "auto", which needs `max_in_flight`. None: `policy` decides.
        policy: As for `@ioweave.io`, but "none" if left out.
        priority: "foreground", "write_behind" or "prefetch". An operation starts only while no
            operation of a higher class runs or waits on the device. I/O tasks are foreground.
        max_in_flight: Most operations of the flow at once; 0: as many as its constraint allows.

    Raises:
        ValueError: An argument is out of range, or two contradict each other.
    """

    def __init__(
        self,
        name: str,
        *,
        device: str = "default",
        bandwidth: float | str | None = None,
        policy: str | None = None,
        priority: str = "foreground",
        max_in_flight: int = 0,
    ) -> None:
        if priority not in PRIORITIES:
            raise ValueError(
                f"flow {name!r}: priority must be one of {', '.join(map(repr, PRIORITIES))}, "
                f"not {priority!r}"
            )
        number = whole(max_in_flight)
        if number is None or number < 0:
            raise ValueError(
                f"flow {name!r}: max_in_flight must be a whole number from 0 on, not "
                f"{max_in_flight!r}"
            )
        self.name = name
        self.device = device
        self.priority = priority
        self.max_in_flight = number
        if bandwidth is None and policy is None:
            policy = "none"
        self.constraint: Constraint = constraint_of(bandwidth, policy)
        #: Flows that are described alike are one.
        self.key = (name, device, self.constraint, priority, number)

    @contextmanager
    def admitted(self, nbytes: int = 0) -> Iterator[Operation]:
        """Waits until an operation may start. The operation ends with the block, and fails if the
        block raises. Asking for another operation inside the block may wait for the first for ever.
        The wait blocks the thread: in a coroutine, use it in `asyncio.to_thread()`.

        Args:
            nbytes: The bytes to move, which `policy="climb"` needs.

        Raises:
            ValueError: The device is not known, or cannot hold the constraint; or `nbytes` is no
                number of bytes.
            RuntimeError: This is inside an I/O task on the device, which has its turn already.
        """
        self.refuse_inside_task()
        operation = Operation(nbytes)
        service, number = self.place()
        admitted = _core.admit(service, number, operation.nbytes)  # ends with its last reference
        try:
            yield operation
        except BaseException:
            admitted.finish(-errno.EIO)
            raise
        admitted.finish(operation.nbytes)

    def place(self) -> tuple[_core.Service, int]:
        """Returns the service where the flow's operations take their turn now, and the number of
        the flow there.

        Raises:
            ValueError: The device is not known, or cannot hold the constraint.
        """
        runtime: Runtime | None = tasks.active
        found = None if runtime is None else runtime.place_of(self)
        return _of_process.place_of(self) if found is None else found

    def refuse_inside_task(self) -> None:
        """
        Raises:
            RuntimeError: This is inside an I/O task on the device, which has its turn already.
        """
        worker = current_worker()
        call = None if worker is None else worker.call
        if call is None or call.flow is None:
            return
        if call.flow.device.device.name == self.device:
            raise RuntimeError(
                f"flow {self.name!r}: task {call.task.name!r} has its turn on device "
                f"{self.device!r} already: do the I/O without a flow here, or outside of I/O tasks"
            )

    def options_on(self, device: Device) -> dict[str, Any]:
        """Returns the arguments that add the flow to a gate, for its device there.

        Raises:
            ValueError: The constraint is a part of a budget, and the device has none.
        """
        if self.constraint.policy == "fixed" and not device.bandwidth > 0:
            raise ValueError(
                f"flow {self.name!r} on device {self.device!r}: {no_budget(self.device)}"
            )
        return {
            "priority": self.priority,
            "constraint": self.constraint.words,
            "max_in_flight": self.max_in_flight,
            "learned": learned_of_curve(self.constraint, device),
        }

    def __repr__(self) -> str:
        return f"<ioweave.Flow {self.name!r} on {self.device!r}>"


class ProcessFlows:
    """Flows of the program that belong to no Runtime, on devices of the default service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Device] | None = None
        self._devices: dict[str, int] = {}
        self._flows: dict[object, int] = {}  # by Flow.key

    def place_of(self, flow: Flow) -> tuple[_core.Service, int]:
        """Returns the default service and the number of a flow there, and makes the flow when it is
        first used."""
        service = default_service()
        with self._lock:
            number = self._flows.get(flow.key)
            if number is None:
                number = self._flows[flow.key] = self._add_flow(service, flow)
        return service, number

    def _add_flow(self, service: _core.Service, flow: Flow) -> int:
        if self._known is None:
            self._known = {"default": Device("default")} | load_devices(None)
        device = self._known.get(flow.device)
        if device is None:
            raise unknown_device(f"flow {flow.name!r}", flow.device, self._known)
        check_here(f"flow {flow.name!r}", device)
        options = flow.options_on(device)
        number = self._devices.get(device.name)
        if number is None:
            number = self._devices[device.name] = _core.create_device(
                service,
                device.name,
                budget_mb_per_s=float(device.bandwidth),
                max_in_flight=device.max_in_flight,
                begins_at=choose_beginning(device),
            )
        return _core.create_flow(service, flow.name, number, **options)


_of_process = ProcessFlows()


def _drop_flows() -> None:
    """Drops the parent's flows in a forked child, which has no default service yet."""
    global _of_process
    _of_process = ProcessFlows()


os.register_at_fork(after_in_child=_drop_flows)
