"""Figures of runs: pure arithmetic over records, for simulated runs and real ones."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol


class Record(Protocol):
    """What is used of ioweave.TaskRecord."""

    @property
    def io(self) -> bool: ...
    @property
    def node(self) -> int: ...
    @property
    def ready_s(self) -> float: ...
    @property
    def start_s(self) -> float: ...
    @property
    def end_s(self) -> float: ...
    @property
    def bytes(self) -> int: ...


def improvement(seconds: float, baseline_s: float) -> float:
    """How much less time than the baseline, as a part of it.

    >>> improvement(62.0, 100.0)
    0.38
    """
    return 1 - seconds / baseline_s


def overlap_bound_s(*, waves: float, compute_s: float, wave_bytes: float, mb_per_s: float) -> float:
    """The least time of a program whose waves of computation are each followed by I/O that others
    hide: the first wave computes alone, the last one writes alone.

    >>> overlap_bound_s(waves=4, compute_s=10, wave_bytes=50e6, mb_per_s=10)
    45.0
    >>> overlap_bound_s(waves=4, compute_s=10, wave_bytes=200e6, mb_per_s=10)
    90.0
    """
    io_s = wave_bytes / 1e6 / mb_per_s
    return max(waves * compute_s + io_s, compute_s + waves * io_s)


def share_below(
    records: Sequence[Record], rate: Callable[[int], float], best: float, part: float = 0.9
) -> float:
    """The part of all bytes that I/O tasks moved while their device was below `part` of its best
    and others were ready and waited. Where nothing waits, no limit could make the device faster.

    Times the number of tasks, it is what the paper's learning costs in tasks, in whole ones.

    Args:
        records: all of a run, of devices of scope node, the same for all nodes.
        rate: what a device moves with so many streams.
        best: the most that it moves.
    """
    streams: Counter[int] = Counter()  # by node
    waiting = 0
    last_s = below = moved = 0.0
    for time_s, kind, node in _events(records):
        for count in streams.values() if time_s > last_s else ():
            if count > 0:
                now = rate(count)
                moved += (time_s - last_s) * now
                if waiting > 0 and now < part * best:
                    below += (time_s - last_s) * now
        last_s = time_s
        waiting += kind is _READY
        if kind is _START:
            waiting -= 1
            streams[node] += 1
        elif kind is _END:
            streams[node] -= 1
    return below / moved if moved > 0 else 0.0


def tasks_until_back(
    records: Sequence[Record],
    since_s: float,
    rate: Callable[[int], float],
    best: float,
    *,
    part: float = 0.95,
    window: int = 50,
) -> int | None:
    """I/O tasks that ended since then, when the one shared device was back at `part` of its best.

    It is back when it moves that much and goes on so: on average over the time in which the next
    `window` tasks end. None: it never was.

    Args:
        records: all of a run, with one device that all nodes share.
        since_s: when it changed.
        rate: what it moves with so many streams since then.
        best: the most that it moves since then.
    """
    spans: list[tuple[float, float, int]] = []  # from, MB/s, tasks ended since
    streams = ended = 0
    for time_s, kind, _ in _events(records):
        if kind is _READY:
            continue
        streams += 1 if kind is _START else -1
        if time_s >= since_s:
            ended += kind is _END
            spans.append((time_s, rate(streams) if streams > 0 else 0.0, ended))
    moved = [0.0]  # up to the beginning of each span
    for (begin, now, _), (end, _, _) in itertools.pairwise(spans):
        moved.append(moved[-1] + (end - begin) * now)
    last = 0
    for first, (begin, now, count) in enumerate(spans):
        while last < len(spans) and spans[last][2] < count + window:
            last += 1
        if last == len(spans):
            return None
        time_s = spans[last][0] - begin
        if now >= part * best and moved[last] - moved[first] >= part * best * time_s:
            return count
    return None


_END, _READY, _START = range(3)  # in this order, where they are at the same time


def _events(records: Iterable[Record]) -> list[tuple[float, int, int]]:
    """Time, what, and node of all that I/O tasks do, by time."""
    return sorted(
        event
        for record in records
        if record.io
        for event in (
            (record.ready_s, _READY, record.node),
            (record.start_s, _START, record.node),
            (record.end_s, _END, record.node),
        )
    )


def throughput_mb_per_s(records: Iterable[Record]) -> float:
    """Bytes of the I/O tasks over the time in which any of them ran, over all nodes, in MB/s.

    Each node's time counts for itself, so this is what a node moves while it moves anything.
    """
    by_node: dict[int, list[tuple[float, float]]] = {}
    total = 0
    for record in records:
        if record.io:
            by_node.setdefault(record.node, []).append((record.start_s, record.end_s))
            total += record.bytes
    busy_s = 0.0
    for spans in by_node.values():
        until = 0.0
        for start, end in sorted(spans):
            busy_s += max(0.0, end - max(start, until))
            until = max(until, end)
    return total / 1e6 / busy_s if busy_s > 0 else 0.0


def mean_task_s(records: Iterable[Record]) -> float:
    """Mean time of an I/O task."""
    times = [record.end_s - record.start_s for record in records if record.io]
    return sum(times) / len(times) if times else 0.0
