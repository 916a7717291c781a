"""The errors of tasks besides the exceptions that tasks raise themselves."""

from __future__ import annotations

from concurrent.futures import CancelledError

__all__ = ["CancelledError", "CycleError", "DependencyFailed", "TaskTimeout", "WorkerDied"]

_SHOWN = 6  # names of a chain in a message: the first one and the last ones


class GivenUp(CancelledError):
    """A task failed. The failure is not raised, but tasks that need the task are not run.

    `__cause__` is the exception that the task raised.
    """


class DependencyFailed(CancelledError):
    """A task was not run, because a task that it needs failed, was cancelled, or was not run.

    `__cause__` is the exception at the beginning of the chain.

    Attributes:
        chain: the names of the tasks, from the one that failed to the one that was not run; of a
            long chain the first name and the last ones.
    """

    def __init__(self, chain: tuple[str, ...], cause: BaseException) -> None:
        if len(chain) > _SHOWN:
            chain = (chain[0], *chain[1 - _SHOWN :])
        super().__init__(chain, cause)
        self.chain = chain
        self.__cause__ = cause

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __str__(self) -> str:
        # Only when asked for: `cause` is the user's, and describing it may run the user's code.
        cause = self.__cause__
        needs = ", which needs ".join(reversed(self.chain[:-1]))
        kind = "was cancelled" if isinstance(cause, CancelledError) else f"failed: {cause!r}"
        return f"task {self.chain[-1]} was not run: it needs {needs}, which {kind}"


class TaskTimeout(Exception):
    """A task ran for longer than its `timeout`. Not a TimeoutError: that one is result(timeout)."""


class WorkerDied(Exception):
    """The worker process of a task ended before the task did: killed, out of memory, os._exit."""


class CycleError(RuntimeError):
    """A task waits for a future that cannot be done before the task itself is."""
