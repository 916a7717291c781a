"""Short runs in small: what is run, and how static limits and parts are chosen."""

import argparse
import tempfile
import unittest
from pathlib import Path

from harness.benchmarks import tasks
from harness.build import Build
from harness.programs import selected
from harness.session import Selection, Session, Unsuitable
from harness.tasks import short, short_run


class ShortRunTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(dir=Path.cwd())
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def options(self, workload: str, contender: str) -> argparse.Namespace:
        return argparse.Namespace(
            workload=workload,
            contender=contender,
            count=5,
            limit=2,
            folder=str(self.folder),
            iterations=1,
        )

    def run_one(self, workload: str, contender: str) -> float:
        options = self.options(workload, contender)
        if contender == "pool":
            return short_run.with_pool(options)
        return short_run.with_ioweave(options)

    def test_every_contender_makes_each_file_once(self) -> None:
        for contender in short_run.CONTENDERS:
            with self.subTest(contender):
                self.assertGreater(self.run_one("fsync", contender), 0)
                self.assertEqual(len(list(self.folder.iterdir())), 5)
                for path in self.folder.iterdir():
                    path.unlink()

    def test_a_pool_and_ioweave_write_the_same_checkpoints(self) -> None:
        written = []
        for contender in ("pool", "climb"):
            self.run_one("checkpoints", contender)
            written.append([path.read_bytes() for path in sorted(self.folder.iterdir())])
        self.assertEqual(written[0], written[1])
        self.assertEqual(len(written[0][0]), short_run.CHECKPOINT_BYTES)

    def test_files_that_are_read_come_round_again(self) -> None:
        read = short_run.paths("reads", "/d", short_run.READ_FILES + 1)
        self.assertEqual(read[0], read[-1])
        self.assertEqual(len(set(short_run.paths("fsync", "/d", 2000))), 2000)


class ChoiceTest(unittest.TestCase):
    def test_the_two_best_limits_of_the_sweep_are_kept_the_best_one_first(self) -> None:
        took = {4: 3.0, 8: 1.0, 16: 2.0, 32: 4.0}
        self.assertEqual(
            short.best_limits(lambda limit: took[limit], tuple(took)), [(8, 1.0), (16, 2.0)]
        )

    def test_words_choose_workloads_and_lengths(self) -> None:
        chosen = short._chosen(short.LENGTHS, ["short-sleep", "short-fsync-10s"])
        self.assertEqual(
            {name: [length.name for length in lengths] for name, lengths in chosen.items()},
            {"sleep": ["2s", "10s"], "fsync": ["10s"]},
        )
        self.assertEqual(set(short._chosen(short.LENGTHS, [])), set(short_run.WORKLOADS))

    def test_a_word_of_which_nothing_would_run_is_refused(self) -> None:
        cells = tasks.cells()
        self.assertEqual(selected(cells, ["short-reads"]), ["short-reads-2s", "short-reads-10s"])
        self.assertEqual(tasks.chosen(["peers", "short-reads"]), ["peers", "short"])
        self.assertEqual(tasks.chosen([]), list(tasks.PARTS))
        for word in ("shorts", "peers-dask", "short-naps"):
            with self.subTest(word), self.assertRaisesRegex(Unsuitable, word):
                tasks.chosen([word])


class RunnerTest(unittest.TestCase):
    def test_each_run_of_the_disk_begins_without_files(self) -> None:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
            folder = Path(name)
            session = Session(Build(folder), folder, folder, folder, False, selection=Selection())
            runner = short.Runner(session, short.WORKLOADS[2], short.Spot(folder))
            (folder / "left").touch()
            runner._clear()
            self.assertEqual(list(folder.iterdir()), [])
            (folder / "left").touch()
            spot = short.Spot(folder, keeps_files=True)
            short.Runner(session, short.WORKLOADS[1], spot)._clear()
            self.assertEqual([path.name for path in folder.iterdir()], ["left"])


if __name__ == "__main__":
    unittest.main()
