"""Tasks in an asyncio program: a future is awaited like anything else, and failures are handled.

python3 serve.py FOLDER
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import ioweave


@ioweave.io(policy="none", retries=1)
def load(path: Path) -> bytes:
    return path.read_bytes()


@ioweave.task
def count(text: bytes, word: bytes) -> int:
    return text.split().count(word)


async def answer(path: Path, word: bytes) -> str:
    try:
        return f"{path.name}: {await count(load(path), word)}"
    except ioweave.DependencyFailed as error:
        return f"{path.name}: {type(error.__cause__).__name__}"


async def serve(paths: list[Path]) -> list[str]:
    return await asyncio.gather(*(answer(path, b"sea") for path in paths))


def main(folder: Path) -> None:
    paths = [folder / name for name in ("one", "two", "missing")]
    paths[0].write_text("the sea and the sea")
    paths[1].write_text("no land")
    with ioweave.Runtime():
        print("\n".join(asyncio.run(serve(paths))))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
