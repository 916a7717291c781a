"""What the three workflows have in common: options, modes of checkpointing, and the report."""

from __future__ import annotations

import argparse
import dataclasses
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ioweave
from ioweave.constraints import constraint_of
from ioweave.records import TaskRecord

MB = 1_000_000
DEVICE = "checkpoints"
_PIECE = 1 << 20
_BLOCK = 4096  # O_DIRECT moves whole ones


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all have."""
    made = argparse.ArgumentParser(
        description=(description or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    made.add_argument(
        "--mode",
        type=_mode,
        default="climb",
        help="how checkpoint tasks run: non-aware, unconstrained, MB/s, auto, auto(min,max,delta) "
        "or climb",
    )
    made.add_argument(
        "--checkpoints", type=Path, metavar="FOLDER", help="on the device to write to (a new one)"
    )
    made.add_argument("--bandwidth", type=float, default=0, help="the device's budget in MB/s")
    made.add_argument("--checkpoint-mb", type=float, default=4, help="size of a checkpoint in MB")
    made.add_argument(
        "--direct", action="store_true", help="write past the page cache, as disk limits need it"
    )
    made.add_argument("--cpus", type=int, default=os.cpu_count(), help="cores for computing tasks")
    made.add_argument("--io-threads", type=int, default=225, help="I/O tasks at once, at most")
    made.add_argument("--work", type=Path, metavar="FOLDER", help="for inputs and results (new)")
    made.add_argument("--log", type=Path, metavar="FILE", help="write the policy's event log")
    made.add_argument("--seed", type=int, default=1, help="of random inputs")
    return made


def _mode(text: str) -> str:
    if text not in ("non-aware", "unconstrained", "climb"):
        try:
            constraint_of(text, None)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return text


def io_task(mode: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator of checkpoint tasks in this mode."""
    if mode == "non-aware":
        return ioweave.task(cpus=1)
    if mode == "unconstrained":
        return ioweave.io(policy="none", device=DEVICE, bytes=_bytes)
    if mode == "climb":
        return ioweave.io(policy="climb", device=DEVICE, bytes=_bytes)
    return ioweave.io(bandwidth=mode, device=DEVICE, bytes=_bytes)


def _bytes(path: Path, content: object, size: int) -> int:
    return size


def write_checkpoint(path: Path, content: bytes, size: int, direct: bool = False) -> None:
    """Writes `size` bytes, the content again and again, and returns when they are on the device.

    With `direct` they pass the page cache by, and are as many more as fill the last block.
    """
    piece = mmap.mmap(-1, _PIECE)  # O_DIRECT wants memory that begins at a page
    if content:
        piece.write((content * (_PIECE // len(content) + 1))[:_PIECE])
    left = -(-size // _BLOCK) * _BLOCK if direct else size
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | (os.O_DIRECT if direct else 0)
    file = os.open(path, flags, 0o666)
    try:
        with memoryview(piece) as view:
            while left > 0:
                left -= os.write(file, view[: min(left, _PIECE)])
        os.fsync(file)
    finally:
        os.close(file)
        piece.close()


def run_tool(*command: object, stdout: Path | None = None) -> None:
    """Runs a program; RuntimeError with its words where it fails."""
    words = [str(word) for word in command]
    with (stdout or Path(os.devnull)).open("wb") as output:
        ran = subprocess.run(words, stdout=output, stderr=subprocess.PIPE, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {ran.stderr.decode(errors='replace')[-500:]}")


def need(*tools: str, packages: str) -> None:
    """Ends the program where a tool is missing, with the way to it."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        sys.exit(f"missing: {', '.join(missing)}; on Debian: apt-get install {packages}")


@dataclasses.dataclass
class Folders:
    """Where a run works; both are its own."""

    work: Path
    checkpoints: Path


@contextmanager
def folders(options: argparse.Namespace) -> Iterator[Folders]:
    """New folders below those that were given, or temporary ones; removed at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="work-", dir=options.work) as work,
        tempfile.TemporaryDirectory(prefix="checkpoints-", dir=options.checkpoints) as checkpoints,
    ):
        yield Folders(Path(work), Path(checkpoints))


def run(options: argparse.Namespace, where: Folders, flow: Callable[[], Any]) -> dict[str, Any]:
    """Runs the workflow in a runtime. What it took, and what lies on the device."""
    device = ioweave.Device(DEVICE, path=where.checkpoints, bandwidth=options.bandwidth)
    began = time.perf_counter()
    with ioweave.Runtime(
        cpus=options.cpus,
        io_threads=options.io_threads,
        devices=[device],
        log=options.log,
        records=True,
    ) as runtime:
        result = flow()
        ioweave.barrier()
        seconds = time.perf_counter() - began
        stats = dataclasses.asdict(runtime.stats())
        records = runtime.records()
    sizes = [path.stat().st_size for path in where.checkpoints.iterdir()]
    return {
        "mode": options.mode,
        "seconds": seconds,
        # Of all calls together, those of non-aware runs too, where checkpoints are computing tasks.
        "computing_s": sum(r.end_s - r.start_s for r in records if not _writes(r)),
        "writing_s": sum(r.end_s - r.start_s for r in records if _writes(r)),
        "result": result,
        "checkpoints": len(sizes),
        "checkpoint_bytes": sum(sizes),
        "stats": stats,
    }


def _writes(record: TaskRecord) -> bool:
    return record.task.startswith("checkpoint")


def report(outcome: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    print(json.dumps(outcome, indent=1, default=str))
