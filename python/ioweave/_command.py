"""Starts the command `ioweave`, which lies inside the package with the libraries it preloads."""

import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    """Replaces this process by the command."""
    command = Path(__file__).parent / "bin/ioweave"
    try:
        os.execv(command, [str(command), *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"ioweave: {command}: {error.strerror}. Install the package again: pip install ioweave"
        )
