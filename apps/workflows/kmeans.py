#!/usr/bin/env python3
"""K-means of random points in fragments, with a checkpoint of each partial sum (paper, 5.2.3).

In each iteration every fragment's points are assigned to the nearest center; the sums are merged in
a tree into new centers. The partial sums are checkpointed beside it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import ioweave
import workflow

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a task has one core
import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


@ioweave.task
def generate_fragment(points: int, dimensions: int, seed: int) -> Points:
    return np.random.default_rng(seed).random((points, dimensions))


@ioweave.task
def partial_sum(fragment: Points, centers: Points) -> Points:
    """For each center the sum of the points nearest to it, and in the last column their number."""
    distances = (
        (fragment**2).sum(axis=1)[:, None] - 2 * fragment @ centers.T + (centers**2).sum(axis=1)
    )
    nearest = distances.argmin(axis=1)
    sums = np.zeros((len(centers), fragment.shape[1] + 1))
    np.add.at(sums[:, :-1], nearest, fragment)
    sums[:, -1] = np.bincount(nearest, minlength=len(centers))
    return sums


@ioweave.task
def merge(*sums: Points) -> Points:
    return np.sum(sums, axis=0)  # type: ignore[no-any-return]


@ioweave.task
def new_centers(sums: Points, centers: Points) -> Points:
    """A center without points stays."""
    counts = sums[:, -1:]
    return np.where(counts > 0, sums[:, :-1] / np.maximum(counts, 1), centers)


def kmeans(options: Any, where: workflow.Folders) -> float:
    """Returns the sum of the coordinates of the last centers, which all modes must agree on."""

    @workflow.io_task(options.mode)
    def checkpoint(path: Any, content: Points, size: int) -> None:
        workflow.write_checkpoint(path, content.tobytes(), size, options.direct)

    size = int(options.checkpoint_mb * workflow.MB)
    each = options.points // options.fragments
    parts: list[Any] = [
        generate_fragment(each, options.dimensions, options.seed + i)
        for i in range(options.fragments)
    ]
    centers: Any = np.random.default_rng(options.seed).random((options.centers, options.dimensions))
    for iteration in range(options.iterations):
        sums: list[Any] = []
        for number, part in enumerate(parts):
            sums.append(partial_sum(part, centers))
            checkpoint(where.checkpoints / f"centers-{iteration}-{number}", sums[-1], size)
        while len(sums) > 1:
            sums = [merge(*sums[i : i + 8]) for i in range(0, len(sums), 8)]
        centers = new_centers(sums[0], centers)
    return float(ioweave.wait(centers).sum())


def main() -> int:
    parser = workflow.parser(__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=16)
    parser.add_argument("--centers", type=int, default=64)
    parser.add_argument("--fragments", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=3)
    options = parser.parse_args()
    if options.points < options.fragments or options.fragments < 1 or options.iterations < 1:
        parser.error("--points >= --fragments >= 1 and --iterations >= 1 are needed")
    with workflow.folders(options) as where:
        workflow.report(workflow.run(options, where, lambda: kmeans(options, where)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
