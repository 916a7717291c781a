"""Files to measure on: of random bytes, and of what is installed on this machine."""

from __future__ import annotations

import os
import random
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

_BLOCK_BYTES = 4 << 20

#: The most a member takes besides its content (headers for long names, padding), and an archive
#: at its end (two blocks of zeros, padded to a record).
_TAR_HEADER_BYTES = 8 << 10
_TAR_TAIL_BYTES = 20 << 10

#: Where a machine keeps what is installed on it; taken in this order until there is enough.
INSTALLED = (Path("/usr/lib"), Path("/usr/bin"), Path("/usr/share"), Path("/usr"), Path("/opt"))


def random_file(path: Path, size: int) -> Path:
    """Makes a file of random bytes, written to the device.

    Random, since some devices below virtual machines compress or drop zeros; written, since reads
    of merely allocated blocks do not reach the device.
    """
    # Each block differs from the last, without the cost of new random bytes for each.
    block = bytearray(random.Random(size).randbytes(_BLOCK_BYTES))
    with path.open("wb") as file:
        for start in range(0, size, _BLOCK_BYTES):
            block[:8] = start.to_bytes(8, "little")
            file.write(memoryview(block)[: min(_BLOCK_BYTES, size - start)])
        file.flush()
        os.fsync(file.fileno())
    return path


def _regular_files(tops: Iterable[Path]) -> Iterator[Path]:
    for top in tops:
        for folder, folders, names in os.walk(top):
            folders.sort()
            for name in sorted(names):
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    yield path


def installed_tar(path: Path, wanted_bytes: int, tops: Iterable[Path] = INSTALLED) -> Path:
    """Makes a tar of this machine's installed files, of exactly the wanted size if there is enough.

    Does nothing if the file is there. Members that do not fit any more are passed over, and zeros
    fill up the rest, as tar allows; where less is installed, up to the next MiB. Written to the
    device, and under a temporary name until it is whole.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            _fill(archive, wanted_bytes - _TAR_TAIL_BYTES, tops)
        size = file.tell()
        enough = size > wanted_bytes - (2 << 20)
        file.write(bytes((wanted_bytes if enough else _next_mib(size)) - size))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return path


def _next_mib(size: int) -> int:
    return -(-size >> 20) << 20


def _fill(archive: tarfile.TarFile, limit_bytes: int, tops: Iterable[Path]) -> None:
    """Adds files until less than 1 MiB is left."""
    seen = set()
    for member in _regular_files(tops):
        try:
            after = archive.offset + member.stat().st_size + _TAR_HEADER_BYTES
            if member in seen or after > limit_bytes:
                continue
            archive.add(member, recursive=False)
        except OSError:
            continue  # unreadable to this user, or just removed
        seen.add(member)
        if archive.offset > limit_bytes - (1 << 20):
            return
