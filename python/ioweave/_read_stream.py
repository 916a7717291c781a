"""Read streams: items are read while the program works on the ones before."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ioweave import _core
from ioweave._blocks import Closing
from ioweave._service import default_service

if TYPE_CHECKING:
    from typing_extensions import Self

    from ioweave.flows import Flow


@dataclass(frozen=True)
class ReadStreamStats:
    """What a stream has to read, and did. Times are nanoseconds.

    Attributes:
        buffers: How many there are.
        buffer_bytes: Size of each.
        items: All there are, lost ones included.
        lost_items: Items that the manifest lists as lost.
        nbytes: Bytes of all others.
        largest_item: Bytes of the largest one.
        reads: Buffers filled, or tried.
        read_bytes: Bytes that were read.
        direct_bytes: Of these: past the page cache.
        waits: Calls of `next()` that had to wait.
        wait_ns: How long they waited together.
        read_ns: Sum over buffers, from the start of a read to its end.
        most_reading: Most buffers that were read into at once.
        huge_pages: Whether the kernel was asked for huge pages and did not refuse.
    """

    buffers: int
    buffer_bytes: int
    items: int
    lost_items: int
    nbytes: int
    largest_item: int
    reads: int
    read_bytes: int
    direct_bytes: int
    waits: int
    wait_ns: int
    read_ns: int
    most_reading: int
    huge_pages: bool


class ReadStream(Closing):
    """Reads items in their order, and the next ones while the program works on this one.

        with ioweave.ReadStream("run7.manifest") as results:
            for item in results:
                use(np.frombuffer(item))

    It is for the items of a spread, from all its devices at the same time, and by
    `ReadStream.files()` for plain files, block by block. The loop yields leases: buffers whose
    memory is read into again when they are released. The loop releases each of them when it goes
    on, unless a view of it is in use, such as a variable that holds an array on it: then the lease
    lasts as long as the view. Copy what you keep, `bytes(item)`: a stream whose buffers are all in
    use waits for ever (Ctrl-C ends the wait).

    Any thread may call any method; each lease goes to one of them. No call holds the GIL while it
    waits.

    Args:
        manifest: The file that `WriteStream.spread()` wrote.
        service: The service that moves the bytes; None: one that all such streams share.
        buffer_bytes: Most bytes of a lease, 4096 to 16 GiB; 0: the largest item, at most 512 MiB.
            A larger item comes in pieces: `item`, `offset` and `item_nbytes` of a lease say which.
        budget_bytes: Memory of all buffers; 0: 8 buffers, but at most 1 GiB where two fit.
        path: "auto": past the page cache (O_DIRECT) where the file system allows that. "direct":
            items of other files are errors. "buffered": through the page cache.
        flow: The flow of the stream's reads.
        relative_only: Refuse a manifest that names files by absolute paths. Take it for a manifest
            from somebody who should not choose what is read.

    Raises:
        OSError: The manifest cannot be read.
        ValueError: It is no complete manifest, or an option is out of range; the text names what.
    """

    def __init__(
        self,
        manifest: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        service: _core.Service | None = None,
        *,
        buffer_bytes: int = 0,
        budget_bytes: int = 0,
        path: Literal["auto", "direct", "buffered"] = "auto",
        flow: Flow | None = None,
        relative_only: bool = False,
    ) -> None:
        name = os.fspath(manifest)
        self._open(
            name, [name], False, service, buffer_bytes, budget_bytes, path, flow, relative_only
        )

    @classmethod
    def files(
        cls,
        paths: Sequence[str | bytes | os.PathLike[str] | os.PathLike[bytes]],
        service: _core.Service | None = None,
        *,
        buffer_bytes: int = 0,
        budget_bytes: int = 0,
        path: Literal["auto", "direct", "buffered"] = "auto",
        flow: Flow | None = None,
    ) -> Self:
        """Reads 1 to 65536 plain files, each of which is an item.

        Args:
            paths: The files; regular ones.
            service: As for a manifest, like what follows.
            buffer_bytes: Most bytes of a lease; 0: 4 MiB.
            budget_bytes: Memory of all buffers; 0: 8 buffers.
            path: "direct" raises here where a file system does not allow it.
            flow: The flow of the stream's reads.

        Raises:
            OSError: A file cannot be opened.
            ValueError: A path is no regular file, or an option is out of range.
        """
        stream = cls.__new__(cls)
        names = [os.fspath(one) for one in paths]
        shown = names[0] if len(names) == 1 else None
        stream._open(shown, names, True, service, buffer_bytes, budget_bytes, path, flow, False)
        return stream

    def _open(
        self,
        shown: str | bytes | None,
        names: Sequence[str | bytes],
        files: bool,
        service: _core.Service | None,
        buffer_bytes: int,
        budget_bytes: int,
        path: str,
        flow: Flow | None,
        relative_only: bool,
    ) -> None:
        number = 0  # of the flow at the service
        if flow is not None:
            if service is not None:
                raise ValueError("a flow has a service of its own: leave service out")
            service, number = flow.place()
        self._flow = flow
        self._shown = shown
        self._stream = _core.ReadStream(
            service or default_service(),
            shown,
            [os.fsencode(name) for name in names],
            files,
            buffer_bytes=buffer_bytes,
            budget_bytes=budget_bytes,
            path=path,
            flow=number,
            relative_only=relative_only,
        )

    def next(self, timeout: float | None = None) -> _core.ReadLease | None:
        """Returns a lease with what comes next, None behind the last item.

        A signal such as Ctrl-C ends the wait. Nothing is skipped then.

        Args:
            timeout: In seconds; None: for ever.

        Raises:
            TimeoutError: It has not been read within the time.
            OSError: It cannot be read; the text names item, file and offset. ENODATA: the item was
                lost when it was written, or its file is too short. The next call goes on behind it.
            ValueError: The stream is closed.
        """
        if self._flow is not None:
            self._flow.refuse_inside_task()
        return self._stream.next(timeout)

    def __iter__(self) -> Iterator[_core.ReadLease]:
        """Yields all that comes. An OSError ends a `for` loop; a new loop goes on behind it."""
        while (lease := self.next()) is not None:
            yield lease
            lease.release_unless_viewed()
            del lease  # it may be kept by a view, which must be the last to do so

    def close(self) -> None:
        """Closes it. Leases stay usable until they are released. Twice is allowed."""
        self._stream.close()

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def stats(self) -> ReadStreamStats:
        """Returns what there is to read, and was read so far."""
        return ReadStreamStats(**self._stream.stats())

    def __repr__(self) -> str:
        shown = "" if self._shown is None else f" {self._shown!r}"
        return f"<ioweave.ReadStream{shown}{' closed' if self.closed else ''}>"
