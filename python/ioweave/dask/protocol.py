"""What client, scheduler and workers say to each other, and which versions were tested."""

from __future__ import annotations

# Asked for by every I/O task and offered by nobody, so that Dask parks the task in `no-worker`.
PARKED = "ioweave-admission"
# The annotation of an I/O task: {"flow": id, "bytes": int or None, "anywhere": bool}. That of any
# task of a Runtime has "run" as well, the id of the Runtime.
ANNOTATION = "ioweave"
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

# Of `distributed`: the first version that passed the tests, and the first that was not tried.
TESTED = ("2024.12.1", "2026.9")
