"""The file that a runtime writes the policy's event log to.

What a full disk refuses costs the log its end and the program nothing: that is logged, once.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

_log = logging.getLogger("ioweave")


class LogFile:
    """Not thread-safe: the runtime's lock guards it.

    Args:
        path: is written anew.
        by_line: each line goes to the file at once.

    Raises:
        OSError: it cannot be opened.
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
                self._give_up(error)

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:  # it is closed all the same
            if not self._broken:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        _log.error("the log %s is cut off: %s", self._path, error)
