"""`@constraint`: the cores and the storage bandwidth that a task holds while it runs."""

import warnings
from collections.abc import Callable
from typing import Any

from ioweave.numeric import real

from .task import TaskFunction, from_environment, task_below

__all__ = ["constraint"]

# Constraints of COMPSs that Ioweave's description of a machine does not have.
_NOT_ENFORCED = frozenset(
    {
        "appsoftware",
        "hostqueues",
        "isLocal",
        "islocal",
        "memoryaccesstime",
        "memorysize",
        "memorytype",
        "operatingsystemdistribution",
        "operatingsystemtype",
        "operatingsystemversion",
        "processorarchitecture",
        "processorinternalmemorysize",
        "processorname",
        "processors",
        "processorspeed",
        "processortype",
        "storagesize",
        "storagetype",
        "wallclocklimit",
    }
)


def constraint(**wanted: Any) -> Callable[[object], TaskFunction]:
    """`@constraint(computing_units=2)`, `@constraint(storageBW="auto(2,256,2)")`, in any case.

    computing_units: cores of one node. storageBW: MB/s (10^6 bytes), "auto" or
    "auto(min,max,delta)". Ioweave accepts other constraints of PyCOMPSs with a warning, but does
    not enforce them.
    """

    def above(decorated: object) -> TaskFunction:
        task = task_below("@constraint", decorated)
        for name, given in wanted.items():
            _apply(task, name, from_environment(given))
        return task

    return above


def _apply(task: TaskFunction, name: str, value: object) -> None:
    key = name.lower().replace("_", "")
    if key == "computingunits":
        try:
            task.cpus = int(str(value))
        except ValueError:
            raise ValueError(
                f"@constraint: {name} must be a number of cores, not {value!r}"
            ) from None
    elif key in ("storagebw", "storagebandwidth"):
        bandwidth = _parse_bandwidth(value) if isinstance(value, str) else real(value)
        if bandwidth is None:
            raise ValueError(f"@constraint: {name} must be MB/s or 'auto', not {value!r}")
        task.storage_bandwidth = bandwidth
    elif key in _NOT_ENFORCED:
        warnings.warn(
            f"@constraint: {name} is not enforced by ioweave.compat.pycompss", stacklevel=4
        )
    else:
        raise TypeError(f"@constraint: {name!r} is not known; use computing_units or storageBW")


def _parse_bandwidth(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # "auto", which ioweave.io reads
