"""Darshan logs as run files, so that `ioweave advise` predicts from them.

    python -m ioweave.compat.darshan LOG.darshan -o run.jsonl
    ioweave advise run.jsonl

It reads the log by PyDarshan (`pip install darshan`), which is no dependency of Ioweave.

What a log gives, and what it does not:

- With DXT traces (`DXT_ENABLE_IO_TRACE=1` when the program ran) each call has its time, so the
  series of a file is as good as one that Ioweave recorded.
- Without them a log has one counter for each file: the bytes and the seconds of all reads, and when
  the first began and the last ended. They are spread evenly over that time, so that the phases of a
  program are lost, and with them whatever phases forbid.
- A file that all ranks share has one record for all of them. It counts as that of an average rank.
- fsync has no time of its own, processor time is not there, nor is the number of processors; the
  prediction knows no such limits then. Devices are told apart by mount points only.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SLOTS = 64
#: A call within this part of its own time behind the one before follows it at once.
AT_ONCE = 1 / 8


class Unreadable(ValueError):
    """The log cannot be read, or has nothing to predict from; the text says why."""


@dataclass(frozen=True)
class Call:
    """A read or write, or several in a row. Times are seconds since the program's start."""

    is_read: bool
    offset: int
    length: int
    start_s: float
    end_s: float
    count: int = 1


@dataclass
class FileOfRank:
    """What one rank did to one file.

    Attributes:
        rank: Its number; -1 for an average over all ranks.
        calls: In the order of their ends.
        jumps: Reads that did not go forward, if that was counted; else it follows from the calls.
        spread: Whether `calls` are totals to be spread evenly over their time.
    """

    path: str
    rank: int
    calls: list[Call] = field(default_factory=list)
    jumps: int | None = None
    spread: bool = False


@dataclass(frozen=True)
class Log:
    """What of a log matters.

    Attributes:
        wall_s: How long the program ran.
        mounts: Mount points and the types of their file systems.
    """

    command: tuple[str, ...]
    started: datetime.datetime
    wall_s: float
    ranks: int
    mounts: Sequence[tuple[str, str]]
    files: Sequence[FileOfRank]


# ---- By PyDarshan


def read_log(path: Path) -> Log:
    """Reads a log.

    Raises:
        Unreadable: PyDarshan is missing, or cannot read the log, or no POSIX call is in it.
    """
    try:
        darshan = importlib.import_module("darshan")
    except ImportError as error:
        raise Unreadable(f"PyDarshan is missing ({error}): pip install darshan") from error
    if not path.is_file():
        raise Unreadable(f"{path}: no such file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = darshan.DarshanReport(str(path), read_all=True)
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        raise Unreadable(f"{path}: PyDarshan cannot read it: {error}") from error
    job = report.metadata["job"]
    ranks = max(1, int(job["nprocs"]))
    files = list(_traced(report)) if "DXT_POSIX" in report.records else []
    if not any(each.calls for each in files):
        files = list(_counted(report, ranks)) if "POSIX" in report.records else []
    if not any(each.calls for each in files):
        raise Unreadable(f"{path}: no read or write by POSIX calls is in it")
    return Log(
        tuple(str(report.metadata["exe"]).split()) or ("unknown",),
        datetime.datetime.fromtimestamp(int(job["start_time_sec"]), datetime.timezone.utc),
        float(job["run_time"]),
        ranks,
        [(str(mount[0]), str(mount[1])) for mount in report.mounts],
        [each for each in files if each.calls],
    )


def _traced(report: Any) -> Iterator[FileOfRank]:
    for record in report.records["DXT_POSIX"].to_df():
        file = FileOfRank(_name(report, record["id"]), int(record["rank"]))
        for key, is_read in (("read_segments", True), ("write_segments", False)):
            segments = record[key]
            if not len(segments):  # it has no columns then
                continue
            columns = (segments[name] for name in ("offset", "length", "start_time", "end_time"))
            for offset, length, start_s, end_s in zip(*columns, strict=True):
                file.calls.append(
                    Call(is_read, int(offset), int(length), float(start_s), float(end_s))
                )
        file.calls.sort(key=lambda call: call.end_s)
        yield file


def _counted(report: Any, ranks: int) -> Iterator[FileOfRank]:
    frames = report.records["POSIX"].to_df()
    times = frames["fcounters"].to_dict("records")
    for counts, seconds in zip(frames["counters"].to_dict("records"), times, strict=True):
        rank = int(counts["rank"])
        share = ranks if rank < 0 else 1
        file = FileOfRank(_name(report, counts["id"]), rank, spread=True)
        for word, past in (("READ", "READ"), ("WRITE", "WRITTEN")):
            calls = int(counts[f"POSIX_{word}S"]) // share
            begin_s = float(seconds[f"POSIX_F_{word}_START_TIMESTAMP"])
            end_s = float(seconds[f"POSIX_F_{word}_END_TIMESTAMP"])
            if calls <= 0 or end_s <= begin_s:
                continue
            moved = int(counts[f"POSIX_BYTES_{past}"]) // share
            inside_s = min(float(seconds[f"POSIX_F_{word}_TIME"]) / share, end_s - begin_s)
            file.calls.extend(_evenly(word == "READ", calls, moved, begin_s, end_s, inside_s))
        if file.calls:
            reads = int(counts["POSIX_READS"])
            file.jumps = max(0, reads - int(counts["POSIX_SEQ_READS"]) - 1) // share
            file.calls.sort(key=lambda call: call.end_s)
            yield file


def _evenly(
    is_read: bool, calls: int, moved: int, begin_s: float, end_s: float, inside_s: float
) -> Iterator[Call]:
    """Totals as groups of calls with equal pauses."""
    groups = min(calls, 4 * SLOTS)
    step_s, each_s = (end_s - begin_s) / groups, inside_s / groups
    for group in range(groups):
        count = calls * (group + 1) // groups - calls * group // groups
        length = moved * (group + 1) // groups - moved * group // groups
        end = begin_s + (group + 1) * step_s
        yield Call(is_read, 0, length, end - each_s, end, count)


def _name(report: Any, identity: Any) -> str:
    return str(report.name_records.get(int(identity), f"<{int(identity)}>"))


# ---- As a run file


def series_of(file: FileOfRank, pid: int) -> dict[str, Any]:
    """The series of a file, as docs/run-file.md describes it."""
    start_s = min(call.start_s for call in file.calls)
    end_s = max(call.end_s for call in file.calls)
    slot_s = max((end_s - start_s) / SLOTS, 1e-6)
    kinds: dict[bool, dict[str, list[Any]]] = {
        True: {"calls": [0] * SLOTS, "bytes": [0] * SLOTS, "seconds": [0.0] * SLOTS},
        False: {"calls": [0] * SLOTS, "bytes": [0] * SLOTS, "seconds": [0.0] * SLOTS},
    }
    turns = {True: [0] * SLOTS, False: [0] * SLOTS}
    last_end_s: dict[bool, float | None] = {True: None, False: None}
    for call in file.calls:
        slot = min(SLOTS - 1, int((call.end_s - start_s) / slot_s))
        took_s = max(0.0, call.end_s - call.start_s)
        kind = kinds[call.is_read]
        kind["calls"][slot] += call.count
        kind["bytes"][slot] += call.length
        kind["seconds"][slot] += took_s
        last_s = last_end_s[call.is_read]
        if file.spread or last_s is None or call.start_s - last_s > AT_ONCE * took_s:
            turns[call.is_read][slot] += call.count
        last_end_s[call.is_read] = call.end_s
    series: dict[str, Any] = {
        "pid": pid,
        "source": "calls",
        "start_s": start_s,
        "slot_s": slot_s,
        "slots": SLOTS,
        "jumps": _jumps(file.calls) if file.jumps is None else file.jumps,
    }
    for is_read, key in ((True, "read"), (False, "write")):
        if any(kinds[is_read]["calls"]):
            series[key] = {**kinds[is_read], "turns": turns[is_read]}
    return series


def _jumps(calls: Iterable[Call]) -> int:
    """Reads that neither go on nor keep their distance."""
    jumps, offset, until, stride = 0, 0, 0, 0
    for call in calls:
        if not call.is_read:
            continue
        now = call.offset - offset
        jumps += call.offset != until and now != stride
        offset, until, stride = call.offset, call.offset + call.length, now
    return jumps


def _totals(files: Iterable[FileOfRank]) -> dict[str, dict[str, float]]:
    totals: dict[str, dict[str, float]] = {}
    for file in files:
        for call in file.calls:
            kind = totals.setdefault(
                "read" if call.is_read else "write",
                {"calls": 0, "bytes": 0, "errors": 0, "seconds": 0.0},
            )
            kind["calls"] += call.count
            kind["bytes"] += call.length
            kind["seconds"] += max(0.0, call.end_s - call.start_s)
    return totals


def _exposed_s(totals: Mapping[str, Mapping[str, float]]) -> float:
    return sum(kind["seconds"] for kind in totals.values())


def run_file_lines(log: Log) -> Iterator[dict[str, Any]]:
    """The objects of the run file, one a line. A rank is a process, whose id is the rank + 1."""
    yield {
        "type": "run",
        "schema": "ioweave.run/2",
        "version": "Darshan",
        "started": log.started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "command": list(log.command),
        "directory": "",
        "machine": {
            "host": "of a Darshan log",
            "kernel": "",
            "architecture": "",
            "processor": "",
            "cpus": 1,
            "cpus_allowed": 1,
            "memory_bytes": 0,
        },
        "mounts": [{"path": path, "type": kind, "source": ""} for path, kind in log.mounts],
        "config": {
            "policy": "off",
            "engine": "uring",
            "mode": "plain",
            "lookahead_bytes": 128 << 20,
            "max_lookahead_bytes": 1 << 30,
            "rules": [],
        },
    }
    pids = sorted({max(0, file.rank) + 1 for file in log.files})
    for pid in pids:
        mine = [file for file in log.files if max(0, file.rank) + 1 == pid]
        yield {
            "type": "process",
            "pid": pid,
            "parent_pid": 0,
            "program": log.command[0],
            "active": True,
            "end": "exited",
            "seconds": log.wall_s,
            "engine": "",
            "why": "",
            "exposed_s": _exposed_s(_totals(mine)),
            "engine_operations": 0,
            "start_s": 0.0,
        }
    paths = list(dict.fromkeys(file.path for file in log.files))
    for path in paths:
        yield _file_line(path, [file for file in log.files if file.path == path], log)
    totals = _totals(log.files)
    yield {
        "type": "summary",
        "exit_code": 0,
        "signal": 0,
        "wall_s": log.wall_s,
        "user_s": 0.0,
        "system_s": 0.0,
        "storage_read_bytes": 0,
        "io_s": _exposed_s(totals),
        "hidden_s": 0.0,
        "hidden_share": 0.0,
        "hidden_known": True,
        "exposed_s": _exposed_s(totals),
        "engine": "",
        "engine_operations": 0,
        "engine_cost_s": 0.0,
        "calls": totals,
        "prefetch": {"operations": 0, "bytes": 0, "used_bytes": 0, "trial_s": 0.0},
        "files": len(paths),
        "processes": len(pids),
        "images": len(pids),
        "remarks": [],
    }


def _file_line(path: str, files: Sequence[FileOfRank], log: Log) -> dict[str, Any]:
    number, kind = _mount_of(path, log.mounts)
    totals = _totals(files)
    return {
        "type": "file",
        "path": path,
        "file_system": kind,
        "device": number,
        "inode": 0,
        "policy": "off",
        "degrade": "none",
        "processes": len(files),
        "opens": 1,
        "exposed_s": _exposed_s(totals),
        "calls": totals,
        "prefetch": {"bytes": 0, "used_bytes": 0, "hidden_s": 0.0},
        "series": [series_of(file, max(0, file.rank) + 1) for file in files[:16]],
    }


def _mount_of(path: str, mounts: Sequence[tuple[str, str]]) -> tuple[int, str]:
    """A number for the mount that holds a path, which stands for its device, and its type."""
    best, length = (0, ""), -1
    for number, (point, kind) in enumerate(mounts, 1):
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) > length:
            best, length = (number, kind), len(point)
    return best


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the run file of a log; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m ioweave.compat.darshan",
        description="Writes a Darshan log as a run file, from which `ioweave advise` predicts.",
    )
    parser.add_argument("log", type=Path, help="a .darshan file")
    parser.add_argument("-o", "--output", type=Path, help="default: the log's name with .jsonl")
    options = parser.parse_args(arguments)
    output = options.output or options.log.with_suffix(".jsonl")
    try:
        log = read_log(options.log)
        lines = (json.dumps(line) + "\n" for line in run_file_lines(log))
        output.write_text("".join(lines), encoding="utf-8")
    except (Unreadable, OSError) as error:
        print(f"ioweave.compat.darshan: {error}", file=sys.stderr)
        return 1
    print(f"written to {output}; now: ioweave advise {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
