"""Storage devices, and nodes that have them, as the user describes them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from . import _core
from .numeric import real, whole

SCOPES = ("node", "shared")
_MOST_STREAMS = 1e6  # of a curve in the simulation
_MOUNTINFO = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Device:
    """A storage target with a bandwidth budget.

    Attributes:
        name: what `@ioweave.io(device=...)` says.
        path: a file or folder on it, to measure its throughput; None: by what the process moves.
        bandwidth: MB/s (10^6 bytes) that operations with a constraint share; 0: no budget.
        scope: "node", a budget on each node, or "shared" by all of them.
        max_in_flight: operations at once within the scope; 0: as many as there are I/O threads.
        nodes: the nodes that have it, by name or glob (`*`, `?`, `[ab]`), with or without domain;
            None: all.
        curve: what it moves with so many streams at once: points (streams, MB/s of all together) by
            ascending streams, as `ioweave measure --toml` prints them; a node's for the scope
            "node". `climb` begins there, and the simulation follows it. Empty: not known; to the
            simulation `bandwidth`, however many there are.

    Raises:
        ValueError: a value out of bounds.
    """

    name: str
    path: str | os.PathLike[str] | None = field(default=None, kw_only=True)
    bandwidth: float = field(default=0.0, kw_only=True)
    scope: str = field(default="node", kw_only=True)
    max_in_flight: int = field(default=0, kw_only=True)
    nodes: Sequence[str] | None = field(default=None, kw_only=True)
    curve: Sequence[tuple[float, float]] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        def refuse(setting: str, value: object, wanted: str) -> ValueError:
            return ValueError(f"device {self.name!r}: {setting} must be {wanted}, not {value!r}")

        _check_name("device", self.name)
        if self.path is not None and not isinstance(self.path, (str, os.PathLike)):
            raise refuse("path", self.path, "a path")
        bandwidth = real(self.bandwidth)
        if bandwidth is None or not math.isfinite(bandwidth):
            raise refuse("bandwidth", self.bandwidth, "a number of MB/s")
        if bandwidth < 0:
            raise refuse("bandwidth", self.bandwidth, "MB/s above 0, or 0 for no budget")
        if self.scope not in SCOPES:
            raise refuse("scope", self.scope, "'node' or 'shared'")
        most = whole(self.max_in_flight)
        if most is None or most < 0:
            raise refuse("max_in_flight", self.max_in_flight, "a whole number, 0 for no bound")
        if self.nodes is not None:
            if not (isinstance(self.nodes, (list, tuple)) and self.nodes):
                raise refuse("nodes", self.nodes, "a list of names or globs of nodes")
            if not all(isinstance(glob, str) and glob for glob in self.nodes):
                raise refuse("nodes", self.nodes, "names or globs of nodes, which are not empty")
            object.__setattr__(self, "nodes", tuple(self.nodes))  # frozen, and so shall they be
        curve = _curve_of(self.curve)
        if curve is None:
            wanted = "a list of [streams, MB/s], streams ascending and all numbers above 0"
            raise refuse("curve", self.curve, wanted)
        # It is frozen, so they shall not change either; and they are Python's own.
        for setting, value in (
            ("bandwidth", bandwidth),
            ("max_in_flight", most),
            ("curve", curve),
        ):
            object.__setattr__(self, setting, value)

    @classmethod
    def discover(cls, path: str | os.PathLike[str], **settings: Any) -> Device:
        """The device that a path lies on, as far as its file system tells: a name (the last part of
        the mount point) and the scope, "shared" for NFS, Lustre and their like. Whether a FUSE file
        system is shared cannot be told: that is "node". What it moves, `ioweave measure` finds out.

        Args:
            path: of something that exists.
            settings: of Device; they go before what was discovered.

        Raises:
            OSError: there is no such path.
            ValueError: a setting is wrong.
        """
        folder = Path(path).resolve(strict=True)
        mount, kind = _mount_of(folder, _MOUNTINFO)
        shared = _core.is_shared_file_system(kind)
        found: dict[str, Any] = {
            "name": Path(mount).name or "root",
            "path": folder,
            "scope": "shared" if shared else "node",
        }
        return cls(**(found | settings))

    def is_on(self, node: str) -> bool:
        """Whether the node of this name has it."""
        return self.nodes is None or is_one_of(node, self.nodes)


@dataclass(frozen=True)
class Node:
    """Nodes of a described cluster, which `Runtime("sim://")` simulates.

    Attributes:
        name: of the node; of several, they are called name0, name1, ...
        count: how many are alike; None: one, which is called `name`.
        cores: of each.

    Raises:
        ValueError: a value out of bounds.
    """

    name: str
    count: int | None = field(default=None, kw_only=True)
    cores: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        _check_name("node", self.name)
        for setting, value in (("count", self.count), ("cores", self.cores)):
            if value is None and setting == "count":
                continue
            number = whole(value)
            if number is None or number < 1:
                raise ValueError(
                    f"node {self.name!r}: {setting} must be a whole number above 0, not {value!r}"
                )
            object.__setattr__(self, setting, number)

    @property
    def names(self) -> list[str]:
        """Of all that it stands for."""
        if self.count is None:
            return [self.name]
        return [f"{self.name}{number}" for number in range(self.count)]


def _check_name(kind: str, name: object) -> None:
    if not (isinstance(name, str) and name and name.isprintable()):
        raise ValueError(f"a {kind} needs a name, a text that can be printed, not {name!r}")


def devices_by_name(devices: Iterable[Device]) -> dict[str, Device]:
    """The devices that a runtime is given, by name.

    Raises:
        TypeError: one is no Device.
        ValueError: two have one name.
    """
    named: dict[str, Device] = {}
    for device in [None] if isinstance(devices, Device) else devices:
        if not isinstance(device, Device):
            raise TypeError(f"devices must be a list of ioweave.Device(...), not {devices!r}")
        if device.name in named:
            raise ValueError(f"device {device.name!r} is given twice")
        named[device.name] = device
    return named


def is_one_of(node: str, globs: Iterable[str]) -> bool:
    """Whether a node is meant by one of them, with or without its domain."""
    names = (node, node.partition(".")[0])
    return any(fnmatchcase(name, glob) for glob in globs for name in names)


def _mount_of(path: Path, mountinfo: Path) -> tuple[str, str]:
    """Mount point and file system type of an absolute path without links."""
    best = ("/", "")
    for line in mountinfo.read_text("utf-8", "surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        mount = _without_escapes(before.split()[4])
        # A later mount on the same place hides the earlier one.
        if path.is_relative_to(mount) and len(mount) >= len(best[0]):
            best = (mount, after.split()[0])
    return best


def _without_escapes(text: str) -> str:
    # The kernel writes blanks and backslashes as \ooo.
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def _curve_of(value: Any) -> tuple[tuple[float, float], ...] | None:
    """None if it is none."""
    try:
        points = [tuple(map(real, point)) for point in value]
    except TypeError:  # not to be iterated over
        return None
    curve: list[tuple[float, float]] = []
    last = 0.0
    for point in points:
        if len(point) != 2:
            return None
        streams, mb_per_s = point
        if streams is None or mb_per_s is None:
            return None
        if not (last < streams <= _MOST_STREAMS and 0 < mb_per_s < math.inf):
            return None
        curve.append((float(streams), float(mb_per_s)))
        last = streams
    return tuple(curve)
