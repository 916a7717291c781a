"""Where checkpoints of real runs go: slowfs with a knee, the disk under a limit, the disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import block_device, disk_limit, slowfs
from harness.build import BuildFailed
from harness.session import Session, own_folder
from harness.tasks import curves

LATENCY_US = 100
_MEMORY = Path("/dev/shm")


class DeviceUnavailable(RuntimeError):
    """This machine or user cannot have such a device; the text says why."""


@dataclass(frozen=True)
class Device:
    """A folder to write checkpoints to.

    Attributes:
        name: For people.
        mb_s: What it writes at best, MB/s: the budget of constraints.
        non_aware_mb_s: What it writes when all slots for computing write at once.
        direct: Whether writes pass the page cache by.
        prefix: Words before a command that writes there.
        best_streams: With how many writers it is at its best, where that is known.
    """

    name: str
    folder: Path
    mb_s: float
    non_aware_mb_s: float
    direct: bool
    prefix: tuple[str, ...] = ()
    best_streams: float | None = None


def _in_memory(session: Session) -> Path:
    """Where files cost nothing, if there is such a place."""
    return _MEMORY if os.access(_MEMORY, os.W_OK) else session.folder


@contextlib.contextmanager
def work_folder(session: Session) -> Iterator[Path]:
    """For inputs and results that are not to burden the device."""
    with own_folder(_in_memory(session), "ioweave-bench-") as folder:
        yield folder


@contextlib.contextmanager
def with_knee(
    session: Session,
    mb_s: float,
    points: Sequence[tuple[float, float]],
    slots: int,
    *,
    called: str = "",
) -> Iterator[Device]:
    """An emulated device of `mb_s` at best, at the points (streams, part of that) slower.

    `slots` computing tasks write at once. `called` says which of several it is.

    What is written to it is dropped. O_DIRECT: the page cache would take as much of the processors
    as the emulation itself, and more than a disk does.

    Raises:
        DeviceUnavailable: No FUSE.
    """
    speed = slowfs.Speed(mb_s, mb_s, LATENCY_US, tuple(points))
    folder = session.folder / "knee"
    folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(work_folder(session))
        try:
            program = session.program("slowfs")
            stack.enter_context(slowfs.mounted(program, source, folder, speed, discard=True))
        except (slowfs.SlowfsUnavailable, BuildFailed) as error:
            raise DeviceUnavailable(f"no emulated device: {error}") from error
        yield Device(
            f"slowfs {mb_s:g} MB/s{called and ', ' + called}",
            *(folder, mb_s, mb_s * curves.at(points, slots)),
            direct=True,
            best_streams=curves.best_streams(points),
        )


@contextlib.contextmanager
def limited_disk(session: Session, mb_s: float) -> Iterator[Device]:
    """The session's disk, with programs held to `mb_s` for what they write past the page cache.

    Raises:
        DeviceUnavailable: No disk, or no control group for it.
    """
    disk = block_device.disk_of(session.folder)
    if disk is None:
        raise DeviceUnavailable(f"no disk limit: {session.folder} lies on no disk")
    folder = session.folder / "limited"
    folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            limit = stack.enter_context(
                disk_limit.disk_limit(disk, int(mb_s * 1_000_000), writes=True)
            )
        except disk_limit.LimitUnavailable as error:
            raise DeviceUnavailable(f"no disk limit: {error}") from error
        yield Device(
            f"disk limited to {mb_s:g} MB/s",
            *(folder, mb_s, mb_s),
            direct=True,
            prefix=tuple(limit.prefix),
        )


@contextlib.contextmanager
def raw_disk(session: Session, mb_s: float) -> Iterator[Device]:
    """The session's disk as it is, taken for one of `mb_s`; buffered writes, and fsync."""
    folder = session.folder / "disk"
    folder.mkdir(exist_ok=True)
    yield Device("raw disk", folder, mb_s, mb_s, direct=False)
