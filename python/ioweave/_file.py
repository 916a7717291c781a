"""Files: reads and writes at an offset, blocking or in flight."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from ioweave import _core
from ioweave._blocks import Closing
from ioweave._request import Request
from ioweave._service import default_service

if TYPE_CHECKING:
    from ioweave._core import BufferLike
    from ioweave.flows import Flow

_MODES = {
    "r": os.O_RDONLY,
    "r+": os.O_RDWR,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "w+": os.O_RDWR | os.O_CREAT | os.O_TRUNC,
}


class File(Closing):
    """An open file, read and written at offsets: it has no position.

    `pread`, `pread_into`, `pwrite` and `fsync` block, without the GIL. Each has a second form with
    an `a` before its name, which returns a `Request` at once: `await` it, or ask for its
    `result()`. Any number of requests may be in flight; they end in any order.

    A buffer is anything with the buffer protocol (bytes, bytearray, memoryview, mmap, numpy arrays)
    in one C-contiguous block. It is not copied, so do not touch it while a request uses it.

    Any thread may call any method. After os.fork() the child can use the file as well; its requests
    are then carried out before the call returns.

    Args:
        path: The file; not a pipe, a socket or a terminal, which have no offsets.
        mode: "r", "r+" (read and write), "w" (write an empty or new file), "w+" (and read it).
        direct: Bypass the page cache (O_DIRECT). The address and length of buffers and the offset
            must then be multiples of the device's block, usually 4096 bytes; `mmap.mmap(-1, n)` is
            such a buffer.
        service: The service that moves the bytes; None: one that all such files share.
        flow: The flow of the file's reads and writes. Each takes its turn as an operation of this
            flow, blocking calls too. None: reads and writes start at once.

    Raises:
        OSError: The file cannot be opened.
        ValueError: There is no such mode, both service and flow are given, or the flow's device
            is not known.
    """

    def __init__(
        self,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        mode: str = "r",
        *,
        direct: bool = False,
        service: _core.Service | None = None,
        flow: Flow | None = None,
    ) -> None:
        if mode not in _MODES:
            known = ", ".join(repr(known) for known in _MODES)
            hint = "; to append, write at size()" if "a" in mode else ""
            raise ValueError(f"mode must be one of {known}, not {mode!r}{hint}")
        self._path = os.fspath(path)
        self._mode = mode
        self._flow = flow
        number = 0  # of the flow at the service
        if flow is not None:
            if service is not None:
                raise ValueError("a flow has a service of its own: leave service out")
            service, number = flow.place()
        service = service or default_service()
        fd = os.open(
            self._path, _MODES[mode] | os.O_CLOEXEC | (os.O_DIRECT if direct else 0), 0o666
        )
        # From here on the descriptor is closed with its owner, also where the next line raises.
        self._file = _core.Descriptor(fd, service, self._path, direct, number)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._path)
        self._file.size()  # refuses files without offsets

    @property
    def name(self) -> str | bytes:
        """The path, as it was given."""
        return self._path

    @property
    def mode(self) -> str:
        return self._mode

    @property
    def closed(self) -> bool:
        return self._file.closed

    def pread(self, n: int, offset: int) -> bytes:
        """Returns `n` bytes from `offset` on; fewer only at the end of the file.

        Raises:
            OSError: The read failed.
            ValueError: The file is closed, or a number is below 0. All methods raise this.
        """
        if self._flow is not None:
            self._flow.refuse_inside_task()
            return self.apread(n, offset).result()
        return self._file.pread(n, offset)

    def pread_into(self, buffer: BufferLike, offset: int) -> int:
        """Fills `buffer` from `offset` on. Returns the number of bytes, which is smaller than the
        buffer only at the end of the file.

        Raises:
            TypeError: `buffer` is no buffer, or it is read-only or not C-contiguous.
            OSError: The read failed.
        """
        if self._flow is not None:
            self._flow.refuse_inside_task()
            return self.apread_into(buffer, offset).result()
        return self._file.pread_into(buffer, offset)

    def pwrite(self, buffer: BufferLike, offset: int) -> int:
        """Writes all of `buffer` at `offset`. Returns the number of its bytes.

        Raises:
            TypeError: `buffer` is no buffer, or it is not C-contiguous.
            OSError: Not all of it could be written (ENOSPC, EFBIG, ...); a part may be written.
        """
        if self._flow is not None:
            self._flow.refuse_inside_task()
            return self.apwrite(buffer, offset).result()
        return self._file.pwrite(buffer, offset)

    def fsync(self, data_only: bool = False) -> None:
        """Waits until what was written is on the device.

        Args:
            data_only: Leave out what reading it again does not need, such as the time of change.
        """
        if self._flow is not None:
            self._flow.refuse_inside_task()
            self.afsync(data_only).result()
        else:
            self._file.fsync(data_only)

    def apread(self, n: int, offset: int) -> Request[bytes]:
        """Starts a `pread`."""
        return Request(self._file.apread(n, offset))

    def apread_into(self, buffer: BufferLike, offset: int) -> Request[int]:
        """Starts a `pread_into`."""
        return Request(self._file.apread_into(buffer, offset))

    def apwrite(self, buffer: BufferLike, offset: int) -> Request[int]:
        """Starts a `pwrite`."""
        return Request(self._file.apwrite(buffer, offset))

    def afsync(self, data_only: bool = False) -> Request[None]:
        """Starts an `fsync`. It does not wait for writes in flight: await those first."""
        return Request(self._file.afsync(data_only))

    def size(self) -> int:
        """Returns the size of the file in bytes."""
        return self._file.size()

    def truncate(self, n: int) -> None:
        """Makes the file `n` bytes long; added bytes read as zeros."""
        self._file.truncate(n)

    def fileno(self) -> int:
        """Returns the descriptor, which closes with the file."""
        return self._file.fileno()

    def close(self) -> None:
        """Waits for all requests in flight, then closes the file. Closing it twice is allowed.

        Raises:
            OSError: close(2) reports a lost write, as network file systems may.
        """
        self._file.close()

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<ioweave.File {self._path!r} mode={self._mode!r}{state}>"


def open(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    mode: str = "r",
    *,
    direct: bool = False,
    service: _core.Service | None = None,
    flow: Flow | None = None,
) -> File:
    """Opens a file; see `File`."""
    return File(path, mode, direct=direct, service=service, flow=flow)
