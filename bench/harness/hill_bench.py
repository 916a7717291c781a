"""Hill and its data in one place: the contenders of the overlap benchmark and of the demo."""

from __future__ import annotations

import contextlib
import filecmp
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import hill, process
from harness.model import Chunks, of_totals
from harness.places import Place
from harness.samples import alternate
from harness.session import Session

#: What the key size is fitted on.
SAMPLE_BYTES = 8 << 20
SAMPLE_CHUNK = 4 << 20
#: Computation is made to take this much longer than reading, so that all of the read time but the
#: first chunk's can be hidden, whatever the speed of either does from run to run.
COMPUTE_OVER_READ = 1.05


def size_name(size: int) -> str:
    """A chunk size for people."""
    return f"{size // (1 << 20)} MiB" if size >= (1 << 20) else f"{size // (1 << 10)} KiB"


@dataclass(frozen=True)
class Round:
    """The three contenders, one after another, and the model's terms of that round."""

    read_s: float
    plain: hill.Run
    woven: hill.Run
    model: Chunks
    behind: hill.Run | None = None  #: as `woven`, and a rule has the output written behind

    @property
    def hidden(self) -> float:
        """Share of the hideable read time that the program did not wait for."""
        return (self.read_s - self.woven.read_s) / self.model.hideable_s

    @property
    def hidden_by_kernel(self) -> float:
        """The same of the plain program: what the kernel's own read-ahead hides."""
        return (self.read_s - self.plain.read_s) / self.model.hideable_s

    @property
    def held(self) -> hill.Run:
        """The run with the rule, where there was to be one."""
        assert self.behind is not None
        return self.behind


class Bench:
    """Runs the contenders; every run finds the input cold."""

    def __init__(self, session: Session, place: Place, data: str) -> None:
        self.place = place
        self._session = session
        self._data = data
        self._stats = session.folder / "hill.json"
        self._hill = session.program("hill")
        self._alone_s: dict[int, float] = {}
        woven = [str(session.program("ioweave")), "run", "-q"]
        self._prefixes = {
            "plain": [],
            "woven": [*woven, "--policy", "overlap", "--"],
            "behind": [*woven, "--rule", self.rule, "--"],
        }

    @property
    def source(self) -> Path:
        """The input, in the place."""
        return self.place.folder / self._data

    @property
    def rule(self) -> str:
        """What has the outputs written behind."""
        return f"{self.place.folder}/*.out=behind"

    def read_alone(self, chunk: int) -> hill.Run:
        """R, all chunks together: the file is read and nothing else is done."""
        self._settle()
        self.place.make_cold(self._data)
        done = process.run(
            [
                *self.place.prefix,
                self._session.program("bench_cold_read"),
                f"--file={self.source}",
                f"--chunk={chunk}",
            ]
        )
        (figures,) = done.json_lines()
        chunks = -(-int(figures["bytes"]) // chunk)
        return hill.Run(done.wall_s, figures["seconds"], 0.0, 0.0, chunks)

    def encrypt(self, chunk: int, key_size: int, contender: str) -> hill.Run:
        """One run of Hill: `plain`, `woven` or `behind`. Its output stays until the next one."""
        target = f"{contender}.out"
        self.place.remove(target)
        self._settle()
        self.place.make_cold(self._data)
        job = hill.Job(self.source, self.place.folder / target, chunk, key_size)
        prefix = [*self.place.prefix, *self._prefixes[contender]]
        return hill.run(self._hill, job, self._stats, prefix)

    def _settle(self) -> None:
        """Waits until earlier outputs are on the disk: that is no part of the next run."""
        for contender in self._prefixes:
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(self.place.direct / f"{contender}.out", os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def check_equal(self, one: str, other: str) -> None:
        """Compares two files of the place byte by byte.

        Raises:
            ProgramFailed: They differ.
        """
        folder = self.place.direct
        filecmp.clear_cache()
        if not filecmp.cmp(folder / one, folder / other, shallow=False):
            raise process.ProgramFailed(f"{folder}: {one} and {other} differ")

    def fit_key_size(self, chunk: int, *, and_writes: bool = False) -> int:
        """The key size at which Hill, in chunks of that size, computes about as long as it reads,
        or reads and writes.

        Beside I/O it computes more slowly than alone, and how much depends on the chunk: two
        virtual processors may share a core, and an emulated device needs one itself. So the size
        that fits alone is tried in the place. It warms up the memory, too.
        """
        wanted_s = COMPUTE_OVER_READ * self.read_alone(chunk).read_s
        key_size = hill.fit_key_size(self._compute_alone_s, wanted_s)
        beside_io = self.encrypt(chunk, key_size, "plain")
        slowdown = beside_io.compute_s / self._compute_alone_s(key_size)
        if and_writes:
            wanted_s += COMPUTE_OVER_READ * beside_io.write_s
        return hill.fit_key_size(self._compute_alone_s, wanted_s / slowdown)

    @functools.cached_property
    def _sample(self) -> Path:
        sample = self._session.folder / "sample"
        with self.source.open("rb") as whole:
            sample.write_bytes(whole.read(SAMPLE_BYTES))
        return sample

    def _compute_alone_s(self, key_size: int) -> float:
        """The computation on all of the data, from that on a sample in memory."""
        if key_size not in self._alone_s:
            job = hill.Job(self._sample, Path("/dev/null"), SAMPLE_CHUNK, key_size)
            runs = [hill.run(self._hill, job, self._stats) for _ in range(3)]
            share = SAMPLE_BYTES / self.source.stat().st_size
            self._alone_s[key_size] = min(run.compute_s for run in runs) / share
        return self._alone_s[key_size]

    def rounds(
        self, chunk: int, key_size: int, count: int, *, behind: bool = False
    ) -> Iterator[Round]:
        """Reading alone, Hill plainly and Hill under `ioweave run`, in turn, so many times.

        The outputs are compared in each round.

        Args:
            behind: Once more under `ioweave run`, with the rule.
        """
        names = ["plain", "woven", *(["behind"] if behind else [])]
        contenders = {"read": partial(self.read_alone, chunk)}
        contenders |= {name: partial(self.encrypt, chunk, key_size, name) for name in names}
        for results in alternate(contenders, count):
            read, plain, woven = results["read"], results["plain"], results["woven"]
            for name in names[1:]:
                self.check_equal("plain.out", f"{name}.out")
            model = of_totals(
                self._session.program("bench_model"),
                *(plain.chunks, read.read_s, plain.compute_s, plain.write_s),
            )
            yield Round(read.read_s, plain, woven, model, results.get("behind"))
