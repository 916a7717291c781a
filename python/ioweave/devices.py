"""Storage devices and the nodes that have them, as the user describes them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _core
from .numeric import real, whole

_MOUNTINFO = "/proc/self/mountinfo"


@dataclass(frozen=True)
class Device:
    """A storage target with a bandwidth budget.

    Attributes:
        name: the name for `@ioweave.io(device=...)`.
        path: a file or folder on the device, to measure its throughput; None: measured by what the
            process moves.
        bandwidth: the MB/s (10^6 bytes) that operations with a constraint share; 0: no budget.
        scope: "node", a budget on each node, or "shared", one budget of all nodes.
        max_in_flight: operations at once within the scope; 0: as many as there are I/O threads.
        nodes: the nodes that have the device, by name or glob (`*`, `?`, `[ab]`), with or without
            domain; None: all nodes.
        curve: the throughput with so many streams at once: points (streams, MB/s of all together)
            by ascending streams, as `ioweave measure --toml` prints them; for scope "node", of one
            node. `climb` begins there, and the simulation follows the curve. Empty: not known; the
            simulation then uses `bandwidth` for any number of streams.

    Raises:
        ValueError: a value is out of bounds.
    """

    name: str
    path: str | os.PathLike[str] | None = field(default=None, kw_only=True)
    bandwidth: float = field(default=0.0, kw_only=True)
    scope: str = field(default="node", kw_only=True)
    max_in_flight: int = field(default=0, kw_only=True)
    nodes: Sequence[str] | None = field(default=None, kw_only=True)
    curve: Sequence[tuple[float, float]] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        curve: Any = self.curve
        with contextlib.suppress(TypeError):  # not a list of points: the check reports it
            curve = tuple(map(tuple, curve))
        path = os.fspath(self.path) if isinstance(self.path, os.PathLike) else self.path
        given = vars(self) | {"path": path, "curve": curve}
        _core.check_device(_without_none(given, "path", "nodes"))
        # The device is frozen, so its values must not change either. They get Python's own types.
        for setting, value in (
            ("bandwidth", real(self.bandwidth)),
            ("max_in_flight", whole(self.max_in_flight)),
            ("nodes", None if self.nodes is None else tuple(self.nodes)),
            ("curve", tuple((float(streams), float(rate)) for streams, rate in curve)),
        ):
            object.__setattr__(self, setting, value)

    @classmethod
    def discover(cls, path: str | os.PathLike[str], **settings: Any) -> Device:
        """Returns the device of a path, with what its file system tells: a name (the last part of
        the mount point) and the scope, "shared" for NFS, Lustre and the like. The scope of a FUSE
        file system is "node", since it is not known whether it is shared. `ioweave measure` finds
        the throughput.

        Args:
            path: a path that exists.
            settings: settings of Device, which replace what was discovered.

        Raises:
            OSError: there is no such path.
            ValueError: a setting is wrong.
        """
        folder = Path(path).resolve(strict=True)
        mount, _, shared = _core.mount_of(folder, _MOUNTINFO)
        found: dict[str, Any] = {
            "name": Path(mount).name or "root",
            "path": folder,
            "scope": "shared" if shared else "node",
        }
        return cls(**(found | settings))

    def is_on(self, node: str) -> bool:
        """Returns whether the node of this name has the device."""
        return self.nodes is None or _core.is_one_of(node, self.nodes)


@dataclass(frozen=True)
class Node:
    """Nodes of a described cluster, which `Runtime("sim://")` simulates.

    Attributes:
        name: the name of the node; several nodes are called name0, name1, ...
        count: the number of such nodes; None: one node, which is called `name`.
        cores: the cores of each node.

    Raises:
        ValueError: a value is out of bounds.
    """

    name: str
    count: int | None = field(default=None, kw_only=True)
    cores: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        _core.check_node(_without_none(vars(self), "count"))
        object.__setattr__(self, "count", whole(self.count))
        object.__setattr__(self, "cores", whole(self.cores))

    @property
    def names(self) -> list[str]:
        """The names of all these nodes."""
        if self.count is None:
            return [self.name]
        return [f"{self.name}{number}" for number in range(self.count)]


def _without_none(settings: dict[str, Any], *optional: str) -> dict[str, Any]:
    return {
        name: value for name, value in settings.items() if value is not None or name not in optional
    }


def devices_by_name(devices: Iterable[Device]) -> dict[str, Device]:
    """Returns the devices that a runtime is given, by name.

    Raises:
        TypeError: one of them is no Device.
        ValueError: two of them have the same name.
    """
    named: dict[str, Device] = {}
    for device in [None] if isinstance(devices, Device) else devices:
        if not isinstance(device, Device):
            raise TypeError(f"devices must be a list of ioweave.Device(...), not {devices!r}")
        if device.name in named:
            raise ValueError(f"device {device.name!r} is given twice")
        named[device.name] = device
    return named
