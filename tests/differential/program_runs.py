"""Runs of programs, plainly and under `ioweave run`, and all that can be seen of them."""

import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: What strace follows: transfers and what changes the meaning of a descriptor.
TRACED = (
    "read,pread64,readv,preadv,preadv2,write,pwrite64,writev,pwritev,pwritev2,lseek,dup,dup2,dup3,"
    "open,openat,creat,close,close_range,ftruncate,fallocate,fsync,fdatasync,sync_file_range,"
    "sendfile,copy_file_range,splice,fcntl"
)
#: Calls of fcntl that change something; others only look.
CHANGING_FCNTL = re.compile(r"F_(DUPFD|SETF|SETL|OFD_SETL)")


#: What stands in the place of an engine where the policy uses none: other options.
VARIANTS = {
    "early": ["--early-writeback", "always"],
    "held-always": ["--hold-direct-writes"],
}
#: Behind the name of an engine: it makes each call that it can, be it slower than the real one.
ALWAYS = "-always"


@dataclass(frozen=True)
class Configuration:
    """How a program is run: plainly, or under a policy and an engine."""

    policy: str = ""
    engine: str = ""

    def command(self) -> list[str]:
        """The words that stand before the program."""
        if not self.policy:
            return []
        options = VARIANTS.get(self.engine, ["--engine", self.engine.removesuffix(ALWAYS)])
        return ["run", "-q", "--policy", self.policy, *options, "--"]

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

    def lines(self) -> list[str]:
        """All of it as text, a line for each thing that can be compared."""
        return [
            *self.out.decode(errors="replace").splitlines(),
            *(f"error: {line}" for line in self.error.decode(errors="replace").splitlines()),
            *(f"file {name}: {text}" for name, text in sorted(self.files.items())),
            f"end: {self.end}",
        ]

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
        self.carrying = build / "tests/differential/carrying/src/cli/ioweave"
        self.programs = build / "tests/differential/differential_programs"
        self.fuzz = build / "tests/differential/differential_fuzz"
        self.limit = limit
        self.scratch = scratch

    def command_for(self, how: Configuration) -> Path:
        """`ioweave`, or the one whose interposer leaves nothing to chance."""
        return self.carrying if how.engine.endswith(ALWAYS) else self.ioweave

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
            command = [str(self.command_for(how)), *how.command(), *command]
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
    return _numbers.setdefault(threading.current_thread().name, len(_numbers))
