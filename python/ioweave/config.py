"""Devices and nodes from `ioweave.toml`.

```toml
[[device]]
name = "scratch"
path = "/mnt/scratch"      # measures its throughput; in this file's folder if relative
bandwidth = 450            # MB/s; left out: no budget
scope = "node"             # or "shared"
max_in_flight = 64         # left out: no bound
curve = [[1, 200.0], [8, 450.0], [64, 290.0]]  # streams, MB/s of all together
nodes = ["bb*"]            # names or globs of the nodes that have it; left out: all

[[node]]                   # to simulate the cluster; real nodes are found by themselves
name = "bb"
count = 2                  # bb0 and bb1; left out: one, called bb
cores = 48                 # left out: 1
```

The files are those of `ioweave run`: `./ioweave.toml`, the user's, the site's. A device of that
name in an earlier one hides the later ones', and the nodes are those of the first file that has
any. Settings, rules and locks in them are the command's; of other tables a warning is logged.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .devices import Device, Node

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

_log = logging.getLogger("ioweave")
_KEYS = ("name", "path", "bandwidth", "scope", "max_in_flight", "nodes", "curve")
_NODE_KEYS = ("name", "count", "cores")
_TABLES = ("device", "node", "rule", "lock")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'climb'?)` where a known word is near, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def load_devices(config: str | os.PathLike[str] | None = None) -> dict[str, Device]:
    """The devices of the file `config`, or without one of the usual files that exist.

    Raises:
        OSError: `config` cannot be read.
        ValueError: a file is no TOML, or describes a device wrongly; it names file and setting.
    """
    if config is not None:
        return _read(Path(config))
    devices: dict[str, Device] = {}
    for path in _usual_files():
        for name, device in _read(path).items():
            devices.setdefault(name, device)
    return devices


def load_nodes(config: str | os.PathLike[str] | None = None) -> list[Node]:
    """The nodes of the file `config`, or without one of the first usual file that has any.

    Raises:
        OSError: `config` cannot be read.
        ValueError: a file is no TOML, or describes a node wrongly; it names file and setting.
    """
    for path in _usual_files() if config is None else [Path(config)]:
        nodes = [_node(path, table) for table in _tables(path, _parsed(path), "node")]
        if nodes:
            return nodes
    return []


def _usual_files() -> list[Path]:
    here = Path("ioweave.toml").absolute()
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    others = [Path(home) / "ioweave" / "ioweave.toml", Path("/etc/ioweave/ioweave.toml")]
    return [path for path in [here, *others] if path.is_file() and (path != here or _ours(path))]


def _ours(path: Path) -> bool:
    # To start a program in somebody's folder must not mean to obey them; as `ioweave run` has it.
    ours = path.stat().st_uid in (os.geteuid(), 0)
    if not ours:
        _log.warning("%s is ignored: it belongs neither to you nor to root", path)
    return ours


def _parsed(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not TOML: {error}") from error
    return document


def _tables(path: Path, document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    tables = document.get(kind, [])
    if not (isinstance(tables, list) and all(isinstance(table, dict) for table in tables)):
        raise ValueError(f"{path}: {kind}s are written as [[{kind}]] tables")
    return tables


def _check_keys(path: Path, kind: str, table: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise ValueError(
                f"{path}: {kind} {table.get('name', '?')!r}: unknown setting "
                f"{key!r}{did_you_mean(key, known)}"
            )
    if "name" not in table:
        raise ValueError(f"{path}: a [[{kind}]] has no name")


def _node(path: Path, table: dict[str, Any]) -> Node:
    _check_keys(path, "node", table, _NODE_KEYS)
    try:
        return Node(**table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read(path: Path) -> dict[str, Device]:
    document = _parsed(path)
    for name, value in document.items():
        if name not in _TABLES and isinstance(value, (dict, list)):  # as the command warns of it
            near = did_you_mean(name, _TABLES)
            _log.warning("%s: unknown setting %r is ignored%s", path, name, near)
    devices: dict[str, Device] = {}
    for table in _tables(path, document, "device"):
        device = _device(path, table)
        if device.name in devices:
            raise ValueError(f"{path}: device {device.name!r} is described twice")
        devices[device.name] = device
    return devices


def _device(path: Path, table: dict[str, Any]) -> Device:
    _check_keys(path, "device", table, _KEYS)
    try:
        device = Device(**table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if device.path is None:
        return device
    return Device(**{**table, "path": str(path.absolute().parent / device.path)})
