"""Runs programs plainly and under `ioweave run`, and compares all that can be seen of them.

Usage: compare.py BUILD_FOLDER [--all | --calls | --generate | --driven] [options] [SCENARIO...]

Compared are standard output and error, how the program ended, and the files it leaves: names,
kinds, modes, links, sizes and bytes. A program that takes longer than --limit has hung. Scenarios
are those of programs/*.c (`differential_programs` lists them). Without a mode they run in the
configurations that differ most, with --all in every policy and engine, with --calls under strace,
where the program's own system calls on its own files are compared as well. --generate runs
programs that are made of a seed (generated/) until --seconds are over or --operations are made, and
shrinks what differs. --driven checks that they call every wrapped name.

Exit status 0: no difference; 1: each was printed; 77: "SKIP: reason".
"""

import argparse
import concurrent.futures
import shutil
import sys
import tempfile
from pathlib import Path

from generated_programs import check_driven, compare_generated
from program_runs import Configuration, Runner

#: Which policies and engines are compared with the plain run. `off`, `overlap` and `behind` use no
#: engine. `auto` does what `overlap` does and more, so that most lists have it alone.
ALL = (
    ("off", "uring"),
    ("overlap", "uring"),
    ("sync", "uring"),
    ("sync", "aio"),
    ("sync", "threads"),
    ("writes", "uring"),
    ("writes", "aio"),
    ("writes", "threads"),
    ("behind", "uring-always"),
    ("auto", "uring"),
    ("auto", "held-always"),
)
SHORT = (
    ("off", "uring"),
    ("auto", "uring"),
    ("sync", "uring"),
    ("writes", "uring"),
    ("behind", "uring-always"),
)
#: For generated programs, whose files are long enough for early writeback, too.
GENERATED = (
    ("off", "uring"),
    ("auto", "uring"),
    ("auto", "held-always"),
    ("auto", "early"),
    ("sync", "uring"),
    ("sync", "uring-always"),
    ("sync", "aio"),
    ("sync", "threads"),
    ("writes", "uring-always"),
    ("behind", "uring-always"),
)
CALLS = (("off", "uring"), ("overlap", "uring"))


def compare_scenarios(runner: Runner, options: argparse.Namespace) -> int:
    """Compares the scenarios asked for; returns how many differ."""
    known = runner.scenarios()
    for name in options.names:
        if name not in known:
            sys.exit(f"compare.py: no scenario '{name}'")
    names = [
        name
        for name in (options.names or known)
        if not (options.calls and known[name] & {"racy", "shape"} and not options.names)
    ]
    chosen = ALL if options.all else CALLS if options.calls else SHORT
    configurations = [Configuration(*one) for one in options.only or chosen]

    def one(name: str) -> tuple[str, list[str]]:
        command = [str(runner.programs), name]
        return name, runner.compare(command, configurations, options.calls)

    differing = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, found in pool.map(one, names):
            if found:
                differing.append(name)
                print(f"DIFFERENT {name}")
                for line in found:
                    print(f"    {line}", flush=True)
    print(f"{len(names)} scenarios, {len(configurations)} configurations, {len(differing)} differ")
    return len(differing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build", type=Path, help="the build folder, e.g. build/release")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--all", action="store_true", help="every policy and engine")
    modes.add_argument("--calls", action="store_true", help="system calls, by strace")
    modes.add_argument("--generate", action="store_true", help="programs made of seeds")
    modes.add_argument("--driven", action="store_true", help="is every wrapped name called?")
    parser.add_argument("--seconds", type=float, default=60, help="of --generate (%(default)s)")
    parser.add_argument(
        "--operations", type=float, default=float("inf"), help="of --generate, in all runs together"
    )
    parser.add_argument("--seed", type=int, default=1, help="the first (%(default)s)")
    parser.add_argument("--steps", type=int, default=3000, help="of a program (%(default)s)")
    parser.add_argument("--bytes", type=Path, help="a file that decides, in the place of a seed")
    parser.add_argument("--print-calls", action="store_true", help="how often each was made")
    parser.add_argument("--shrink-seconds", type=float, default=120, help="(%(default)s)")
    parser.add_argument("--keep-going", action="store_true", help="after a generated difference")
    parser.add_argument("--jobs", type=int, default=2, help="programs at once (%(default)s)")
    parser.add_argument("--limit", type=float, default=30, help="seconds a program may take")
    parser.add_argument("--scratch", type=Path, help="where the programs' folders are made")
    parser.add_argument(
        "--only", action="append", type=lambda text: tuple(text.split("/")), metavar="POLICY/ENGINE"
    )
    parser.add_argument("names", nargs="*", metavar="SCENARIO")
    options = parser.parse_intermixed_args()
    if options.calls and shutil.which("strace") is None:
        print("SKIP: strace is not installed")
        return 77
    with tempfile.TemporaryDirectory(prefix="differential-", dir=options.scratch) as scratch:
        runner = Runner(options.build.resolve(), Path(scratch).resolve(), options.limit)
        if options.generate:
            options.only = options.only or GENERATED
            return 1 if compare_generated(runner, options) else 0
        compare = check_driven if options.driven else compare_scenarios
        return 1 if compare(runner, options) else 0


if __name__ == "__main__":
    sys.exit(main())
