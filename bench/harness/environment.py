"""What a result depends on and a reader must know: machine, kernel, file system, versions."""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from harness import block_device
from harness.build import PROGRAMS, ROOT, Build


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip().splitlines()[0]
    except (OSError, IndexError):
        return None


def _output(*command: str | Path) -> str | None:
    try:
        done = subprocess.run(
            command, cwd=ROOT, text=True, capture_output=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str | None:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "CPU part"):
            return value.strip()
    return None


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _proactive_reclaim() -> list[str]:
    """What DAMON does on this machine to memory that nobody has used for a while, if anything.

    With "pageout" the kernel evicts cached pages though memory is free, fresh ones among them, and
    a guest gives them back to its host: figures scatter, and what was brought in may be gone again.
    """
    daemons = Path("/sys/kernel/mm/damon/admin/kdamonds")
    try:
        return [
            action.read_text(encoding="utf-8").strip()
            for state in sorted(daemons.glob("*/state"))
            if state.read_text(encoding="utf-8").strip() == "on"
            for action in sorted(state.parent.glob("contexts/*/schemes/*/action"))
        ]
    except OSError:
        return []


def _commit() -> dict[str, Any]:
    return {
        "commit": _output("git", "rev-parse", "HEAD"),
        # Files that differ from the commit: figures of a changed tree are not those of the commit.
        "changed_files": len((_output("git", "status", "--porcelain") or "").splitlines()),
    }


def describe(build: Build, folder: Path) -> dict[str, Any]:
    """Everything about this machine and build that a benchmark's document holds.

    Args:
        build: The programs that are measured.
        folder: Where their files lie: its file system and disk are described.
    """
    mount = block_device.mount_of(folder)
    disk = block_device.disk_of(folder)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": _first_line("/sys/class/dmi/id/product_name"),
        "architecture": platform.machine(),
        "hypervisor": _output("systemd-detect-virt"),
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_bytes": _memory_bytes(),
        "kernel": platform.release(),
        "proactive_reclaim": _proactive_reclaim(),
        "io_uring_disabled": _first_line("/proc/sys/kernel/io_uring_disabled"),
        "load_average": os.getloadavg()[0],
        "file_system": mount.kind,
        "disk": None if disk is None else block_device.describe(disk),
        # Settings of Ioweave reach the programs that are measured.
        "variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith("IOWEAVE_")},
        **_commit(),
        "build": build.settings(),
        "versions": {
            "ioweave": _output(build.folder / PROGRAMS["ioweave"], "--version"),
            "fio": _output("fio", "--version") if shutil.which("fio") else None,
            "liburing": _output("pkg-config", "--modversion", "liburing"),
            "python": platform.python_version(),
        },
    }
