"""Computations in worker processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import unittest
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import ioweave
from runtimes import until


@ioweave.task
def pid(*_: object) -> int:
    return os.getpid()


@ioweave.task
def add(*values: int) -> int:
    return sum(values)


@ioweave.task
def fail(text: str) -> None:
    raise ValueError(text)


@ioweave.task
def die(code: int) -> None:
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


@ioweave.task(retries=1)
def die_once(flag: str) -> str:
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "second time"
    os._exit(1)


@ioweave.task(timeout=0.05)
def hang() -> None:
    threading.Event().wait()


class Slow:
    """An argument that unpickles only when nobody has `fifo` open for writing any more."""

    def __init__(self, fifo: Path) -> None:
        self.fifo = fifo

    def __reduce__(self) -> Any:
        return _open, (self.fifo,)


def _open(fifo: Path) -> Slow:
    fifo.with_suffix(".waiting").touch()
    fifo.read_bytes()
    return Slow(fifo)


@ioweave.task(timeout=1)
def take(_: Slow) -> str:
    return "taken"


@ioweave.task(timeout=0.05)
def hang_here(file: Path) -> None:
    file.write_text(str(os.getpid()))
    threading.Event().wait()


@ioweave.task
def itself(value: Any) -> Any:
    return value


@ioweave.task
def spoil(target: Annotated[list[int], ioweave.InOut]) -> None:
    target.append(2)
    raise ValueError("spoilt")


@ioweave.task(timeout=1)
def hang_longer() -> None:
    threading.Event().wait()


@ioweave.task
def make_lock() -> Any:
    return threading.Lock()


@ioweave.task
def reversed_bytes(block: bytes) -> bytes:
    return block[::-1]


@ioweave.task
def append(target: Annotated[list[int], ioweave.InOut], value: int) -> int:
    target.append(value)
    return len(target)


@ioweave.task
def extend(target: Annotated[list[int], ioweave.InOut], values: list[int]) -> None:
    target.extend(values)


@ioweave.task
def in_another_process(text: str) -> str:
    with multiprocessing.Pool(1) as pool:
        return str(pool.apply(str.upper, (text,)))


@ioweave.task
def wait_for_end(fifo: str) -> None:
    Path(fifo).write_text(str(os.getpid()))
    Path(fifo).read_bytes()


class Awkward(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__("awkward")


@ioweave.task
def fail_awkwardly() -> None:
    raise Awkward(1, 2)


@ioweave.io(policy="none")
def io_pid() -> int:
    return os.getpid()


@ioweave.task
def nested() -> int:
    value: int = add(1, 2)  # no runtime there: the plain call
    return value


def run(*given: str, cwd: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a Python program that finds the same modules as this one."""
    return subprocess.run(
        [sys.executable, *given],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


class Processes(unittest.TestCase):
    def test_tasks_in_worker_processes(self) -> None:
        """All in one runtime, since a process takes a while to start."""
        with ioweave.Runtime(cpus=1, workers="processes") as runtime:
            self.assertNotEqual(pid().result(), os.getpid())
            self.assertEqual(io_pid().result(), os.getpid())
            self.assertEqual(add(add(1), [add(2)][0]).result(), 3)
            self.assertEqual(nested().result(), 3)
            self.check_objects()
            self.check_exceptions()
            self.check_unpicklable()
            self.check_deaths(runtime)
            self.check_processes_of_tasks()
            self.assertEqual(runtime.stats().cpus_free, 1)

    def check_objects(self) -> None:
        numbers = [1]
        with tempfile.NamedTemporaryFile() as named, ioweave.open(named.name, "r+") as file:
            file.pwrite(b"ab", 0)
            self.assertEqual(reversed_bytes(file.apread(2, 0)).result(), b"ba")
        lengths = [append(numbers, n) for n in range(3)]
        self.assertEqual(ioweave.wait(lengths), [2, 3, 4])
        self.assertEqual(numbers, [1, 0, 1, 2])

    def check_exceptions(self) -> None:
        with self.assertRaisesRegex(ValueError, "over there") as caught:
            fail("over there").result()
        text = "".join(traceback.format_exception(caught.exception))
        self.assertIn("in fail", text)  # the line of the task, from the other process
        self.assertIn("raise ValueError(text)", text)
        self.assertIn("in task fail('over there')", caught.exception.__notes__[0])  # type: ignore[attr-defined]
        with self.assertRaisesRegex(Exception, "Awkward: awkward"):
            fail_awkwardly().result()

    def check_unpicklable(self) -> None:
        with self.assertRaisesRegex(TypeError, r"task 'add': argument 'values' cannot be sent"):
            add(threading.Lock())
        with self.assertRaisesRegex(TypeError, "argument 'values' cannot be sent"):
            add(add(1), threading.Lock())
        with self.assertRaisesRegex(TypeError, "define it at the top of a module"):
            ioweave.task(lambda: None)()
        with self.assertRaisesRegex(TypeError, "'make_lock': its value cannot be sent"):
            make_lock().result()

    def check_deaths(self, runtime: ioweave.Runtime) -> None:
        with self.assertRaisesRegex(ioweave.WorkerDied, "killed by SIGKILL"):
            die(-signal.SIGKILL).result()
        with self.assertRaisesRegex(ioweave.WorkerDied, "exit code 3"):
            die(3).result()
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(die_once(f"{folder}/flag").result(), "second time")
        idle = pid().result()
        os.kill(idle, signal.SIGKILL)
        self.assertNotEqual(pid().result(), idle)  # at once, however far its end is
        hung = hang()
        with self.assertRaisesRegex(ioweave.TaskTimeout, "took longer than 0.05 s"):
            hung.result()
        self.assertEqual(add(1).result(), 1)
        self.assertEqual(runtime.stats().timed_out, 1)

    def check_processes_of_tasks(self) -> None:
        self.assertEqual(in_another_process("over there").result(), "OVER THERE")

    def test_a_program_that_is_killed_leaves_no_busy_worker_and_no_tracebacks(self) -> None:
        program = (
            "import ioweave, os, sys, test_processes\n"
            "if __name__ == '__main__':\n"
            "    with ioweave.Runtime(workers='processes', cpus=1):\n"
            "        test_processes.wait_for_end(sys.argv[1])\n"
            "        open(sys.argv[1]).read()\n"
            "        os.kill(os.getpid(), 9)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            fifo, script = Path(folder, "fifo"), Path(folder, "program.py")
            os.mkfifo(fifo)
            script.write_text(program)
            with subprocess.Popen(
                [sys.executable, script, fifo],
                stderr=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            ) as process:
                process.wait()
                assert process.stderr is not None
                # Its worker has this open until it ends, and nobody ends its task.
                self.assertEqual(process.stderr.read(), b"")
        self.assertEqual(process.returncode, -signal.SIGKILL)

    def test_a_forked_child_is_told_that_its_runtime_is_elsewhere(self) -> None:
        program = (
            "import ioweave, os, test_processes\n"
            "with ioweave.Runtime(cpus=1):\n"
            "    done, pending = test_processes.add(1), test_processes.wait_for_end('FIFO')\n"
            "    done.result()\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        for ask in (lambda: test_processes.add(2), ioweave.barrier, pending.result,\n"
            "                    pending.cancel, lambda: ioweave.wait(pending)):\n"
            "            try:\n"
            "                ask()\n"
            "            except RuntimeError as error:\n"
            "                assert 'forked' in str(error), error\n"
            "            else:\n"
            "                os._exit(3)\n"
            "        assert done.result() == 1 and test_processes.add.function(2) == 2\n"
            "        with ioweave.Runtime(cpus=1):\n"
            "            assert test_processes.add(2).result() == 2\n"
            "        raise SystemExit(4)\n"
            "    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
            "    open('FIFO').read(), open('FIFO', 'w').close()\n"
            "raise SystemExit(status)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(Path(folder, "FIFO"))
            done = run("-W", "ignore", "-c", program, cwd=folder)
        self.assertEqual((done.returncode, done.stderr), (4, ""))

    def test_a_forked_child_is_told_what_is_done(self) -> None:
        program = (
            "import asyncio, ioweave, os, test_processes\n"
            "async def waited(future): return await future\n"
            "called = []\n"
            "with ioweave.Runtime(cpus=1):\n"
            "    done, numbers = test_processes.add(1), [1]\n"
            "    test_processes.append(numbers, 2).result(), done.result()\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        assert ioweave.wait(5) == 5 and ioweave.wait('text') == 'text'\n"
            "        assert ioweave.wait([done, numbers]) == [1, [1, 2]]\n"
            "        assert asyncio.run(waited(done)) == 1 and not done.cancel()\n"
            "        assert done.done() and not done.running() and not done.cancelled()\n"
            "        done.add_done_callback(called.append)\n"
            "        assert called == [done] and done.exception() is None\n"
            "        raise SystemExit(4)\n"
            "    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        )
        done = run("-W", "ignore", "-c", program)
        self.assertEqual((done.returncode, done.stderr), (4, ""))

    def test_tasks_in_the_main_module_of_a_package_are_refused_at_the_call(self) -> None:
        program = (
            "import ioweave\n"
            "@ioweave.task\n"
            "def mine(): pass\n"
            "if __name__ == '__main__':\n"
            "    with ioweave.Runtime(workers='processes', cpus=1):\n"
            "        try:\n"
            "            mine()\n"
            "        except TypeError as error:\n"
            "            print(error)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "package").mkdir()
            Path(folder, "package/__main__.py").write_text(program)
            for given in (("-m", "package"), ("package",)):
                done = run(*given, cwd=folder)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("in the __main__.py of a package", done.stdout)

    def test_a_program_that_workers_cannot_import_is_refused_at_the_call(self) -> None:
        program = (
            "import ioweave, test_processes\n"
            "@ioweave.task\n"
            "def mine(): pass\n"
            "class Mine: pass\n"
            "with ioweave.Runtime(workers='processes', cpus=1):\n"
            "    earlier = test_processes.add(1, 2)\n"
            "    for call in (mine, lambda: test_processes.pid(Mine),\n"
            "                 lambda: test_processes.pid(Mine(), earlier)):\n"
            "        try:\n"
            "            call()\n"
            "        except TypeError as error:\n"
            "            print(error)\n"
        )
        done = run("-c", program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = done.stdout.splitlines()
        self.assertRegex(found[0], r"'mine' .*'mine' is defined in a notebook.*a file of its own")
        for line in found[1:]:
            self.assertRegex(line, r"task 'pid': argument '_' .*'Mine' is defined in a notebook")
        self.assertEqual(len(found), 3)


class Arguments(unittest.TestCase):
    def test_arguments_without_futures_are_copied_at_the_call(self) -> None:
        for how in ("snapshot", "share"):
            with (
                self.subTest(how),
                tempfile.TemporaryDirectory() as folder,
                ioweave.Runtime(cpus=1, workers="processes", arguments=how),
            ):
                fifo = Path(folder, "fifo")
                os.mkfifo(fifo)
                wait_for_end(str(fifo))
                numbers = [1]
                seen = itself(numbers)
                numbers.append(2)
                fifo.read_text()
                fifo.open("w").close()
                self.assertEqual(seen.result(), [1])
                self.assertIsNot(itself(numbers).result(), numbers)

    def test_arguments_of_the_first_task_that_changes_an_object_are_copied_at_the_call(
        self,
    ) -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            ioweave.Runtime(cpus=1, workers="processes"),
        ):
            fifo = Path(folder, "fifo")
            os.mkfifo(fifo)
            wait_for_end(str(fifo))
            target: list[int] = []
            values = [1]
            extend(target, values)
            values.append(2)
            fifo.read_text()
            fifo.open("w").close()
            self.assertEqual(ioweave.wait(target), [1])

    def test_a_failed_run_leaves_objects_as_they_were(self) -> None:
        numbers = [1]
        with ioweave.Runtime(cpus=1, workers="processes"):
            self.assertIsInstance(spoil(numbers).exception(), ValueError)
        self.assertEqual(numbers, [1])


class Timeouts(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.fifo = Path(temporary.name, "fifo")
        os.mkfifo(self.fifo)
        self.writer = os.open(self.fifo, os.O_RDWR)

    def test_the_start_of_a_process_is_not_the_tasks_time(self) -> None:
        """Of two tasks with the same timeout, the one submitted first outlives the other."""
        with ioweave.Runtime(cpus=2, workers="processes"):
            taken = take(Slow(self.fifo))
            until(self.fifo.with_suffix(".waiting").exists)
            self.assertIsInstance(hang_longer().exception(), ioweave.TaskTimeout)
            os.close(self.writer)
            self.assertEqual(taken.result(), "taken")

    def test_a_process_that_takes_too_long_is_killed(self) -> None:
        os.close(self.writer)
        file = self.fifo.with_name("pid")
        with ioweave.Runtime(cpus=1, workers="processes"):
            self.assertIsInstance(hang_here(file).exception(), ioweave.TaskTimeout)
            until(lambda: not Path("/proc", file.read_text()).exists())

    def test_a_process_start_that_hangs_ends_with_a_timeout(self) -> None:
        self.addCleanup(os.close, self.writer)
        with (
            mock.patch("ioweave.runtime._START_S", 0.05),
            ioweave.Runtime(cpus=1, workers="processes"),
            self.assertRaisesRegex(ioweave.TaskTimeout, "take#1 has not begun in a process in 0.0"),
        ):
            take(Slow(self.fifo)).result()


if __name__ == "__main__":
    unittest.main()
