"""Other libraries' I/O and files beside tasks, on one device: an array is saved by its own library
in its turn, and the next input is read ahead while no checkpoint is being written.

python3 beside.py FOLDER
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import ioweave

STEPS = 6
BYTES = 1 << 20

saves = ioweave.Flow("save", device="disk", bandwidth=50)
ahead = ioweave.Flow("ahead", device="disk", priority="prefetch")


@ioweave.task
def simulate(data: bytes) -> bytes:
    return bytes(reversed(data))


@ioweave.io(device="disk", bandwidth=50)
def checkpoint(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def save_by_library(data: bytes, path: Path) -> None:
    """Stands for HDF5, or whatever writes its files itself."""
    with path.open("wb") as file:
        pickle.dump(data, file)


def main(folder: Path) -> None:
    source = folder / "input"
    source.write_bytes(bytes(range(256)) * (STEPS * BYTES // 256))
    disk = ioweave.Device("disk", path=folder, bandwidth=100)  # room for two at once
    with ioweave.Runtime(devices=[disk]), ioweave.open(source, flow=ahead) as file:
        parts = [file.apread(BYTES, step * BYTES) for step in range(STEPS)]
        for step, part in enumerate(parts):
            result = simulate(part.result())
            checkpoint(result, folder / f"checkpoint.{step}")
            data = ioweave.wait(result)
            with saves.admitted(len(data)):
                save_by_library(data, folder / f"saved.{step}")
    saved = sum(path.stat().st_size >= BYTES for path in folder.glob("*.?"))
    print(saved, "files")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
