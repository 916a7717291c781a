"""Workers with extra threads for I/O, and clusters of them on this machine.

A worker has a thread for each core and some more for I/O: `nthreads = cores + io_slots`. It offers
two resources. Computations take `cpu = cores`. From `io = io_slots` the scheduler plugin knows how
many I/O tasks it may send there. So neither kind takes the threads of the other. Plain Dask tasks
ask for no resource, and take any free thread.
"""

from __future__ import annotations

import ipaddress
import logging
import os
from typing import Any

from distributed import Nanny, Scheduler, SpecCluster, Worker

from .protocol import CPU, IO

_FIRST_HOST = ipaddress.IPv4Address("127.0.0.1")
_MOST_NODES = 65_000  # well below the size of 127.0.0.0/8


def worker_options(*, cores: int, io_slots: int) -> dict[str, Any]:
    """Returns options for `distributed.Worker` and `Nanny`: {"nthreads": ..., "resources": {...}}.

    Raises:
        ValueError: one of the numbers is below 1.
    """
    for name, value in (("cores", cores), ("io_slots", io_slots)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be a whole number from 1 on, not {value!r}")
    return {"nthreads": cores + io_slots, "resources": {CPU: cores, IO: io_slots}}


def worker_arguments(*, cores: int, io_slots: int) -> list[str]:
    """Returns the same as arguments for `dask worker SCHEDULER`.

    >>> " ".join(worker_arguments(cores=48, io_slots=16))
    '--nthreads 64 --resources cpu=48,io=16'
    """
    options = worker_options(cores=cores, io_slots=io_slots)
    resources = ",".join(f"{name}={amount}" for name, amount in options["resources"].items())
    return ["--nthreads", str(options["nthreads"]), "--resources", resources]


class LoopbackCluster(SpecCluster):
    """A cluster on this machine. Each worker has a loopback address of its own, 127.0.0.1,
    127.0.0.2, ..., so that to Dask, and to Ioweave, each is a host. Linux only."""

    def __init__(self, *, nodes: int, worker: dict[str, Any], **options: Any) -> None:
        self._template = worker
        super().__init__(  # type: ignore[no-untyped-call]
            workers={name: self._make_worker_spec(name) for name in range(nodes)},
            worker=worker,
            **options,
        )

    def _make_worker_spec(self, number: int) -> dict[str, Any]:
        host = str(_FIRST_HOST + number)
        return {**self._template, "options": {**self._template["options"], "host": host}}

    def new_worker_spec(self) -> dict[Any, dict[str, Any]]:
        """Returns the next worker, for `scale` and `adapt`, on the first free address."""
        number = next(n for n in range(_MOST_NODES) if n not in self.worker_spec)
        return {number: self._make_worker_spec(number)}


def local_cluster(
    *,
    nodes: int = 1,
    cores: int | None = None,
    io_slots: int = 4,
    processes: bool = True,
    asynchronous: bool = False,
    dashboard_address: str | None = None,
    **options: Any,
) -> LoopbackCluster:
    """Makes a cluster of `nodes` workers on this machine, each a node of its own to the policy.

    Args:
        nodes: how many workers; `cluster.scale` and `cluster.adapt` change it.
        cores: the cores of each worker; None: this machine's cores, divided by the nodes.
        io_slots: the threads of each worker for I/O tasks, beside those for its cores.
        processes: run each worker in a process, which Python's interpreter lock does not hold up
            and which can be killed; otherwise all workers run in this process.
        asynchronous: for use with `async with`, as in Dask.
        dashboard_address: the address of Dask's dashboard, such as ":8787"; None: no dashboard.
        **options: further options of each worker.

    Raises:
        ValueError: a number is out of bounds.
    """
    if not (type(nodes) is int and 0 <= nodes <= _MOST_NODES):
        raise ValueError(f"nodes must be from 0 to {_MOST_NODES}, not {nodes!r}")
    if cores is None:
        cores = max(1, len(os.sched_getaffinity(0)) // max(1, nodes))
    dashboard = {
        "dashboard": dashboard_address is not None,
        "dashboard_address": dashboard_address or ":0",
    }
    worker = {
        "cls": Nanny if processes else Worker,
        "options": {
            **worker_options(cores=cores, io_slots=io_slots),
            "dashboard": False,
            "silence_logs": logging.WARNING,  # the cluster's own option does not reach processes
            **options,
        },
    }
    scheduler = {"cls": Scheduler, "options": {"host": str(_FIRST_HOST), "port": 0, **dashboard}}
    return LoopbackCluster(
        nodes=nodes,
        worker=worker,
        scheduler=scheduler,
        asynchronous=asynchronous,
        silence_logs=logging.WARNING,
        name="ioweave.dask",
    )
