import os
import tempfile
import unittest
from pathlib import Path

from harness.block_device import describe, disk_of, mount_of

MOUNTINFO = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
24 22 0:22 / {folder} rw shared:1 - tmpfs none rw
25 24 0:23 / {folder}/with\\040blank rw - fuse.slowfs slow rw
"""


class MountOfTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.mountinfo = self.folder / "mountinfo"
        self.mountinfo.write_text(MOUNTINFO.format(folder=self.folder), encoding="utf-8")

    def test_the_longest_mount_point_wins(self) -> None:
        self.assertEqual(mount_of(self.folder, self.mountinfo).kind, "tmpfs")
        self.assertEqual(mount_of(Path("/etc"), self.mountinfo).source, "/dev/vda")

    def test_blanks_in_mount_points_are_read(self) -> None:
        path = self.folder / "with blank" / "file"
        self.assertEqual(mount_of(path, self.mountinfo).kind, "fuse.slowfs")


class DiskOfTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.sys = Path(folder.name)
        number = self.sys.stat().st_dev
        if os.major(number) == 0:
            self.skipTest("the temporary folder lies on no disk")
        self.name = f"{os.major(number)}:{os.minor(number)}"

    def test_a_whole_disk_is_itself(self) -> None:
        (self.sys / self.name).mkdir()
        (self.sys / self.name / "dev").write_text(f"{self.name}\n", encoding="ascii")
        self.assertEqual(disk_of(self.sys, self.sys), self.name)

    def test_a_partition_is_led_back_to_its_disk(self) -> None:
        partition = self.sys / "vda" / "vda1"
        partition.mkdir(parents=True)
        (partition / "partition").touch()
        (self.sys / "vda" / "dev").write_text("254:0\n", encoding="ascii")
        (self.sys / self.name).symlink_to(partition)
        self.assertEqual(disk_of(self.sys, self.sys), "254:0")

    def test_memory_has_no_disk(self) -> None:
        memory = Path("/dev/shm")
        if not memory.is_dir() or os.major(memory.stat().st_dev) != 0:
            self.skipTest("no tmpfs at /dev/shm")
        self.assertIsNone(disk_of(memory))

    def test_what_the_kernel_does_not_tell_is_none(self) -> None:
        (self.sys / "254:0").mkdir()
        self.assertIsNone(describe("254:0", self.sys)["scheduler"])
