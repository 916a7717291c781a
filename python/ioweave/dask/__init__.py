"""I/O tasks on a Dask cluster, which start when the policy says.

    cluster = ioweave.dask.local_cluster(nodes=2, cores=4, io_slots=8)
    client = distributed.Client(cluster)
    handle = ioweave.dask.connect(client)
    handle.declare_device("scratch", bandwidth=450)
    block = handle.submit_compute(simulate, 1)
    written = handle.submit_io(write, block, device="scratch", constraint="fixed:50")

Needs the extra `ioweave[dask]`, on the scheduler and the workers too.
"""

from __future__ import annotations

try:
    import distributed as _distributed
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"ioweave.dask needs Dask ({error}): pip install 'ioweave[dask]'", name=error.name
    ) from error

from .client import Handle, connect
from .cluster import LoopbackCluster, local_cluster, worker_arguments, worker_options
from .plugin import IoweaveSchedulerPlugin
from .worker import IoweaveWorkerPlugin

__all__ = [
    "Handle",
    "IoweaveSchedulerPlugin",
    "IoweaveWorkerPlugin",
    "LoopbackCluster",
    "connect",
    "local_cluster",
    "worker_arguments",
    "worker_options",
]

del _distributed
