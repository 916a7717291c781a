"""Devices and nodes described in code and in ioweave.toml."""

from __future__ import annotations

import contextlib
import os
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import ioweave
from ioweave import _core, devices
from ioweave.config import load_devices, load_nodes


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Runs in `folder`, without the user's own files."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        with mock.patch.dict(os.environ, {"XDG_CONFIG_HOME": str(folder / "config")}):
            yield
    finally:
        os.chdir(before)


class Devices(unittest.TestCase):
    def test_values_out_of_bounds_name_device_and_setting(self) -> None:
        for options, words in (
            ({"bandwidth": -1}, "device 'd': bandwidth must be MB/s above 0"),
            ({"bandwidth": "450"}, "bandwidth must be a number"),
            ({"bandwidth": float("nan")}, "bandwidth must be a number"),
            ({"scope": "rack"}, "scope must be 'node' or 'shared', not 'rack'"),
            ({"max_in_flight": -1}, "max_in_flight must be a whole number"),
            ({"max_in_flight": 1.5}, "max_in_flight"),
            ({"path": 3}, "path must be a path"),
            ({"nodes": "bb*"}, "nodes must be a list of names or globs of nodes, not 'bb"),
            ({"nodes": []}, "nodes must be a list"),
            ({"nodes": ["a", 3]}, "nodes must be names or globs"),
            ({"curve": 450}, "device 'd': curve must be a list of .streams, MB/s., streams asc"),
            ({"curve": [[2, 380], [1, 200]]}, "curve must be a list"),
            ({"curve": [[1, 200], [2]]}, "curve must be a list"),
            ({"curve": [[0, 200]]}, "curve must be a list"),
            ({"curve": [[1, float("nan")]]}, "curve must be a list"),
            ({"curve": [[1, "fast"]]}, "curve must be a list"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, words):
                ioweave.Device("d", **options)
        with self.assertRaisesRegex(ValueError, "a device needs a name"):
            ioweave.Device("")

    def test_globs_of_a_device_match_nodes_with_or_without_domain(self) -> None:
        device = ioweave.Device("d", nodes=["bb*", "login[12]"])
        for node, has in (("bb7", True), ("login1.site.org", True), ("login3", False)):
            self.assertEqual(device.is_on(node), has, node)
        self.assertTrue(ioweave.Device("d", nodes=["*.site.org"]).is_on("a.site.org"))
        self.assertTrue(ioweave.Device("d").is_on("anything"))

    def test_a_curve_is_a_copy_of_the_list_it_was_made_of(self) -> None:
        points = [(1, 200), (2, 380)]
        device = ioweave.Device("d", curve=points)
        points.append((4, 1))
        self.assertEqual(device.curve, ((1, 200), (2, 380)))
        self.assertEqual(hash(device), hash(ioweave.Device("d", curve=((1, 200), (2, 380)))))


class Nodes(unittest.TestCase):
    def test_several_nodes_of_one_name_are_numbered(self) -> None:
        self.assertEqual(ioweave.Node("login").names, ["login"])
        self.assertEqual(ioweave.Node("bb", count=2).names, ["bb0", "bb1"])

    def test_values_out_of_bounds_name_node_and_setting(self) -> None:
        for options, words in (
            ({"count": 0}, "node 'n': count must be a whole number above 0, not 0"),
            ({"cores": 1.5}, "node 'n': cores must be a whole number above 0, not 1.5"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, words):
                ioweave.Node("n", **options)
        with self.assertRaisesRegex(ValueError, "a node needs a name"):
            ioweave.Node("")


class Discovery(unittest.TestCase):
    def discover(self, mounts: str, **settings: object) -> ioweave.Device:
        with tempfile.NamedTemporaryFile("w", suffix=".mountinfo") as file:
            file.write(mounts)
            file.flush()
            with mock.patch.object(devices, "_MOUNTINFO", file.name):
                return ioweave.Device.discover("/usr/..", **settings)

    def test_name_and_scope_are_those_of_the_file_system(self) -> None:
        for kind, scope in (("ext4", "node"), ("lustre", "shared"), ("fuse.sshfs", "shared")):
            with self.subTest(kind):
                found = self.discover(
                    f"1 0 8:1 / / rw - {kind} x rw\n2 1 8:2 / /data rw - xfs y rw\n"
                )
                self.assertEqual(found, ioweave.Device("root", path=Path("/"), scope=scope))

    def test_the_mount_that_holds_the_path_is_the_longest_and_last(self) -> None:
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(
                "1 0 8:1 / / rw - ext4 a rw\n"
                "2 1 8:2 / /my\\040data rw shared:1 - xfs b rw\n"
                "3 1 0:9 / /my\\040data rw - nfs4 c rw\n"
                "4 1 8:3 / /my rw - ext3 d rw\n"
            )
            file.flush()
            found = _core.mount_of("/my data/run", file.name)
            self.assertEqual(found, ("/my data", "nfs4", True))
            self.assertEqual(_core.mount_of(Path("/mystery"), file.name), ("/", "ext4", False))

    def test_settings_override_discovered_values(self) -> None:
        found = self.discover(
            "1 0 8:1 / / rw - nfs x rw\n", name="a", scope="node", bandwidth=3, curve=[(1, 3)]
        )
        wanted = ioweave.Device("a", path=Path("/"), bandwidth=3, curve=[(1, 3)])
        self.assertEqual(found, wanted)

    def test_a_missing_path_and_this_machine_are_handled(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(ioweave.Device.discover(folder).path, Path(folder).resolve())
            with self.assertRaises(FileNotFoundError):
                ioweave.Device.discover(Path(folder, "missing"))


class Files(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def load(self, text: str) -> dict[str, ioweave.Device]:
        path = self.folder / "devices.toml"
        path.write_text(text)
        return load_devices(path)

    def test_devices_are_read_and_paths_are_relative_to_the_file(self) -> None:
        found = self.load(
            'policy = "overlap"\n[[rule]]\nglob = "*"\npolicy = "off"\n'
            '[[device]]\nname = "ssd"\npath = "data"\nbandwidth = 450\n'
            '[[device]]\nname = "pfs"\nscope = "shared"\nmax_in_flight = 8\nnodes = ["bb*"]\n'
            "curve = [[1, 200.0], [8, 450]]\n"
        )
        self.assertEqual(
            found,
            {
                "ssd": ioweave.Device("ssd", path=str(self.folder / "data"), bandwidth=450),
                "pfs": ioweave.Device(
                    "pfs",
                    scope="shared",
                    max_in_flight=8,
                    nodes=("bb*",),
                    curve=[(1, 200), (8, 450)],
                ),
            },
        )

    def test_mistakes_name_the_file_and_the_setting(self) -> None:
        for text, words in (
            (
                '[[device]]\nname = "a"\nbandwith = 3',
                "unknown setting 'bandwith'; did you mean 'bandwidth'",
            ),
            ('[[device]]\nname = "a"\nscope = "x"', "device 'a': scope must be"),
            ("[[device]]\nbandwidth = 3", "has no name"),
            ('[[device]]\nname = "a"\n[[device]]\nname = "a"', "described twice"),
            ('[[device]]\nname = "a"\ncurve = [[8, 450], [1, 200]]', "device 'a': curve must be"),
            ("device = 3", r"written as \[\[device\]\] tables"),
            ("[[device", "not TOML"),
            ('[[device]]\nname = "a"\nnodes = "b"', "device 'a': nodes must be a list"),
            ('[[node]]\nname = "a"\ncore = 3', "node 'a': unknown setting 'core'; did you mean"),
            ('[[node]]\nname = "a"\ncores = 0', "node 'a': cores must be"),
            ("[[node]]\ncores = 3", "a ..node.. has no name"),
            ("node = 3", r"nodes are written as \[\[node\]\] tables"),
        ):
            with (
                self.subTest(text),
                self.assertRaisesRegex(ValueError, rf"devices.toml:[123]: .*{words}"),
            ):
                self.load(text)
                load_nodes(self.folder / "devices.toml")

    def test_a_table_that_nobody_reads_is_named(self) -> None:
        with self.assertLogs("ioweave", "WARNING") as said:
            found = self.load('policy = "off"\n[lock]\npolicy = "off"\n[[devices]]\nname = "a"\n')
        self.assertEqual(found, {})
        (text,) = said.output
        self.assertRegex(text, "devices.toml:4: unknown setting 'devices' .*did you mean 'device'")

    def test_a_named_file_must_exist(self) -> None:
        with self.assertRaises(FileNotFoundError):
            ioweave.Runtime(config=self.folder / "missing.toml")

    def test_the_nearest_file_wins_by_device(self) -> None:
        user = self.folder / "config" / "ioweave"
        user.mkdir(parents=True)
        user.joinpath("ioweave.toml").write_text(
            '[[device]]\nname = "a"\nbandwidth = 1\n[[device]]\nname = "b"\nbandwidth = 2\n'
        )
        self.folder.joinpath("ioweave.toml").write_text('[[device]]\nname = "a"\nbandwidth = 10\n')
        with inside(self.folder):
            found = load_devices()
        self.assertEqual((found["a"].bandwidth, found["b"].bandwidth), (10, 2))

    def test_nodes_are_those_of_the_nearest_file_that_has_any(self) -> None:
        user = self.folder / "config" / "ioweave"
        user.mkdir(parents=True)
        user.joinpath("ioweave.toml").write_text(
            '[[node]]\nname = "bb"\ncount = 2\ncores = 48\n[[node]]\nname = "login"\n'
        )
        self.folder.joinpath("ioweave.toml").write_text('[[device]]\nname = "a"\n')
        described = [ioweave.Node("bb", count=2, cores=48), ioweave.Node("login")]
        with inside(self.folder):
            self.assertEqual(load_nodes(), described)
            with self.folder.joinpath("ioweave.toml").open("a") as file:
                file.write('[[node]]\nname = "cn"\n')
            self.assertEqual(load_nodes(), [ioweave.Node("cn")])
            self.assertEqual(load_nodes(user / "ioweave.toml"), described)

    def test_a_file_of_another_user_is_ignored_with_a_warning(self) -> None:
        self.folder.joinpath("ioweave.toml").write_text('[[device]]\nname = "a"\n')
        if os.geteuid() != 0:
            self.skipTest("only root can give a file away")
        with inside(self.folder):
            os.chown("ioweave.toml", 12345, -1)
            with self.assertLogs("ioweave") as logged:
                self.assertEqual(load_devices(), {})
        self.assertIn("ioweave.toml is ignored: it belongs to another user", logged.output[0])

    def test_devices_of_the_program_override_those_of_files(self) -> None:
        self.folder.joinpath("ioweave.toml").write_text('[[device]]\nname = "ssd"\nbandwidth = 5\n')
        write = ioweave.io(bandwidth=20, device="ssd")(lambda: None)
        with inside(self.folder):
            with ioweave.Runtime(), self.assertRaisesRegex(ValueError, "budget"):
                write()
            with ioweave.Runtime(devices=[ioweave.Device("ssd", bandwidth=50)]):
                write()


if __name__ == "__main__":
    unittest.main()
