"""What client, scheduler and workers say to each other, and which versions were tested."""

from __future__ import annotations

# Asked for by I/O tasks and offered by nobody, so that Dask parks them in `no-worker`. The amounts
# say what the task is: an annotation of our own would cost client, scheduler and worker more.
FLOW = "ioweave-flow"  # its id; every I/O task has it
SIZE = "ioweave-size"  # bytes; not there: those of the inputs
ANYWHERE = "ioweave-anywhere"  # there: on any node, wherever the inputs are
MOST_BYTES = 2**63 - 1  # of a task; the policy counts no more
# In a task's metadata: what it moves, where only the worker can tell.
BYTES = "ioweave-bytes"
# Resources of a worker: its cores, and its threads beyond them, which are for I/O tasks.
CPU = "cpu"
IO = "io"

# Messages on the streams between scheduler and workers.
TAKEN_BACK = "ioweave-taken-back"  # scheduler: say when this run of a task has ended
ENDED = "ioweave-ended"  # worker: it has
MEASURE = "ioweave-measure"  # scheduler: measure this device from now on, or no longer
MEASURED = "ioweave-measured"  # worker: what it moved since the last time

# By the same streams, so that no task that was sent and no end of one overtakes them:
BEGUN = "ioweave-begun"  # scheduler: which of these tasks have begun; give up the others if `hold`
ANSWER = "ioweave-answer"  # worker: those, and those that it gave up

# The key of a task of a Runtime ends with "-" and the id of the Runtime.

# Of `distributed`: the first version that passed the tests, and the first that was not tried.
TESTED = ("2024.12.1", "2026.9")


def io_resources(flow: int, bytes: int | None, *, anywhere: bool) -> dict[str, float]:
    """The resources that an I/O task asks for."""
    resources: dict[str, float] = {FLOW: flow}
    if bytes is not None:
        resources[SIZE] = bytes
    if anywhere:
        resources[ANYWHERE] = 1
    return resources
