import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from harness.process import ProgramFailed, run, signals_as_exits


class RunTest(unittest.TestCase):
    def test_returns_what_the_program_printed_and_used(self) -> None:
        done = run(["/bin/sh", "-c", "echo out; echo err >&2"])
        self.assertEqual((done.stdout, done.stderr), ("out\n", "err\n"))
        self.assertGreater(done.wall_s, 0)
        self.assertGreater(done.peak_bytes, 0)

    def test_counts_the_processor_time_of_the_program_itself(self) -> None:
        busy = "import time\nwhile time.process_time() < 0.2: pass"
        self.assertGreaterEqual(run([sys.executable, "-c", busy]).cpu_s, 0.2)

    def test_adds_to_the_environment(self) -> None:
        done = run(["/bin/sh", "-c", "echo $ADDED $HOME"], environment={"ADDED": "yes"})
        self.assertEqual(done.stdout, f"yes {os.environ.get('HOME', '')}".strip() + "\n")

    def test_standard_input_is_a_file_or_empty(self) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"said")
            file.flush()
            self.assertEqual(run(["/bin/cat"], stdin=Path(file.name)).stdout, "said")
        self.assertEqual(run(["/bin/cat"]).stdout, "")

    def test_reads_json_lines(self) -> None:
        done = run(["/bin/echo", '{"a": 1}\n{"a": 2}'])
        self.assertEqual(done.json_lines(), [{"a": 1}, {"a": 2}])

    def test_a_bad_status_is_an_error_that_quotes_the_program(self) -> None:
        with self.assertRaisesRegex(ProgramFailed, r"status 3\nno luck"):
            run(["/bin/sh", "-c", "echo no luck >&2; exit 3"])

    def test_a_missing_program_is_named(self) -> None:
        with self.assertRaisesRegex(ProgramFailed, "/no/such: No such file"):
            run(["/no/such"])

    def test_a_program_that_hangs_is_killed_with_its_children(self) -> None:
        with self.assertRaisesRegex(ProgramFailed, "killed after"):
            run(["/bin/sh", "-c", "sleep 600 & wait"], timeout_s=0.2)

    def test_nothing_waits_for_input(self) -> None:
        self.assertEqual(run(["/bin/cat"]).stdout, "")


class SignalsAsExitsTest(unittest.TestCase):
    def test_clean_up_runs_when_terminated(self) -> None:
        code = (
            "import time\n"
            "from harness.process import signals_as_exits\n"
            "with signals_as_exits():\n"
            "    try:\n"
            "        print('ready', flush=True)\n"
            "        while True:  # a signal just before a sleep does not end it\n"
            "            time.sleep(0.1)\n"
            "    finally:\n"
            "        print('cleaned up', flush=True)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline(), "ready\n")
            child.send_signal(signal.SIGTERM)
            rest, _ = child.communicate()
        self.assertEqual((rest, child.returncode), ("cleaned up\n", 128 + signal.SIGTERM))

    def test_the_handlers_before_it_come_back(self) -> None:
        before = signal.getsignal(signal.SIGTERM)
        with signals_as_exits():
            self.assertNotEqual(signal.getsignal(signal.SIGTERM), before)
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)

    def test_a_running_program_ends_with_us(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            note = Path(folder, "pid")
            script = f"echo $$ >{note}.new; mv {note}.new {note}; exec sleep 600"
            code = (
                "from harness.process import run, signals_as_exits\n"
                "with signals_as_exits():\n"
                f"    run(['/bin/sh', '-c', {script!r}])\n"
            )
            with subprocess.Popen([sys.executable, "-c", code]) as child:
                while not note.exists():
                    time.sleep(0.01)
                child.send_signal(signal.SIGINT)
                child.communicate()
            self.assertEqual(child.returncode, 128 + signal.SIGINT)
            self.assertFalse(Path("/proc", note.read_text("ascii").strip()).exists())
