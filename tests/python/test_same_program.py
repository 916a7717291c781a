"""One program under the three runtimes: this machine, Dask, and simulation."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import ioweave
from ioweave import run_file
from ioweave.options import Options
from ioweave.simulated import SimulatedRuntime

try:
    import distributed
    import ioweave.dask
    from ioweave.dask.runtime import DaskRuntime
except ModuleNotFoundError:
    HAS_DASK = False
else:
    HAS_DASK = True

MB = 1_000_000
CLASSES = [ioweave.Runtime, SimulatedRuntime]
TARGETS: list[str | None] = [None, "sim://2x2"]
if HAS_DASK:
    CLASSES.append(DaskRuntime)
    TARGETS.append("dask://localhost:1")


@ioweave.task
def make(number: int) -> bytes:
    return bytes([number]) * MB


@ioweave.task
def extend(blocks: Annotated[list[bytes], ioweave.InOut], block: bytes) -> None:
    blocks.append(block)


@ioweave.task
def fail_on(blocks: Annotated[list[bytes], ioweave.InOut]) -> None:
    raise OSError("disk full")


@ioweave.io(device="ssd", bytes=MB)
def save(block: bytes, path: Annotated[Path, ioweave.Out]) -> int:
    return path.write_bytes(block)


@ioweave.io(device="ssd", bandwidth=50, bytes=MB)
def load(path: Annotated[Path, ioweave.In]) -> bytes:
    return path.read_bytes()


@ioweave.task(retries=2)
def third_time(numbers: Annotated[list[list[int]], ioweave.InOut], runs: Path) -> int:
    numbers[0].append(2)
    numbers.append([3])
    run = len(list(runs.iterdir()))
    (runs / str(run)).touch()
    if run < 2:
        raise OSError("again")
    return len(numbers)


class SameProgram(unittest.TestCase):
    """The program on this machine."""

    target: Any = None
    runs_functions = True

    def runtime(self, **options: Any) -> ioweave.Runtime:
        return ioweave.Runtime(self.target, **options)

    def test_one_program_takes_all_options_and_methods(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        runtime = self.runtime(
            cpus=2,
            workers="threads",
            arguments="snapshot",
            io_threads=4,
            devices=[ioweave.Device("ssd", bandwidth=100, path=folder)],
            config=None,
            max_pending=1000,
            max_pending_bytes=10**9,
            on_interrupt="cancel",
            learned=folder / "learned.json",
            run_file=folder / "run.jsonl",
            records=True,
            progress=False,
            shared_directory=True,
            costs={"make": 1.0, "extend": lambda blocks, block: 0.5},
            curves={"ssd": [(1, 50), (2, 100)]},
            nodes=(),
            sample_period_s=1,
        )
        self.assertIsInstance(runtime, ioweave.Runtime)
        called: list[str] = []
        collected: list[bytes] = []
        with runtime:
            blocks = [make(number) for number in range(3)]
            saved = [save(block, folder / f"{n}") for n, block in enumerate(blocks)]
            blocks[0].add_done_callback(lambda future: called.append("called"))
            loaded = load(folder / "0")
            extend(collected, loaded)
            values = [ioweave.wait(loaded), asyncio.run(_value(saved[1])), blocks[2].result(60)]
            ioweave.wait(folder / "2")
            self.assertTrue(saved[2].done())
            ioweave.wait(collected)
            ioweave.barrier()
            self.assertEqual(
                (saved[2].running(), saved[2].cancelled(), saved[2].cancel(), saved[2].exception()),
                (False, False, False, None),
            )
            stats = runtime.stats()
            explained = runtime.explain("save")
            records = runtime.records()
        self.assertEqual((stats.submitted, stats.succeeded, stats.pending), (8, 8, 0))
        flows = {flow.task: (flow.device, flow.done, flow.bytes) for flow in stats.flows}
        self.assertEqual(flows, {"save": ("ssd", 3, 3 * MB), "load": ("ssd", 1, MB)})
        self.assertEqual((explained["policy"], explained["device"]), ("climb", "ssd"))
        names = Counter((record.task, record.device, record.bytes) for record in records)
        self.assertEqual(names[("save", "ssd", MB)], 3)
        self.assertEqual(names.total(), 8)
        self.assertEqual(runtime.not_written, [])
        summary = run_file.read(folder / "run.jsonl").summary or {}
        self.assertEqual(summary["tasks"]["succeeded"], 8)
        self.assertEqual(called, ["called"])
        block = bytes(MB)
        self.assertEqual(collected, [block] if self.runs_functions else [])
        wanted: list[Any] = [block, MB, b"\2" * MB] if self.runs_functions else [None] * 3
        self.assertEqual(values, wanted)

    def test_a_task_that_is_run_again_begins_with_what_its_object_was(self) -> None:
        with tempfile.TemporaryDirectory() as runs, self.runtime(costs={"third_time": 1}):
            numbers = [[1]]
            length = third_time(numbers, Path(runs))
            ioweave.wait(numbers)
            self.assertEqual(length.result(), 2 if self.runs_functions else None)
            self.assertEqual(numbers, [[1, 2], [3]] if self.runs_functions else [[1]])

    def test_tasks_on_an_object_run_again_after_the_failure_of_one_was_raised(self) -> None:
        costs = {"third_time": 1, "extend": 1, "fail_on": 1}
        blocks: list[bytes] = []
        with self.runtime(costs=costs) as runtime:
            extend(blocks, b"1")
            fail_on(blocks)
            extend(blocks, b"not run")
            if self.runs_functions:
                self.assertRaisesRegex(OSError, "disk full", ioweave.barrier)
            for _ in range(3):
                extend(blocks, b"2")
                ioweave.barrier()
            ioweave.wait(blocks)
            stats = runtime.stats()
        self.assertEqual(blocks, [b"1", b"2", b"2", b"2"] if self.runs_functions else [])
        wanted = (4, 1, 1) if self.runs_functions else (6, 0, 0)
        self.assertEqual((stats.succeeded, stats.failed, stats.cancelled), wanted)

    def test_a_task_saves_an_object_as_it_was_at_the_call(self) -> None:
        ssd = ioweave.Device("ssd", bandwidth=100)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / str(number) for number in range(5)]
            with self.runtime(devices=[ssd]):
                block = bytearray(1)
                for path in paths:
                    block[0] += 1
                    save(block, path)
            saved = [path.read_bytes() for path in paths if self.runs_functions]
        self.assertEqual(saved, [bytes([n]) for n in range(1, 6)] if saved else [])

    def test_a_bandwidth_of_a_device_without_a_budget_is_refused(self) -> None:
        held = ioweave.io(bandwidth=20, bytes=MB, name="held")(len)
        curves = {"default": [(1, 100)]}
        words = (
            "task 'held' on device 'default': .* budget, .* give it a bandwidth in MB/s .`ioweave m"
        )
        with self.runtime(curves=curves), self.assertRaisesRegex(ValueError, words):
            held("x")
        with self.runtime(devices=[ioweave.Device("default", bandwidth=20)]) as runtime:
            held("x")
            self.assertEqual(runtime.explain("held")["limit"], 1)

    def test_two_io_tasks_of_one_name_on_a_device_are_told_apart(self) -> None:
        one, two = (ioweave.io(bytes=MB, device="ssd", name="put")(len) for _ in range(2))
        ssd = ioweave.Device("ssd", bandwidth=100)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.jsonl"
            with self.runtime(devices=[ssd], run_file=path, records=True) as runtime:
                ioweave.wait([one("x"), two("x"), two("x")])
                ioweave.barrier()
                self.assertEqual(runtime.explain(two)["flow"], "put(2)")
                self.assertEqual(runtime.explain("put(2)")["flow"], "put(2)")
                with self.assertRaisesRegex(ValueError, "several I/O tasks are called 'put'"):
                    runtime.explain("put")
                flows = {flow.task: flow.done for flow in runtime.stats().flows}
                records = Counter(record.task for record in runtime.records())
            found = run_file.read(path).tasks
        self.assertEqual(flows, {"put": 1, "put(2)": 2})
        self.assertEqual(records, flows)
        calls = {name: task["calls"] for (name, _), task in found.items()}
        explained = {name: task["explanation"]["flow"] for (name, _), task in found.items()}
        self.assertEqual(calls, flows)
        self.assertEqual(explained, {"put": "put", "put(2)": "put(2)"})


class InProcesses(SameProgram):
    def runtime(self, **options: Any) -> ioweave.Runtime:
        return ioweave.Runtime(**options | {"workers": "processes"})


class Simulated(SameProgram):
    target = "sim://1x2"
    runs_functions = False


@unittest.skipUnless(HAS_DASK, "no Dask")
class OnDask(SameProgram):
    def runtime(self, **options: Any) -> ioweave.Runtime:
        cluster = ioweave.dask.local_cluster(cores=2, processes=False, memory_limit=0)
        self.addCleanup(cluster.close)
        client = distributed.Client(cluster)
        self.addCleanup(client.close)
        return ioweave.Runtime(client, **options)


class SameFace(unittest.TestCase):
    def test_all_have_the_options_and_methods_of_runtime(self) -> None:
        wanted = list(inspect.signature(Options).parameters)
        for kind in CLASSES:
            self.assertEqual(list(inspect.signature(kind).parameters), wanted)
            for name, method in inspect.getmembers(ioweave.Runtime, inspect.isfunction):
                if not name.startswith("_"):
                    theirs = inspect.signature(getattr(kind, name)).parameters
                    ours = inspect.signature(method).parameters
                    self.assertEqual(list(theirs), list(ours), f"{kind.__name__}.{name}")

    def test_all_can_be_asked_before_they_are_started(self) -> None:
        for target in TARGETS:
            with self.subTest(target):
                runtime = ioweave.Runtime(target)
                self.assertEqual(runtime.stats().submitted, 0)
                self.assertRaisesRegex(ValueError, "no I/O task", runtime.explain, "save")
                runtime.close()  # nothing

    def test_all_refuse_the_same_in_the_same_words(self) -> None:
        wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
            (
                TypeError,
                r"no option 'cpu' \(did you mean 'cpus'\?\); the options are cpus, ",
                {"cpu": 1},
            ),
            (ValueError, "cpus must be a whole number above 0, not 0", {"cpus": 0}),
            (ValueError, "io_threads must be a whole number .* not 2.5", {"io_threads": 2.5}),
            (ValueError, "max_pending must be .* not True", {"max_pending": True}),
            (ValueError, "workers must be 'threads' or 'processes'", {"workers": "fork"}),
            (ValueError, "arguments must be 'snapshot', 'freeze' or", {"arguments": "copy"}),
            (ValueError, "on_interrupt must be 'drain' or 'cancel'", {"on_interrupt": "stop"}),
            (ValueError, "log must be the path of a file, or None, not 3", {"log": 3}),
            (ValueError, "records must be True or False, not 'yes'", {"records": "yes"}),
            (ValueError, r"curves must be a dict by name, not \[\]", {"curves": []}),
            (ValueError, "'ssd': curve must be .*ascending", {"curves": {"ssd": [(2, 1), (1, 1)]}}),
            (ValueError, "sample_period_s must be seconds above 0", {"sample_period_s": 0}),
            (TypeError, "nodes must be a list of ioweave.Node", {"nodes": ioweave.Node("a")}),
            (TypeError, "devices must be a list of ioweave.Dev", {"devices": ioweave.Device("a")}),
            (ValueError, "device 'a' is given twice", {"devices": [ioweave.Device("a")] * 2}),
            (OSError, "no/such/file", {"config": "no/such/file"}),
        ]
        for target in TARGETS:
            for kind, says, options in wrong:
                with self.subTest(target, **options), self.assertRaisesRegex(kind, says):
                    ioweave.Runtime(target, **options)


async def _value(future: Any) -> Any:
    return await future


if __name__ == "__main__":
    unittest.main()
