"""The run file of a Python runtime: what became of its calls, and why (docs/run-file.md).

`Runtime(run_file="run.jsonl")` writes it and `read("run.jsonl")` reads it. The schema is that of
the run files of `ioweave run`, so every reader of those can read it, too.

A `Recorder` takes the calls as they end. It packs them (45 bytes each) until there are enough for a
block, or a second has passed. The thread that ended the last of them writes the block, without the
runtime's lock. So memory does not grow with the number of calls, unless records are to be kept. The
file is called `FILE.part` until it is complete, and is then renamed. A file that is cut off keeps
that name.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import io
import json
import logging
import os
import resource
import struct
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._core import mounts, this_machine, version
from .arguments import printable
from .devices import Device
from .records import TaskRecord

_log = logging.getLogger("ioweave")

SCHEMA = "ioweave.run/2"
_READ_SCHEMAS = (SCHEMA, "ioweave.run/1")
_CALL = struct.Struct("<IIdddqB")  # task, node, ready_s, start_s, end_s, bytes, failed
_BLOCK = 1024  # calls
_PERIOD_S = 1.0  # a block is written after so long even if it is not full


class Union:
    """The time that at least one of many intervals covers.

    Memory grows with the number of gaps. Beyond `most` gaps the shortest are closed, as if the
    moment between two short tasks belonged to them.
    """

    def __init__(self, most: int = 1 << 16) -> None:
        self._most = most
        self._closed = 0.0  # gaps up to this length are closed
        self._merged: list[tuple[float, float]] = []
        self._new: list[tuple[float, float]] = []

    def add(self, start: float, end: float) -> None:
        self._new.append((start, end))
        if len(self._new) > max(4096, len(self._merged)):
            self.intervals()

    def intervals(self) -> list[tuple[float, float]]:
        """Returns the covered intervals: disjoint, in order."""
        if self._new:
            self._new += self._merged
            self._new.sort()
            self._merged, self._new = self._join_intervals(self._new), []
            while len(self._merged) > self._most:
                self._closed = max(1e-6, 2 * self._closed)
                self._merged = self._join_intervals(self._merged)
        return self._merged

    def _join_intervals(self, intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
        joined: list[tuple[float, float]] = []
        begin = end = -1.0
        for start, stop in intervals:
            if stop <= start:
                continue
            if start > end + self._closed or end < 0:
                if end >= 0:
                    joined.append((begin, end))
                begin, end = start, stop
            elif stop > end:
                end = stop
        if end >= 0:
            joined.append((begin, end))
        return joined

    def seconds(self) -> float:
        return sum(end - start for start, end in self.intervals())

    def seconds_with(self, other: Union) -> float:
        """Returns the seconds that this and the other both cover."""
        ours, theirs = self.intervals(), other.intervals()
        i = j = 0
        both = 0.0
        while i < len(ours) and j < len(theirs):
            both += max(0.0, min(ours[i][1], theirs[j][1]) - max(ours[i][0], theirs[j][0]))
            if ours[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return both


@dataclass
class _Totals:
    """The sums over the calls of a task; the task has a device if it does I/O."""

    name: str
    device: str | None
    calls: int = 0
    failed: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def line_head(self) -> str:
        device = "" if self.device is None else f'"device":{json.dumps(self.device)},'
        return f'{{"type":"call","task":{json.dumps(self.name)},{device}"node":'


class Recorder:
    """Records what became of the calls of a runtime. Any thread may use it.

    Args:
        path: the run file; None: no file is written.
        keep: whether records() is wanted.
        runtime: what the first line says of the runtime: "kind", "target", "nodes", "cpus".
        devices: the devices that the runtime knows.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        keep: bool,
        runtime: Mapping[str, Any],
        devices: Iterable[Device] = (),
    ) -> None:
        self._path = None if path is None else Path(path)
        self._keep = keep
        self._lock = threading.Lock()  # guards all below up to _writing
        self._pending = bytearray()
        self._kept = bytearray()
        self._lines: list[str] = []
        self._tasks: dict[tuple[str, str | None], int] = {}
        self._totals: list[_Totals] = []
        self._flush_at = time.monotonic() + _PERIOD_S
        self._closed = False
        self._writing = threading.Lock()  # guards the file and the sums made while writing
        self._io, self._computing = Union(), Union()
        self._usage = _usage()
        self._file: io.TextIOWrapper | None = None
        if self._path is not None:
            if self._path.is_dir():
                raise IsADirectoryError(
                    errno.EISDIR, "the run file is a folder", os.fspath(self._path)
                )
            self._file = _make_part_path(self._path).open("w", encoding="utf-8")
            devices = list(devices)
            self._write_lines(_format_line("run", **_describe_run(runtime, devices)))
            self._write_lines(
                *(_format_line("device", **_describe_device(device)) for device in devices)
            )

    def call(
        self,
        task: str,
        device: str | None,
        node: int,
        ready_s: float,
        start_s: float,
        end_s: float,
        nbytes: int,
        failed: bool = False,
    ) -> bool:
        """Notes that a run of a call has ended, or failed. Returns whether flush() is due."""
        with self._lock:
            number = self._tasks.get((task, device))
            if number is None:
                number = self._tasks[task, device] = len(self._totals)
                self._totals.append(_Totals(task, device))
            self._pending += _CALL.pack(number, node, ready_s, start_s, end_s, nbytes, failed)
            full = len(self._pending) >= _BLOCK * _CALL.size
            return (full or time.monotonic() > self._flush_at) and not self._closed

    def add(self, record: TaskRecord, *, failed: bool = False) -> None:
        """Notes a record, and writes if that is due. For threads that writing may hold up."""
        due = self.call(
            record.task,
            record.device,
            record.node,
            record.ready_s,
            record.start_s,
            record.end_s,
            record.bytes,
            failed,
        )
        if due:
            self.flush()

    def limit(self, task: str, device: str, limit: int, at_s: float) -> None:
        """Notes the new limit of calls at once of an I/O task on a node; 0: any number."""
        if self._file is not None:
            line = _format_line("limit", task=task, device=device, at_s=round(at_s, 6), limit=limit)
            with self._lock:
                self._lines.append(line)

    def flush(self) -> None:
        """Sums up what was noted, and writes it. Does nothing while another thread does so."""
        if self._writing.acquire(blocking=False):
            try:
                self._write_pending()
            finally:
                self._writing.release()

    def _write_pending(self) -> None:
        """Does what flush() does. Needs `_writing`."""
        with self._lock:
            self._flush_at = time.monotonic() + _PERIOD_S
            pending, self._pending = self._pending, bytearray()
            lines, self._lines = self._lines, []
            if self._keep:
                self._kept += pending
        if self._file is None:
            return
        heads: dict[int, str] = {}
        for number, node, ready_s, start_s, end_s, nbytes, failed in _CALL.iter_unpack(pending):
            total = self._totals[number]
            total.calls += 1
            total.failed += failed
            total.bytes += nbytes
            total.seconds += end_s - start_s
            (self._computing if total.device is None else self._io).add(start_s, end_s)
            if number not in heads:
                heads[number] = total.line_head()
            lines.append(
                f'{heads[number]}{node},"ready_s":{ready_s:.6f},"start_s":{start_s:.6f},'
                f'"end_s":{end_s:.6f}'
                + (f',"bytes":{nbytes}' if nbytes else "")
                + (',"failed":true}' if failed else "}")
            )
        self._write_lines(*lines)

    def records(self) -> list[TaskRecord]:
        """Returns all records that were kept, in the order in which the calls ended."""
        with self._lock:
            packed = bytes(self._kept + self._pending)
            totals = list(self._totals)
        return [
            TaskRecord(totals[task].name, totals[task].device, node, ready, start, end, nbytes)
            for task, node, ready, start, end, nbytes, _ in _CALL.iter_unpack(packed)
        ]

    def close(
        self,
        *,
        wall_s: float,
        tasks: Mapping[str, int],
        explanations: Iterable[Mapping[str, Any]] = (),
        exit_code: int = 0,
    ) -> None:
        """Writes the rest and the summary, and gives the file its name. If the file cannot be
        written, that is a warning in the log, since the program's work is done.

        Args:
            wall_s: how long the runtime was active, on the clock of its records.
            tasks: counts of calls by what became of them.
            explanations: what explain() returns for every I/O task.
            exit_code: 0, or 1 if the program or a task failed.
        """
        explained = {(one["flow"], one["device"]): one for one in explanations}
        with self._writing:
            self._write_pending()
            with self._lock:
                self._closed = True
            for key in explained.keys() - self._tasks.keys():  # tasks without a call that ended
                self._totals.append(_Totals(*key))
            for total in self._totals:
                self._write_lines(
                    _format_line(
                        "task", **_describe_task(total, explained.get((total.name, total.device)))
                    )
                )
            self._write_lines(
                _format_line("summary", **self._make_summary(wall_s, tasks, exit_code))
            )
            self._rename_file()

    def discard(self) -> None:
        """Deletes the file, since nothing has run."""
        if self._file is not None and self._path is not None:
            self._close_file()
            _make_part_path(self._path).unlink(missing_ok=True)

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # the rest of its buffer cannot be written
                file.close()

    def _make_summary(
        self, wall_s: float, tasks: Mapping[str, int], exit_code: int
    ) -> dict[str, Any]:
        user_s, system_s, read_bytes = (
            now - before for now, before in zip(_usage(), self._usage, strict=True)
        )
        io_s = self._io.seconds()
        hidden_s = self._io.seconds_with(self._computing)
        return {
            "exit_code": exit_code,
            "signal": 0,
            "wall_s": wall_s,
            "user_s": user_s,
            "system_s": system_s,
            "storage_read_bytes": int(read_bytes),
            "io_s": io_s,
            "hidden_s": hidden_s,
            "hidden_share": hidden_s / io_s if io_s > 0 else 0.0,
            "exposed_s": io_s - hidden_s,
            "compute_s": self._computing.seconds(),
            "tasks": dict(tasks),
            "engine": "",
            "engine_operations": 0,
            "calls": {},
            "prefetch": {"operations": 0, "bytes": 0, "used_bytes": 0},
            "files": 0,
            "processes": 1,
            "images": 1,
            "remarks": [],
        }

    def _write_lines(self, *lines: str) -> None:
        if self._file is not None and lines:
            try:
                self._file.write("\n".join(lines) + "\n")
                self._file.flush()  # so that no forked child writes it too, and nothing is lost
            except OSError as error:
                self._cut_off(error)

    def _rename_file(self) -> None:
        if self._file is None or self._path is None:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            _make_part_path(self._path).replace(self._path)
        except OSError as error:
            self._cut_off(error)
        self._file = None

    def _cut_off(self, error: OSError) -> None:
        self._close_file()
        if self._path is not None:
            part = _make_part_path(self._path)
            _log.warning("the run file is cut off, and keeps the name %s: %s", part, error)


def _make_part_path(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _format_line(type_: str, **keys: Any) -> str:
    return json.dumps({"type": type_, **keys}, separators=(",", ":"))


def _describe_run(runtime: Mapping[str, Any], devices: Sequence[Device]) -> dict[str, Any]:
    started = datetime.datetime.now(datetime.timezone.utc)
    return {
        "schema": SCHEMA,
        "version": version(),
        "started": started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "command": list(sys.orig_argv),
        "directory": os.getcwd(),  # noqa: PTH109 (as text)
        "machine": this_machine(),
        "mounts": _find_mounts(device.path for device in devices if device.path is not None),
        # The settings of `ioweave run`, which does not run here.
        "config": {
            "policy": "off",
            "engine": "uring",
            "mode": "plain",
            "lookahead_bytes": 0,
            "max_lookahead_bytes": 0,
            "rules": [],
        },
        "runtime": dict(runtime),
    }


def _describe_device(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "path": None if device.path is None else os.path.abspath(device.path),  # noqa: PTH100
        "bandwidth_mb_per_s": float(device.bandwidth),
        "scope": device.scope,
        "max_in_flight": device.max_in_flight,
    }


def _describe_task(total: _Totals, explanation: Mapping[str, Any] | None) -> dict[str, Any]:
    keys: dict[str, Any] = {"name": total.name}
    if total.device is not None:
        keys["device"] = total.device
    keys |= {"calls": total.calls, "failed": total.failed, "seconds": total.seconds}
    keys |= {"bytes": total.bytes}
    if explanation is not None:
        keys["explanation"] = explanation
    return keys


def _usage() -> tuple[float, float, float]:
    """Returns user and system seconds and bytes from storage, children included."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ours, theirs = (resource.getrusage(who) for who in whose)
    return (
        ours.ru_utime + theirs.ru_utime,
        ours.ru_stime + theirs.ru_stime,
        (ours.ru_inblock + theirs.ru_inblock) * 512.0,
    )


def _find_mounts(paths: Iterable[str | os.PathLike[str]]) -> list[dict[str, str]]:
    numbers = {Path(path).stat().st_dev for path in paths if os.path.exists(path)}  # noqa: PTH110
    found: dict[int, dict[str, str]] = {}
    for number, path, kind, source in mounts():
        if number in numbers:
            found.setdefault(number, {"path": path, "type": kind, "source": source})
    return list(found.values())


# ---- Reading. -----------------------------------------------------------------------------------


@dataclass
class RunFile:
    """What a run file of a Python runtime holds; the dicts have the keys of docs/run-file.md.

    Attributes:
        run: the first line.
        devices: by name.
        tasks: by (name, device); the device of a task that computes is None.
        records: one for each run of a call.
        limits: by (name, device) of an I/O task: (time in s, how many may run at once on a node
            from then on).
        summary: the last line; None: the file is cut off.
    """

    run: dict[str, Any]
    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: dict[tuple[str, str | None], dict[str, Any]] = field(default_factory=dict)
    records: list[TaskRecord] = field(default_factory=list)
    limits: dict[tuple[str, str], list[tuple[float, int]]] = field(default_factory=dict)
    summary: dict[str, Any] | None = None

    @property
    def explanations(self) -> list[dict[str, Any]]:
        """What Runtime.explain() returned for each I/O task."""
        return [task["explanation"] for task in self.tasks.values() if "explanation" in task]


def read(path: str | os.PathLike[str]) -> RunFile:
    """Reads a run file, also one that is cut off.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no run file; the text names the line.
    """
    found: RunFile | None = None
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                if not line.endswith("\n"):
                    break  # cut off in the middle
                found = _add_line(found, _parse_line(line))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}: line {number}: not a run file: {error}") from error
    if found is None:
        raise ValueError(f"{path}: not a run file: it is empty")
    return found


def _parse_line(line: str) -> Any:
    # The file may be somebody else's, and its texts go to terminals and into pictures.
    harmless = line[:-1].isprintable() and "\\" not in line
    return json.loads(line, object_hook=None if harmless else _make_printable)


def _make_printable(table: dict[str, Any]) -> dict[str, Any]:
    return {
        key: printable(value) if isinstance(value, str) else value for key, value in table.items()
    }


def _add_line(found: RunFile | None, line: dict[str, Any]) -> RunFile:
    kind = line["type"]
    if found is None:
        if kind != "run" or line["schema"] not in _READ_SCHEMAS:
            raise ValueError(f"the first line is not a 'run' of {SCHEMA}")
        return RunFile(line)
    if kind == "call":
        record = TaskRecord(
            line["task"],
            line.get("device"),
            line["node"],
            line["ready_s"],
            line["start_s"],
            line["end_s"],
            line.get("bytes", 0),
        )
        found.records.append(record)
    elif kind == "limit":
        limits = found.limits.setdefault((line["task"], line["device"]), [])
        limits.append((line["at_s"], line["limit"]))
    elif kind == "device":
        found.devices[line["name"]] = line
    elif kind == "task":
        found.tasks[line["name"], line.get("device")] = line
    elif kind == "summary":
        found.summary = line
    return found
