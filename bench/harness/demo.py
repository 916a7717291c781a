"""What `make demo` runs: Hill on this machine's own files, plainly and under `ioweave run`."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import build, environment, hill, result
from harness.files import installed_tar
from harness.hill_bench import Bench, Round, size_name
from harness.places import SLOWFS_SPEED, PlaceUnavailable, on_raw_disk, on_slowfs
from harness.process import signals_as_exits
from harness.result import Outcome, Row, row
from harness.session import Session, Unsuitable, session

MIB = 1 << 20
CHUNK_BYTES = 16 * MIB
PAIRS = 3
#: The largest that fits is taken; each needs room for itself and four outputs.
SIZES = (1024 * MIB, 512 * MIB, 256 * MIB)

DEVICES = (
    (
        on_slowfs,
        "an emulated parallel file system "
        f"(bench/slowfs: {SLOWFS_SPEED.read_mb_s:g} MB/s, {SLOWFS_SPEED.latency_us} us)",
    ),
    (on_raw_disk, "this machine's own disk"),
)


@dataclass(frozen=True)
class Result:
    """What was measured on one device; times are medians over the pairs."""

    device: str
    key_size: int
    rule: str
    rounds: Sequence[Round]

    def median(self, figure: Callable[[Round], float]) -> float:
        """The median of a figure of the rounds."""
        return statistics.median(map(figure, self.rounds))

    @property
    def speed_up(self) -> float:
        """How many times as fast, pair by pair."""
        return self.median(lambda r: r.plain.wall_s / r.woven.wall_s)

    @property
    def rule_speed_up(self) -> float:
        """The same with the rule that has the output written behind."""
        return self.median(lambda r: r.plain.wall_s / r.held.wall_s)

    @property
    def writes_hidden(self) -> float:
        """Share of the plain program's write time that it does not wait for with the rule."""
        return max(0.0, self.median(lambda r: 1 - r.held.write_s / r.plain.write_s))

    @property
    def rule_over_model(self) -> float:
        """Its time over that of the model, in which one device reads and writes in turn."""
        return self.median(lambda r: r.held.wall_s / r.model.one_device_s)

    @property
    def hidden(self) -> float:
        """Share of the hideable read time, at most all of it."""
        return min(1.0, max(0.0, self.median(lambda r: r.hidden)))

    def rows(self) -> Iterable[Row]:
        """For machines."""
        figures: dict[str, Callable[[Round], float]] = {
            "plain": lambda r: r.plain.wall_s,
            "plain, waiting for reads": lambda r: r.plain.read_s,
            "plain, waiting for writes": lambda r: r.plain.write_s,
            "ioweave run": lambda r: r.woven.wall_s,
            "ioweave run, waiting for reads": lambda r: r.woven.read_s,
            "ioweave run, waiting for writes": lambda r: r.woven.write_s,
            "with the rule": lambda r: r.held.wall_s,
            "with the rule, waiting for reads": lambda r: r.held.read_s,
            "with the rule, waiting for writes": lambda r: r.held.write_s,
        }
        for name, figure in figures.items():
            yield row(f"{self.device}: {name}", "s", list(map(figure, self.rounds)))
        hidden = [r.hidden for r in self.rounds]
        yield row(f"{self.device}: read time hidden, of the hideable", "ratio", hidden)
        ratios = [r.held.wall_s / r.model.one_device_s for r in self.rounds]
        yield row(f"{self.device}: with the rule, over its model", "ratio", ratios)

    def lines(self) -> Iterable[str]:
        """For people."""
        plain = self.median(lambda r: r.plain.wall_s)
        woven = self.median(lambda r: r.woven.wall_s)
        model = self.median(lambda r: r.model.overlapped_s)
        with_rule = self.median(lambda r: r.model.one_device_s)
        n = self.rounds[0].model.n
        hideable = self.median(lambda r: r.model.hideable_s)
        yield f"On {self.device}, key {self.key_size} x {self.key_size}"
        yield f"  the rule: ioweave run --rule '{self.rule}' -- hill ..."
        yield (
            f"  plain         {plain:7.2f} s   waits "
            f"{self.median(lambda r: r.plain.read_s):5.2f} s for reads and "
            f"{self.median(lambda r: r.plain.write_s):5.2f} s for writes"
        )
        yield (
            f"  ioweave run   {woven:7.2f} s   waits "
            f"{self.median(lambda r: r.woven.read_s):5.2f} s for reads and "
            f"{self.median(lambda r: r.woven.write_s):5.2f} s for writes   "
            f"{self.speed_up:.2f} times as fast"
        )
        yield f"  hidden        {self.hidden:7.0%}     of {hideable:.2f} s of reading that can be"
        yield f"  PPIS model    {model:7.2f} s   observed {woven / model:.2f} times that"
        yield (
            f"                            R + C + W + (n-1) (max(R, C) + W) with n {n}, "
            f"R {self.median(lambda r: r.model.read_s) * 1e3:.1f}, "
            f"C {self.median(lambda r: r.model.compute_s) * 1e3:.1f}, "
            f"W {self.median(lambda r: r.model.write_s) * 1e3:.1f} ms"
        )
        yield (
            f"  with the rule {self.median(lambda r: r.held.wall_s):7.2f} s   waits "
            f"{self.median(lambda r: r.held.read_s):5.2f} s for reads and "
            f"{self.median(lambda r: r.held.write_s):5.2f} s for writes   "
            f"{self.rule_speed_up:.2f} times as fast"
        )
        yield (
            f"  its model     {with_rule:7.2f} s   observed {self.rule_over_model:.2f} times that: "
            "R + C + W + (n-1) max(C, R + W)"
        )


def _say(text: str = "") -> None:
    print(text, flush=True)


def _emphasised(text: str) -> str:
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if plain else f"\033[1m{text}\033[0m"


def _data(running: Session, sizes: Sequence[int]) -> Path:
    """The data, made on the first run, as large as the disk allows."""
    for size in sizes:
        path = running.data / f"installed-{size // MIB}M.tar"
        try:
            running.need_space(size * (4 if path.exists() else 5) + 256 * MIB)
        except Unsuitable:
            if size == sizes[-1]:
                raise
            continue
        if not path.exists():
            running.progress(f"making {path} (once)")
        return installed_tar(path, size)
    raise AssertionError("no sizes")


def _check_decryption(running: Session, bench: Bench, key_size: int) -> None:
    """Decrypts the last output and compares it with the input.

    Raises:
        ProgramFailed: They differ.
    """
    running.progress("decrypting")
    folder = bench.place.direct
    job = hill.Job(
        folder / "woven.out", folder / "decrypted", CHUNK_BYTES, key_size, mode="decrypt"
    )
    hill.run(running.program("hill"), job, running.folder / "hill.json")
    bench.check_equal(bench.source.name, "decrypted")
    bench.place.remove("decrypted")


def _measure(running: Session, data: Path) -> Iterable[Result]:
    for open_place, device in DEVICES:
        try:
            with open_place(running, data) as place:
                bench = Bench(running, place, data.name)
                running.progress(f"{place.name}: making computation as long as the I/O")
                key_size = bench.fit_key_size(CHUNK_BYTES, and_writes=True)
                rounds = []
                for pair in bench.rounds(CHUNK_BYTES, key_size, PAIRS, behind=True):
                    rounds.append(pair)
                    running.progress(
                        f"{place.name}, round {len(rounds)} of {PAIRS}: {pair.plain.wall_s:.2f} s, "
                        f"{pair.woven.wall_s:.2f} s, with the rule {pair.held.wall_s:.2f} s"
                    )
                _check_decryption(running, bench, key_size)
                yield Result(device, key_size, bench.rule, rounds)
        except PlaceUnavailable as error:
            _say(f"Not on {device}: {error}\n")


def _headline(best: Result) -> str:
    plain = best.median(lambda r: r.plain.wall_s)
    woven = best.median(lambda r: r.woven.wall_s)
    return (
        f"Unmodified, on {best.device}: {plain:.1f} s became {woven:.1f} s, "
        f"{best.hidden:.0%} of the hideable read time hidden, and "
        f"{best.median(lambda r: r.held.wall_s):.1f} s with a rule that hides "
        f"{best.writes_hidden:.0%} of the write time too; output identical."
    )


def _show(running: Session, sizes: Sequence[int]) -> list[Row]:
    """Measures, and prints it for people; returns it for machines."""
    data = _data(running, sizes)
    size = data.stat().st_size
    _say(f"Program: apps/hill encrypts by {size_name(CHUNK_BYTES)}; it knows nothing of Ioweave")
    _say(f"Data:    {data}, {size // MIB} MiB of this machine's installed files, cold each time")
    _say(f"Runs:    {PAIRS} rounds per device, in turn; medians\n")
    results = []
    for measured in _measure(running, data):
        results.append(measured)
        _say("\n".join(measured.lines()) + "\n")
    _say("Every output under `ioweave run` equals the plain one, and decrypts to the input.\n")
    # The first device is the one whose speed is known; the raw disk leads only where FUSE lacks.
    _say(_emphasised(_headline(results[0])))
    return [line for measured in results for line in measured.rows()]


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="bench/demo", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the data")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="make the files there")
    parser.add_argument(
        "--build-dir", type=Path, metavar="DIR", help="use this build as it is, build nothing"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args(arguments)
    base = options.dir or build.ROOT / "build/bench-data"
    try:
        with signals_as_exits():
            tools = build.locate(options.build_dir)
            with session(tools, base, quick=options.quick) as running:
                start = time.monotonic()
                rows = _show(running, SIZES[-1:] if options.quick else SIZES)
                if options.json is not None:
                    surroundings = environment.describe(tools, base)
                    outcome = Outcome("demo", rows, [], time.monotonic() - start)
                    document = result.document([outcome], surroundings, quick=options.quick)
                    result.write(options.json, document)
    except (RuntimeError, OSError) as error:
        print(f"bench/demo: {error}", file=sys.stderr)
        return 1
    return 0
