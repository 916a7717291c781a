"""Pictures of the evaluation, where this Python can draw."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.session import Session

#: A name, and what draws it into a file.
Picture = tuple[str, Callable[[Path], None]]


def file_name(name: str) -> str:
    """Of a picture.

    >>> file_name("Hill, light I/O")
    'hill-light-i-o.png'
    """
    return f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.png"


def draw(session: Session, part: str, pictures: Sequence[Picture]) -> None:
    """Draws each as a PNG file of the results' folder `part`, or notes why there are none."""
    folder = session.results / part
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in pictures:
        try:
            make(folder / file_name(name))
        except ModuleNotFoundError as error:
            session.note(f"no pictures: {error}")
            return
    session.note(f"{len(pictures)} pictures in {folder}")
