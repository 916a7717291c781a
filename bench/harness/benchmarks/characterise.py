"""`ioweave bench`: whether its own engine finds what fio finds, and what this device is like."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness import process
from harness.result import Row, at_most, row
from harness.samples import alternate
from harness.session import Session

#: Rates of one measurement, in MB/s, by what is measured.
Rates = dict["Load", float]


@dataclass(frozen=True)
class Load:
    """What `ioweave bench` calls a load."""

    way: str
    cache: str
    pattern: str
    read_percent: int
    block_bytes: int
    depth: int

    @property
    def group(self) -> str:
        """Whose loads are summed up in a row."""
        direction = {0: "writes", 100: "reads"}.get(self.read_percent, "mixed")
        return f"{self.cache}, {self.way}, {direction}"


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int
    size: str
    seconds: float
    repetitions: int  # of the profile


FULL = Effort(rounds=7, size="512m", seconds=0.3, repetitions=3)
QUICK = Effort(rounds=1, size="64m", seconds=0.05, repetitions=1)

AGREE_ON = (
    "--study=block,depth",
    "--way=psync,io_uring",
    "--blocks=4k,64k,1m",
    "--depth=1,4,16,64",
    "--repetitions=1",
)


def rates_of(profile: str) -> Rates:
    """The MB/s of each load that was measured, from the JSON of `ioweave bench`."""
    rates = {}
    for result in json.loads(profile)["results"]:
        if result["samples"]:
            load = Load(**{name: result[name] for name in Load.__dataclass_fields__})
            rates[load] = float(result["mb_per_s"])
    return rates


def ratios_by_group(ours: Rates, theirs: Rates) -> dict[str, float]:
    """The median of ours over theirs, over the loads of each group."""
    groups: dict[str, list[float]] = {}
    for load, rate in ours.items():
        if theirs.get(load, 0) > 0:
            groups.setdefault(load.group, []).append(rate / theirs[load])
    return {group: statistics.median(ratios) for group, ratios in groups.items()}


def _measure(ioweave: Path, folder: Path, effort: Effort, runner: str) -> Rates:
    words = [f"--with={runner}", f"--size={effort.size}", f"--seconds={effort.seconds}", *AGREE_ON]
    return rates_of(process.run([ioweave, "bench", "--json", *words, folder]).stdout)


def _agreement(session: Session, effort: Effort) -> Iterator[Row]:
    if shutil.which("fio") is None:
        session.note("no comparison with fio: it is not installed")
        return
    ioweave = session.program("ioweave")
    rounds = session.selection.pairs or effort.rounds
    contenders = {
        name: partial(_measure, ioweave, session.folder, effort, name)
        for name in ("ioweave", "fio")
    }
    session.progress(f"our engine and fio in turn, {rounds} rounds")
    measured = [
        ratios_by_group(pair["ioweave"], pair["fio"]) for pair in alternate(contenders, rounds)
    ]
    for group in sorted(set().union(*measured)):
        ratios = [each[group] for each in measured if group in each]
        yield row(f"{group}: our engine's MB/s over fio's", "ratio", ratios)
        apart = max(statistics.median(ratios), 1 / statistics.median(ratios))
        yield row(f"{group}: how far the two are apart", "ratio", [apart], at_most(1.1))


def _profile(session: Session, effort: Effort) -> Iterator[Row]:
    session.progress("the profile of this device, by all ways")
    session.results.mkdir(parents=True, exist_ok=True)
    saved = session.results / "device-profile.json"
    words = [f"--size={effort.size}", f"--seconds={effort.seconds}"]
    process.run(
        [
            session.program("ioweave"),
            "bench",
            *words,
            f"--repetitions={effort.repetitions}",
            f"--json={saved}",
            f"--pictures={session.results / 'device-profile'}",
            session.folder,
        ],
        timeout_s=1800,
    )
    session.note(f"the profile is in {saved}, its pictures are beside it")
    rates = rates_of(saved.read_text(encoding="utf-8"))
    plain = {load: rate for load, rate in rates.items() if load.way == "psync"}
    for way in sorted({load.way for load in rates} - {"psync"}):
        same = {replace(load, way="psync"): r for load, r in rates.items() if load.way == way}
        for group, ratio in sorted(ratios_by_group(same, plain).items()):
            cache, _, direction = group.split(", ")
            yield row(f"{cache}, {direction}: {way} over psync, one at a time", "ratio", [ratio])


def run(session: Session) -> Iterator[Row]:
    """Yields the rows of both parts."""
    effort = QUICK if session.quick else FULL
    session.need_space(2 << 30)
    wanted = session.selection.programs or ("agree", "profile")
    if "agree" in wanted:
        yield from _agreement(session, effort)
    if "profile" in wanted:
        yield from _profile(session, effort)
