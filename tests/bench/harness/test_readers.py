"""What `bench/run readers` runs, and what it takes for hideable."""

import tempfile
import unittest
from pathlib import Path

from harness import hill
from harness.benchmarks import readers
from harness.benchmarks.readers import CHUNKS, MIB, Cell, Result, Runner, cells_of, hiding
from harness.build import PROGRAMS, Build
from harness.hill_bench import Round
from harness.model import Chunks
from harness.overlap_rows import rows_of
from harness.places import Place
from harness.process import ProgramFailed
from harness.session import Selection, Session, Unsuitable


def a_run(read_s: float, wall_s: float = 1.0) -> hill.Run:
    return hill.Run(wall_s, read_s, compute_s=1.0, write_s=0.0, chunks=10)


def a_model(n: int, read_s: float, compute_s: float) -> Chunks:
    """As `harness.model.of_totals` would have it."""
    most = read_s + compute_s + (n - 1) * max(read_s, compute_s)
    return Chunks(n, read_s, compute_s, 0.0, most, (n - 1) * read_s, one_device_s=most)


def a_round(read_s: float) -> Round:
    """Of which 0.9 s are hideable, and plain hides none."""
    model = a_model(10, 0.1, 0.1)
    return Round(1.0, a_run(1.0, 2.0), a_run(read_s, 1.0 + read_s), model)


class WithFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def session(self, *words: str, programs: tuple[str, ...], quick: bool = False) -> Session:
        """One whose build has these programs."""
        for name in programs:
            path = self.folder / PROGRAMS[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return Session(
            build=Build(self.folder),
            folder=self.folder,
            data=self.folder,
            results=self.folder,
            quick=quick,
            selection=Selection(programs=words),
        )


class CellsTest(WithFolder):
    BOTH = ("bench_chunk_reader", "bench_chunk_reader_fortran")

    def test_a_reader_is_meant_with_all_its_chunks(self) -> None:
        cells = cells_of(self.session("stdio", "fortran-16m", programs=self.BOTH))
        self.assertEqual([cell.word for cell in cells], ["stdio-4m", "stdio-16m", "fortran-16m"])

    def test_the_quick_form_has_one_chunk_size(self) -> None:
        cells = cells_of(self.session("read", programs=self.BOTH, quick=True))
        self.assertEqual(cells, [Cell("read", 4 * MIB)])

    def test_a_reader_that_is_not_built_is_left_out_with_a_note(self) -> None:
        session = self.session("read", "fortran", programs=self.BOTH[:1])
        self.assertEqual({cell.reader for cell in cells_of(session)}, {"read"})
        (note,) = session.notes
        self.assertIn("fortran is left out", note)

    def test_an_unknown_reader_is_refused_with_the_known_ones(self) -> None:
        with self.assertRaisesRegex(Unsuitable, "mmap-16m"):
            cells_of(self.session("pascal", programs=self.BOTH))

    def test_every_way_is_told_its_chunk_and_its_computation(self) -> None:
        session = self.session(programs=self.BOTH)
        for reader in readers.READERS:
            with self.subTest(reader):
                words = Cell(reader, CHUNKS[0]).command(session, Path("/data"), 123)
                told = " ".join(words[1:])
                for part in ("/data", str(CHUNKS[0]), "123"):
                    self.assertIn(part, told)


class FiguresTest(WithFolder):
    def test_no_more_is_hideable_than_the_computation_covers(self) -> None:
        self.assertEqual(hiding(a_model(5, read_s=2.0, compute_s=1.0)).hideable_s, 4 * 1.0)
        self.assertEqual(hiding(a_model(5, read_s=1.0, compute_s=2.0)).hideable_s, 4 * 1.0)

    def test_bars_are_on_hidden_time_and_on_plains_time_where_the_place_has_bars(self) -> None:
        rounds = [a_round(0.1), a_round(0.4), a_round(0.19)]
        for barred in (True, False):
            with self.subTest(barred=barred):
                rows = list(rows_of("slowfs, x", MIB, rounds, barred=barred, over_model=None))
                bars = {row.metric.split(": ")[1]: str(row.bar) for row in rows if row.bar}
                expected = {
                    "read time hidden, of the hideable": ">= 0.8",
                    "time over the plain program's": "<= 1.03",
                }
                self.assertEqual(bars, expected if barred else {})
                self.assertAlmostEqual(rows[0].summary.value, 0.9)

    def test_what_another_reader_read_differently_is_an_error(self) -> None:
        place = Place("here", self.folder, self.folder)
        runner = Runner(self.session(programs=()), place, "data.bin")
        runner.check(Cell("read", 4 * MIB), Result(a_run(1.0), "01"))
        runner.check(Cell("numpy", 4 * MIB), Result(a_run(1.0), "01"))
        runner.check(Cell("read", 16 * MIB), Result(a_run(1.0), "02"))  # other chunks
        with self.assertRaisesRegex(ProgramFailed, "fortran-4m: it read something else"):
            runner.check(Cell("fortran", 4 * MIB), Result(a_run(1.0), "02"))


if __name__ == "__main__":
    unittest.main()
