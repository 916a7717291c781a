"""The messages between client, scheduler and workers, and the tested versions of Dask."""

from __future__ import annotations

# Resources that I/O tasks ask for and no worker offers, so that Dask parks them in `no-worker`. The
# amounts describe the task: an annotation would cost client, scheduler and worker more.
FLOW = "ioweave-flow"  # the id of its flow; every I/O task has it
SIZE = "ioweave-size"  # its bytes; without it, the bytes of the inputs
ANYWHERE = "ioweave-anywhere"  # with it, the task runs on any node, wherever the inputs are
# In a task's metadata: the bytes that it moves, if only the worker can tell.
BYTES = "ioweave-bytes"
# Resources of a worker: its cores, and its threads beyond them, which are for I/O tasks.
CPU = "cpu"
IO = "io"

# Messages on the streams between scheduler and workers.
TAKEN_BACK = "ioweave-taken-back"  # scheduler: tell me when this run of a task has ended
ENDED = "ioweave-ended"  # worker: this run has ended
MEASURE = "ioweave-measure"  # scheduler: measure this device from now on, or no longer
MEASURED = "ioweave-measured"  # worker: the throughput of a device since the last time

# On the same streams, so that no task that was sent, and no end of a task, overtakes them:
BEGUN = "ioweave-begun"  # scheduler: which of these tasks have begun? With `hold`, drop the others
ANSWER = "ioweave-answer"  # worker: the tasks that have begun, and those that it dropped

# The key of a task of a Runtime ends with "-" and the id of the Runtime.

# Versions of `distributed`: the first one that passed the tests, and the first one not tested.
TESTED = ("2024.12.1", "2026.9")


def io_resources(flow: int, bytes: int | None, *, anywhere: bool) -> dict[str, float]:
    resources: dict[str, float] = {FLOW: flow}
    if bytes is not None:
        resources[SIZE] = bytes
    if anywhere:
        resources[ANYWHERE] = 1
    return resources
