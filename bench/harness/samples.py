"""Paired measurements and their summaries: medians, and a spread that says what it is."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

#: With fewer samples than this, quartiles would be made up: the whole range is stated instead.
FEWEST_FOR_QUARTILES = 5


@dataclass(frozen=True)
class Summary:
    """The median of `n` samples and how far they lie apart.

    Attributes:
        value: The median.
        low: First quartile, or the least sample if there are few.
        high: Third quartile, or the greatest sample.
        kind: "iqr" or "range", which of the two `low` and `high` are.
        n: How many samples.
    """

    value: float
    low: float
    high: float
    kind: str
    n: int


def summarize(samples: Sequence[float]) -> Summary:
    """Summarises at least one sample.

    >>> summarize([3.0, 1.0, 2.0])
    Summary(value=2.0, low=1.0, high=3.0, kind='range', n=3)
    """
    value = statistics.median(samples)
    if len(samples) < FEWEST_FOR_QUARTILES:
        return Summary(value, min(samples), max(samples), "range", len(samples))
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Summary(value, low, high, "iqr", len(samples))


def alternate(contenders: Mapping[str, Callable[[], T]], rounds: int) -> Iterator[dict[str, T]]:
    """Runs all contenders in turn, once per round, the order reversed from round to round.

    Yields the results of one round at a time, by contender: two results of one round are a pair,
    and what disturbs the machine for longer than a round disturbs both.
    """
    names = list(contenders)
    for number in range(rounds):
        order = names if number % 2 == 0 else names[::-1]
        results = {name: contenders[name]() for name in order}
        yield {name: results[name] for name in names}
