"""A numpy stencil writes checkpoints by a write stream: the next steps are computed meanwhile.

    python3 stream.py FOLDER [STEPS]

Each checkpoint is computed into memory of the stream, so that nothing is copied for it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ioweave
import numpy as np

POINTS = 512
EVERY = 5


def advance(plate: np.ndarray, out: np.ndarray) -> None:
    """Computes a Jacobi step into `out`: inner points become the mean of their neighbours."""
    out[:] = plate
    np.add(plate[:-2, 1:-1], plate[2:, 1:-1], out=out[1:-1, 1:-1])
    out[1:-1, 1:-1] += plate[1:-1, :-2]
    out[1:-1, 1:-1] += plate[1:-1, 2:]
    out[1:-1, 1:-1] *= 0.25


def advance_and_write(plate: np.ndarray, out: np.ndarray, file: ioweave.WriteStreamFile) -> None:
    """Computes a step into a lease, and into `out` for the next one."""
    with file.lease() as lease:  # waits only while all buffers are being written
        room = np.frombuffer(memoryview(lease), plate.dtype, plate.size).reshape(plate.shape)
        advance(plate, room)
        out[:] = room
        del room  # a lease with a view of it is not handed over
        lease.append(plate.nbytes)


def main(folder: Path, steps: int) -> None:
    plate = np.zeros((POINTS, POINTS))
    plate[0] = 1  # the upper edge is hot
    other = plate.copy()
    path = folder / "checkpoints"
    with ioweave.WriteStream(buffer_bytes=plate.nbytes) as stream:
        file = stream.create(path, expected_bytes=steps // EVERY * plate.nbytes)
        for step in range(1, steps + 1):
            if step % EVERY == 0:
                advance_and_write(plate, other, file)
            else:
                advance(plate, other)
            plate, other = other, plate
    written = np.fromfile(path).reshape(-1, POINTS, POINTS)  # it is on the device
    if steps % EVERY == 0:
        assert (written[-1] == plate).all()
    print(f"{len(written)} checkpoints, {written.nbytes} bytes")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
