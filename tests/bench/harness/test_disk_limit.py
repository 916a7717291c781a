import tempfile
import unittest
from pathlib import Path

from harness.disk_limit import LimitUnavailable, disk_limit


class ControlGroups:
    """A folder that looks like the root of control groups; rmdir works as if files were virtual."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def version_1(self) -> None:
        (self.root / "blkio").mkdir()
        (self.root / "blkio/blkio.throttle.read_bps_device").touch()

    def version_2(self, controllers: str, enabled: str) -> None:
        (self.root / "cgroup.controllers").write_text(controllers, encoding="ascii")
        (self.root / "cgroup.subtree_control").write_text(enabled, encoding="ascii")


class DiskLimitTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.groups = ControlGroups(self.root)

    def limit_text(self, name: str) -> str:
        """The limit as it stands in the group; its file is removed, as rmdir wants no real ones."""
        with disk_limit("254:0", 300_000_000, cgroups=self.root) as limit:
            text = (limit.group / name).read_text(encoding="ascii")
            (limit.group / name).unlink()
        self.assertFalse(limit.group.exists())
        return text

    def test_version_1_limits_by_blkio_throttle(self) -> None:
        self.groups.version_1()
        self.assertEqual(self.limit_text("blkio.throttle.read_bps_device"), "254:0 300000000")

    def test_writes_are_limited_as_well_where_that_is_asked(self) -> None:
        self.groups.version_1()
        name = "blkio.throttle.write_bps_device"
        with disk_limit("254:0", 200_000_000, writes=True, cgroups=self.root) as limit:
            self.assertEqual((limit.group / name).read_text(encoding="ascii"), "254:0 200000000")
            for file in limit.group.iterdir():
                file.unlink()

    def test_version_2_limits_by_io_max(self) -> None:
        self.groups.version_2("cpu io memory", "cpu io")
        self.assertEqual(self.limit_text("io.max"), "254:0 rbps=300000000")

    def test_version_2_takes_back_what_it_switched_on(self) -> None:
        self.groups.version_2("cpu io", "cpu")
        self.limit_text("io.max")
        switch = self.root / "cgroup.subtree_control"
        self.assertEqual(switch.read_text(encoding="ascii"), "-io")

    def test_without_a_controller_the_reason_is_told(self) -> None:
        self.groups.version_2("cpu memory", "cpu")
        with (
            self.assertRaisesRegex(LimitUnavailable, "no control group controller"),
            disk_limit("254:0", 1, cgroups=self.root),
        ):
            self.fail("there is no limit")

    def test_the_group_goes_when_the_measurement_breaks_off(self) -> None:
        self.groups.version_1()
        with (
            self.assertRaises(KeyError),
            disk_limit("254:0", 1, cgroups=self.root) as limit,
        ):
            (limit.group / "blkio.throttle.read_bps_device").unlink()
            raise KeyError
        self.assertFalse(limit.group.exists())

    def test_what_a_killed_benchmark_left_is_removed(self) -> None:
        self.groups.version_1()
        stale = self.root / "blkio/ioweave-bench-999999999"
        stale.mkdir()
        self.limit_text("blkio.throttle.read_bps_device")
        self.assertFalse(stale.exists())

    def test_the_prefix_puts_the_program_into_the_group(self) -> None:
        self.groups.version_1()
        with disk_limit("254:0", 1, cgroups=self.root) as limit:
            self.assertEqual(limit.prefix[-1], str(limit.group / "cgroup.procs"))
            (limit.group / "blkio.throttle.read_bps_device").unlink()
