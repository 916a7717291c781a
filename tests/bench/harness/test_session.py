import tempfile
import unittest
from pathlib import Path

from harness.build import Build, BuildFailed, locate, use_python_package
from harness.session import Unsuitable, own_folder, session


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

    def test_folders_elsewhere_go_with_the_next_process_that_makes_one(self) -> None:
        self.base.mkdir()
        for name in ("ioweave-bench-999999999-abc", "ioweave-bench-other"):
            (self.base / name).mkdir()
        with own_folder(self.base, "ioweave-bench-") as folder:
            self.assertEqual(
                {p.name for p in self.base.iterdir()}, {"ioweave-bench-other", folder.name}
            )
            with own_folder(self.base, "ioweave-bench-") as second:
                self.assertTrue(folder.is_dir() and second.is_dir())
        self.assertEqual([p.name for p in self.base.iterdir()], ["ioweave-bench-other"])

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

    def test_a_missing_package_names_the_target_that_builds_it(self) -> None:
        with self.assertRaisesRegex(BuildFailed, "there is none.*target 'ioweave_python'"):
            use_python_package(self.build)

    def test_a_folder_that_is_no_build_is_refused(self) -> None:
        with self.assertRaisesRegex(BuildFailed, "not a build folder"):
            locate(self.base)
