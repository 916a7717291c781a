"""The command line of bench/run."""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness import build, environment, result
from harness.benchmarks import BENCHMARKS
from harness.process import signals_as_exits
from harness.result import Outcome, Row
from harness.session import Selection, Session, session

EPILOG = """\
examples:
  bench/run engine                 one benchmark, printed and written to bench/results/
  bench/run all --quick            a look at everything: a minute each, tasks two
  bench/run interposer --json r.json --build-dir build/release
  bench/run tasks --long           and pictures, and clusters of 1,000 and 10,000 nodes
  bench/run tasks --only short     short runs alone, of `climb` and of static limits
  bench/run harmless --only grep,dd --place slowfs --cache cold --pairs 9

Files are made in build/bench-data (or --dir): its file system and disk are what is measured.
bench/README.md says what each benchmark measures, how, and what the bars are.
"""


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError(text)
    return count


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/run",
        description="The benchmarks of Ioweave.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = "; ".join(f"{name}: {entry.summary}" for name, entry in BENCHMARKS.items())
    parser.add_argument("name", choices=[*BENCHMARKS, "all"], help=known)
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument(
        "--quick", action="store_true", help="fewer samples: a minute each, tasks two"
    )
    effort.add_argument(
        "--long",
        action="store_true",
        help="tasks: also draw the paper's figures, beside the JSON document, and simulate 1,000 "
        "and 10,000 nodes; harmless: files four times as long, but of programs that are slow; the "
        "others are as without it",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: in bench/results/")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="make the files there")
    parser.add_argument(
        "--build-dir", type=Path, metavar="DIR", help="measure this build as it is, build nothing"
    )
    part = parser.add_argument_group(
        "a part of the benchmark (harmless, tasks, tiom, streams, cube, advise, ppis, ior, engine, "
        "characterise, readers)"
    )
    part.add_argument(
        "--only",
        type=_words,
        default=(),
        metavar="LIST",
        help="harmless: grep,dd,reader-1m; tasks: peers,short,short-fsync,short-sleep-10s; "
        "tiom: calls, reapers, drop-in, write, read; streams: grid, targets, peers; "
        "cube: ladder[-aio|-ioweave], sizes, ratios, computing; advise: hill, gzip, numpy-8m; "
        "replay: random[-4k[-cached]|-64k|-256k], seek, stride, sequential; "
        "behind: slowfs[-order|-random|-interleaved], raw[-order[-4k[-direct]]]; "
        "readers: read|stdio|iostream|mmap|fortran|numpy[-4m|-16m]; "
        "ior: raw[-write|-random|-read|-mixed[-4k[-buffered|-fsync|-direct[-1p]]]], slowfs; "
        "ppis: random[-raw], wrong, shadow, chunks, writes, ranks, search, "
        "mpiio[-hill|-raw|-plan|-calls|-start]; characterise: agree, profile",
    )
    part.add_argument(
        "--place",
        type=_words,
        default=(),
        metavar="LIST",
        help="harmless: raw, limited, slowfs[-400|-3000]; tiom: raw, limited; streams: slowfs, "
        "limited; cube: slowfs, limited; advise, ppis, readers: slowfs, limited, raw; ior: raw, "
        "slowfs",
    )
    part.add_argument("--cache", type=_words, default=(), metavar="LIST", help="cold, cached, half")
    part.add_argument(
        "--pairs",
        type=_count,
        metavar="N",
        help="at most N pairs a cell, rounds (short runs, engine, streams, cube, ppis, "
        "characterise, ior, readers), or repetitions (tiom)",
    )
    part.add_argument(
        "--null",
        action="store_true",
        help="harmless, ior: compare plain runs with plain runs: what noise makes of the bars",
    )
    parser.add_argument("--check", action="store_true", help="end with 1 if a bar is missed")
    return parser


def _default_json(name: str) -> Path:
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return build.ROOT / "bench/results" / f"{name}-{now}.json"


class _Interrupted(SystemExit):
    """The end of everything, with what a benchmark has measured so far."""

    def __init__(self, code: str | int | None, outcome: Outcome) -> None:
        super().__init__(code)
        self.outcome = outcome


def _measure(name: str, running: Session) -> Outcome:
    """Runs one benchmark; what goes wrong in it is told, and does not stop the others.

    Raises:
        _Interrupted: By a signal; it has what was measured up to then.
    """
    rows: list[Row] = []
    start = time.monotonic()

    def outcome(error: str | None) -> Outcome:
        return Outcome(name, rows, running.notes, time.monotonic() - start, error)

    try:
        for line in BENCHMARKS[name].load()(running):
            rows.append(line)
            running.progress(result.one_line(line))
    except (RuntimeError, OSError) as caught:
        running.progress(f"FAILED: {caught}")
        return outcome(str(caught))
    except SystemExit as caught:
        raise _Interrupted(caught.code, outcome("interrupted")) from caught
    return outcome(None)


def _print(outcome: Outcome) -> None:
    print(f"\n{outcome.benchmark} ({outcome.seconds:.0f} s)\n")
    print(result.table(outcome.rows))
    for note in outcome.notes:
        print(f"note: {note}")
    if outcome.error is not None:
        print(f"FAILED: {outcome.error}")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Runs what the command line asks for; returns the exit status.

    0: all ran; 1: a benchmark failed, or with --check a bar was missed; 2: wrong usage.
    """
    options = _parser().parse_args(arguments)
    names = list(BENCHMARKS) if options.name == "all" else [options.name]
    base = options.dir or build.ROOT / "build/bench-data"
    destination = options.json or _default_json(options.name)
    outcomes: list[Outcome] = []
    try:
        with signals_as_exits():
            tools = build.locate(
                options.build_dir, python=any(BENCHMARKS[name].python for name in names)
            )
            base.mkdir(parents=True, exist_ok=True)
            surroundings = environment.describe(tools, base)
            for name in names:
                print(f"{name}: {BENCHMARKS[name].summary}", file=sys.stderr, flush=True)
                with session(
                    tools,
                    base,
                    quick=options.quick,
                    long=options.long,
                    results=destination.with_suffix(""),
                    selection=Selection(
                        options.only, options.place, options.cache, options.pairs, options.null
                    ),
                ) as running:
                    outcomes.append(_measure(name, running))
                _print(outcomes[-1])
                # After each, so that a run of all that is cut short leaves what it had.
                result.write(
                    destination, result.document(outcomes, surroundings, quick=options.quick)
                )
    except build.BuildFailed as error:
        print(f"bench/run: {error}", file=sys.stderr)
        return 1
    except _Interrupted as ended:
        outcomes.append(ended.outcome)
        result.write(destination, result.document(outcomes, surroundings, quick=options.quick))
        print(f"interrupted; what there was is in {destination}", file=sys.stderr)
        raise
    print(f"written to {destination}", file=sys.stderr)
    failed = any(outcome.error is not None for outcome in outcomes)
    missed = any(line.met is False for outcome in outcomes for line in outcome.rows)
    return int(failed or (options.check and missed))
