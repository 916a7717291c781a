"""What `ioweave run` adds: to a call on cached data, and to a program's start."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import page_cache, process
from harness.files import random_file
from harness.result import Bar, Row, at_least, at_most, row
from harness.samples import alternate
from harness.session import Session

FILE_BYTES = 1 << 20
DIRECT_FILE_BYTES = 64 << 20


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    call_rounds: int  # of the comparison that has a bar
    other_rounds: int  # of those for information
    batches: int  # of 10000 calls, in each process
    start_rounds: int
    direct_rounds: int


FULL = Effort(call_rounds=31, other_rounds=7, batches=40, start_rounds=51, direct_rounds=15)
QUICK = Effort(call_rounds=9, other_rounds=3, batches=10, start_rounds=15, direct_rounds=3)

#: Of calls past the page cache: name, bytes, and how many are timed together.
DIRECT = (("64 KiB", 64 << 10, 500), ("1 MiB", 1 << 20, 64))


def _under(session: Session, policy: str) -> list[str]:
    return [str(session.program("ioweave")), "run", "-q", "--policy", policy, "--"]


def _call_ns(session: Session, file: Path, options: list[str], prefix: list[str]) -> float:
    done = process.run([*prefix, session.program("bench_calls"), f"--file={file}", *options])
    (figures,) = done.json_lines()
    return float(figures["ns"])


def _added(
    plainly: Callable[[], float], under: Callable[[], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Paired differences, and the plain figures they start from."""
    pairs = list(alternate({"plain": plainly, "under": under}, rounds))
    return [p["under"] - p["plain"] for p in pairs], [p["plain"] for p in pairs]


def _calls(session: Session, file: Path, effort: Effort) -> Iterator[Row]:
    cases: list[tuple[str, str, int, Bar | None]] = [
        ("pread", "off", effort.call_rounds, at_most(40)),
        ("read", "off", effort.other_rounds, None),
        ("pwrite", "off", effort.other_rounds, None),
        ("pread", "auto", effort.call_rounds, None),
        ("pread", "overlap", effort.other_rounds, None),
        ("pread", "sync", effort.other_rounds, None),
        ("pwrite", "writes", effort.other_rounds, None),
    ]
    for call, policy, rounds, bar in cases:
        session.progress(f"cached 4 KiB {call}, plainly and under --policy {policy} in turn")
        options = [f"--call={call}", f"--batches={effort.batches}"]
        measure = partial(_call_ns, session, file, options)
        added, plain = _added(
            partial(measure, []), partial(measure, _under(session, policy)), rounds
        )
        yield row(f"cached 4 KiB {call}, --policy {policy}: added", "ns", added, bar)
        if bar is not None:
            yield row(f"cached 4 KiB {call}: plain", "ns", plain)


def _direct(session: Session, file: Path, effort: Effort) -> Iterator[Row]:
    for call, policy in (("pread", "sync"), ("pwrite", "writes")):
        for name, size, calls in DIRECT:
            what = f"O_DIRECT {name} {call}, --policy {policy}"
            session.progress(f"{what}, plainly and under it in turn")
            options = [f"--call={call}", f"--block={size}", f"--calls={calls}", "--direct"]
            measure = partial(_call_ns, session, file, [*options, "--batches=9"])
            pairs = alternate(
                {
                    "plain": partial(measure, []),
                    "under": partial(measure, _under(session, policy)),
                },
                effort.direct_rounds,
            )
            rates = [pair["plain"] / pair["under"] for pair in pairs]
            yield row(f"{what}: rate over plain", "ratio", rates, at_least(0.97))


def _start_ms(command: list[str]) -> float:
    return process.run(command).wall_s * 1e3


def _start(session: Session, effort: Effort) -> Iterator[Row]:
    true = shutil.which("true") or "/bin/true"
    session.progress("start of `true`, plainly and under ioweave run in turn")
    ours = [str(session.program("ioweave")), "run", "-q", "--", true]
    added, plain = _added(partial(_start_ms, [true]), partial(_start_ms, ours), effort.start_rounds)
    yield row("start of `ioweave run -- true`: added", "ms", added, at_most(15))
    yield row("start of `true`", "ms", plain)


def run(session: Session) -> Iterator[Row]:
    """All overheads of the interposer."""
    effort = QUICK if session.quick else FULL
    session.need_space(256 << 20)
    file = random_file(session.folder / "data", FILE_BYTES)
    page_cache.warm(file)
    yield from _start(session, effort)
    yield from _calls(session, file, effort)
    yield from _direct(session, random_file(session.folder / "direct", DIRECT_FILE_BYTES), effort)
