"""The bandwidth that an I/O task holds: what the user writes, and the policy core's text for it.

| bandwidth | policy | the policy core's text |
|---|---|---|
| 20, "20" | fixed | fixed:20 |
| "auto" | paper-unbounded | auto:EXECUTORS |
| "auto(2,256,2)" | paper-bounded | auto:2,256,2 |
| - | none | none |
| - | climb (default) | climb |
"""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .config import did_you_mean
from .numeric import real

if TYPE_CHECKING:
    from .tasks import Task

_log = logging.getLogger("ioweave")

POLICIES = ("none", "fixed", "paper-unbounded", "paper-bounded", "climb")
_BOUNDED = re.compile(r"auto\s*\(([^()]*)\)")


@dataclass(frozen=True)
class Constraint:
    """A policy by name with its numbers: (MB/s,) for fixed, (min, max, delta) for paper-bounded."""

    policy: str
    numbers: tuple[float, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether the policy needs measurements of the device's throughput."""
        return self.policy == "climb"

    @property
    def words(self) -> str:
        """Returns the constraint as users write it. The gate takes this form, because it knows the
        number of executors itself."""
        numbers = ",".join(f"{number:.17g}" for number in self.numbers)
        if self.policy == "paper-unbounded":
            return "auto"
        if self.policy == "paper-bounded":
            return f"auto({numbers})"
        return numbers if self.policy == "fixed" else self.policy

    def text(self, executors: int) -> str:
        """Returns the policy core's text. `executors`: operations that a node can run at once."""
        numbers = ",".join(f"{number:.17g}" for number in self.numbers)
        if self.policy == "paper-unbounded":
            return f"auto:{executors}"
        if self.policy == "paper-bounded":
            return f"auto:{numbers}"
        return f"fixed:{numbers}" if self.policy == "fixed" else self.policy


def constraint_for(task: Task, budget_mb_per_s: float) -> Constraint:
    """Returns the constraint of an I/O task on its device.

    Args:
        budget_mb_per_s: the device's budget; 0: none.

    Raises:
        ValueError: the task should hold a part of the budget, and the device has none.
    """
    constraint = task.constraint
    assert constraint is not None  # it is an I/O task
    if constraint.policy != "fixed" or budget_mb_per_s > 0:
        return constraint
    why = f"task {task.name!r} on device {task.device!r}: {no_budget(task.device)}"
    if task.needs_budget:
        raise ValueError(why)
    _log.warning("%s; it holds no bandwidth until then", why)
    return Constraint("none")


def no_budget(device: str) -> str:
    return (
        f"a fixed bandwidth is a part of a budget, and device {device!r} has none: give it a "
        "bandwidth in MB/s (`ioweave measure` finds out which), or use climb"
    )


def constraint_of(bandwidth: float | str | None, policy: str | None) -> Constraint:
    """Returns the constraint that the arguments of `@ioweave.io` ask for.

    Raises:
        ValueError: an argument is malformed or out of bounds, or the two contradict each other.
    """
    if policy is not None and policy not in POLICIES:
        raise ValueError(
            f"policy {policy!r} is not known{did_you_mean(str(policy), POLICIES)}; "
            f"the known ones are {', '.join(POLICIES)}"
        )
    if bandwidth is None:
        if policy == "fixed":
            raise ValueError("policy 'fixed' needs a bandwidth in MB/s: bandwidth=20")
        if policy == "paper-bounded":
            raise ValueError("policy 'paper-bounded' needs bandwidth='auto(min,max,delta)'")
        return Constraint(policy or "climb")
    asked = _parse(bandwidth)
    if policy is not None and policy != asked.policy:
        raise ValueError(
            f"policy {policy!r} contradicts bandwidth={bandwidth!r}, which means "
            f"{asked.policy!r}: leave one of them out"
        )
    return asked


def _parse(bandwidth: float | str) -> Constraint:
    if not isinstance(bandwidth, str):
        return _parse_fixed(bandwidth, bandwidth)
    text = bandwidth.strip()
    if text == "auto":
        return Constraint("paper-unbounded")
    bounded = _BOUNDED.fullmatch(text)
    if bounded:
        return _parse_bounded(bandwidth, bounded[1])
    try:
        number = float(text)
    except ValueError:
        raise _make_error(bandwidth) from None
    return _parse_fixed(bandwidth, number)


def _make_error(bandwidth: object) -> ValueError:
    return ValueError(
        f"bandwidth={bandwidth!r} is not understood: give MB/s as a number, 'auto', or "
        "'auto(min,max,delta)' as in 'auto(2,256,2)'"
    )


def _parse_fixed(bandwidth: object, given: object) -> Constraint:
    number = real(given)
    if number is None:
        raise _make_error(bandwidth)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(
            f"bandwidth={bandwidth!r} must be above 0 MB/s; policy='none' holds no bandwidth"
        )
    return Constraint("fixed", (float(number),))


def _parse_bounded(bandwidth: str, inner: str) -> Constraint:
    try:
        numbers = tuple(float(part) for part in inner.split(","))
    except ValueError:
        raise _make_error(bandwidth) from None
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        raise _make_error(bandwidth)
    least, most, delta = numbers
    if least <= 0:
        raise ValueError(f"bandwidth={bandwidth!r}: min, {least:g} MB/s, must be above 0")
    if least > most:
        raise ValueError(
            f"bandwidth={bandwidth!r}: min, {least:g} MB/s, is above max, {most:g} MB/s"
        )
    if delta <= 1:
        raise ValueError(
            f"bandwidth={bandwidth!r}: delta, {delta:g}, multiplies the constraint from one "
            "epoch to the next and must be above 1"
        )
    return Constraint("paper-bounded", numbers)
