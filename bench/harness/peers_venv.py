"""The Python that has the peers of a benchmark, made when they are first wanted."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from harness import process
from harness.process import ProgramFailed
from harness.session import Session


def interpreter(session: Session, requirements: Path, venv: Path, peers: str) -> str | None:
    """The interpreter of `venv`, which holds the requirements; None where they cannot be had.

    That is noted: `peers` names who is left out.
    """
    python, stamp = venv / "bin/python", venv / "installed"
    wanted = requirements.read_text(encoding="utf-8")
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return str(python)
    session.progress(f"installing the peers into {venv}: minutes, the first time")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        process.run([sys.executable, "-m", "venv", "--clear", str(venv)])
        process.run([*pip, "--requirement", str(requirements)])
    except ProgramFailed as error:
        shutil.rmtree(venv, ignore_errors=True)
        session.note(f"{peers} are left out: {last_line(error)}")
        return None
    stamp.write_text(wanted, encoding="utf-8")
    return str(python)


def last_line(error: Exception) -> str:
    """What a program that failed said last."""
    return str(error).strip().splitlines()[-1]
