"""The client's side: computations and I/O tasks on a Dask cluster, as Dask futures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from distributed import Client, Future

from ..devices import Device
from ..numeric import MOST_BYTES, whole
from .plugin import IoweaveSchedulerPlugin
from .protocol import CPU, io_resources
from .worker import IoweaveWorkerPlugin

ANSWER_S = 30.0  # how long to wait for an answer of the scheduler


def connect(client: Client, *, log: str | None = None) -> Any:
    """Brings Ioweave to the client's cluster, unless it is there already.

    Scheduler and workers need Ioweave installed. Any number of clients may connect; they share what
    they declare.

    Args:
        client: a client of Dask.
        log: the scheduler writes the policy's event log to this file, on its own machine. Only the
            first connection to a cluster counts.

    Returns:
        A Handle; for an asynchronous client, an awaitable of one.

    Raises:
        RuntimeError: the cluster cannot work with Ioweave; the text says why.
        OSError: the log cannot be written.
        TimeoutError: the scheduler does not answer.
    """

    async def register() -> Handle:
        for plugin in (IoweaveSchedulerPlugin(log), IoweaveWorkerPlugin()):
            await _await_answer(client, client.register_plugin(plugin))
        return Handle(client, await ask(client, "capacity"))

    return _sync(client, register)


def _sync(client: Client, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns the function's value; for an asynchronous client, an awaitable of it."""
    return client.sync(function, *args, **kwargs)


async def ask(client: Client, question: str, **arguments: Any) -> Any:
    """Asks the scheduler plugin a question, and returns its answer.

    Raises:
        ValueError: the arguments are wrong.
        TimeoutError: the scheduler does not answer.
    """
    assert client.scheduler is not None  # it is connected
    asking = client.scheduler.ioweave(question=question, arguments=arguments)
    answer = json.loads(await _await_answer(client, asking))
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer["value"]


async def _await_answer(client: Client, asking: Awaitable[Any]) -> Any:
    try:
        return await asyncio.wait_for(asking, ANSWER_S)
    except asyncio.TimeoutError:
        address = None if client.scheduler is None else client.scheduler.address
        raise TimeoutError(
            f"the Dask scheduler at {address} has not answered for {ANSWER_S:g} s: its process is "
            "stopped, or busy with something else: look at its log, and restart it if necessary"
        ) from None


class Handle:
    """Ioweave on the cluster of a client; made by `connect`. Any thread may use it.

    With an asynchronous client every method returns an awaitable, but the two that submit.
    """

    def __init__(self, client: Client, capacity: dict[str, float | None]) -> None:
        self.client = client
        # The most cores of a worker, and the most I/O slots of a node; None: there was no worker.
        self._cpus = capacity["cpus"]
        self.io_slots = capacity["io_slots"]
        self._flows: dict[tuple[str, str, str], int] = {}

    def declare_device(
        self,
        name: str,
        *,
        scope: str = "node",
        bandwidth: float = 0,
        max_in_flight: int = 0,
        path: str | None = None,
        nodes: Sequence[str] | None = None,
    ) -> Any:
        """Declares a storage device. Declaring it again, by any client, has no effect.

        Args:
            name: the name for submit_io(device=...). "default" exists, without a budget, if nobody
                declared it.
            scope: "node": each node (worker host) has a budget; "shared": all nodes share one.
            bandwidth: MB/s (10^6 bytes) that tasks with a constraint share; 0: no budget.
            max_in_flight: most I/O tasks at once within the scope. 0: for a device of a node, the
                most threads for I/O that a node had when the device was declared. For a shared
                device, or if there was no worker yet, 0 means no limit: tasks that the policy
                starts beyond a node's threads wait for a thread.
            path: a file or folder on it, to measure its throughput on the workers.
            nodes: names or globs of the workers, or of their hosts, that have it; None: all.

        Raises:
            ValueError: a setting is out of range, or differs from an earlier declaration.
        """
        return _sync(
            self.client,
            ask,
            self.client,
            "device",
            name=name,
            scope=scope,
            bandwidth=float(bandwidth),
            max_in_flight=max_in_flight,
            path=path,
            nodes=Device(name, nodes=nodes).nodes,
        )

    def declare_flow(self, name: str, *, device: str = "default", constraint: str = "none") -> Any:
        """Declares a flow, a kind of I/O task. An asynchronous client must do so before its first
        submit_io(); with a synchronous client submit_io() does it. Declarations with the same name,
        device and constraint mean one flow, whose tasks learn together.

        Args:
            constraint: MB/s of its device's budget that a task holds while it runs, as a text of
                the policy: "none", "fixed:20", "auto:225", "auto:2,256,2", "climb".

        Raises:
            ValueError: the device is not known, or cannot hold the constraint.
        """
        return _sync(self.client, self._declare_flow, (name, device, constraint))

    async def _declare_flow(self, key: tuple[str, str, str]) -> None:
        name, device, constraint = key
        self._flows[key] = await ask(
            self.client, "flow", name=name, device=device, constraint=constraint
        )

    def submit_compute(
        self,
        function: Callable[..., Any],
        *args: Any,
        cpus: int = 1,
        retries: int = 0,
        **kwargs: Any,
    ) -> Future[Any]:
        """Runs `function(*args, **kwargs)` on a worker, where it takes `cpus` cores.

        Every call runs, also one with the arguments of an earlier call (Dask's pure=False).

        Raises:
            ValueError: no worker has so many cores.
        """
        self.check_cpus(cpus)
        return self.client.submit(
            function, *args, resources={CPU: cpus}, retries=retries, pure=False, **kwargs
        )

    def check_cpus(self, cpus: int) -> None:
        number = whole(cpus)
        if number is None or number < 1:
            raise ValueError(f"cpus must be a whole number from 1 on, not {cpus!r}")
        if self._has_cores(number):
            return
        if not self.client.asynchronous:  # an asynchronous client cannot ask here
            self._cpus = _sync(self.client, ask, self.client, "capacity")["cpus"]
            if self._has_cores(number):  # a larger worker has joined
                return
        if self._cpus == 0:
            raise ValueError(
                f"no worker of this cluster offers the resource {CPU!r}: start them with "
                "--resources cpu=CORES,io=SLOTS (see ioweave.dask.worker_arguments), then connect()"
            )
        when = " when connect() was called: connect() again" if self.client.asynchronous else ""
        raise ValueError(
            f"cpus={cpus}, but the largest worker of this cluster had {self._cpus:g} cores{when}: "
            "ask for fewer, or add a larger worker"
        )

    def _has_cores(self, cpus: int) -> bool:
        return self._cpus is None or cpus <= self._cpus

    def submit_io(
        self,
        function: Callable[..., Any],
        *args: Any,
        flow: str | None = None,
        device: str = "default",
        constraint: str = "none",
        bytes: int | None = None,
        retries: int = 0,
        anywhere: bool = False,
        **kwargs: Any,
    ) -> Future[Any]:
        """Runs `function(*args, **kwargs)`, which does I/O on `device`, when the policy says so. It
        takes none of a worker's cores.

        It runs on the node that holds most of its inputs (futures in `args`), or without inputs on
        the first node with budget left. A task that is cancelled while it runs holds its place
        until it ends.

        Args:
            flow: the name of the flow; None: the function's name.
            device, constraint: as for declare_flow().
            bytes: the bytes that the call moves; None: the size of its inputs.
            anywhere: run it on the first node with budget left, even if inputs are elsewhere; for a
                working directory that all nodes share.

        Raises:
            ValueError: as declare_flow(), or bytes is out of range.
            RuntimeError: an asynchronous client did not declare the flow.
        """
        if bytes is not None:
            given, bytes = bytes, whole(bytes)
            if bytes is None or not 0 <= bytes <= MOST_BYTES:
                raise ValueError(f"bytes must be a whole number from 0 to 2**63 - 1, not {given!r}")
        name: str = getattr(function, "__name__", repr(function)) if flow is None else flow
        number = self._find_flow(name, device, constraint)
        resources = io_resources(number, bytes, anywhere=anywhere)
        return self.client.submit(
            function, *args, resources=resources, retries=retries, pure=False, **kwargs
        )

    def _find_flow(self, name: str, device: str, constraint: str) -> int:
        key = (name, device, constraint)
        if key not in self._flows:
            if self.client.asynchronous:
                raise RuntimeError(
                    f"flow {name!r} is not declared: with an asynchronous client, first await "
                    f"handle.declare_flow({name!r}, device={device!r}, constraint={constraint!r})"
                )
            self.declare_flow(name, device=device, constraint=constraint)
        return self._flows[key]

    def explain(
        self, flow: str, *, device: str | None = None, constraint: str | None = None
    ) -> Any:
        """Says why the tasks of a flow start when they do, as a dict. If several flows have the
        name, `device` and `constraint` select one.

        Raises:
            ValueError: there is no such flow, or several.
        """
        where = {"name": flow, "device": device, "constraint": constraint}
        return _sync(self.client, ask, self.client, "explain", **where)

    def stats(self) -> Any:
        """Says what waits and runs on the cluster, as a dict: {"waiting", "running", "nodes":
        {host: {"workers", "io_running"}}, "flows": [{"flow", "device", "constraint", "limit",
        "waiting", "running", "bytes"}]}."""
        return _sync(self.client, ask, self.client, "stats")
