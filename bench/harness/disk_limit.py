"""Limits the bandwidth of programs on one disk by a control group of our own.

Version 1 of control groups (blkio.throttle.*_bps_device) and version 2 (io.max). Both bank credit
while nothing is moved, so what is measured should go on for a quarter of a second or longer.
Buffered writes are not limited: the kernel writes them back later, from its own threads.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PREFIX = "ioweave-bench-"


class LimitUnavailable(RuntimeError):
    """This machine or user cannot limit a disk; the text says why, and who can mend it."""


@dataclass(frozen=True)
class _Controller:
    """Where groups are made, and the files and lines that limit reads and writes."""

    root: Path
    read_file: str
    read_line: Callable[[str, int], str]
    write_file: str
    write_line: Callable[[str, int], str]


def _version_1(cgroups: Path) -> _Controller | None:
    root = cgroups / "blkio"
    if not (root / "blkio.throttle.read_bps_device").exists():
        return None

    def line(disk: str, limit: int) -> str:
        return f"{disk} {limit}"

    return _Controller(
        root, "blkio.throttle.read_bps_device", line, "blkio.throttle.write_bps_device", line
    )


def _version_2(cgroups: Path) -> _Controller | None:
    for root in (cgroups, cgroups / "unified"):
        controllers = root / "cgroup.controllers"
        if controllers.exists() and "io" in controllers.read_text(encoding="ascii").split():
            return _Controller(
                root,
                "io.max",
                lambda disk, limit: f"{disk} rbps={limit}",
                "io.max",
                lambda disk, limit: f"{disk} wbps={limit}",  # a second line keeps the first
            )
    return None


def _controller(cgroups: Path) -> _Controller:
    found = _version_1(cgroups) or _version_2(cgroups)
    if found is None:
        raise LimitUnavailable(
            f"no control group controller for block devices below {cgroups} "
            "(the kernel's CONFIG_BLK_DEV_THROTTLING; in a container, the host's choice)"
        )
    return found


@contextlib.contextmanager
def _delegated(root: Path) -> Iterator[None]:
    """Version 2 only: children get the io controller while this lasts."""
    switch = root / "cgroup.subtree_control"
    if "io" in switch.read_text(encoding="ascii").split():
        yield
        return
    switch.write_text("+io", encoding="ascii")
    try:
        yield
    finally:
        switch.write_text("-io", encoding="ascii")


def _remove(group: Path) -> None:
    # A program that has just ended is still a member for a moment.
    for _ in range(100):
        try:
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"{group} still has members: kill those of its cgroup.procs and rmdir it")


def _remove_stale(root: Path) -> None:
    """Removes groups of benchmarks that were killed before they could."""
    for group in root.glob(f"{PREFIX}*"):
        if not Path(f"/proc/{group.name.removeprefix(PREFIX)}").exists():
            with contextlib.suppress(OSError):
                group.rmdir()


@dataclass(frozen=True)
class DiskLimit:
    """A limit in force. Programs are subject to it when run with `prefix` before their command."""

    group: Path

    @property
    def prefix(self) -> list[str]:
        """Words before a command that put it, and all it starts, under the limit."""
        # The shell moves itself and becomes the program: no code runs between fork and exec.
        return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.group / "cgroup.procs")]


@contextlib.contextmanager
def disk_limit(
    disk: str, bytes_per_s: int, *, writes: bool = False, cgroups: Path = Path("/sys/fs/cgroup")
) -> Iterator[DiskLimit]:
    """A control group whose members read from the disk at most so fast.

    Args:
        disk: The whole disk as "major:minor" (`harness.block_device.disk_of`).
        bytes_per_s: Bandwidth, all members together.
        writes: Whether they write at most as fast, too. Reads and writes are counted apart.
        cgroups: Where control groups are mounted.

    Raises:
        LimitUnavailable: No controller, or no permission.
    """
    controller = _controller(cgroups)
    group = controller.root / f"{PREFIX}{os.getpid()}"
    with contextlib.ExitStack() as stack:
        try:
            if controller.read_file == "io.max":
                stack.enter_context(_delegated(controller.root))
            _remove_stale(controller.root)
            group.mkdir()
            stack.callback(_remove, group)
            read_line = controller.read_line(disk, bytes_per_s)
            (group / controller.read_file).write_text(read_line, encoding="ascii")
            if writes:
                write_line = controller.write_line(disk, bytes_per_s)
                (group / controller.write_file).write_text(write_line, encoding="ascii")
        except OSError as error:
            raise LimitUnavailable(
                f"cannot limit disk {disk} by {error.filename or group}: {error.strerror} "
                "(needs root, or a delegated control group)"
            ) from error
        yield DiskLimit(group)
