"""A Dask cluster with a process for each worker, as in real use: workers are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

try:
    import distributed
except ModuleNotFoundError as missing:
    print(f"SKIP: no Dask: {missing}")
    sys.exit(77)

import ioweave.dask


def write(path: Path, text: str) -> int:
    """Writes its process's number to a file when it begins; waits if the text is empty."""
    path.write_text(f"{os.getpid()} {text}")
    if not text:
        threading.Event().wait()
    return os.getpid()


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        cluster = ioweave.dask.local_cluster(nodes=2, cores=1, io_slots=2)
        self.addCleanup(cluster.close)
        self.cluster = cluster
        self.client = distributed.Client(cluster)
        self.addCleanup(self.client.close)
        self.handle = ioweave.dask.connect(self.client)
        self.handle.declare_device("disk", bandwidth=100)

    def idle(self) -> None:
        """Waits until no operation is left and both workers are back."""
        while (stats := self.handle.stats())["waiting"] or stats["running"]:
            pass
        self.client.wait_for_workers(2, timeout=60)

    def test_killed_or_restarted_workers_keep_no_slot(self) -> None:
        where = {"flow": "write", "device": "disk", "constraint": "fixed:100"}
        first = self.folder / "first"
        holds = self.handle.submit_io(_write_once, first, **where)
        after = [
            self.handle.submit_io(write, self.folder / str(number), "text", **where)
            for number in range(4)
        ]
        while not first.exists():
            self.handle.stats()
        os.kill(int(first.read_text()), signal.SIGKILL)
        self.assertEqual(holds.result(60), "second run")
        self.assertEqual(len(self.client.gather(after)), 4)
        self.idle()

        held = [self.handle.submit_io(write, self.folder / "held", "", **where) for _ in range(3)]
        while not (self.folder / "held").exists() or self.handle.stats()["waiting"] != 1:
            pass  # all three have to be there: Dask's restart misses what is under way to it
        self.client.restart()
        self.assertTrue(all(future.cancelled() for future in held))
        self.idle()
        again = self.handle.submit_io(write, self.folder / "again", "text", **where)
        self.assertIn(str(again.result(60)), (self.folder / "again").read_text())

    def test_killed_workers_lose_no_call_of_a_program(self) -> None:
        once = ioweave.io(bandwidth=100, device="disk")(_write_once)
        count = ioweave.task(lambda text: len(text))
        disk = ioweave.Device("disk", bandwidth=100)
        with ioweave.Runtime(self.client, devices=[disk]) as runtime:
            first = self.folder / "first"
            held = once(first)
            after = [count(once(first, held)) for _ in range(4)]
            while not first.exists():
                runtime.stats()
            os.kill(int(first.read_text()), signal.SIGKILL)
            self.assertEqual(ioweave.wait(after), [len("second run")] * 4)
            self.assertEqual((runtime.stats().io_running, runtime.stats().io_waiting), (0, 0))
        self.idle()

    def test_an_example_runs_on_a_cluster_by_an_argument(self) -> None:
        pipeline = Path(__file__).parents[2] / "examples" / "python" / "pipeline.py"
        target = str(self.cluster.scheduler_address).replace("tcp://", "dask://")
        done = subprocess.run(
            [sys.executable, "-W", "error", pipeline, self.folder, target],
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stdout), (0, "16000 numbers\n"))
        self.idle()


def _write_once(path: Path, *_: object) -> str:
    """Waits in its first run, until it is killed."""
    if path.exists():
        return "second run"
    begun = path.with_suffix(".tmp")
    begun.write_text(str(os.getpid()))
    begun.rename(path)
    threading.Event().wait()
    raise AssertionError("the process goes on after it was killed")
