"""The numbers that users give: Python's, NumPy's and their like, but no truth values."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

MOST_BYTES = 2**63 - 1  # of what a call moves: the policy counts no more


def whole(value: Any) -> int | None:
    """The whole number; None if it is something else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def real(value: Any) -> float | None:
    """The number, an int as it is; None if it is something else."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf
    return value if isinstance(value, int) else number
