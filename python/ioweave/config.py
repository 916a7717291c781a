"""Devices and nodes from `ioweave.toml`.

```toml
[[device]]
name = "scratch"
path = "/mnt/scratch"      # where to measure throughput; relative: in this file's folder
bandwidth = 450            # MB/s; left out: no budget
scope = "node"             # or "shared"
max_in_flight = 64         # left out: no limit
curve = [[1, 200.0], [8, 450.0], [64, 290.0]]  # streams, MB/s of all together
nodes = ["bb*"]            # names or globs of the nodes that have it; left out: all nodes

[[node]]                   # to simulate the cluster; real nodes need no description
name = "bb"
count = 2                  # bb0 and bb1; left out: one, called bb
cores = 48                 # left out: 1
```

The files are those of `ioweave run`: `./ioweave.toml`, the user's, the site's. A device in an
earlier file hides devices of the same name in later files. The nodes are those of the first file
that has any. Settings, rules and locks are for the command; other tables cause a warning.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import _core
from .devices import Device, Node

_log = logging.getLogger("ioweave")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean 'climb'?)` if a known word is near, otherwise an empty text."""
    near = _core.nearest_name(word, list(known))
    return f" (did you mean {near!r}?)" if near else ""


def load_devices(config: str | os.PathLike[str] | None = None) -> dict[str, Device]:
    """Returns the devices of the file `config`; None: of the usual files that exist.

    Raises:
        OSError: `config` cannot be read.
        ValueError: a file is not TOML, or a setting is wrong; the message names both.
    """
    devices, _, warnings = _read_description(config)
    for warning in warnings:
        _log.warning("%s", warning)
    return {settings["name"]: Device(**settings) for settings in devices}


def load_nodes(config: str | os.PathLike[str] | None = None) -> list[Node]:
    """Returns the nodes of the file `config`; None: of the first usual file that has any.

    Raises:
        OSError: `config` cannot be read.
        ValueError: a file is not TOML, or a setting is wrong; the message names both.
    """
    return [Node(**settings) for settings in _read_description(config)[1]]


def _read_description(
    config: str | os.PathLike[str] | None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    if config is None:
        return _core.read_description(None)
    return _core.read_description(str(Path(config).absolute()), str(config))
