"""The numbers that users pass: Python's, NumPy's and their like, but no truth values."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

MOST_BYTES = 2**63 - 1  # that a call moves: the policy cannot count more


def whole(value: Any) -> int | None:
    """Returns the value as an int; None if it is not a whole number."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def real(value: Any) -> float | None:
    """Returns the value as a float, an int as it is; None if it is not a real number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf
    return value if isinstance(value, int) else number
