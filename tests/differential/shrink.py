"""The shortest list that still shows something, by delta debugging."""

from collections.abc import Callable


def shrink(shows: Callable[[list[int]], bool], steps: list[int]) -> list[int]:
    """Returns some of `steps` for which `shows` holds, as few as leaving out parts leads to.

    `shows(steps)` must hold. Parts are halves first, then quarters, down to single steps.
    """
    parts = 2
    while len(steps) > 1:
        size = max(1, -(-len(steps) // parts))
        kept = _leave_out_one(shows, steps, size)
        if kept is not None:
            steps = kept
            parts = max(2, parts - 1)
        elif size == 1:
            break
        else:
            parts = min(len(steps), 2 * parts)
    return steps


def _leave_out_one(
    shows: Callable[[list[int]], bool], steps: list[int], size: int
) -> list[int] | None:
    """The last parts first: what comes after a difference is seldom its cause."""
    for begin in reversed(range(0, len(steps), size)):
        rest = steps[:begin] + steps[begin + size :]
        if rest and shows(rest):
            return rest
    return None


def to_text(steps: list[int]) -> str:
    """`[0, 1, 2, 5]` as "0-2,5"."""
    ranges: list[list[int]] = []
    for step in steps:
        if ranges and step == ranges[-1][1] + 1:
            ranges[-1][1] = step
        else:
            ranges.append([step, step])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)
