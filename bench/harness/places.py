"""Where programs read and write: slowfs, the disk under a limit, the disk as it is."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import block_device, disk_limit, page_cache, process, slowfs
from harness.build import BuildFailed
from harness.session import Session

#: The bandwidth of the limited devices, in MB/s (10^6 bytes): a few hundred, as one client sees of
#: a parallel file system, and below what the disk itself does even on a bad day.
LIMIT_MB_S = 400
SLOWFS_SPEED = slowfs.Speed(read_mb_s=LIMIT_MB_S, write_mb_s=LIMIT_MB_S, latency_us=200)
#: A device so fast that a program hardly waits for it: what could be won is little, what could be
#: lost is much.
FAST_SPEED = slowfs.Speed(read_mb_s=3000, write_mb_s=3000, latency_us=20)


class PlaceUnavailable(RuntimeError):
    """This machine or user cannot have such a place; the text says why."""


@dataclass(frozen=True)
class Place:
    """A folder on a device of known speed.

    Attributes:
        name: For people.
        folder: What programs are given paths in.
        direct: The same folder at full speed, to compare and remove files.
        prefix: Words before a command.
        backs_memory: Its device reads straight into memory, which the host may have to give first.
            So that is done before each run.
    """

    name: str
    folder: Path
    direct: Path
    prefix: tuple[str, ...] = ()
    backs_memory: bool = False

    def make_cold(self, name: str) -> None:
        """Takes a file out of the page cache of this place."""
        page_cache.drop(self.folder / name)
        if self.direct != self.folder:
            # The emulated device must be the slowest part: what backs it is kept in memory.
            page_cache.warm(self.direct / name)
        if self.backs_memory:
            # The file, what is written of it, and as much again.
            page_cache.back_memory(3 * (self.folder / name).stat().st_size)

    def make_half_cold(self, name: str) -> None:
        """Leaves every other stretch of a file in the page cache of this place."""
        if self.direct != self.folder:
            page_cache.warm(self.direct / name)
        page_cache.half_warm(self.folder / name)

    def use_up_credit(self, name: str) -> None:
        """Reads from a file past the page cache until a limited place banks nothing, so that all
        runs begin alike. The throttle was seen to let through what it had saved up for 0.17 s.
        """
        if self.prefix:
            source = f"if={self.folder / name}"
            read = ["dd", source, "of=/dev/null", "bs=1M", "count=96", "iflag=direct"]
            process.run([*self.prefix, *read])

    def remove(self, name: str) -> None:
        """Removes an output, if it is there, with what is not yet written of it."""
        (self.folder / name).unlink(missing_ok=True)


def _new_folder(session: Session, name: str) -> Path:
    """A folder of that name, or of a similar one if a place was there before."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=session.folder))


def _folder_with(session: Session, name: str, data: Path) -> Path:
    folder = _new_folder(session, name)
    os.link(data, folder / data.name)  # the same blocks: no second copy
    return folder


@contextlib.contextmanager
def on_slowfs(
    session: Session,
    data: Path,
    *,
    speed: slowfs.Speed = SLOWFS_SPEED,
    many_requests: bool = False,
) -> Iterator[Place]:
    """A place on slowfs, with the data in it.

    With `many_requests` the kernel sends it more requests at once than file systems take by
    default.

    Raises:
        PlaceUnavailable: No FUSE.
    """
    name = f"slowfs {speed.read_mb_s:g} MB/s"
    source = _folder_with(session, f"slowfs-{speed.read_mb_s:g}-source", data)
    mountpoint = _new_folder(session, f"slowfs-{speed.read_mb_s:g}")
    with contextlib.ExitStack() as stack:
        try:
            program = session.program("slowfs")
            stack.enter_context(
                slowfs.mounted(program, source, mountpoint, speed, many_requests=many_requests)
            )
        except (slowfs.SlowfsUnavailable, BuildFailed) as error:
            raise PlaceUnavailable(f"no emulated parallel file system: {error}") from error
        yield Place(name, mountpoint, source)


@contextlib.contextmanager
def on_limited_disk(session: Session, data: Path, *, writes: bool = False) -> Iterator[Place]:
    """A place on the session's disk, whose reads are limited, and with `writes` these as well.

    Raises:
        PlaceUnavailable: No disk, or no control group for it.
    """
    disk = block_device.disk_of(session.folder)
    if disk is None:
        raise PlaceUnavailable(f"no disk limit: {session.folder} lies on no disk")
    folder = _folder_with(session, "limited", data)
    with contextlib.ExitStack() as stack:
        try:
            limit = stack.enter_context(
                disk_limit.disk_limit(disk, LIMIT_MB_S * 1_000_000, writes=writes)
            )
        except disk_limit.LimitUnavailable as error:
            raise PlaceUnavailable(f"no disk limit: {error}") from error
        name = f"disk limited to {LIMIT_MB_S} MB/s"
        yield Place(name, folder, folder, tuple(limit.prefix), backs_memory=True)


@contextlib.contextmanager
def on_raw_disk(session: Session, data: Path) -> Iterator[Place]:
    """A place on the session's disk as it is."""
    folder = _folder_with(session, "disk", data)
    yield Place("raw disk", folder, folder, backs_memory=True)
