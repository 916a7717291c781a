"""Programs made of a seed, compared until a time or a number of operations is reached.

A run tells a hash of what the program saw, so that it is quick. Where two runs differ, they are
made again with every call printed, and steps are left out as long as there is a difference. What
remains is printed side by side, with the commands that show it.
"""

import argparse
import concurrent.futures
import shlex
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from program_runs import PLAIN, Configuration, Outcome, Runner
from shrink import shrink, to_text

#: How often a program is run plainly again before a difference is Ioweave's.
PLAIN_RUNS = 12
#: How often two runs are compared where a difference shows only now and then.
TRIES = 8
#: What decides a step, in a file of bytes.
RECORD_BYTES = 16
#: Lines that are printed of two runs, from a little before the first that differs.
LINES_BEFORE, LINES_IN_ALL = 12, 40


@dataclass(frozen=True)
class Program:
    """A generated program, or the steps of it that are left."""

    fuzz: Path
    seed: int
    steps: int
    bytes_file: Path | None = None
    only: str = ""

    def command(self, *options: str) -> list[str]:
        words = [str(self.fuzz), str(self.seed), str(self.steps)]
        if self.bytes_file is not None:
            words += ["--bytes", str(self.bytes_file)]
        if self.only:
            words += ["--only", self.only]
        return [*words, *options]

    def with_steps(self, steps: list[int]) -> "Program":
        return Program(self.fuzz, self.seed, self.steps, self.bytes_file, to_text(steps))

    def __str__(self) -> str:
        return f"{self.bytes_file}" if self.bytes_file is not None else f"seed {self.seed}"


@dataclass
class Totals:
    """What was driven, over all runs."""

    calls: Counter[str] = field(default_factory=Counter)
    wrapped: dict[str, bool] = field(default_factory=dict)
    #: Wrapped names that need not be called, and why.
    reasons: dict[str, str] = field(default_factory=dict)
    programs: int = 0
    differing: int = 0
    undecided: int = 0

    def add(self, outcome: Outcome, runs: int) -> None:
        """Adds the counts that a program printed: its other runs made the same calls."""
        for line in outcome.out.decode(errors="replace").splitlines():
            words = line.split(maxsplit=4)
            if len(words) >= 4 and words[0] == "count":
                self.calls[words[1]] += int(words[2]) * runs
                self.wrapped[words[1]] = words[3] == "wrapped"
                if len(words) == 5:
                    self.reasons[words[1]] = words[4]

    def operations(self) -> int:
        return sum(self.calls.values())

    def not_driven(self) -> list[str]:
        """Wrapped names that no program called and that have no reason for that."""
        return [
            name
            for name, is_wrapped in self.wrapped.items()
            if is_wrapped and self.calls[name] == 0 and name not in self.reasons
        ]


#: What was seen of each configuration that differs.
Differences = dict[Configuration, list[str]]


class Comparison:
    """Compares generated programs in the configurations asked for."""

    def __init__(self, runner: Runner, options: argparse.Namespace) -> None:
        self.runner = runner
        self.options = options
        self.configurations = [Configuration(*one) for one in options.only]

    def program(self, seed: int) -> Program:
        if self.options.bytes is None:
            return Program(self.runner.fuzz, seed, self.options.steps)
        file: Path = self.options.bytes.resolve(strict=True)
        return Program(self.runner.fuzz, seed, max(1, file.stat().st_size // RECORD_BYTES), file)

    def compare(self, program: Program) -> tuple[Outcome, Differences]:
        """The plain run, and how the configurations that differ do that."""
        command = program.command("--counts")
        plain = self.runner.run(command, PLAIN)
        if plain.end == "hung":
            return plain, {PLAIN: ["hung"]}
        found = {
            how: list(plain.differences(self.runner.run(command, how)))
            for how in self.configurations
        }
        return plain, {how: lines for how, lines in found.items() if lines}

    def own_differences(self, program: Program) -> list[str]:
        """How plain runs differ, be it seldom: then the fault is the program's."""
        for command in (program.command("--counts"), program.command("--print")):
            first = self.runner.run(command, PLAIN)
            if first.end == "hung":
                return ["hung"]
            for _ in range(PLAIN_RUNS):
                found = list(first.differences(self.runner.run(command, PLAIN)))
                if found:
                    return found
        return []

    def show(self, program: Program, how: Configuration) -> None:
        """Shrinks a program that differs, and prints what remains of it."""
        pair, rate = None, 0
        for _ in range(TRIES):
            found = self._differing_pair(program, how)
            if found is not None:
                pair, rate = found, rate + 1
        if pair is None:
            print(f"    {how}: seen once and not again in {TRIES} runs with --print")
            print(f"    {self._command(program, how)}", flush=True)
            return
        tries = 1 if rate == TRIES else TRIES
        steps = self._shrunk(program, how, _first_step(pair, program.steps), tries)
        shortest = program.with_steps(steps)
        for _ in range(4 * TRIES):
            found = self._differing_pair(shortest, how)
            if found is not None:
                pair = found
                break
        print(f"    {how}: {len(steps)} steps are left, {rate} of {TRIES} runs differ")
        print(f"    {self._command(shortest, how)}")
        print_side_by_side(pair[0].lines(), pair[1].lines(), f"{how}")

    def _shrunk(
        self, program: Program, how: Configuration, steps: list[int], tries: int
    ) -> list[int]:
        end = time.monotonic() + self.options.shrink_seconds

        def shows(some: list[int]) -> bool:
            shorter = program.with_steps(some)
            return time.monotonic() < end and any(
                self._differing_pair(shorter, how) is not None for _ in range(tries)
            )

        everything = list(range(program.steps))
        if not shows(steps):
            steps = everything
        return shrink(shows, steps)

    def _differing_pair(
        self, program: Program, how: Configuration
    ) -> tuple[Outcome, Outcome] | None:
        command = program.command("--print")
        plain = self.runner.run(command, PLAIN)
        other = self.runner.run(command, how)
        return (plain, other) if any(plain.differences(other)) else None

    def _command(self, program: Program, how: Configuration) -> str:
        words = program.command("--print")
        woven = [str(self.runner.command_for(how)), *how.command(), *words]
        return (
            "cd $(mktemp -d); mkdir a b; "
            f"(cd a; {shlex.join(words)}) >plain; (cd b; {shlex.join(woven)}) >other; "
            "diff -y plain other"
        )


def _first_step(pair: tuple[Outcome, Outcome], steps: int) -> list[int]:
    """The steps up to the one whose line is the first that differs."""
    ours, theirs = (one.out.decode(errors="replace").splitlines() for one in pair)
    for left, right in zip(ours, theirs, strict=False):
        number = left.split(" ", 1)[0]
        if left != right and number.isdigit():
            return list(range(min(int(number) + 1, steps)))
    return list(range(steps))


def print_side_by_side(ours: list[str], theirs: list[str], name: str) -> None:
    """Prints the place where two lists of lines begin to differ."""
    length = max(len(ours), len(theirs))
    left = ours + ["(none)"] * (length - len(ours))
    right = theirs + ["(none)"] * (length - len(theirs))
    first = next((i for i in range(length) if left[i] != right[i]), length)
    begin = max(0, first - LINES_BEFORE)
    width = max(40, min(90, (shutil.get_terminal_size((190, 24)).columns - 11) // 2))
    print(f"      {'plain':{width}}   {name}")
    for i in range(begin, min(length, begin + LINES_IN_ALL)):
        mark = " " if left[i] == right[i] else "|"
        print(f"      {left[i][:width]:{width}} {mark} {right[i][:width]}")
    print(flush=True)


def compare_generated(runner: Runner, options: argparse.Namespace) -> int:
    """Compares until the time is over, the operations are made or a program differs."""
    comparison = Comparison(runner, options)
    totals = Totals()
    end = time.monotonic() + options.seconds
    seed = options.seed
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        while time.monotonic() < end and totals.operations() < options.operations:
            count = options.jobs if options.bytes is None else 1
            programs = [comparison.program(seed + i) for i in range(count)]
            seed += count
            for program, (plain, differing) in zip(
                programs, pool.map(comparison.compare, programs), strict=True
            ):
                totals.programs += 1
                totals.add(plain, 1 + len(comparison.configurations))
                if differing:
                    judge(comparison, program, differing, totals)
            if (totals.differing and not options.keep_going) or options.bytes is not None:
                break
    print_totals(totals, options, seed)
    return totals.differing


def judge(comparison: Comparison, program: Program, differing: Differences, totals: Totals) -> None:
    """Prints what a program that was different shows, unless it is the program's own fault."""
    own = comparison.own_differences(program)
    if own:
        totals.undecided += 1
        print(f"{program}: the program itself differs from run to run: {own[0]}", flush=True)
        return
    totals.differing += 1
    print(f"DIFFERENT {program}, {program.steps} steps: {', '.join(map(str, differing))}")
    for how, lines in differing.items():
        for line in lines:
            print(f"    {how}: {line}")
    comparison.show(program, next(iter(differing)))


def print_totals(totals: Totals, options: argparse.Namespace, seed: int) -> None:
    if options.print_calls:
        for name, count in sorted(totals.calls.items()):
            print(f"  {name:20} {count:12}")
    runs = ", ".join("/".join(one) for one in options.only)
    print(
        f"Seeds {options.seed} to {seed - 1}, {options.steps} steps each, plain and {runs}: "
        f"{totals.operations()} operations of {sum(1 for n in totals.calls.values() if n)} calls, "
        f"{totals.programs} programs, {totals.differing} differ, {totals.undecided} left out"
    )


def check_driven(runner: Runner, options: argparse.Namespace) -> int:
    """Runs programs until each wrapped name was called; returns how many were not."""
    totals = Totals()
    end = time.monotonic() + options.seconds
    seed = options.seed
    while time.monotonic() < end and (totals.programs < 4 or totals.not_driven()):
        program = Program(runner.fuzz, seed, options.steps)
        totals.add(runner.run(program.command("--counts"), PLAIN), 1)
        totals.programs += 1
        seed += 1
    for name in totals.not_driven():
        print(
            f"{name} is wrapped (wrapped_calls.hpp), and no generated program calls it: add it to"
        )
        print("    a step in tests/differential/generated, or to `not_driven` in its journal.c")
    for name, reason in totals.reasons.items():
        print(f"{name} is not called: {reason}")
    print(f"{sum(totals.wrapped.values())} wrapped names, {len(totals.not_driven())} not driven")
    return len(totals.not_driven())
