"""Requests that stay in flight for as long as a test wants: reads of a pipe that nobody writes to.

`ioweave.File` refuses pipes; the descriptor below it lets io_uring read one.
"""

import os
import unittest

import ioweave
from ioweave import _core


class Gate:
    """A request reads into `buffer` until `open()` lets it end."""

    def __init__(self, test: unittest.TestCase) -> None:
        service = ioweave.Service()
        if service.engine != "io_uring":
            test.skipTest(f"only io_uring reads a pipe: {service.fallback_reason}")
        read_end, self._write_end = os.pipe()
        test.addCleanup(self.open)
        self.file = _core.Descriptor(read_end, service, "a pipe", False)

    def read(self, buffer: bytearray) -> ioweave.Request[int]:
        return ioweave.Request(self.file.apread_into(buffer, 0))

    def open(self, data: bytes = b"") -> None:
        """Ends all reads: one of them with `data`, the others at the end of the pipe."""
        if self._write_end >= 0:
            os.write(self._write_end, data)
            os.close(self._write_end)
            self._write_end = -1


def is_lent(buffer: bytearray) -> bool:
    """Returns whether something uses the memory of `buffer`."""
    try:
        buffer.append(0)
    except BufferError:
        return True
    buffer.pop()
    return False
