"""Write streams: results are written while the program computes the next ones."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ioweave import _core
from ioweave._blocks import Block
from ioweave._request import Request
from ioweave._service import default_service

if TYPE_CHECKING:
    from ioweave._core import BufferLike
    from ioweave.flows import Flow


@dataclass(frozen=True)
class WriteStreamStats:
    """What a stream did since it was opened. Times are nanoseconds.

    Attributes:
        buffers: How many there are.
        writes: Buffers handed over.
        written_bytes: Bytes of writes that have ended well.
        direct_bytes: Of these: past the page cache.
        dropped_bytes: Bytes of writes that failed, or were refused because their file had failed.
        lease_waits: How many leases and copies had to wait.
        lease_wait_ns: How long they waited together.
        return_ns: Time inside calls of the stream, without `durable_ns`.
        durable_ns: Time inside `sync()`, and inside `end()` that is durable.
        write_ns: Sum over buffers, from the start of their write to its end.
        syncs: Calls of fdatasync(2).
        most_in_use: Most buffers that were leased or written at once.
        huge_pages: Whether the kernel was asked for huge pages and did not refuse.
    """

    buffers: int
    writes: int
    written_bytes: int
    direct_bytes: int
    dropped_bytes: int
    lease_waits: int
    lease_wait_ns: int
    return_ns: int
    durable_ns: int
    write_ns: int
    syncs: int
    most_in_use: int
    huge_pages: bool


class _Writer(Block):
    """What a stream and its files share: the flow, and what ends a `with` block."""

    _flow: Flow | None

    def _finish(self) -> None:
        raise NotImplementedError

    def _refuse_inside_task(self) -> None:
        if self._flow is not None:
            self._flow.refuse_inside_task()

    def _leave(self, error: BaseException | None) -> None:
        try:
            self._finish()
        except OSError:
            if error is None:
                raise


class WriteStream(_Writer):
    """Writes results while the program computes the next ones.

        with ioweave.WriteStream() as stream:
            file = stream.create("result.bin")
            for step in range(steps):
                file.append(compute(step))  # copies, and returns at once
        # here all of it is on the device

    A stream has a fixed number of buffers. A call waits only while all of them are being written,
    so no more than `budget_bytes` of memory are in use. Any thread may call any method of a stream
    and of its files. No call holds the GIL while it waits.

    The end of a `with` block calls `close()`. An exception of the block goes on; an error of a
    write is dropped then, and spreads get no manifest. A stream that is never closed drops errors,
    too.

    Args:
        service: The service that moves the bytes; None: one that all such streams share.
        buffer_bytes: Size of a buffer, 4096 to 16 GiB, rounded up to 4096; 0: 4 MiB.
        budget_bytes: Memory of all buffers; 0: 8 buffers.
        depth: Most buffers that are written at once; 0: all.
        overflow: What happens when all buffers are in use. "block": the call waits. "fail": it
            raises BlockingIOError. "synchronous": it takes a buffer that is kept for this, whose
            write ends before the call that hands it over returns.
        path: "auto": past the page cache (O_DIRECT) where the file system allows that. "direct":
            `create()` raises where it does not. "buffered": through the page cache, and on to the
            device as early as possible.
        flow: The flow of the stream's writes. Each takes its turn as an operation of this flow.

    Raises:
        ValueError: An option is out of range; the text names it. Or both service and flow are
            given, or the flow's device is not known.
        MemoryError: The buffers do not fit in memory.
    """

    def __init__(
        self,
        service: _core.Service | None = None,
        *,
        buffer_bytes: int = 0,
        budget_bytes: int = 0,
        depth: int = 0,
        overflow: Literal["block", "fail", "synchronous"] = "block",
        path: Literal["auto", "direct", "buffered"] = "auto",
        flow: Flow | None = None,
    ) -> None:
        number = 0  # of the flow at the service
        if flow is not None:
            if service is not None:
                raise ValueError("a flow has a service of its own: leave service out")
            service, number = flow.place()
        self._flow = flow
        self._lock = threading.Lock()
        self._spreads: list[Spread] = []
        self._stream = _core.WriteStream(
            service or default_service(),
            buffer_bytes=buffer_bytes,
            budget_bytes=budget_bytes,
            depth=depth,
            overflow=overflow,
            path=path,
            flow=number,
        )

    def create(
        self,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        keep: bool = False,
        exclusive: bool = False,
        expected_bytes: int = 0,
    ) -> WriteStreamFile:
        """Creates a file, or empties one.

        Args:
            path: The file; a regular one.
            keep: Keep the bytes of a file that exists. `append()` writes behind them.
            exclusive: Raise FileExistsError if the file exists.
            expected_bytes: The size to be expected. Room is allocated at once, so that a full
                device is found out now; what was not written is cut off at the end.

        Raises:
            OSError: The file cannot be created, or there is no room for `expected_bytes`.
            ValueError: The stream is closed. All methods but `close()` raise this.
        """
        name = os.fspath(path)
        file = self._stream.create(name, os.fsencode(name), keep, exclusive, expected_bytes)
        return WriteStreamFile(file, name, self._flow)

    def spread(
        self,
        manifest: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        targets: Sequence[str | bytes | os.PathLike[str] | os.PathLike[bytes]],
        *,
        placement: Literal["round_robin", "load"] = "round_robin",
        on_failure: Literal["stop", "move"] = "stop",
        exclusive: bool = False,
        expected_bytes: int = 0,
    ) -> Spread:
        """Begins to write items to several devices.

            with stream.spread("run7.manifest", ["/disk1", "/disk2"]) as results:
                for step in range(steps):
                    results.append(compute(step))
            for item in ioweave.ReadStream("run7.manifest"):
                use(np.frombuffer(item))

        Args:
            manifest: The file that will say where each item lies. It gets its name at the end of
                the spread; one that exists is removed now, since its data are overwritten.
            targets: 1 to 1024 folders, each of which gets a file, or the paths of such files.
            placement: "round_robin": the targets take turns. "load": each item goes to the target
                that is likely to have written it first, so a slow one gets less.
            on_failure: "stop": when a target fails, its items that were not written are lost, later
                ones are refused, and the manifest says which are there. "move": the other targets
                take its items, and go on.
            exclusive: Raise FileExistsError if the manifest or a data file exists.
            expected_bytes: Of all items together: room for them is allocated at once.

        Raises:
            OSError: A file cannot be created, or another spread is writing that manifest.
            ValueError: An argument is out of range, two targets are the same file, or the stream is
                closed.
        """
        name = os.fspath(manifest)
        spread = Spread(
            _core.Spread(
                self._stream,
                name,
                os.fsencode(name),
                [os.fsencode(target) for target in targets],
                placement,
                on_failure,
                exclusive,
                expected_bytes,
            ),
            name,
            self._flow,
        )
        with self._lock:
            self._spreads = [one for one in self._spreads if not one.ended] + [spread]
        return spread

    def flush(self) -> None:
        """Waits until everything that was written so far is in the hands of the kernel.

        Raises:
            OSError: A write failed; `errno`, `filename` and the text say where. Each error is
                raised once: by this, by a call on the file, or by `close()`.
        """
        self._refuse_inside_task()
        self._stream.flush()

    def sync(self) -> None:
        """As `flush()`, and waits until it is on the device (fdatasync), all files side by side."""
        self._refuse_inside_task()
        self._stream.sync()

    def close(self, durable: bool = True) -> None:
        """Ends all spreads and files. Closing a stream twice is allowed.

        Args:
            durable: Sync the files first, so that they survive a failure of the machine.

        Raises:
            OSError: The first error that was not raised yet. The stream is closed all the same.
        """
        first = None
        for end in (*(spread.end for spread in self._spreads), self._stream.close):
            try:
                end(durable)
            except OSError as error:
                first = first or error
        if first is not None:
            raise first

    def _finish(self) -> None:
        self.close()

    def _leave(self, error: BaseException | None) -> None:
        if error is not None:
            for spread in self._spreads:
                spread.abandon()
        super()._leave(error)

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def stats(self) -> WriteStreamStats:
        """Returns what the stream did since it was opened."""
        return WriteStreamStats(**self._stream.stats())

    def __repr__(self) -> str:
        return f"<ioweave.WriteStream{' closed' if self.closed else ''}>"


class _Leaser(_Writer):
    """What takes leases of a stream."""

    _taker: _core.LeaseTaker

    def lease(self, timeout: float | None = None) -> _core.Lease:
        """Returns a buffer of the stream to fill in place, so that nothing is copied.

            with file.lease() as lease:
                numpy.copyto(numpy.frombuffer(lease, dtype=float)[:n], ...)
                lease.append(n * 8)

        A signal such as Ctrl-C ends the wait for a buffer.

        Args:
            timeout: In seconds; None: for ever.

        Raises:
            TimeoutError: All buffers were in use for so long.
            BlockingIOError: The same with overflow="fail", at once.
        """
        self._refuse_inside_task()
        return self._taker.lease(timeout)

    def alease(self) -> Request[_core.Lease]:
        """Starts a `lease()`: `await` it, or ask for its `result()`. It takes its place in line
        now. A request that is dropped or cancelled gives it up."""
        return Request(self._taker.alease())


class WriteStreamFile(_Leaser):
    """A file of a write stream, from `WriteStream.create()`.

    Writes are carried out in any order. Two writes of overlapping ranges need a `flush()` between
    them. When a write has failed, the error is raised once by one of the next calls; later writes
    raise OSError with ECANCELED, and nothing of them is written.
    """

    def __init__(self, file: _core.StreamFile, name: str | bytes, flow: Flow | None) -> None:
        self._file = self._taker = file
        self._name = name
        self._flow = flow

    @property
    def name(self) -> str | bytes:
        """The path, as it was given."""
        return self._name

    @property
    def ended(self) -> bool:
        """Whether it has ended, by `end()` or with its stream."""
        return self._file.ended

    def append(self, data: BufferLike) -> None:
        """Copies `data`, to be written behind everything that was appended before.

        Small pieces are gathered into one buffer, which is written when it is full, or with the
        next `flush()`, `sync()` or end.

        Args:
            data: Bytes, or any buffer in one C-contiguous block. It may change after the call.

        Raises:
            TypeError: `data` is no buffer, or it is not C-contiguous.
            BlockingIOError: With overflow="fail": there are not enough free buffers. Nothing of
                `data` was taken.
            OSError: An earlier write to the file failed. ENOBUFS, with overflow="fail": `data` is
                larger than all buffers. Nothing of it was taken.
            ValueError: The file has ended. All methods but `end()` raise this.
        """
        self._refuse_inside_task()
        self._file.append(data)

    def write(self, data: BufferLike, offset: int) -> None:
        """As `append()`, but writes at an offset in bytes. It raises ValueError below 0."""
        self._refuse_inside_task()
        self._file.write(data, offset)

    def flush(self) -> None:
        """Waits until what was written to the file is in the hands of the kernel.

        Raises:
            OSError: A write failed, which was not raised yet; or ECANCELED, if it was.
        """
        self._refuse_inside_task()
        self._file.flush()

    def sync(self) -> None:
        """As `flush()`, and waits until it is on the device (fdatasync)."""
        self._refuse_inside_task()
        self._file.sync()

    def end(self, durable: bool = True) -> None:
        """Writes what is left and closes the file. Ending it twice is allowed.

        Args:
            durable: Sync it first.

        Raises:
            OSError: A write failed, and that was not raised yet. The file has ended all the same.
        """
        self._file.end(durable)

    def _finish(self) -> None:
        self.end()

    def __repr__(self) -> str:
        return f"<ioweave.WriteStreamFile {self._name!r}{' ended' if self.ended else ''}>"


@dataclass(frozen=True)
class SpreadStats:
    """What became of the items of a spread so far.

    Attributes:
        targets: How many there are.
        failed_targets: How many of them failed.
        items: How many were appended.
        nbytes: Bytes of these items.
        moved_items: How often another target took an item that one failed to write.
        lost_items: Items that no target could write.
    """

    targets: int
    failed_targets: int
    items: int
    nbytes: int
    moved_items: int
    lost_items: int


class Spread(_Leaser):
    """Items of a write stream on several devices, from `WriteStream.spread()`.

    An item is what one call appends, at most a buffer of the stream. Items are numbered from 0 in
    the order of the calls. The end of a `with` block calls `end()`, unless it is left by an
    exception: then it calls `abandon()`, and there is no manifest.

    A lease of a spread returns the number of the item from `append()`, and has no `write()`.
    """

    def __init__(self, spread: _core.Spread, name: str | bytes, flow: Flow | None) -> None:
        self._spread = self._taker = spread
        self._name = name
        self._flow = flow

    @property
    def name(self) -> str | bytes:
        """The path of the manifest, as it was given."""
        return self._name

    @property
    def ended(self) -> bool:
        """Whether it has ended, or its stream."""
        return self._spread.ended

    def append(self, data: BufferLike) -> int:
        """Copies `data` into a buffer, to be written as the next item. Returns its number.

        Args:
            data: Bytes, or any buffer in one C-contiguous block. It may change after the call.

        Raises:
            TypeError: `data` is no buffer, or it is not C-contiguous.
            BlockingIOError: All buffers are in use, with overflow="fail".
            OSError: An earlier write failed, or `data` is larger than a buffer (EINVAL).
            ValueError: The spread has ended.
        """
        self._refuse_inside_task()
        return self._spread.append(data)

    def end(self, durable: bool = True) -> None:
        """Waits until all items are written, and writes the manifest. Twice is allowed.

        Args:
            durable: Sync files and manifest, so that they survive a failure of the machine.

        Raises:
            OSError: A write failed, and that was not raised yet, or the manifest cannot be written.
                The spread has ended all the same. With on_failure="stop" the manifest lists what
                was written.
        """
        self._spread.end(durable)

    def abandon(self) -> None:
        """Ends it without a manifest. After `end()` it does nothing."""
        self._spread.abandon()

    def stats(self) -> SpreadStats:
        """Returns what became of the items so far. ValueError: the spread has ended."""
        return SpreadStats(**self._spread.stats())

    def _leave(self, error: BaseException | None) -> None:
        if error is None:
            self.end()
        else:
            self.abandon()

    def __repr__(self) -> str:
        return f"<ioweave.Spread {self._name!r}{' ended' if self.ended else ''}>"
