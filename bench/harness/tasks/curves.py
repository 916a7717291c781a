"""What the simulated devices move with so many streams at once, and where that is from.

A curve is points (streams, MB/s of all together), joined by straight lines from (0, 0) on, and flat
beyond the last point.
"""

from __future__ import annotations

from collections.abc import Sequence

Curve = Sequence[tuple[float, float]]

#: The SSD of a node of MareNostrum 4 under checkpoint tasks that end with fsync, after what the
#: paper prints of I/O-aware runs:
#: - one stream alone moves 6.6 MB/s, between the 6.9 of HMMER and the 6.4 of K-means
#:   (paper.stream_mb_per_s): a task spends most of its time on getting its data ready;
#: - 56 at once, constraint 8, are the fastest of 225, 112, 56 and 28 (figure 12);
#: - height and fall are fitted, together with the time of a hmmpfam task, to five of the six totals
#:   of figure 22(a): 250 MB/s, from 56 streams on times (56 / streams)^0.1; in between 6.6 MB/s for
#:   each stream. Four numbers for five totals: that they are met within 2 % says little. The sixth,
#:   auto(4,256,4), is missed by 31 %.
#: The text has figure 11's throughput "slightly" lower above constraint 8, where fewer write at
#: once; that cannot be said of one stream, or the last epochs of auto(2,256,2) took no 167 s.
SSD: Curve = ((1, 6.6), (38, 250), (56, 250), (112, 233), (225, 218), (500, 201))

#: The same under computing tasks that write: 48 at once move 100 MB/s, which follows for both
#: applications (paper.non_aware_mb_per_s); fewer, in proportion. Why I/O tasks of about the same
#: number move 2.5 times as much, the paper does not say.
SSD_NON_AWARE: Curve = ((48, 100),)

#: A device that suffers much from congestion, as a check of how the results depend on the curve:
#: Gunther's universal scalability law, l n / (1 + k n (n - 1)), without contention, with its peak
#: of the paper's 450 MB/s at 12 streams. A model, not a measurement. (N. J. Gunther, "Guerrilla
#: Capacity Planning", Springer 2007, chapter 4.)
CONGESTED_PEAK = 12


def scalability(streams: float, peak_streams: float, peak: float) -> float:
    """Gunther's law without contention: its greatest value is `peak`, at `peak_streams`.

    >>> round(scalability(12, 12, 450))
    450
    >>> round(scalability(48, 12, 450))
    207
    """
    k = 1 / peak_streams**2

    def shape(n: float) -> float:
        return n / (1 + k * n * (n - 1))

    return peak * shape(streams) / shape(peak_streams)


CONGESTED: Curve = tuple(
    (n, scalability(n, CONGESTED_PEAK, 450))
    for n in (1, 2, 3, 4, 6, 8, 10, 12, 14, 17, 20, 24, 28, 34, 40, 48, 56, 80, 112, 160, 225, 500)
)

#: A curve that was measured: a hard disk under writes of 1 MiB at random places, by so many threads
#: with O_DIRECT, in requests of at most 128 KiB; MiB/s. (Yu Kuai, "[PATCH -next RFC v2 0/8] improve
#: tag allocation under heavy load", linux-block, 8 April 2022, column v5.18-rc1 of the table;
#: https://lore.kernel.org/all/20220408073916.1428590-1-yukuai3@huawei.com/.) Eight at once lose
#: nothing yet; 64 times as many lose half, where Gunther's law would lose 97 %.
HARD_DISK: Curve = (
    *((1, 67.7), (2, 67.7), (4, 67.7), (8, 67.7), (16, 64.8)),
    *((32, 59.8), (64, 54.9), (128, 49.0), (256, 37.7), (512, 31.8)),
)

#: A parallel file system that all nodes share: GPFS as Dell sells it, sequential writes of N
#: clients to N files: 16.7 GB/s, reached with 16 threads, and stable up to 1024. (Dell EMC Ready
#: Solution for HPC PixStor Storage, administrator guide, page 21, figure 9.)
PIXSTOR: Curve = ((16, 16_700), (1024, 16_700))


def at(curve: Curve, streams: float) -> float:
    """MB/s with so many streams.

    >>> at([(2, 100), (4, 50)], 1), at([(2, 100), (4, 50)], 3), at([(2, 100), (4, 50)], 9)
    (50.0, 75.0, 50)
    """
    last = (0.0, 0.0)
    for point in curve:
        if streams <= point[0]:
            part = (streams - last[0]) / (point[0] - last[0])
            return last[1] + part * (point[1] - last[1])
        last = point
    return last[1]


def peak(curve: Curve) -> float:
    """The most that it gives, in MB/s."""
    return max(rate for _, rate in curve)


def scaled(curve: Curve, best: float) -> Curve:
    """The same with another height.

    >>> scaled([(1, 30), (8, 60)], 450)
    ((1, 225.0), (8, 450.0))
    """
    return tuple((streams, rate / peak(curve) * best) for streams, rate in curve)


def best_streams(curve: Curve) -> float:
    """The fewest streams that reach its peak.

    >>> best_streams([(1, 30), (8, 60), (16, 60), (32, 20)])
    8
    """
    return next(streams for streams, rate in curve if rate == peak(curve))
