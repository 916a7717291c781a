"""The overlap model of the PPIS paper, for a program that reads, computes, writes in chunks.

All times are of one chunk, in seconds: R to read it from the device, C to compute on it, W to
write its result; n is the number of chunks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chunks:
    """A run of n equal chunks."""

    n: int
    read_s: float
    compute_s: float
    write_s: float

    @property
    def synchronous_s(self) -> float:
        """Nothing overlaps: n (R + C + W).

        >>> Chunks(4, 1.0, 1.0, 0.5).synchronous_s
        10.0
        """
        return self.n * (self.read_s + self.compute_s + self.write_s)

    @property
    def overlapped_s(self) -> float:
        """The next chunk is read during the computation: R + C + W + (n-1) (max(R, C) + W).

        >>> Chunks(4, 1.0, 1.0, 0.5).overlapped_s
        7.0
        """
        first = self.read_s + self.compute_s + self.write_s
        return first + (self.n - 1) * (max(self.read_s, self.compute_s) + self.write_s)

    @property
    def hideable_s(self) -> float:
        """The read time that computation can cover: all but the first chunk's, (n-1) R.

        >>> Chunks(4, 1.0, 1.0, 0.5).hideable_s
        3.0
        """
        return (self.n - 1) * self.read_s


def of_totals(n: int, read_s: float, compute_s: float, write_s: float) -> Chunks:
    """From the seconds that all n chunks together took."""
    return Chunks(n, read_s / n, compute_s / n, write_s / n)
