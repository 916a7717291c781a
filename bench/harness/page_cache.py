"""Takes files out of the page cache and checks that they are; no root needed.

posix_fadvise(DONTNEED) leaves dirty pages and pages somebody maps or reads just then, so the file
is written back first and what is left is counted afterwards: by cachestat (Linux 6.5), which looks
at the cache itself, else by mincore over a mapping.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

#: The same on every architecture we run on: it is younger than their common table.
_SYS_CACHESTAT = 451
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_libc.syscall.restype = ctypes.c_long


class StillCached(RuntimeError):
    """A file would not leave the page cache: the measurement would not be of cold reads."""


class _Range(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("length", ctypes.c_uint64)]


class _Counts(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    ]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _raise_errno(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")


def _pages_by_cachestat(descriptor: int) -> int | None:
    whole_file = _Range(0, 0)
    counts = _Counts()
    result = _libc.syscall(
        _SYS_CACHESTAT, descriptor, ctypes.byref(whole_file), ctypes.byref(counts), 0
    )
    if result == 0:
        return int(counts.cached)
    if ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP):
        _raise_errno("cachestat")
    return None


def _pages_by_mincore(descriptor: int, size: int) -> int:
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _MAP_FAILED:
        _raise_errno("mmap")
    try:
        residency = ctypes.create_string_buffer((size + mmap.PAGESIZE - 1) // mmap.PAGESIZE)
        if _libc.mincore(address, size, residency) != 0:
            _raise_errno("mincore")
        # The lowest bit of each byte tells; the others are reserved.
        return sum(byte & 1 for byte in residency.raw)
    finally:
        _libc.munmap(address, size)


def back_memory(size: int) -> None:
    """Touches so much free memory, at most half of what there is, and gives it back.

    The host of a virtual machine may have taken free memory away, and gives it again when it is
    touched. A run that meets such memory takes up to three times as long, and which run does is
    chance.
    """
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    size = min(size, free // 2)
    if size == 0:
        return
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1


def cached_bytes(path: Path) -> int:
    """How much of the file is in the page cache, in whole pages."""
    with _opened(path) as descriptor:
        size = os.fstat(descriptor).st_size
        if size == 0:
            return 0
        pages = _pages_by_cachestat(descriptor)
        if pages is None:
            pages = _pages_by_mincore(descriptor, size)
        return pages * mmap.PAGESIZE


def drop(path: Path, *, attempts: int = 20) -> None:
    """Writes the file back and takes it out of the page cache.

    Raises:
        StillCached: More than 1 % of it stays there, or more than 1 MiB.
    """
    with _opened(path) as descriptor:
        size = os.fstat(descriptor).st_size
        os.fsync(descriptor)
        for _ in range(attempts):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            left = cached_bytes(path)
            if left == 0:
                return
            # Pages in a processor's private list of recently used ones stay until it drains; so do
            # those a reader that was just killed still holds.
            time.sleep(0.05)
    if left > min(size // 100, 1 << 20):
        raise StillCached(
            f"{path}: {left >> 10} KiB of {size >> 10} KiB stay in the page cache "
            "(tmpfs keeps all; another program may be reading or mapping the file)"
        )


def warm(path: Path) -> None:
    """Reads the whole file once, so that it is in the page cache."""
    block = bytearray(8 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(block):
            pass


def half_warm(path: Path, *, stretch_bytes: int = 16 << 20) -> None:
    """Takes a file out of the page cache and brings every other stretch of it back.

    Raises:
        StillCached: It would not leave, or more or less than a half came.
    """
    drop(path)
    block = bytearray(1 << 20)
    with _opened(path) as descriptor:
        size = os.fstat(descriptor).st_size
        # Without read-ahead: only what is asked for is to come.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        for start in range(0, size, 2 * stretch_bytes):
            for offset in range(start, min(size, start + stretch_bytes), len(block)):
                os.preadv(descriptor, [block], offset)
    share = cached_bytes(path) / max(1, size)
    if size > 4 * stretch_bytes and not 0.4 <= share <= 0.6:
        raise StillCached(f"{path}: {share:.0%} of it is in the page cache, not a half")
