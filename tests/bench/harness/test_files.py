import tarfile
import tempfile
import unittest
from pathlib import Path

from harness.files import installed_tar, random_file


class FilesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def make_tree(self) -> Path:
        top = self.folder / "top"
        for name in ("b", "a/1", "a/2"):
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode() * 20_000)
        (top / "link").symlink_to("b")
        return top

    def test_a_random_file_has_the_size_and_no_two_equal_blocks(self) -> None:
        path = random_file(self.folder / "data", (8 << 20) + 100)
        content = path.read_bytes()
        self.assertEqual(len(content), (8 << 20) + 100)
        self.assertNotEqual(content[: 4 << 20], content[4 << 20 : 8 << 20])

    def test_the_tar_holds_real_files_once_and_can_be_read(self) -> None:
        top = self.make_tree()
        path = installed_tar(self.folder / "x.tar", 4 << 20, [top, top])
        with tarfile.open(path) as archive:
            names = [Path(member.name).name for member in archive]
        self.assertEqual(names, ["b", "1", "2"])

    def test_it_has_exactly_the_size_wanted_and_leaves_out_what_does_not_fit(self) -> None:
        top = self.make_tree()
        path = installed_tar(self.folder / "x.tar", 80_000, [top])
        self.assertEqual(path.stat().st_size, 80_000)
        with tarfile.open(path) as archive:
            self.assertEqual(len(archive.getnames()), 1)

    def test_it_is_smaller_where_less_is_installed(self) -> None:
        path = installed_tar(self.folder / "x.tar", 1 << 30, [self.make_tree()])
        self.assertEqual(path.stat().st_size, 1 << 20)

    def test_it_is_made_once(self) -> None:
        top = self.make_tree()
        path = installed_tar(self.folder / "x.tar", 1 << 20, [top])
        before = path.stat().st_mtime_ns
        installed_tar(path, 1 << 20, [top])
        self.assertEqual(path.stat().st_mtime_ns, before)
