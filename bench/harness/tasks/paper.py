"""What "Towards enabling I/O awareness in task-based programming models" prints (Elshazly et al.,
FGCS 2021), and what follows from it.

The bars of figures 21 and 22(a) have their values printed on them, in seconds; those of the other
figures (10 to 12, 14 to 19, 22(b)) do not, and of them the text gives the improvements, the epochs
and table 2. Which value of figure 22(a) stands on which bar is inferred: the text that was at hand
has the two groups of numbers without their places, and this is the one order of them in which all
comparisons of section 5.3 hold. The second bar is `auto(4,8,2)` on the axis, `auto(4,16,2)` in the
text.
"""

from __future__ import annotations

MB = 1_000_000

NODES, CORES = 12, 48
#: MB/s of a node's SSD, in the resources file.
BUDGET = 450
EXECUTORS = 225

# ---- HMMER: figures 10 to 12 and 22(a).

HMMER_TASKS = 2304
HMMER_BYTES = 290 * MB
HMMER_SECONDS = {
    "auto(2,256,2)": 1099.10,
    "auto(4,8,2)": 822.48,
    "auto(4,256,4)": 1285.75,
    "auto_225": 932.06,
    "auto_112": 849.11,
    "auto_56": 835.73,
}
HMMER_IMPROVEMENT = 0.38
HMMER_CONSTRAINT = 8
#: Tasks of each epoch of figure 12, by its constraints 2, 4, 8, ...
HMMER_EPOCHS = {"auto_225": 4, "auto(2,256,2)": 8}

# ---- Variants discovery: figures 14 to 19, tables 1 and 2.

VARIANTS_INPUTS = 1728
VARIANTS_BYTES = {
    "fastq": 162 * MB,
    "mapped": 290 * MB,
    "merged": 330 * MB,
    "marked": 596 * MB,
    "grouped": 615 * MB,
}
VARIANTS_IMPROVEMENT = 0.43
VARIANTS_CONSTRAINTS = {"fastq": 16, "mapped": 8, "merged": 4, "marked": 4, "grouped": 4}
VARIANTS_CONSTRAINT = 4
VARIANTS_UNCONSTRAINED_EXECUTORS = 325

# ---- K-means: figure 21.

KMEANS_TASKS = 500
KMEANS_BYTES = 109 * MB
#: By iterations: non-aware, auto, auto(2,256,2).
KMEANS_SECONDS = {
    1: {"non-aware": 513.05, "auto_225": 554.63, "auto(2,256,2)": 611.62},
    3: {"non-aware": 963.63, "auto_225": 865.19, "auto(2,256,2)": 915.65},
    6: {"non-aware": 1407.25, "auto_225": 1190.33, "auto(2,256,2)": 1236.74},
}
KMEANS_LEARNING_TASKS = {"auto_225": 435, "auto(2,256,2)": 446}


# ---- What follows.


def line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """The line of least squares through the points: what it begins at, and its slope.

    >>> line([(1, 3), (2, 5), (3, 7)])
    (1.0, 2.0)
    """
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum(
        (x - mean_x) ** 2 for x, _ in points
    )
    return mean_y - slope * mean_x, slope


def kmeans_line(mode: str) -> tuple[float, float]:
    """Seconds of K-means before its iterations, and of an iteration."""
    return line([(n, seconds[mode]) for n, seconds in KMEANS_SECONDS.items()])


def stream_mb_per_s() -> dict[str, float]:
    """What one stream alone moves, in MB/s, by both applications.

    auto(2,256,2) learns as auto does and then tries higher constraints, one epoch after the other,
    with so few tasks at once that each goes as fast as one alone. The printed times differ by these
    epochs: of 14, 7, 3 and 1 tasks with HMMER, 7, 3 and 1 with K-means.
    """
    hmmer = HMMER_SECONDS["auto(2,256,2)"] - HMMER_SECONDS["auto_225"]
    differences = [of["auto(2,256,2)"] - of["auto_225"] for of in KMEANS_SECONDS.values()]
    kmeans = sum(differences) / len(differences)
    return {
        "HMMER": 4 * HMMER_BYTES / MB / hmmer,
        "K-means": 3 * KMEANS_BYTES / MB / kmeans,
    }


def non_aware_mb_per_s() -> dict[str, float]:
    """What a node moves while 48 tasks write that keep their cores, in MB/s, by both applications.

    K-means: an iteration takes so much longer without I/O tasks, which hide it. HMMER: the best
    I/O-aware run is 38 % below the non-aware one, which has 4 times computation and I/O in turn,
    while the best has 4 times computation and the I/O of the last; that is 4 C + 4 W and 4 C + w,
    with w at the rate of I/O tasks. C is fitted (below): 5 s more of it would make 104 of 100.
    """
    _, non_aware = kmeans_line("non-aware")
    _, aware = kmeans_line("auto_225")
    best = HMMER_SECONDS["auto(4,8,2)"]
    phases_s = best / (1 - HMMER_IMPROVEMENT) - 4 * HMMER_COMPUTE_S
    return {
        "HMMER": 4 * CORES * HMMER_BYTES / MB / phases_s,
        "K-means": CORES * KMEANS_BYTES / MB / (non_aware - aware),
    }


#: Seconds of a hmmpfam task. Fitted with the curve of curves.py to figure 22(a): the runs that end
#: with their last computation take 4 of them and the I/O of the last 576 tasks.
HMMER_COMPUTE_S = 192.0


def kmeans_compute_s(non_aware: float) -> tuple[float, float]:
    """Seconds to generate a fragment, and of a partial sum with its share of the merging.

    Args:
        non_aware: MB/s of a node while 48 tasks write.
    """
    begin, iteration = kmeans_line("non-aware")
    return begin, iteration - CORES * KMEANS_BYTES / MB / non_aware


def variants_compute_s(non_aware: float) -> float:
    """Seconds of each of the seven steps of a pipeline, taken for equal.

    That with which an I/O-aware run whose I/O hides behind computation is 43 % below the non-aware
    one, which has one after the other: I / (C + I). Nothing else is printed.

    Args:
        non_aware: MB/s of a node while 48 computing tasks write.
    """
    pipelines = VARIANTS_INPUTS / NODES
    sizes = [*VARIANTS_BYTES.values(), VARIANTS_BYTES["mapped"]]
    io_s = pipelines * sum(sizes) / MB / non_aware
    steps = 7 * pipelines / CORES
    return io_s * (1 - VARIANTS_IMPROVEMENT) / VARIANTS_IMPROVEMENT / steps
