"""Runs programs plainly and under `ioweave run`, and compares all that can be seen of them.

Usage: compare.py BUILD_FOLDER [--all | --calls | --generate] [options] [SCENARIO...]

Compared are standard output and error, how the program ended, and the files it leaves: names,
kinds, modes, links, sizes and bytes. A program that takes longer than --limit has hung. Scenarios
are those of programs/*.c (`differential_programs` lists them). Without a mode they run in the
configurations that differ most, with --all in every policy and engine, with --calls under strace,
where the program's own system calls on its own files are compared as well. --generate runs
programs that are made of a seed (programs/fuzz.c) until --seconds are over.

Exit status 0: no difference; 1: each was printed; 77: "SKIP: reason".
"""

import argparse
import concurrent.futures
import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Which policies and engines are compared with the plain run. `off`, `overlap` and `behind` use no
#: engine.
ALL = (
    ("off", "uring"),
    ("overlap", "uring"),
    ("sync", "uring"),
    ("sync", "aio"),
    ("sync", "threads"),
    ("writes", "uring"),
    ("writes", "aio"),
    ("writes", "threads"),
    ("behind", "uring"),
)
SHORT = (
    ("off", "uring"),
    ("overlap", "uring"),
    ("sync", "uring"),
    ("writes", "uring"),
    ("behind", "uring"),
)
CALLS = (("off", "uring"), ("overlap", "uring"))

#: What strace follows: transfers and what changes the meaning of a descriptor.
TRACED = (
    "read,pread64,readv,preadv,preadv2,write,pwrite64,writev,pwritev,pwritev2,lseek,dup,dup2,dup3,"
    "open,openat,creat,close,close_range,ftruncate,fallocate,fsync,fdatasync,sync_file_range,"
    "sendfile,copy_file_range,splice,fcntl"
)
#: Calls of fcntl that change something; others only look.
CHANGING_FCNTL = re.compile(r"F_(DUPFD|SETF|SETL|OFD_SETL)")


@dataclass(frozen=True)
class Configuration:
    """How a program is run: plainly, or under a policy and an engine."""

    policy: str = ""
    engine: str = ""

    def __str__(self) -> str:
        return f"{self.policy}/{self.engine}" if self.policy else "plain"


PLAIN = Configuration()

#: What a policy shows of itself, as docs/run.md says: a thread that writes.
SHOWN = {("threads_counted", "behind")}


@dataclass
class Outcome:
    """All that was seen of a run."""

    end: str
    out: bytes
    error: bytes
    files: dict[str, str]
    calls: list[str] = field(default_factory=list)

    def differences(self, other: "Outcome") -> Iterator[str]:
        """What `other`, run under Ioweave, has and this plain run has not, and the reverse."""
        if self.end != other.end:
            yield f"end: {self.end} -> {other.end}"
        for name, ours, theirs in (
            ("output", self.out, other.out),
            ("error", self.error, other.error),
        ):
            yield from _unlike(
                name,
                ours.decode(errors="replace").splitlines(),
                theirs.decode(errors="replace").splitlines(),
            )
        for name in sorted(self.files.keys() | other.files.keys()):
            ours_file, theirs_file = self.files.get(name, "none"), other.files.get(name, "none")
            if ours_file != theirs_file:
                yield f"file {name}: {ours_file} -> {theirs_file}"
        yield from _unlike("call", self.calls, other.calls)


def _unlike(name: str, ours: list[str], theirs: list[str]) -> Iterator[str]:
    """The first lines that differ."""
    if ours == theirs:
        return
    shown = 0
    for number in range(max(len(ours), len(theirs))):
        left = ours[number] if number < len(ours) else "(none)"
        right = theirs[number] if number < len(theirs) else "(none)"
        if left != right:
            yield f"{name} line {number + 1}: {left} -> {right}"
            shown += 1
            if shown == 4:
                yield f"{name}: ... ({len(ours)} -> {len(theirs)} lines)"
                return


def describe(path: Path) -> str:
    """Kind, mode, links, size and bytes of a file."""
    status = path.lstat()
    text = f"{stat.filemode(status.st_mode)} {status.st_nlink} links"
    if stat.S_ISLNK(status.st_mode):
        return f"{text} to {path.readlink()}"
    if stat.S_ISREG(status.st_mode):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        return f"{text} {status.st_size} bytes {digest}"
    return text


def own_calls(trace: str, work: str) -> list[str]:
    """The calls of a process in the output of strace that concern the program's own files."""
    kept = []
    for line in trace.splitlines():
        name = line.split("(", 1)[0]
        if not name.isidentifier():
            continue
        if name in ("open", "openat", "creat"):
            path = re.search(r'"([^"]*)"', line)
            if path is None or path.group(1).startswith("/"):
                continue
        elif name == "fcntl":
            if f"<{work}" not in line or not CHANGING_FCNTL.search(line):
                continue
        elif f"<{work}" not in line:
            continue
        line = re.sub(r"0x[0-9a-f]{5,}", "ADDRESS", line)
        line = re.sub(r"(pipe|socket|UNIX-STREAM):\[[^\]]*\]", r"\1", line)
        line = re.sub(rf"<{re.escape(work)}/#\d+>", f"<{work}/unnamed>", line)
        if "EINVAL" in line:  # a count of vectors that is wrong shows what lies behind them
            line = re.sub(r"\[.*\]", "[]", line)
        kept.append(re.sub(r"\s+= ", " = ", line))
    return kept


#: How often a program that was different is run plainly again.
PLAIN_RUNS = 40


class Runner:
    """Runs programs in folders of its own: one program at a time in each of the threads."""

    def __init__(self, build: Path, scratch: Path, limit: float) -> None:
        self.ioweave = build / "src/cli/ioweave"
        self.programs = build / "tests/differential/differential_programs"
        self.fuzz = build / "tests/differential/differential_fuzz"
        self.limit = limit
        self.scratch = scratch

    def run(self, command: list[str], how: Configuration, calls: bool = False) -> Outcome:
        """Runs a command in a new folder whose name is the same for every run of a thread."""
        slot = self.scratch / f"{os.getpid()}-{id(self):x}-{_thread_number()}"
        work, traces = slot / "work", slot / "traces"
        shutil.rmtree(slot, ignore_errors=True)
        work.mkdir(parents=True)
        traces.mkdir()
        if calls:
            trace = ["strace", "-ff", "-qq", "-y", "-e", f"trace={TRACED}", "-e", "signal=none"]
            command = [*trace, "-o", str(traces / "trace"), *command]
        if how.policy:
            options = ["--policy", how.policy, "--engine", how.engine]
            command = [str(self.ioweave), "run", "-q", *options, "--", *command]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(slot)}
        try:
            with subprocess.Popen(
                command,
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ) as process:
                hung = False
                try:
                    out, error = process.communicate(timeout=self.limit)
                except subprocess.TimeoutExpired:
                    hung = True
                    os.killpg(process.pid, signal.SIGKILL)
                    out, error = process.communicate()
            code = process.returncode
            end = "hung" if hung else f"exit {code if code >= 0 else 128 - code}"
            files = {
                str(path.relative_to(work)): describe(path) for path in sorted(work.rglob("*"))
            }
            outcome = Outcome(end, out, error, files)
            if calls:
                each = [own_calls(path.read_text(), str(work)) for path in traces.iterdir()]
                outcome.calls = [call for calls_of_one in sorted(each) for call in calls_of_one]
            return outcome
        finally:
            shutil.rmtree(slot, ignore_errors=True)

    def scenarios(self) -> dict[str, set[str]]:
        """Names of the scenarios, with their flags."""
        listing = subprocess.run([self.programs], check=True, capture_output=True, text=True)
        return {line.split()[0]: set(line.split()[1:]) for line in listing.stdout.splitlines()}

    def compare(
        self, command: list[str], configurations: list[Configuration], calls: bool = False
    ) -> list[str]:
        """The differences of a program, each a line that names the configuration."""
        plain = self.run(command, PLAIN, calls)
        found = []
        if plain.end == "hung":
            return ["plain: hung"]
        for how in configurations:
            if (command[1], how.policy) in SHOWN:
                continue
            for difference in plain.differences(self.run(command, how, calls)):
                found.append(f"{how}: {difference}")
        if found:
            # What differs from itself, be it seldom, is the fault of the program, and not of what
            # it ran under.
            for _ in range(PLAIN_RUNS):
                again = list(plain.differences(self.run(command, PLAIN, calls)))
                found += [f"plain, run again: {difference}" for difference in again]
                if again:
                    break
        return found


_numbers: dict[str, int] = {}


def _thread_number() -> int:
    import threading

    return _numbers.setdefault(threading.current_thread().name, len(_numbers))


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


def compare_generated(runner: Runner, options: argparse.Namespace) -> int:
    """Compares generated programs until the time is over or one differs; returns how many did."""
    end = time.monotonic() + options.seconds
    configurations = [Configuration(*one) for one in options.only or ALL]
    undecided = 0

    def one(seed: int) -> tuple[int, list[str]]:
        command = [str(runner.fuzz), str(seed), str(options.steps)]
        if time.monotonic() > end:
            return seed, ["not run"]
        plain = runner.run(command, PLAIN)
        if plain.end == "hung" or any(plain.differences(runner.run(command, PLAIN))):
            return seed, ["plain: not the same twice"]
        return seed, runner.compare(command, configurations)

    seed, compared, differing = options.seed, 0, 0
    while time.monotonic() < end:
        seeds = range(seed, seed + 4 * options.jobs)
        seed = seeds.stop
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(one, seeds))
        for number, found in results:
            if found == ["not run"]:
                continue
            if any(line.startswith("plain") for line in found):
                undecided += 1
                print(f"seed {number}: the program itself differs from run to run", flush=True)
                continue
            compared += 1
            if found:
                differing += 1
                print(f"DIFFERENT seed {number}, {options.steps} steps")
                for line in found:
                    print(f"    {line}", flush=True)
        if differing and not options.keep_going:
            break
    print(
        f"Seeds {options.seed} to {seed - 1}, {options.steps} steps each: {compared} programs in "
        f"{len(configurations)} configurations, {differing} differ, {undecided} left out"
    )
    return differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build", type=Path, help="the build folder, e.g. build/release")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--all", action="store_true", help="every policy and engine")
    modes.add_argument("--calls", action="store_true", help="system calls, by strace")
    modes.add_argument("--generate", action="store_true", help="programs made of seeds")
    parser.add_argument("--seconds", type=float, default=60, help="of --generate (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the first (%(default)s)")
    parser.add_argument("--steps", type=int, default=150, help="of a program (%(default)s)")
    parser.add_argument("--keep-going", action="store_true", help="after a generated difference")
    parser.add_argument("--jobs", type=int, default=2, help="programs at once (%(default)s)")
    parser.add_argument("--limit", type=float, default=20, help="seconds a program may take")
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
        compare = compare_generated if options.generate else compare_scenarios
        return 1 if compare(runner, options) else 0


if __name__ == "__main__":
    sys.exit(main())
