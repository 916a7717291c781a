"""The file to which a runtime writes the policy's event log.

When a write fails, on a full disk say, the log ends there and the program goes on. The failure is
logged once.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

_log = logging.getLogger("ioweave")


class LogFile:
    """Writes lines to a file. Not thread-safe: the runtime's lock guards it.

    Args:
        path: the file; what it held is overwritten.
        by_line: write each line to the file at once.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, by_line: bool = False) -> None:
        self._path = path
        self._file = Path(path).open("w", 1 if by_line else -1, encoding="utf-8")  # noqa: SIM115
        self._broken = False

    def write(self, line: str) -> None:
        if not self._broken:
            try:
                self._file.write(line + "\n")
            except OSError as error:
                self._cut_off(error)

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:  # the file is closed nevertheless
            if not self._broken:
                self._cut_off(error)

    def _cut_off(self, error: OSError) -> None:
        self._broken = True
        _log.error("the log %s is cut off: %s", self._path, error)
