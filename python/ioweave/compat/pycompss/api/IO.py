"""`@IO`: a task that does storage I/O and takes no core."""

from collections.abc import Callable

from .task import TaskFunction, task_below

__all__ = ["IO"]


def IO() -> Callable[[object], TaskFunction]:
    """`@IO()`, above `@task()`. With `@constraint(storageBW=...)` calls start by bandwidth."""

    def above(decorated: object) -> TaskFunction:
        task = task_below("@IO()", decorated)
        task.is_io = True
        return task

    return above


# PyCOMPSs programs use both spellings.
io = IO
