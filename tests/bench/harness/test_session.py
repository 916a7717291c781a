import tempfile
import unittest
from pathlib import Path

from harness.build import Build, BuildFailed, locate
from harness.session import Unsuitable, session


class SessionTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = Path(folder.name, "base")
        self.build = Build(Path(folder.name))

    def test_its_folder_is_gone_afterwards(self) -> None:
        with session(self.build, self.base, quick=True) as running:
            (running.folder / "data").touch()
        self.assertEqual(list(self.base.iterdir()), [])

    def test_what_a_killed_benchmark_left_is_removed(self) -> None:
        stale = self.base / "run-999999999-abc"
        stale.mkdir(parents=True)
        (stale / "data").touch()
        with session(self.build, self.base, quick=True):
            self.assertFalse(stale.exists())

    def test_files_kept_for_the_next_run_stay(self) -> None:
        self.base.mkdir()
        (self.base / "installed.tar").touch()
        with session(self.build, self.base, quick=True):
            pass
        self.assertTrue((self.base / "installed.tar").exists())

    def test_a_full_disk_is_told_before_anything_is_measured(self) -> None:
        with (
            session(self.build, self.base, quick=True) as running,
            self.assertRaisesRegex(Unsuitable, "--dir"),
        ):
            running.need_space(1 << 62)

    def test_a_missing_program_names_the_target_that_builds_it(self) -> None:
        with self.assertRaisesRegex(BuildFailed, "target 'benchmarks'"):
            self.build.program("hill")

    def test_a_folder_that_is_no_build_is_refused(self) -> None:
        with self.assertRaisesRegex(BuildFailed, "not a build folder"):
            locate(self.base)
