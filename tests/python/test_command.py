"""The command `ioweave` that the package contains."""

import contextlib
import io
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import ioweave
from ioweave import _command
from ioweave.config import load_devices
from ioweave.simulated import SimulatedRuntime


class Command(unittest.TestCase):
    def test_the_command_on_path_is_that_of_the_package_with_its_libraries(self) -> None:
        def output_of(*arguments: str) -> str:
            command = [sys.executable, "-m", "ioweave", *arguments]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

        self.assertIn(ioweave.__version__, output_of("--version"))
        self.assertTrue(Path(output_of("path", "--preload").strip()).is_file())

    def test_a_measured_device_can_be_used_in_a_simulation(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "ioweave", "measure", "--toml", 'the "disk"']
            command += ["--streams", "1-3", "--seconds", "0.05", "--repetitions", "1"]
            command += ["--warm-up", "0", "--size", "64k", folder]
            ran = subprocess.run(command, capture_output=True, text=True, check=True)
            config = Path(folder, "ioweave.toml")
            config.write_text(ran.stdout)
            device = load_devices(config)['the "disk"']
            self.assertEqual([streams for streams, _ in device.curve], [1, 2, 3])
            self.assertEqual(device.path, str(Path(folder).resolve()))
            write = ioweave.io(device=device.name, policy="none", bytes=10**9)(lambda: None)
            with SimulatedRuntime("sim://1x1", costs={}, config=config) as simulated:
                write()
            self.assertAlmostEqual(simulated.now_s, 1000 / device.curve[0][1], places=6)

    def test_a_missing_command_says_where_it_should_be(self) -> None:
        with (
            mock.patch.object(_command, "__file__", "/nowhere/_command.py"),
            contextlib.redirect_stderr(io.StringIO()),
            self.assertRaisesRegex(SystemExit, "/nowhere/bin/ioweave: No such file.*pip install"),
        ):
            _command.main()


if __name__ == "__main__":
    unittest.main()
