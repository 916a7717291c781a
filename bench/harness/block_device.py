"""From a path to the disk it lies on, and what sysfs tells about that disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mount:
    """The mount a path lies on: its mount point, file system type and source."""

    point: str
    kind: str
    source: str


def _unescape(text: str) -> str:
    # mountinfo writes blanks, tabs, newlines and backslashes as three octal digits.
    parts = text.split("\\")
    return parts[0] + "".join(chr(int(part[:3], 8)) + part[3:] for part in parts[1:])


def mount_of(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> Mount:
    """The mount that holds an existing path."""
    best = Mount("/", "unknown", "unknown")
    target = path.resolve()
    for line in mountinfo.read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        point = _unescape(before.split()[4])
        kind, source, *_ = after.split()
        # Later lines are mounted over earlier ones: >= lets the topmost win.
        if target.is_relative_to(point) and len(point) >= len(best.point):
            best = Mount(point, kind, _unescape(source))
    return best


def disk_of(path: Path, sys_block: Path = Path("/sys/dev/block")) -> str | None:
    """The whole disk below a path as "major:minor"; None if there is none (tmpfs, FUSE, NFS).

    A partition is led back to its disk, since limits are set on whole disks only.
    """
    number = path.stat().st_dev
    if os.major(number) == 0:  # Btrfs and overlayfs show an anonymous number: ask for the source.
        source = Path(mount_of(path).source)
        if not source.is_block_device():
            return None
        number = source.stat().st_rdev
    entry = sys_block / f"{os.major(number)}:{os.minor(number)}"
    if not entry.exists():
        return None
    real = entry.resolve()
    holder = real.parent if (real / "partition").exists() else real
    return (holder / "dev").read_text(encoding="ascii").strip()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def describe(disk: str, sys_block: Path = Path("/sys/dev/block")) -> dict[str, str | None]:
    """What the kernel knows of a disk that matters to a benchmark."""
    entry = sys_block / disk
    return {
        "device": disk,
        "name": entry.resolve().name,
        "model": _read(entry / "device/model"),
        "rotational": _read(entry / "queue/rotational"),
        "scheduler": _read(entry / "queue/scheduler"),
        "read_ahead_kb": _read(entry / "queue/read_ahead_kb"),
        "io_poll": _read(entry / "queue/io_poll"),
    }
