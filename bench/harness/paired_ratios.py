"""Pairs of runs, with and without: as many as it takes to know the median of their ratio."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.samples import Summary, alternate, summarize

#: How sure the interval of a median is to hold the true one.
CONFIDENCE = 0.95


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """An interval that holds the median of the population with a probability of `CONFIDENCE`.

    From order statistics, so without an assumption about the distribution: a bimodal one is as good
    as any. With fewer than six samples no interval is as sure, and the whole range is returned.

    >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    (2.0, 8.0)
    """
    ordered = sorted(samples)
    n = len(ordered)
    dropped = 0  # samples at each end that the interval leaves out
    outside = 0.0
    while 2 * (dropped + 1) < n:
        outside += math.comb(n, dropped) / 2**n  # the median lies below sample `dropped`
        if 2 * outside > 1 - CONFIDENCE:
            break
        dropped += 1
    first = max(0, dropped - 1)
    return ordered[first], ordered[n - 1 - first]


@dataclass(frozen=True)
class Pairs:
    """Seconds of the same command without and with what is compared, run in turn.

    Attributes:
        plain: One of each pair.
        woven: The other, in the same order.
    """

    plain: Sequence[float]
    woven: Sequence[float]

    @property
    def ratios(self) -> list[float]:
        """With over without, pair by pair."""
        return [w / p for w, p in zip(self.woven, self.plain, strict=True)]

    @property
    def median(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def least_over_least(self) -> float:
        """The quickest run with over the quickest without."""
        return min(self.woven) / min(self.plain)

    @property
    def half_width(self) -> float:
        """How far the median may be from the true one: half its interval."""
        low, high = median_interval(self.ratios)
        return (high - low) / 2

    def median_summary(self) -> Summary:
        """The median with its interval; with the range where pairs are too few for one."""
        ratios = self.ratios
        low, high = median_interval(ratios)
        kind = "range" if len(ratios) < 6 else "ci95"
        return Summary(self.median, low, high, kind, len(ratios))

    def least_summary(self) -> Summary:
        """Least over least, between what it would be without the quickest run of either."""
        value = self.least_over_least
        if len(self.plain) < 2:
            return Summary(value, value, value, "range", len(self.plain))
        (plain, plain_2), (woven, woven_2) = sorted(self.plain)[:2], sorted(self.woven)[:2]
        return Summary(value, woven / plain_2, woven_2 / plain, "without one", len(self.plain))

    def saved_summary(self) -> Summary:
        """Seconds that were saved, pair by pair; negative where time was lost."""
        return summarize([p - w for w, p in zip(self.woven, self.plain, strict=True)])


@dataclass(frozen=True)
class Effort:
    """How many pairs are run.

    Attributes:
        fewest: At least so many.
        most: No more than so many.
        half_width: More than the fewest only until the median is known so well.
    """

    fewest: int
    most: int
    half_width: float


def _so_far(rounds: Iterator[dict[str, float]], effort: Effort) -> Pairs:
    plain: list[float] = []
    woven: list[float] = []
    for pair in rounds:
        plain.append(pair["plain"])
        woven.append(pair["woven"])
        pairs = Pairs(plain, woven)
        if len(plain) >= effort.fewest and pairs.half_width <= effort.half_width:
            break
    return Pairs(plain, woven)


def measure(plain: Callable[[], float], woven: Callable[[], float], effort: Effort) -> Pairs:
    """Runs pairs, the order reversed from one to the next, until the median is known. All count."""
    return _so_far(alternate({"plain": plain, "woven": woven}, effort.most), effort)
