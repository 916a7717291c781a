"""Runs programs and measures them from outside: wall time, processor time, peak memory."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Nothing a benchmark starts takes this long, unless it hangs.
TIMEOUT_S = 600.0


class ProgramFailed(RuntimeError):
    """A program of a benchmark ended badly; the text has its command and its complaint."""


@dataclass(frozen=True)
class Finished:
    """A program that ended with status 0.

    Attributes:
        wall_s: From before it was started until it was seen to have ended.
        cpu_s: User and system time of the program and the children it waited for.
        peak_bytes: Largest resident set.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    stdout: str
    stderr: str

    def json_lines(self) -> list[dict[str, Any]]:
        """Standard output, read as one JSON object per line."""
        return [json.loads(line) for line in self.stdout.splitlines() if line]


def _ended_in_time(pid: int, timeout_s: float) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))
    finally:
        os.close(descriptor)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    environment: Mapping[str, str] | None = None,
    cpu: int | None = None,
    stdin: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Finished:
    """Runs a program to its end.

    Args:
        command: Program and arguments; no shell.
        environment: Variables on top of those of this process.
        cpu: The one processor to run on.
        stdin: A file for its standard input, which is empty otherwise.
        timeout_s: After that long the program and its children are killed.

    Raises:
        ProgramFailed: It could not be started, ended with another status than 0, or took too long.
    """
    words = [os.fspath(word) for word in command]
    if cpu is not None:
        words = ["taskset", "--cpu-list", str(cpu), *words]
    source = Path(os.devnull) if stdin is None else stdin
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        source.open("rb") as standard_input,
    ):
        start = time.perf_counter()
        try:
            # A group of its own: whatever it leaves behind when we give up goes with it.
            child = subprocess.Popen(
                words,
                stdin=standard_input,
                stdout=out,
                stderr=err,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        except OSError as error:
            raise ProgramFailed(f"cannot run {words[0]}: {error.strerror}") from error
        in_time = False
        try:
            in_time = _ended_in_time(child.pid, timeout_s)
        finally:
            if not in_time:
                _kill_group(child.pid)
            # wait4 rather than Popen.wait: it brings the resource usage of this child alone.
            _, status, usage = os.wait4(child.pid, 0)
            wall_s = time.perf_counter() - start
            child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        stderr = err.read().decode(errors="replace")
        if not in_time:
            raise ProgramFailed(f"{' '.join(words)}: killed after {timeout_s:g} s")
        if child.returncode != 0:
            raise ProgramFailed(f"{' '.join(words)}: status {child.returncode}\n{stderr}".rstrip())
        return Finished(
            wall_s=wall_s,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_bytes=usage.ru_maxrss * 1024,
            stdout=out.read().decode(errors="replace"),
            stderr=stderr,
        )


@contextlib.contextmanager
def signals_as_exits() -> Iterator[None]:
    """Turns SIGINT, SIGTERM and SIGHUP into SystemExit, so that every `finally` and `with` runs.

    While that unwinding goes on, further signals are ignored: clean-up is short, and half of it
    would leave mounts and control groups behind.
    """
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def leave(number: int, _frame: object) -> None:
        for other in wanted:
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
