"""Ioweave: storage I/O woven through computation.

Files, read and written at offsets:

    with ioweave.open("data.bin") as file:
        head = file.pread(4096, 0)
        parts = [file.apread_into(part, i * part.nbytes) for i, part in enumerate(array)]
        total = sum(part.result() for part in parts)      # or: await each of them

Results, written while the next ones are computed (docs/streams.md):

    with ioweave.WriteStream() as stream:
        file = stream.create("result.bin")
        for step in range(steps):
            file.append(compute(step))

The same on several devices, and read back ahead of the program:

    with ioweave.WriteStream() as stream:
        with stream.spread("run7.manifest", ["/disk1", "/disk2"]) as results:
            for step in range(steps):
                results.append(compute(step))
    for item in ioweave.ReadStream("run7.manifest"):
        use(np.frombuffer(item))

Reads that are known in advance, made while the program computes (docs/prefetch.md):

    with ioweave.Plan() as plan:
        plan.add_from((file, row * nbytes, nbytes) for row in order)
        for row in order:
            use(np.frombuffer(plan.read(file, row * nbytes, nbytes)))

Tasks that compute, and tasks that only move bytes (docs/python.md):

    @ioweave.task
    def simulate(block): ...

    @ioweave.io
    def checkpoint(block): ...

    with ioweave.Runtime():
        for block in blocks:
            checkpoint(simulate(block))
"""

from . import targets
from ._core import Lease, PlanLease, ReadLease, Service
from ._core import version as _version
from ._file import File, open
from ._plan import Plan, PlanStats
from ._pre_execution import LoopIo, PreExecution, pre_execute
from ._read_stream import ReadStream, ReadStreamStats
from ._request import Request
from ._stream import Spread, SpreadStats, WriteStream, WriteStreamFile, WriteStreamStats
from .devices import Device, Node
from .errors import CancelledError, CycleError, DependencyFailed, TaskTimeout, WorkerDied
from .flows import Flow
from .futures import Future
from .graph import Direction
from .records import TaskRecord
from .runtime import Runtime, barrier, wait
from .simulated import SimulatedRuntime
from .tasks import Task, io, task

__version__ = _version()


def _load_dask_runtime() -> type[Runtime]:
    from .dask.runtime import DaskRuntime  # needs Dask, and takes a second to import

    return DaskRuntime


targets.register("sim", lambda: SimulatedRuntime)
targets.register("dask", _load_dask_runtime)

In = Direction.In
Out = Direction.Out
InOut = Direction.InOut

__all__ = [
    "CancelledError",
    "CycleError",
    "DependencyFailed",
    "Device",
    "Direction",
    "File",
    "Flow",
    "Future",
    "In",
    "InOut",
    "Lease",
    "LoopIo",
    "Node",
    "Out",
    "Plan",
    "PlanLease",
    "PlanStats",
    "PreExecution",
    "ReadLease",
    "ReadStream",
    "ReadStreamStats",
    "Request",
    "Runtime",
    "Service",
    "Spread",
    "SpreadStats",
    "Task",
    "TaskRecord",
    "TaskTimeout",
    "WorkerDied",
    "WriteStream",
    "WriteStreamFile",
    "WriteStreamStats",
    "barrier",
    "io",
    "open",
    "pre_execute",
    "task",
    "wait",
]
