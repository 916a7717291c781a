"""ioweave.compat.pycompss: PyCOMPSs programs run unchanged, or name what is missing."""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any

import ioweave
from ioweave import _core
from ioweave.compat.pycompss.api import api, parameter
from ioweave.compat.pycompss.api.constraint import constraint
from ioweave.compat.pycompss.api.IO import IO
from ioweave.compat.pycompss.api.task import number_of_returns, task
from ioweave.compat.pycompss.resources import read_resources, this_node
from runtimes import Gate, RuntimeTest, pass_gate

APPS = Path(__file__).parent / "pycompss"

RESOURCES = """<?xml version="1.0" encoding="UTF-8"?>
<ResourcesList>
  <ComputeNode Name="elsewhere">
    <Processor Name="P"><ComputingUnits>48</ComputingUnits></Processor>
  </ComputeNode>
  <ComputeNode Name="localhost">
    <Processor Name="P1"><ComputingUnits>2</ComputingUnits></Processor>
    <Processor Name="P2"><ComputingUnits>1</ComputingUnits></Processor>
    <Memory><Size>16</Size></Memory>
    <Storage><Size>200.0</Size><Bandwidth>450</Bandwidth></Storage>
  </ComputeNode>
</ResourcesList>
"""


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(text), "utf-8")
        return path


class Runner(Folder):
    def run_app(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ioweave.compat.pycompss", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


class Command(Runner):
    def test_the_first_listing_runs_and_is_told_that_an_int_does_not_change(self) -> None:
        listing = str(APPS / "listing_1.py")
        app = self.file(
            "app.py",
            f"""
            import runpy
            print(runpy.run_path({listing!r}, run_name="__main__")["result"])
            """,
        )
        ran = self.run_app("--cpus", 2, app)
        self.assertEqual((ran.returncode, ran.stdout), (0, "0\n"), ran.stderr)
        self.assertEqual(ran.stderr.count("'value1' is INOUT, but int cannot change"), 1)

    def test_a_sum_that_can_change_is_updated_in_threads_and_processes(self) -> None:
        for workers in ("threads", "processes"):
            with self.subTest(workers):
                ran = self.run_app(
                    *("--cpus", 2, "--workers", workers, APPS / "sum_that_changes.py")
                )
                self.assertEqual((ran.returncode, ran.stdout), (0, "sum 100\n"), ran.stderr)

    def test_tasks_left_at_the_end_of_the_app_run_in_processes(self) -> None:
        self.file(
            "beside.py",
            """
            from pycompss.api.task import task

            @task(returns=int)
            def double(n):
                return 2 * n
            """,
        )
        app = self.file(
            "app.py",
            """
            import os, sys
            from beside import double
            from pycompss.api.task import task

            @task()
            def note(folder, n):
                open(os.path.join(folder, f"{n}-{os.getpid() == main}"), "w").close()

            main = 0
            if __name__ == "__main__":
                main = os.getpid()
                for n in range(3):
                    note(sys.argv[1], double(n))
            """,
        )
        notes = self.folder / "notes"
        notes.mkdir()
        ran = self.run_app("--cpus", 1, "--workers", "processes", app, notes)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual({note.name for note in notes.iterdir()}, {"0-False", "2-False", "4-False"})

    def test_options_of_the_runner_reach_the_runtime(self) -> None:
        app = self.file(
            "app.py",
            """
            import threading, ioweave.tasks
            from pycompss.api.IO import IO
            from pycompss.api.task import task

            go = threading.Event()

            @IO()
            @task()
            def hold():
                go.wait()

            for _ in range(5):
                hold()
            stats = ioweave.tasks.active.stats()
            print(stats.cpus, stats.io_running, stats.io_waiting)
            go.set()
            """,
        )
        log = self.folder / "policy.log"
        resources = self.file("resources.xml", RESOURCES)
        ran = self.run_app("--cpus", 7, "--io_executors", 2, "--log", log, app)
        self.assertEqual(ran.stdout, "7 2 3\n", ran.stderr)
        replayed = _core.replay(log)
        self.assertTrue(replayed.same, replayed.reason)
        self.assertEqual(replayed.decisions, 5)
        ran = self.run_app("--resources", resources, app)
        self.assertEqual(ran.stdout, "3 5 0\n", ran.stderr)
        ran = self.run_app("--resources", resources, "--cpus", 1, app)
        self.assertEqual(ran.stdout, "1 5 0\n", ran.stderr)

    def test_the_node_of_the_resources_that_is_taken_is_named(self) -> None:
        app = self.file("app.py", "")
        strange = RESOURCES.replace('"localhost"', '"cn2"')
        for text, says in (
            (
                RESOURCES,
                "node 'localhost' is taken: 3 cores, 450.0 MB/s of storage; not used: else",
            ),
            (strange, "node 'elsewhere' is taken, though none .*: 48 cores, unknown .* used: cn2"),
        ):
            ran = self.run_app("--resources", self.file("r.xml", text), app)
            self.assertRegex(ran.stderr, says)
            self.assertEqual(ran.returncode, 0)
        one = self.file(
            "r.xml", re.sub('(?s)<ComputeNode Name="elsewhere">.*?</ComputeNode>', "", RESOURCES)
        )
        self.assertEqual(self.run_app("--resources", one, app).stderr, "")

    def test_the_listings_of_io_tasks_run(self) -> None:
        resources = self.file("resources.xml", RESOURCES)
        data = self.folder / "data"
        data.mkdir()
        ran = self.run_app(
            *("--resources", resources, "--io_executors", 45, APPS / "listings_2_to_5.py", data)
        )
        self.assertEqual(ran.stdout, f"scaled {10 * sum(range(40))}\nwritten True\n", ran.stderr)
        self.assertEqual(ran.returncode, 0)

    def test_an_unsupported_module_is_named(self) -> None:
        app = self.file("app.py", "from pycompss.api.mpi import mpi\n")
        ran = self.run_app(app)
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("pycompss.api.mpi is not supported", ran.stderr)

    def test_an_unsupported_call_is_named(self) -> None:
        app = self.file("app.py", "from pycompss.api.api import *\ncompss_snapshot()\n")
        ran = self.run_app(app)
        self.assertIn("compss_snapshot", ran.stderr)
        self.assertIn("does not support", ran.stderr)

    def test_the_app_has_its_arguments_and_folder(self) -> None:
        self.file("beside.py", "NAME = 'beside'\n")
        app = self.file(
            "app.py", "import sys, beside\nprint(sys.argv[1:], beside.NAME, __name__)\n"
        )
        ran = self.run_app(app, "a", "--b")
        self.assertEqual(ran.stdout, "['a', '--b'] beside __main__\n", ran.stderr)

    def test_a_program_that_cannot_run_is_named(self) -> None:
        ran = self.run_app(self.folder / "none.py")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("no such program", ran.stderr)
        app = self.file("app.py", "")
        ran = self.run_app("--resources", self.file("r.xml", "<ResourcesList/>"), app)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("no <ComputeNode>", ran.stderr)
        for options, says in (
            (("--runtime", "nowhere://"), "target 'nowhere://' is not known"),
            (("--log", self.folder / "none" / "log"), "No such file or directory"),
        ):
            ran = self.run_app(*options, app)
            self.assertEqual((ran.returncode, ran.stderr.count("\n")), (2, 1), ran.stderr)
            self.assertIn(says, ran.stderr)

    def test_a_simulation_is_told_what_tasks_take_and_tells_how_long_it_took(self) -> None:
        resources = self.file("resources.xml", RESOURCES)
        app = self.file(
            "app.py",
            """
            from pycompss.api.IO import IO
            from pycompss.api.task import task

            @task(returns=int)
            def simulate(n):
                raise OSError("no function is run")

            @IO()
            @task()
            def checkpoint(n):
                raise OSError("no function is run")

            for n in range(8):
                checkpoint(simulate(n))
            """,
        )
        simulated = ("--resources", resources, "--runtime", "sim://2x2", "--cost", "simulate=60")
        ran = self.run_app(*simulated, "--cost", "checkpoint=900e6", app)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        # Two waves of four, and two checkpoints on each node, which moves 450 MB/s.
        self.assertIn("124 s on 2 simulated nodes", ran.stderr)
        self.assertIn("give its bytes by", self.run_app(*simulated, app).stderr)
        ran = self.run_app("--cost", "simulate", app)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("'simulate' is not TASK=NUMBER", ran.stderr)

    def test_a_failure_of_the_app_is_raised_unchanged(self) -> None:
        app = self.file("app.py", "import sys\nsys.exit(7)\n")
        self.assertEqual(self.run_app(app).returncode, 7)


class Resources(Folder):
    def test_this_node_is_found_by_its_name(self) -> None:
        node = this_node(read_resources(self.file("r.xml", RESOURCES)))
        assert node is not None
        self.assertEqual(
            (node.name, node.computing_units, node.storage_mb_per_s), ("localhost", 3, 450)
        )

    def test_mistakes_in_a_resources_file_are_named(self) -> None:
        for text, says in (
            (RESOURCES.replace("450", "fast"), "<Bandwidth> must be a number above 0, not 'fast'"),
            (RESOURCES.replace("450", "0"), "<Bandwidth> must be a number above 0"),
            ("<ResourcesList>", "not XML"),
        ):
            with self.assertRaisesRegex(ValueError, says):
                read_resources(self.file("r.xml", text))


class Decorators(Folder):
    def test_outside_a_runtime_a_task_is_a_call(self) -> None:
        @task(returns=2)
        def both(a: int) -> tuple[int, int]:
            return a, a + 1

        self.assertEqual(api.compss_wait_on(both(1)), (1, 2))
        api.compss_barrier()

    def test_methods_change_their_object(self) -> None:
        class Counter:
            def __init__(self) -> None:
                self.count = 0

            @task()
            def add(self, n: int) -> None:
                self.count += n

        with ioweave.Runtime(cpus=2):
            counter = Counter()
            for n in range(10):
                counter.add(n)
            self.assertEqual(api.compss_wait_on(counter).count, 45)

    def test_files_are_waited_for(self) -> None:
        @IO()
        @task(path=parameter.FILE_OUT)
        def make(path: str, text: str) -> None:
            Path(path).write_text(text, "utf-8")

        @task(path=parameter.FILE_INOUT)
        def append(path: str, text: str) -> None:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(text)

        path = str(self.folder / "file")
        with ioweave.Runtime(cpus=2):
            make(path, "a")
            append(path, "b")
            with api.compss_open(path) as file:
                self.assertEqual(file.read(), "ab")
            self.assertTrue(api.compss_file_exists(path))
            append(path, "c")
            api.compss_delete_file(path)
            self.assertFalse(api.compss_file_exists(path))

    def test_a_file_is_opened_to_write_when_nobody_reads_it_any_more(self) -> None:
        @task(path=parameter.FILE_IN, returns=1)
        def read(path: str, gate: int) -> str:
            pass_gate(gate)
            return Path(path).read_text("utf-8")

        path = self.folder / "file"
        for mode in ("w", "a", "r+"):
            with self.subTest(mode), ioweave.Runtime(cpus=2) as runtime:
                path.write_text("old", "utf-8")
                gate = Gate(lambda number: read(str(path), number))
                gate.open_when(lambda: runtime.stats().pending > 1)
                with api.compss_open(str(path), mode) as file:
                    file.write("new")
                gate.open()
                self.assertEqual(api.compss_wait_on(gate.future), "old")
                self.assertIn("new", path.read_text("utf-8"))

    def test_a_file_is_opened_to_read_beside_those_that_read_it(self) -> None:
        @task(path=parameter.FILE_IN)
        def read(path: str, gate: int) -> None:
            pass_gate(gate)

        path = self.file("file", "old")
        with ioweave.Runtime(cpus=2) as runtime, Gate(lambda n: read(str(path), n)) as gate:
            gate.open_when(lambda: runtime.stats().pending > 1)  # rather than hang
            with api.compss_open(path) as file:
                self.assertEqual((gate.future.done(), file.read()), (False, "old"))

    def test_an_immutable_argument_is_taken_as_in_with_one_warning(self) -> None:
        @task(one=parameter.INOUT, two=parameter.OUT)
        def change(one: Any, two: Any = None) -> None:
            one += [2]

        numbers = [1]
        with warnings.catch_warnings(record=True) as warned, ioweave.Runtime(cpus=2):
            warnings.simplefilter("always")
            for _ in range(3):
                change(numbers)
            self.assertEqual(api.compss_wait_on(numbers), [1, 2, 2, 2])
            for _ in range(2):
                change(numbers, "two")
            self.assertEqual(api.compss_wait_on(numbers), [1, 2, 2, 2, 2, 2])
            failed = [change(number) for number in (1, 2.5)]
            for future in failed:
                self.assertIsInstance(future.exception(), TypeError)  # int + list
        said = [str(each.message) for each in warned]
        self.assertEqual(len(said), 2, said)
        self.assertIn("'two' is OUT, but str cannot change in place", said[0])
        self.assertIn("'one' is INOUT, but int cannot change in place", said[1])
        self.assertEqual({each.filename for each in warned}, {__file__})

    def test_a_bandwidth_without_io_warns(self) -> None:
        @constraint(storageBW=20)
        @task()
        def compute() -> None:
            pass

        @IO()
        @constraint(storageBW=20)
        @task()
        def write() -> None:
            pass

        compute_once = self.assertWarnsRegex(UserWarning, "'compute': .*without @IO")
        device = ioweave.Device("default", bandwidth=100)
        with warnings.catch_warnings(), ioweave.Runtime(cpus=1, devices=[device]):
            warnings.simplefilter("error")
            with compute_once:
                compute()
            compute()
            write()

    def test_a_bandwidth_on_a_machine_without_a_budget_warns_and_holds_nothing(
        self,
    ) -> None:
        @IO()
        @constraint(storageBW=20)
        @task()
        def write() -> None:
            pass

        with ioweave.Runtime(cpus=1) as runtime:
            with self.assertLogs("ioweave", "WARNING") as said:
                write()
                write()
            self.assertEqual(runtime.explain("write")["policy"], "none")
        (text,) = said.output
        self.assertRegex(
            text, "'write' on device 'default': a fixed bandwidth .* holds no bandwidth until then"
        )

    def test_a_task_is_tried_three_times(self) -> None:
        tries: list[int] = []

        @task(returns=1)
        def third_time() -> int:
            tries.append(1)
            if len(tries) < 3:
                raise OSError("not yet")
            return len(tries)

        with ioweave.Runtime(cpus=1):
            self.assertEqual(api.compss_wait_on(third_time()), 3)

    def test_constraints_are_read_in_any_spelling(self) -> None:
        for name in ("computing_units", "computingUnits", "ComputingUnits"):
            self.assertEqual(constraint(**{name: "2"})(task()(lambda: None)).cpus, 2)
        for name in ("storageBW", "storage_bw", "StorageBW"):
            self.assertEqual(constraint(**{name: "20"})(task()(lambda: None)).storage_bandwidth, 20)
        os.environ["IOWEAVE_TEST_UNITS"] = "3"
        self.addCleanup(os.environ.pop, "IOWEAVE_TEST_UNITS")
        self.assertEqual(
            constraint(computing_units="$IOWEAVE_TEST_UNITS")(task()(lambda: None)).cpus, 3
        )

    def test_returns_are_counted_as_pycompss_does(self) -> None:
        for given, number in ((None, 0), (int, 1), (2, 2), ("3", 3), ((int, str), 2), ([int], 1)):
            self.assertEqual(number_of_returns(given), number)

    def test_bad_decorations_are_named(self) -> None:
        def function(a: Any) -> None:
            pass

        for says, error, bad in (
            (
                "'b' is neither one of its parameters",
                TypeError,
                lambda: task(b=parameter.IN)(function),
            ),
            ("is not one of pycompss.api.parameter", TypeError, lambda: task(a="IN")(function)),
            ("on_failure must be one of", ValueError, lambda: task(on_failure="X")(function)),
            ("takes its options by name", TypeError, lambda: task(1, 2)),  # type: ignore[call-overload]
            ("must stand above @task", TypeError, lambda: IO()(function)),
            ("must stand above @task", TypeError, lambda: constraint(storageBW=1)(function)),
            ("'speed' is not known", TypeError, lambda: constraint(speed=1)(task()(function))),
            (
                "a number of cores",
                ValueError,
                lambda: constraint(computing_units="x")(task()(function)),
            ),
            ("MB/s or 'auto'", ValueError, lambda: constraint(storageBW=None)(task()(function))),
        ):
            with self.assertRaisesRegex(error, says):
                bad()

    def test_a_constraint_that_is_not_enforced_warns(self) -> None:
        with self.assertWarnsRegex(UserWarning, "memory_size is not enforced"):
            constraint(memory_size=4)(task()(lambda: None))

    def test_an_unsupported_name_is_named_when_used_after_import_star(self) -> None:
        names: dict[str, Any] = {}
        exec("from ioweave.compat.pycompss.api.parameter import *", names)
        exec("from ioweave.compat.pycompss.api.api import *", names)
        wrong: list[Any] = [
            names["COLLECTION_INOUT"],
            {names["Type"]: names["STREAM_IN"]},
            {names["Type"]: names["FILE_IN"], names["StdIOStream"]: names["STDIN"]},
        ]
        for given in wrong:
            with self.assertRaisesRegex(
                NotImplementedError, "'n': .*(COLLECTION_INOUT|STREAM_IN|StdIOStream). It has COLL"
            ):
                task(n=given)(lambda n: n)
        with self.assertRaisesRegex(NotImplementedError, r"compss_cancel_group\(\). It has TaskG"):
            names["compss_cancel_group"]("group")
        names["compss_barrier_group"]("group")
        for module, name in ((parameter, "STREAM_NEW"), (api, "compss_new")):
            with self.assertRaisesRegex(ImportError, f"does not support .*{name}"):
                getattr(module, name)


@task(returns=int)
def scale(n: int) -> int:
    return n * 10


@task(returns=int)
def factorial(n: int) -> int:
    return 1 if n == 0 else n * factorial(n - 1)


@task(target=parameter.INOUT)
def append(target: list[int], value: int) -> None:
    target.append(value)


@task(total=parameter.INOUT)
def accumulate(total: int, value: int) -> None:
    total += value


@task(returns=2)
def halves(n: int) -> tuple[int, int]:
    return n // 2, n - n // 2


@IO()
@task(path=parameter.FILE_OUT)
def write(path: str, n: int) -> None:
    Path(path).write_text(str(n), "utf-8")


@task(path=parameter.FILE_INOUT)
def extend(path: str, text: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(text)


@task(path=parameter.FILE_IN, returns=str)
def read(path: str) -> str:
    return Path(path).read_text("utf-8")


class Total:
    def __init__(self) -> None:
        self.total = 0

    @task()
    def add(self, n: int) -> None:
        self.total += n


@task(returns=1)
def is_none(value: int | None) -> bool:
    return value is None


@task(returns=2, on_failure="IGNORE")
def fail_ignored() -> tuple[int, int]:
    raise OSError("ignored")


@task(returns=1, on_failure="IGNORE", time_out=0.05)
def hang() -> int:
    threading.Event().wait()
    return 1


@task(numbers=parameter.INOUT, on_failure="IGNORE")
def append_and_fail(numbers: list[int], n: int) -> None:
    numbers.append(n)
    raise OSError("ignored")


@task(returns=1, on_failure="FAIL")
def fail() -> int:
    raise OSError("not ignored")


@task(path=parameter.FILE_OUT, target=parameter.INOUT, returns=1, on_failure="CANCEL_SUCCESSORS")
def fail_cancelling(path: str, target: list[int]) -> int:
    raise OSError("cancels")


class Programs(RuntimeTest, Folder):
    """Programs for every runtime: `test_dask_pycompss.py` runs them on a Dask cluster."""

    def test_programs_give_what_they_give_as_plain_python(self) -> None:
        path = str(self.folder / "file")

        def program() -> list[Any]:
            numbers: list[int] = []
            total = Total()
            for n in range(4):
                value = scale(n)
                append(numbers, value)
                total.add(value)
            write(path, scale(5))
            extend(path, "!")
            text = read(path)
            values = api.compss_wait_on([scale(7), {"halves": halves(9)}, numbers, text])
            return [*values, api.compss_wait_on(total).total]

        plainly = program()
        with self.runtime():
            self.assertEqual(program(), plainly)
        self.assertEqual(plainly, [70, {"halves": (4, 5)}, [0, 10, 20, 30], "50!", 60])

    def test_a_task_called_inside_a_task_is_a_plain_call(self) -> None:
        with self.runtime():
            self.assertEqual(api.compss_wait_on(factorial(5)), 120)

    def test_numbers_do_not_change_in_place(self) -> None:
        total = 0
        with warnings.catch_warnings(), self.runtime():
            warnings.simplefilter("ignore")
            for n in range(3):
                accumulate(total, scale(n))
            self.assertEqual(api.compss_wait_on(total, scale(total)), [0, 0])

    def test_programs_wait_for_files(self) -> None:
        path = str(self.folder / "file")
        with self.runtime():
            write(path, 1)
            extend(path, "2")
            api.compss_wait_on_file(path)
            self.assertEqual(Path(path).read_text("utf-8"), "12")
            text = read(path)
            with api.compss_open(path, "w") as file:
                file.write("new")
            extend(path, "er")
            self.assertTrue(api.compss_file_exists(path))
            with api.compss_open(path) as file:
                self.assertEqual(file.read(), "newer")
            again = read(path)
            api.compss_delete_file(path)
            self.assertFalse(api.compss_file_exists(path))
            self.assertEqual(api.compss_wait_on(text, again), ["12", "newer"])

    def test_programs_continue_after_an_ignored_failure(self) -> None:
        numbers: list[int] = []
        with self.assertLogs("ioweave", "WARNING") as logged, self.runtime() as runtime:
            one, two = fail_ignored()
            late = hang()
            values = api.compss_wait_on([one, two, late, is_none(late), scale(1)])
            append(numbers, 1)
            append_and_fail(numbers, 2)
            append(numbers, 3)
            api.compss_barrier()
            stats = runtime.stats()
        self.assertEqual(values, [None, None, None, True, 10])
        self.assertEqual(numbers, [1, 3])
        self.assertEqual((stats.succeeded, stats.failed, stats.timed_out), (4, 3, 1))
        self.assertIn(
            "'fail_ignored' failed, and the failure is not raised", "".join(logged.output)
        )

    def test_programs_continue_without_successors_that_a_failure_cancelled(self) -> None:
        path, numbers = str(self.folder / "file"), [1]
        with self.assertLogs("ioweave", "WARNING"), self.runtime() as runtime:
            failed = fail_cancelling(path, numbers)
            extend(path, "successor")
            append(numbers, scale(2))
            after = scale(failed)
            values = api.compss_wait_on([failed, after, scale(1)], numbers)
            self.assertFalse(api.compss_file_exists(path))
            with api.compss_open(path, "w") as file:
                file.write("anew")
            extend(path, "!")
            api.compss_barrier()
            fail_cancelling(path, [])
            api.compss_barrier()
            stats = runtime.stats()
        self.assertEqual((stats.succeeded, stats.failed, stats.cancelled), (4, 2, 3))
        self.assertEqual(values, [[None, None, 10], None])
        self.assertEqual(Path(path).read_text("utf-8"), "anew!")

    def test_wait_on_raises_failures_that_are_not_ignored(self) -> None:
        with self.runtime():
            failed = fail()
            with self.assertRaisesRegex(ioweave.DependencyFailed, "not ignored"):
                api.compss_wait_on([scale(1), scale(failed)])
            with self.assertRaisesRegex(OSError, "not ignored"):
                api.compss_wait_on(failed)
        with self.assertRaisesRegex(OSError, "not ignored"), self.runtime():
            fail()


class ProgramsInProcesses(Programs):
    def runtime(self, **options: Any) -> Any:
        return super().runtime(workers="processes", cpus=2, **options)


class Simulated(Folder):
    def test_programs_wait_for_files_in_virtual_time(self) -> None:
        path = self.file("file", "old")
        costs = {"extend": 3.0, "read": 2.0}
        runtime: Any = ioweave.Runtime("sim://1x2", costs=costs)
        with runtime:
            extend(path, "")
            with api.compss_open(path) as file:
                self.assertEqual((runtime.now_s, file.read()), (3, "old"))
            read(path)
            api.compss_open(path).close()
            self.assertEqual(runtime.now_s, 3)
            api.compss_open(path, "a").close()
            self.assertEqual(runtime.now_s, 5)
            extend(path, "")
            api.compss_wait_on_file(path)
            self.assertEqual(runtime.now_s, 8)
            read(path)
            api.compss_delete_file(path)
            extend(path, "")
            self.assertTrue(api.compss_file_exists(path))  # no function is run
            self.assertEqual(runtime.now_s, 13)


if __name__ == "__main__":
    unittest.main()
