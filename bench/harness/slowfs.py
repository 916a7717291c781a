"""Mounts bench/slowfs: a file system with a set bandwidth and latency over a real directory."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.process import ProgramFailed

READY_TIMEOUT_S = 10.0
#: Requests at once that a device with an efficiency tells apart.
MOST_STREAMS = 512


class SlowfsUnavailable(RuntimeError):
    """This machine or user cannot mount it; the text says why, and who can mend it."""


@dataclass(frozen=True)
class Speed:
    """The emulated device.

    Attributes:
        read_mb_s: Bandwidth in MB/s (10^6 bytes); reads and writes share it.
        write_mb_s: The same for writes.
        latency_us: Of every data request.
        efficiency: The part of the bandwidth that a number of streams get together, as points;
            empty: all of it, whatever the number.
    """

    read_mb_s: float
    write_mb_s: float
    latency_us: int
    efficiency: tuple[tuple[float, float], ...] = ()

    def options(self) -> list[str]:
        """Those of ioweave-slowfs."""
        words = [
            f"--read-mb-s={self.read_mb_s:g}",
            f"--write-mb-s={self.write_mb_s:g}",
            f"--latency-us={self.latency_us}",
        ]
        if self.efficiency:
            points = ",".join(f"{streams:g}:{part:g}" for streams, part in self.efficiency)
            # Requests that wait in the kernel are no streams: as many as there may be I/O threads.
            words += [f"--efficiency={points}", f"--max-background={MOST_STREAMS}"]
        return words


@dataclass(frozen=True)
class Mounted:
    """A slowfs in place. What is done below `source` is done at full speed."""

    source: Path
    mountpoint: Path


def _wait_until_ready(ready: int, server: subprocess.Popen[bytes]) -> bool:
    readable, _, _ = select.select([ready], [], [], READY_TIMEOUT_S)
    return bool(readable) and os.read(ready, 1) != b"" and server.poll() is None


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(READY_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


@contextlib.contextmanager
def mounted(
    program: Path,
    source: Path,
    mountpoint: Path,
    speed: Speed,
    *,
    discard: bool = False,
    many_requests: bool = False,
) -> Iterator[Mounted]:
    """Mounts `source` at `mountpoint`, both existing directories, for the time of the block.

    With `discard` files keep the length of what is written to them, and not the bytes. With
    `many_requests` the kernel sends up to `MOST_STREAMS` requests in the background at once.

    Raises:
        SlowfsUnavailable: No FUSE here, or not for this user.
    """
    if not Path("/dev/fuse").exists():
        raise SlowfsUnavailable(
            "no /dev/fuse here (modprobe fuse; in a container --device /dev/fuse)"
        )
    ready, announce = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, ready)
        complaint = stack.enter_context(tempfile.TemporaryFile())
        command = [
            str(program),
            "--foreground",
            f"--ready-fd={announce}",
            *speed.options(),
            *(["--discard"] if discard else []),
            *([f"--max-background={MOST_STREAMS}"] if many_requests else []),
            str(source),
            str(mountpoint),
        ]
        try:
            # A session of its own: an interrupt from the terminal must reach us first.
            server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaint,
                pass_fds=[announce],
                start_new_session=True,
            )
        except OSError as error:
            raise ProgramFailed(f"cannot run {program}: {error.strerror}") from error
        finally:
            os.close(announce)
        stack.callback(_stop, server)
        if not _wait_until_ready(ready, server):
            _stop(server)
            complaint.seek(0)
            raise SlowfsUnavailable(complaint.read().decode(errors="replace").strip())
        yield Mounted(source, mountpoint)
