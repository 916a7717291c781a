"""Blocks are computed step by step; checkpoints of them are written meanwhile.

    python3 checkpoint.py FOLDER [STEPS]

The I/O tasks take no CPU slot: the next step is computed while the last one is written. No more
than 450 / 150 = 3 checkpoints are written at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import ioweave

BLOCKS = 4


@ioweave.task
def advance(block: bytes, step: int) -> bytes:
    return bytes((byte + step) % 251 for byte in block)


@ioweave.io(bandwidth=150, device="scratch")
def checkpoint(block: bytes, path: Path) -> None:
    with path.open("wb") as file:
        file.write(block)
        file.flush()
        os.fsync(file.fileno())


def main(folder: Path, steps: int) -> None:
    blocks = [bytes([number]) * 100_000 for number in range(BLOCKS)]
    scratch = ioweave.Device("scratch", path=folder, bandwidth=450)
    with ioweave.Runtime(devices=[scratch]) as runtime:
        for step in range(steps):
            blocks = [advance(block, step) for block in blocks]
            for number, block in enumerate(blocks):
                checkpoint(block, folder / f"step{step}-block{number}")
        runtime.barrier()
        print(f"{runtime.stats().flows[0].bytes} bytes in {steps * BLOCKS} checkpoints")
    blocks = ioweave.wait(blocks)
    assert (folder / f"step{steps - 1}-block0").read_bytes() == blocks[0]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
