#!/usr/bin/env python3
"""pyCubexR reads what cube_remap writes, and finds the values that it reads from the input.

Usage: cube_pycubexr_test.py CUBE_REMAP

The real profiles are those of /work/shared/data/cubex, or of the folder that CUBE_TEST_PROFILES
names. Ends with 77, which means skipped, where they or pyCubexR are missing.
"""

import importlib
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

PROFILES = Path(os.environ.get("CUBE_TEST_PROFILES", "/work/shared/data/cubex"))
SKIPPED = 77
# Values that pyCubexR reads, but does not convert between inclusive and exclusive.
NOT_CONVERTED = ("MINDOUBLE", "MAXDOUBLE", "TAU_ATOMIC", "RATE", "COMPLEX", "NDOUBLES")
# Values that it does not read at all.
NOT_READ = ("HISTOGRAM", "SCALE_FUNC")


class PyCubexR(unittest.TestCase):
    """Each test compares every value of every metric at every call path."""

    command: ClassVar[str]
    pycubexr: ClassVar[Any]
    numpy: ClassVar[Any]

    def remap(self, profile: Path, folder: Path, *options: str) -> Path:
        """Runs the program on a profile and returns its output."""
        output = folder / "out.cubex"
        subprocess.run([self.command, *options, profile, output], check=True, stderr=sys.stderr)
        return output

    def both(self, *options: str) -> Iterator[tuple[Path, Any, Any]]:
        """Gives each profile with a reader of it and of what the program makes of it."""
        for profile in sorted(PROFILES.glob("*.cubex")):
            with (
                self.subTest(profile=profile.name, options=options),
                tempfile.TemporaryDirectory(prefix="cube-test-") as folder,
            ):
                output = self.remap(profile, Path(folder), *options)
                with self.open(profile) as before, self.open(output) as after:
                    yield output, before, after

    def open(self, profile: Path) -> Any:
        """A reader of a profile."""
        return self.pycubexr.CubexParser(str(profile))

    def values(self, parser: Any, name: str) -> Any:
        """The values of a metric; None where there are none, or none that it reads."""
        metric = parser.get_metric_by_name(name)
        has_values = f"{metric.id}.index" in parser._tar_file_members()
        if not has_values or metric.data_type.startswith(NOT_READ):
            return None
        # Otherwise it takes the largest integers for zeros, as CubeLib does.
        return parser.get_metric_values(metric, allow_full_uint64_values=True)

    def expect_same(self, before: Any, after: Any, message: str) -> None:
        """Compares two rows of values, of whatever class pyCubexR makes them."""
        left = getattr(before, "_values", before)
        right = getattr(after, "_values", after)
        self.assertEqual(left.shape, right.shape, message)
        # The byte order may differ, the values may not.
        self.assertEqual(left.tolist(), right.tolist(), message)

    def compare(self, before: Any, after: Any, kind: str | None, threads: int | None = None) -> int:
        """Compares all metrics; `kind`: what additive ones became. Returns how many it compared."""
        compared = 0
        for metric in before.all_metrics():
            old = self.values(before, metric.name)
            new = self.values(after, metric.name)
            if metric.data_type.startswith(NOT_READ):
                continue
            self.assertEqual(old is None, new is None, metric.name)
            if old is None:
                continue
            written = after.get_metric_by_name(metric.name).metric_type
            converted = kind is not None and written != metric.metric_type
            if converted and metric.data_type.startswith(NOT_CONVERTED):
                continue
            for cnode in before.all_cnodes():
                row = old.cnode_values(
                    cnode,
                    convert_to_inclusive=converted and kind == "INCLUSIVE",
                    convert_to_exclusive=converted and kind == "EXCLUSIVE",
                )
                if threads is not None:
                    indices = self.numpy.arange(threads) % old.num_locations()
                    row = getattr(row, "_values", row)[indices]
                other = after.get_cnode(cnode.id)
                self.expect_same(row, new.cnode_values(other), f"{metric.name}, {cnode}")
            compared += 1
        return compared

    def test_stored_values_stay_what_they_are(self) -> None:
        compared = 0
        for _, before, after in self.both("--as", "stored"):
            compared += self.compare(before, after, None)
        self.assertGreater(compared, 40)

    def test_inclusive_values_are_the_same(self) -> None:
        for _, before, after in self.both("--as", "inclusive"):
            self.assertGreater(self.compare(before, after, "INCLUSIVE"), 0)
            visits = [m for m in after.all_metrics() if m.name == "visits"]
            self.assertTrue(all(m.metric_type == "INCLUSIVE" for m in visits))

    def test_exclusive_values_are_the_same(self) -> None:
        for _, before, after in self.both("--as", "exclusive"):
            self.assertGreater(self.compare(before, after, "EXCLUSIVE"), 0)

    def test_each_mode_and_step_writes_the_same(self) -> None:
        steps = (
            ("--mode", "synchronous"),
            ("--mode", "aio", "--pin", "--align", "--pool"),
            ("--mode", "ioweave", "--pin", "--huge-pages"),
            ("--mode", "aio", "--item", "4K", "--buffers", "3", "--compute-threads", "2"),
        )
        for options in steps:
            for _, before, after in self.both(*options):
                self.assertGreater(self.compare(before, after, "INCLUSIVE"), 0)

    def test_repeated_threads_have_the_values_of_those_they_repeat(self) -> None:
        for _, before, after in self.both("--threads", "1000", "--compute-threads", "2"):
            self.assertEqual(len(after.get_locations()), 1000)
            ids = [location.id for location in after.get_locations()]
            self.assertEqual(sorted(ids), list(range(1000)))
            self.assertGreater(self.compare(before, after, "INCLUSIVE", 1000), 0)

    def test_processes_have_the_sums_of_their_threads(self) -> None:
        for profile in sorted(PROFILES.glob("*.cubex")):
            with (
                self.subTest(profile=profile.name),
                tempfile.TemporaryDirectory(prefix="cube-test-") as folder,
                self.open(profile) as before,
            ):
                simple = [
                    metric.name
                    for metric in before.all_metrics()
                    if metric.data_type in ("UINT64", "INT64", "DOUBLE")
                ]
                options = ("--aggregate", "process", "--as", "stored", "--metrics")
                output = self.remap(profile, Path(folder), *options, ",".join(simple))
                with self.open(output) as after:
                    self.compare_sums(before, after, simple)

    def compare_sums(self, before: Any, after: Any, names: list[str]) -> None:
        """Compares columns of processes with the sums of those of their threads."""
        root = before._anchor_result.system_tree_nodes[0]
        groups = [[one.id for one in group.all_locations()] for group in root.all_location_groups()]
        self.assertEqual(len(after.get_locations()), len(groups))
        for name in names:
            old = self.values(before, name)
            if old is None:
                continue
            new = self.values(after, name)
            for cnode in before.all_cnodes():
                row = old.cnode_values(cnode)
                # One after the other, as the program does: doubles depend on the order.
                sums = [self.numpy.cumsum(row[ids])[-1] for ids in groups]
                self.assertEqual(sums, new.cnode_values(cnode).tolist(), f"{name}, {cnode}")

    def test_types_it_does_not_read_are_copied_byte_for_byte(self) -> None:
        copied = 0
        for output, before, _ in self.both():
            for metric in before.all_metrics():
                if not metric.data_type.startswith((*NOT_READ, "TAU_ATOMIC")):
                    continue
                name = f"{metric.id}.data"
                with tarfile.open(before._cubex_filename) as old, tarfile.open(output) as new:
                    left, right = old.extractfile(name), new.extractfile(name)
                    assert left is not None and right is not None
                    self.assertEqual(left.read(), right.read(), metric.name)
                copied += 1
        self.assertGreater(copied, 0)


def main(arguments: list[str]) -> int:
    """Runs the tests with the program that the command line names."""
    if not any(PROFILES.glob("*.cubex")):
        print(f"SKIP: no profiles in {PROFILES} (CUBE_TEST_PROFILES)")
        return SKIPPED
    try:
        PyCubexR.pycubexr = importlib.import_module("pycubexr")
        PyCubexR.numpy = importlib.import_module("numpy")
    except ImportError as error:
        print(f"SKIP: {error} (pip install -r tools/requirements-dev.txt)")
        return SKIPPED
    PyCubexR.command = arguments[1]
    warnings.simplefilter("error")
    program = unittest.main(argv=[arguments[0], "-v"], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
