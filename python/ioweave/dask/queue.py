"""The queues of a worker's tasks that ask for resources, one for each kind of resource.

Dask keeps all of them in one queue, whose head has to start before any task behind it. There a
computation that waits for a core would hold up the I/O behind it, and the other way round.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, MutableSet

from distributed.collections import HeapSet
from distributed.worker_state_machine import TaskState, WorkerState

#: Attributes of WorkerState that are not documented.
QUEUE_NEEDS = ("constrained", "_resource_restrictions_satisfied")


class ByResource(MutableSet[TaskState]):
    """Tasks in the order of their priority. A task that has to wait is overtaken by tasks that ask
    for other resources.

    Args:
        startable: returns whether a task's resources are free.
    """

    def __init__(self, startable: Callable[[TaskState], bool]) -> None:
        self._startable = startable
        self._queues: dict[frozenset[str], HeapSet[TaskState]] = {}  # by names of resources

    @classmethod
    def replace(cls, state: WorkerState) -> None:
        """Replaces the queue of a worker, and keeps its tasks."""
        if not isinstance(state.constrained, cls):
            queue = cls(state._resource_restrictions_satisfied)
            for task in state.constrained.sorted():
                queue.add(task)
            state.constrained = queue  # type: ignore[assignment]

    def add(self, value: TaskState) -> None:
        names = frozenset(value.resource_restrictions)
        queue = self._queues.get(names)
        if queue is None:
            queue = self._queues[names] = HeapSet(key=operator.attrgetter("priority"))
        queue.add(value)

    def discard(self, value: TaskState) -> None:
        for queue in self._queues.values():
            queue.discard(value)

    def peek(self) -> TaskState:
        """Returns the next task that may start; if none may, the first task.

        Raises:
            KeyError: the queue is empty.
        """
        return self._find_first_queue().peek()

    def pop(self) -> TaskState:
        return self._find_first_queue().pop()

    def _find_first_queue(self) -> HeapSet[TaskState]:
        queues = [queue for queue in self._queues.values() if queue]
        if not queues:
            raise KeyError("peek into an empty queue")
        if len(queues) == 1:
            return queues[0]
        heads = ((queue.peek(), queue) for queue in queues)
        return min(heads, key=lambda head: (not self._startable(head[0]), head[0].priority))[1]

    def sorted(self) -> Iterator[TaskState]:
        return iter(sorted(self, key=operator.attrgetter("priority")))

    def __contains__(self, value: object) -> bool:
        return any(value in queue for queue in self._queues.values())

    def __iter__(self) -> Iterator[TaskState]:
        for queue in self._queues.values():
            yield from queue

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))
