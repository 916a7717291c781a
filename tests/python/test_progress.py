"""Runtime(progress=True): what it shows and where, and that it changes nothing else."""

import dataclasses
import io
import os
import pty
import re
import signal
import subprocess
import sys
import unittest
import unittest.mock
from typing import Any

import ioweave
from ioweave.progress import Progress
from ioweave.runtime import FlowStats, Stats

try:
    from rich.console import Console
except ModuleNotFoundError:
    print("SKIP: no rich (tools/requirements-dev.txt)")
    sys.exit(77)

FLOW = FlowStats("save", "ssd", waiting=7, running=3, bytes=0, limit=5, done=0)
STATS = Stats(
    submitted=100,
    succeeded=40,
    failed=2,
    cancelled=0,
    retried=0,
    timed_out=0,
    pending=58,
    pending_bytes=0,
    cpus=8,
    cpus_free=2,
    threads=8,
    io_threads=3,
    io_waiting=7,
    io_running=3,
    flows=(FLOW,),
)
WHY = {
    "flow": "save",
    "device": "ssd",
    "policy": "auto",
    "phase": "learning",
    "constraint_mb_per_s": 90.0,
}

PROGRAM = """
import sys, threading, ioweave
stop = threading.Event()

@ioweave.task
def compute(i):
    return i

@ioweave.io(bytes=1000)
def save(i):
    stop.wait(0.01)
    if i == 9 and sys.argv[1] == "fail":
        raise ValueError("nine")

with ioweave.Runtime(cpus=1, progress=True, on_interrupt="cancel"):
    for i in range(20):
        save(compute(i))
    if sys.argv[1] == "wait":
        stop.wait()
    print("the program's own")
"""


class Shown(unittest.TestCase):
    def setUp(self) -> None:
        self.now = 100.0
        self.stats = STATS

    def progress(self, **options: Any) -> tuple[Progress, io.StringIO]:
        out = io.StringIO()
        console = Console(file=out, width=100, legacy_windows=False, **options)
        progress = Progress(
            lambda: self.stats, lambda: [WHY], console=console, clock=lambda: self.now
        )
        return progress, out

    def moved(self, seconds: float, megabytes: int) -> None:
        """Advances the clock and the bytes that were moved."""
        self.now += seconds
        flow = dataclasses.replace(
            self.stats.flows[0],
            bytes=self.stats.flows[0].bytes + megabytes * 10**6,
            done=self.stats.flows[0].done + 1,
        )
        self.stats = dataclasses.replace(self.stats, flows=(flow,))

    def test_a_terminal_gets_a_table_with_a_row_for_each_flow(self) -> None:
        progress, out = self.progress(force_terminal=True, color_system=None)
        self.moved(65, 130)
        progress.show()
        rows = {row.split("  ")[0]: row.split() for row in out.getvalue().splitlines()}
        self.assertEqual(
            rows["save on ssd"][3:],
            ["7", "3", "5", "1", "2", "auto", "90", "MB/s,", "learning"],
        )
        self.assertEqual(rows["computing"], ["computing", "6", "8", "39"])
        self.assertIn("1:05, 58 pending, 40 done, 2 failed", out.getvalue())

    def test_elsewhere_it_is_a_line_without_control_codes(self) -> None:
        progress, out = self.progress(force_terminal=False)
        self.moved(3700, 0)
        progress.show()
        self.assertEqual(
            out.getvalue(),
            "ioweave 1:01:40: 6 of 8 cpus busy, 58 pending, 40 done, 2 failed; "
            "save on ssd 7 waiting, 3 of 5 running, 1 done, 0 MB/s (auto 90 MB/s, learning)\n",
        )

    def test_elsewhere_a_line_comes_every_half_minute(self) -> None:
        self.assertEqual(self.progress(force_terminal=False)[0]._period, 30)

    def test_throughput_is_what_the_device_was_measured_to_move_while_calls_run(self) -> None:
        progress, out = self.progress(force_terminal=False)
        for flow in (
            dataclasses.replace(FLOW, device_mb_per_s=412.0),  # none has ended
            dataclasses.replace(FLOW, device_mb_per_s=412.0, running=0, bytes=60 * 10**6),
        ):
            self.stats = dataclasses.replace(STATS, flows=(flow,))
            self.moved(2, 30)
            progress.show()
        self.assertEqual(re.findall(r"(\S+) MB/s \(", out.getvalue()), ["412", "30"])

    def test_throughput_of_calls_that_ended_is_that_of_the_last_seconds(self) -> None:
        progress, out = self.progress(force_terminal=False)
        for _ in range(20):
            self.moved(1, 100)
            progress.show()
        for _ in range(20):
            self.moved(1, 10)
            progress.show()
        rates = re.findall(r"(\S+) MB/s \(", out.getvalue())
        self.assertEqual((rates[0], rates[19], rates[39]), ("100", "100", "10"))

    def test_of_too_many_flows_those_with_work_are_shown(self) -> None:
        idle = [dataclasses.replace(FLOW, task=f"idle{i}", waiting=0, running=0) for i in range(30)]
        self.stats = dataclasses.replace(STATS, flows=(*idle, FLOW))
        progress, out = self.progress(force_terminal=True)
        progress.show()
        self.assertIn("save on ssd", out.getvalue())
        self.assertIn("and 19 more", out.getvalue())

    def test_what_fails_while_it_shows_is_logged_and_the_program_goes_on(self) -> None:
        class Broken(io.StringIO):
            def write(self, text: str) -> int:
                raise OSError("the terminal is gone")

        progress = Progress(lambda: STATS, console=Console(file=Broken()), draw_s=0, line_s=0.001)
        with self.assertLogs("ioweave", "ERROR"):
            progress.start()
            progress.stop()

    def test_without_rich_the_error_names_what_to_install(self) -> None:
        hidden = unittest.mock.patch.dict(sys.modules, {"rich.console": None})
        with hidden, self.assertRaisesRegex(ModuleNotFoundError, r"ioweave\[progress\]"):
            ioweave.Runtime(progress=True)

    def test_without_progress_rich_is_not_imported(self) -> None:
        code = "import ioweave, sys\nwith ioweave.Runtime(): pass\nsys.exit('rich' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)


class Programs(unittest.TestCase):
    def on_a_terminal(self, how: str) -> tuple[int, str, str]:
        """Runs a program; returns exit code, standard output (a pipe) and the terminal's text."""
        master, slave = pty.openpty()
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, how],
            stdout=subprocess.PIPE,
            stderr=slave,
            env={**environment, "TERM": "xterm"},
            text=True,
        )
        os.close(slave)
        seen = b""
        interrupted = False
        with process, os.fdopen(master, "rb", buffering=0) as terminal:
            while True:
                try:
                    seen += terminal.read(4096)
                except OSError:  # EIO: nobody has it open any more
                    break
                if how == "wait" and not interrupted and b"computing" in seen:
                    interrupted = True
                    process.send_signal(signal.SIGINT)
            assert process.stdout is not None  # it is a pipe
            out = process.stdout.read()
        return process.returncode, out, seen.decode()

    def test_what_a_program_prints_goes_where_it_was_sent(self) -> None:
        code, out, seen = self.on_a_terminal("run")
        self.assertEqual((code, out), (0, "the program's own\n"))
        self.assertIn("save on default", seen)
        self.assertTrue(seen.rstrip().endswith("\x1b[?25h"), "the cursor is back")

    def test_a_failure_is_seen_below_the_table(self) -> None:
        code, out, seen = self.on_a_terminal("fail")
        self.assertEqual((code, out), (1, "the program's own\n"))
        self.assertGreater(seen.index("ValueError: nine"), seen.rindex("\x1b[?25h"))
        self.assertIn("1 failed", seen)

    def test_ctrl_c_gives_the_terminal_back(self) -> None:
        code, out, seen = self.on_a_terminal("wait")
        self.assertEqual((code, out), (-signal.SIGINT, ""))
        self.assertGreater(seen.rindex("KeyboardInterrupt"), seen.rindex("\x1b[?25h"))

    def test_where_there_is_no_terminal_the_end_is_a_line(self) -> None:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, "run"], capture_output=True, text=True, check=True
        )
        self.assertEqual(ended.stdout, "the program's own\n")
        self.assertRegex(ended.stderr, r"^ioweave 0:0\d: .* 0 pending, 40 done; .* 20 done, .*\n$")
        self.assertEqual(ended.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
