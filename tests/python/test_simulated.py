"""Runtime("sim://NxC"): the same program in virtual time, under the same policy."""

import asyncio
import io
import random
import signal
import tempfile
import threading
import unittest
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import in_flight
import ioweave
from ioweave._core import replay
from ioweave.log_file import LogFile
from ioweave.simulated import BlockingIO, SimulatedRuntime
from test_dependencies import CONTAINERS

SSD = ioweave.Device("ssd", bandwidth=100)
MB = 1_000_000


@ioweave.task
def compute(*needs: Any) -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.task(returns=2)
def halves() -> tuple[int, int]:
    raise AssertionError("a simulated task is not run")


@ioweave.task
def blocking() -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.task(name="long")
def wide_enough() -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.io(bandwidth=50, device="ssd", bytes=100 * MB)
def checkpoint(*needs: Any) -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.task(cpus=3, name="compute")
def wide() -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.io(policy="none", device="ssd", bytes=100 * MB)
def write(path: Annotated[Path, ioweave.Out], *needs: Any) -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.io(policy="none", device="ssd", bytes=100 * MB)
def read_back(paths: Annotated[list[Path], ioweave.In], *needs: Any) -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.task
def read(path: Annotated[Path, ioweave.In]) -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.task(cpus=2, name="read")
def wide_in(path: Annotated[Path, ioweave.InOut]) -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.task
def use(thing: Any) -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.task
def change(thing: Annotated[Any, ioweave.InOut]) -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.task
def put(path: Annotated[Path, ioweave.Out]) -> None:
    raise AssertionError("a simulated task is not run")


@ioweave.task
def get(path: Annotated[Path, ioweave.In]) -> None:
    raise AssertionError("a simulated task is not run")


class Order:
    """Finds which call must wait for which, for calls that read and write things in turn."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []  # a call, and one that it waits for
        self._calls = 0
        self._writer: dict[Any, int] = {}
        self._readers: dict[Any, list[int]] = {}

    def call(self, reads: list[Any], writes: list[Any]) -> None:
        for key in (*reads, *writes):
            if key in self._writer:
                self.pairs.append((self._calls, self._writer[key]))
        for key in reads:
            self._readers.setdefault(key, []).append(self._calls)
        for key in writes:
            self.pairs += [(self._calls, reader) for reader in self._readers.pop(key, [])]
            self._writer[key] = self._calls
        self._calls += 1


def _not_run(*needs: Any) -> None:
    raise AssertionError("a simulated task is not run")


def runtime(target: str = "sim://1x1", **options: Any) -> Any:
    costs = {
        "compute": 1.0,
        "read": 1.0,
        "use": 1.0,
        "halves": 2.0,
        "long": 5.0,
        "blocking": BlockingIO("ssd", 100 * MB, 1),
    }
    return ioweave.Runtime(target, **{"costs": costs, "devices": [SSD], **options})


class Simulated(unittest.TestCase):
    def test_time_is_virtual_and_io_takes_no_core(self) -> None:
        with runtime() as simulated:
            block = compute()
            saved = checkpoint(block)
            more = compute(block)
            self.assertIsNone(more.result())
            self.assertEqual(simulated.now_s, 2)
            self.assertTrue(more.done())
            ioweave.wait([saved])
        self.assertAlmostEqual(simulated.now_s, 2)
        self.assertEqual([record.task for record in simulated.records()],
                         ["compute", "checkpoint", "compute"])  # fmt: skip
        self.assertEqual([record.io for record in simulated.records()], [False, True, False])

    def test_a_task_that_does_io_itself_keeps_its_core(self) -> None:
        with runtime() as simulated:
            blocking()
            compute()
        self.assertAlmostEqual(simulated.now_s, 3)

    def test_files_order_tasks(self) -> None:
        with runtime("sim://1x2") as simulated:
            write(Path("a"))
            read(Path("a"))
            write(Path("a"))
        self.assertAlmostEqual(simulated.now_s, 3)

    def test_a_call_that_is_refused_leaves_the_order_of_files_as_it_was(self) -> None:
        with runtime() as simulated:
            put_there = write(Path("a"))
            with self.assertRaisesRegex(ValueError, "2 cpus: a node has 1"):
                wide_in(Path("a"))
            read(Path("a"))
            self.assertIsNone(put_there.result())
        written, seen = simulated.records()
        self.assertEqual((written.end_s, seen.start_s), (1.0, 1.0))

    def test_futures_in_any_container_order_tasks(self) -> None:
        for made in CONTAINERS:
            with self.subTest(made(1)), runtime("sim://1x2") as simulated:
                use(made(compute()))
            self.assertEqual([record.start_s for record in simulated.records()], [0.0, 1.0])

    def test_constraints_hold_and_their_log_replays(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            with runtime("sim://2x4", log=log) as simulated:
                for _ in range(20):
                    checkpoint(compute())
            self.assertEqual(len(simulated.records()), 40)
            replayed = replay(log)
        self.assertTrue(replayed.same, replayed.reason)
        self.assertGreaterEqual(replayed.decisions, 20)

    def test_io_runs_where_its_data_is_or_where_there_is_room(self) -> None:
        for shared, nodes in ((False, [0, 1, 1]), (True, [0, 0, 1])):
            with runtime("sim://2x1", shared_directory=shared) as simulated:
                blocks = [compute(), compute()]
                for block in (blocks[0], blocks[1], blocks[1]):
                    checkpoint(block)
            found = [record.node for record in simulated.records() if record.io]
            self.assertEqual(found, nodes)

    def test_a_file_is_read_where_it_was_written(self) -> None:
        for scope, nodes in (("node", [0, 1, 1, 1]), ("shared", [0, 1, 0, 0])):
            ssd = ioweave.Device("ssd", bandwidth=100, scope=scope)
            with runtime("sim://2x1", devices=[ssd]) as simulated:
                blocks = [compute(), compute()]
                for number, block in enumerate(blocks):
                    write(Path(f"{number}"), block)
                ioweave.wait(Path("1"))  # done or not: the file is there
                read_back([Path("1"), Path("0")])
                read_back([Path("1")], blocks[0])  # its file before its block
            found = [record.node for record in simulated.records() if record.io]
            self.assertEqual(found, nodes)

    def test_the_first_of_several_inputs_or_files_decides_the_node(self) -> None:
        @ioweave.io(policy="none", device="ssd", bytes=MB)
        def extend(one: Annotated[Path, ioweave.InOut], two: Annotated[Path, ioweave.In]) -> None:
            _not_run()

        with runtime("sim://2x1") as simulated:
            blocks = [compute(), compute()]
            for number, block in enumerate(blocks):
                write(Path(f"{number}"), block)
            ioweave.barrier()
            checkpoint(blocks[1], blocks[0])
            checkpoint(*blocks)
            extend(Path("1"), Path("0"))
            extend(Path("0"), Path("1"))
        found = [record.node for record in simulated.records() if record.io]
        self.assertEqual(found, [0, 1, 1, 0, 1, 0])

    def test_io_goes_to_nodes_that_have_its_device(self) -> None:
        ssd = ioweave.Device("ssd", bandwidth=100, nodes=["bb?"])
        nodes = [ioweave.Node("cn", count=2), ioweave.Node("bb", count=2)]
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            with runtime("sim://", nodes=nodes, devices=[ssd], log=log) as simulated:
                blocks = [compute() for _ in range(4)]
                for block in blocks:
                    checkpoint(block)
            self.assertEqual(simulated.explain("checkpoint")["nodes"], 2)
            self.assertTrue(replay(log).same)
        records = simulated.records()
        names = [simulated.node_names[record.node] for record in records]
        # Those whose block is on a node without it go to the first that has it and budget left.
        self.assertEqual(names[:4], ["cn0", "cn1", "bb0", "bb1"])
        self.assertEqual(names[4:], ["bb0", "bb0", "bb0", "bb1"])
        self.assertEqual([record.start_s for record in records[4:]], [1, 1, 3, 1])

    def test_a_task_that_does_io_itself_needs_its_device_too(self) -> None:
        ssd = ioweave.Device("ssd", bandwidth=100, nodes=["node2"])
        with runtime("sim://3x1", devices=[ssd]) as simulated:
            blocking()
            blocking()
        self.assertEqual([record.node for record in simulated.records()], [2, 2])
        self.assertAlmostEqual(simulated.now_s, 4)

    def test_nodes_may_differ_in_cores(self) -> None:
        nodes = [ioweave.Node("small"), ioweave.Node("large", cores=4)]
        with runtime("sim://", nodes=nodes) as simulated:
            wide()
            compute()
            self.assertEqual((simulated.nodes, simulated.cores), (2, 4))
        self.assertEqual([record.node for record in simulated.records()], [1, 0])

    def test_nodes_and_devices_are_those_of_the_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "ioweave.toml"
            file.write_text(
                '[[device]]\nname = "ssd"\npath = "/not/here"\nbandwidth = 100\nnodes = ["bb"]\n'
                '[[node]]\nname = "cn"\ncount = 3\ncores = 2\n[[node]]\nname = "bb"\n'
            )
            with runtime("sim://", config=file, devices=()) as simulated:
                checkpoint(compute())
        self.assertEqual(simulated.node_names, ["cn0", "cn1", "cn2", "bb"])
        self.assertEqual([record.node for record in simulated.records()], [0, 3])

    def test_several_values_are_several_futures(self) -> None:
        with runtime():
            first, second = halves()
            self.assertIsNone(first.result())
            self.assertIsNone(ioweave.wait((first, second))[1])

    def test_costs_are_functions_of_arguments_without_futures(self) -> None:
        seen: list[Any] = []

        def cost(*needs: Any) -> float:
            seen.append(needs)
            return 3.0

        with runtime(costs={"compute": cost}) as simulated:
            compute(5, compute(7))
        self.assertEqual(seen, [(7,), (5, None)])
        self.assertEqual(simulated.now_s, 6)

    def test_a_device_brings_its_own_curve_unless_curves_give_another(self) -> None:
        ssd = ioweave.Device("ssd", bandwidth=100, curve=[(1, 50), (2, 100)])
        for curves, seconds in (({}, 2), ({"ssd": [(1, 25)]}, 4)):
            with self.subTest(curves), runtime(devices=[ssd], curves=curves) as simulated:
                checkpoint()
                simulated.barrier()
                self.assertEqual(simulated.now_s, seconds)

    def test_climb_begins_with_the_curve_that_was_measured(self) -> None:
        curve = [(1, 20), (40, 400), (80, 300)]
        took = {}
        for measured in ((), curve, [(1, 450), (2, 440)]):  # the last one is another device's
            device = ioweave.Device("ssd", bandwidth=450, curve=measured)
            write = ioweave.io(device="ssd", bytes=100 * MB, name="write")(_not_run)
            with runtime(curves={"ssd": curve}, devices=[device]) as simulated:
                for _ in range(400):
                    write()
                self.assertEqual(simulated.explain(write)["limit"], 1 if measured != curve else 8)
                ioweave.barrier()
                took[tuple(measured)] = simulated.now_s
        self.assertLess(took[tuple(curve)], 0.97 * took[()])
        self.assertLess(took[(1, 450), (2, 440)], 1.05 * took[()])

    def test_curves_give_the_throughput_of_devices_and_may_change(self) -> None:
        with runtime(curves={"ssd": [(1, 50), (2, 100)]}) as simulated:
            checkpoint()
            simulated.change_curve("ssd", [(1, 25)], at_s=1)
        self.assertAlmostEqual(simulated.now_s, 3)

    def test_an_impossible_argument_is_named(self) -> None:
        for says, options in (
            ("give sim://NODESxCORES", {"target": "sim://12"}),
            ("give sim://NODESxCORES", {"target": "sim://0x3"}),
            ("sim:// has no nodes", {"target": "sim://"}),
            ("leave nodes= out", {"nodes": [ioweave.Node("a")]}),
            (
                "two have the same name: a, a",
                {"target": "sim://", "nodes": [ioweave.Node("a")] * 2},
            ),
            ("there is no device 'disk'", {"curves": {"disk": [(1, 1)]}}),
        ):
            with self.assertRaisesRegex(ValueError, says):
                runtime(**options)
        bb = ioweave.Device("ssd", nodes=["bb*"])
        with (
            runtime("sim://5x1", devices=[bb]),
            self.assertRaisesRegex(
                ValueError, r"only on nodes 'bb\*', and not on 'node0', 'node1', 'node2', \.\.\.: "
            ),
        ):
            checkpoint()
        with runtime(costs={}), self.assertRaisesRegex(ValueError, "what task 'compute' takes"):
            compute()
        with (
            runtime(costs={"compote": 1}),
            self.assertRaisesRegex(ValueError, r"takes \(did you mean 'compote'\?\): give "),
        ):
            compute()
        with runtime(), self.assertRaisesRegex(ValueError, "task 'compute': 3 cpus: a node has 1"):
            wide()
        with self.assertRaisesRegex(ValueError, "device 'ssd': curve must be .*ascending"):
            runtime(curves={"ssd": [(2, 1), (1, 1)]})
        with self.assertRaisesRegex(ValueError, "at most 1000000 nodes"):
            runtime("sim://100000000000x48")  # without making a name for each
        for cost in (-1, "much", float("nan")):
            with runtime(costs={"compute": cost}):
                self.assertRaisesRegex(ValueError, "costs of task 'compute' must be", compute)

    def test_a_device_of_which_nothing_is_known_is_refused(self) -> None:
        unknown = ioweave.Device("ssd")
        with runtime(devices=[unknown]) as simulated:
            for task, arguments in ((write, [Path("a")]), (blocking, [])):
                with self.assertRaisesRegex(
                    ValueError, "the throughput of device 'ssd' is not known"
                ):
                    task(*arguments)
            self.assertEqual(simulated.stats().submitted, 0)
        with runtime(devices=[unknown], curves={"ssd": [(1, 50)]}) as simulated:
            write(Path("a"))
        self.assertEqual(simulated.now_s, 2)

    def test_moving_nothing_takes_no_time_on_an_unknown_device(self) -> None:
        touch = ioweave.io(policy="none", device="ssd", bytes=0, name="touch")(_not_run)
        somewhere = ioweave.Device("ssd", nodes=["node1"])
        with runtime("sim://2x1", devices=[somewhere]) as simulated:
            touch(1)
            touch(2)
            with self.assertRaisesRegex(ValueError, "the throughput of device 'ssd' is not known"):
                write(Path("a"))
        self.assertEqual((simulated.now_s, len(simulated.records())), (0, 2))

    def test_transfers_of_unknown_size_are_refused(self) -> None:
        save = ioweave.io(device="ssd", name="save")(_not_run)
        with runtime() as simulated:
            with self.assertRaisesRegex(ValueError, "I/O task 'save': its arguments hold no bytes"):
                save(compute())
            save(bytearray(MB))
        self.assertEqual(simulated.records()[-1].bytes, MB)
        of_value = ioweave.io(device="ssd", name="save", bytes=len)(_not_run)
        with runtime(), self.assertRaisesRegex(ValueError, "bytes= cannot tell from values that"):
            of_value(compute())
        with runtime(), self.assertRaisesRegex(TypeError, "has no len"):
            of_value(5)
        with runtime(costs={"save": 100 * MB, "compute": 1.0}) as simulated:
            save(compute())
        self.assertEqual(simulated.now_s, 2)

    def test_callbacks_come_when_their_task_ends(self) -> None:
        at: list[float] = []
        with runtime("sim://1x2") as simulated:

            def call_back(future: Any) -> None:
                at.append(simulated.now_s)
                if len(at) < 3:
                    compute().add_done_callback(call_back)

            compute().add_done_callback(call_back)
            self.assertEqual((at, simulated.now_s), ([], 0))
            slow = wide_enough()
        self.assertEqual(at, [1, 2, 3])
        self.assertTrue(slow.done())
        self.assertEqual(simulated.now_s, 5)

    def test_a_future_knows_the_virtual_time(self) -> None:
        with runtime("sim://1x1"):
            first, second = compute(), compute()
            self.assertEqual((first.running(), second.running()), (True, False))
            second.result()
            self.assertTrue(first.done())
            self.assertFalse(compute().cancel())

    def test_other_threads_may_look_while_time_advances(self) -> None:
        """A thread that looks during a step of the simulation waits for its end."""
        seen: list[Any] = []
        looking: list[threading.Thread] = []
        at_the_lock = threading.Event()

        def look() -> None:
            try:
                seen.append((future.done(), future.running()))
                seen.append(simulated.now_s)
                seen.append(len(simulated.records()))
            except BaseException as error:
                seen.append(error)
            finally:
                at_the_lock.set()

        class Lock:
            def __init__(self, lock: Any) -> None:
                self._lock = lock

            def __enter__(self) -> None:
                if looking and threading.current_thread() is looking[0]:
                    at_the_lock.set()
                self._lock.acquire()

            def __exit__(self, *_: object) -> None:
                self._lock.release()

        def step(_: LogFile, line: str) -> None:
            if " ready " in line and not looking:
                looking.append(threading.Thread(target=look))
                looking[0].start()
                at_the_lock.wait()

        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(LogFile, "write", step),
            runtime(log=f"{folder}/log") as simulated,
        ):
            simulated._lock = Lock(simulated._lock)
            future = checkpoint(compute())
            future.result()
            looking[0].join()
        self.assertEqual(len(seen), 3, seen)

    def test_exit_with_status_0_is_a_normal_end(self) -> None:
        with self.assertRaises(SystemExit), runtime() as simulated:
            compute()
            raise SystemExit(0)
        self.assertEqual(simulated.now_s, 1.0)

    def test_ctrl_c_ends_a_simulation_between_two_calls(self) -> None:
        def cost(*needs: Any) -> float:
            if not needs:
                signal.raise_signal(signal.SIGINT)
            return 1.0

        for on_interrupt in ("drain", "cancel"):
            options: dict[str, Any] = {"costs": {"compute": cost}, "on_interrupt": on_interrupt}
            with self.assertRaises(KeyboardInterrupt), runtime(**options) as simulated:
                compute(1)
                compute()
                self.fail("the signal was lost")
            stats = simulated.stats()
            self.assertEqual((stats.submitted, stats.succeeded, simulated.now_s), (2, 0, 0))

    def test_ctrl_c_ends_a_simulation_while_time_advances(self) -> None:
        with self.assertRaises(KeyboardInterrupt), runtime() as simulated:
            compute().add_done_callback(lambda _: signal.raise_signal(signal.SIGINT))
            compute()
            ioweave.barrier()
        self.assertEqual((simulated.now_s, simulated.stats().pending), (1, 1))

    def test_random_programs_keep_the_order_of_files_and_objects(self) -> None:
        draw = random.Random()

        def cost(*_: Any) -> float:
            return draw.uniform(0, 2)

        for seed in range(30):
            draw.seed(seed)
            things: list[Any] = [[number] for number in range(3)]
            files = [Path(f"{number}") for number in range(3)]
            order = Order()
            costs = dict.fromkeys(("use", "change", "put", "get"), cost)
            with runtime("sim://2x4", costs=costs) as simulated:
                for _ in range(60):
                    thing, file = draw.choice(things), draw.choice(files)
                    kind = draw.choice([use, use, change, put, get])
                    future = kind(file if kind in (put, get) else thing)
                    key = file if kind in (put, get) else id(thing)
                    order.call(*(([key], []) if kind in (use, get) else ([], [key])))
                    if draw.random() < 0.1:
                        things.append(future)
                    if draw.random() < 0.1:
                        future.result()
            records = simulated.records()
            self.assertEqual(len(records), 60)
            for later, earlier in order.pairs:
                self.assertGreaterEqual(
                    records[later].start_s, records[earlier].end_s, (seed, later, earlier)
                )

    def test_stats_are_those_of_the_virtual_time(self) -> None:
        with runtime("sim://2x2") as simulated:
            computed = [compute() for _ in range(5)]
            for _ in range(5):
                checkpoint()
            computed[3].result()
            stats = simulated.stats()
            self.assertEqual((stats.submitted, stats.succeeded, stats.pending), (10, 4, 6))
            self.assertEqual((stats.cpus, stats.cpus_free), (4, 3))
            flow = stats.flows[0]
            self.assertEqual((flow.waiting, flow.running, flow.limit), (1, 4, 2))
            ioweave.barrier()
            flow = simulated.stats().flows[0]
            self.assertEqual((flow.done, flow.bytes, flow.running), (5, 500 * MB, 0))

    def test_submitting_never_waits(self) -> None:
        with runtime(max_pending=1, max_pending_bytes=1) as simulated:
            for _ in range(5):
                compute(bytes(100))
            self.assertEqual((simulated.now_s, simulated.stats().pending), (0, 5))
        self.assertEqual(simulated.now_s, 5)

    def test_time_advances_wherever_the_program_waits(self) -> None:
        async def value() -> None:
            await compute()

        with runtime() as simulated:
            for wait in (
                lambda: compute().result(),
                lambda: ioweave.wait([compute()]),
                lambda: asyncio.run(value()),
            ):
                before = simulated.now_s
                wait()
                self.assertEqual(simulated.now_s, before + 1)
            compute()
            self.assertEqual(simulated.now_s, 3)
            ioweave.barrier()
            self.assertEqual(simulated.now_s, 4)
            compute()
        self.assertEqual(simulated.now_s, 5)

    def test_requests_are_not_waited_for(self) -> None:
        gate = in_flight.Gate(self)
        with runtime() as simulated:
            self.assertIsNone(compute(gate.read(bytearray(1))).result())
            self.assertEqual(simulated.now_s, 1)

    def test_a_simulation_begins_with_learned_values_and_keeps_the_file(self) -> None:
        auto = ioweave.io(bandwidth="auto(10,100,2)", device="ssd", bytes=MB)(_not_run)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "learned.json"
            with runtime() as simulated:
                for _ in range(50):
                    auto()
            simulated._flows.keep_learned()
            simulated._learned.save(file)
            before = file.read_text()
            with runtime(learned=file) as simulated:
                auto()
                self.assertEqual(simulated.explain(auto)["phase"], "chosen")
            self.assertEqual(file.read_text(), before)

    def test_the_node_on_which_auto_learns_computes_like_the_others(self) -> None:
        auto = ioweave.io(bandwidth="auto(10,100,2)", device="ssd", bytes=100 * MB)(_not_run)
        with runtime("sim://2x2") as simulated:
            for _ in range(40):
                auto()
            for _ in range(20):
                compute()
        written = [record for record in simulated.records() if record.io]
        computed = [record for record in simulated.records() if not record.io]
        self.assertEqual(sorted(record.node for record in computed), [0] * 10 + [1] * 10)
        self.assertEqual(max(record.end_s for record in computed), 5)
        self.assertGreater(min(record.end_s for record in written), 5)  # still in the first epoch

    def test_auto_tries_no_more_than_the_device_has(self) -> None:
        auto = ioweave.io(bandwidth="auto(10,400,2)", device="ssd", bytes=MB)(_not_run)
        with runtime() as simulated:
            for _ in range(50):
                auto()
            ioweave.barrier()
            last = simulated.explain(auto)["epochs"][-1]
        self.assertEqual(last["constraint_mb_per_s"], 80)
        self.assertIn("the next constraint would be above the budget", last["why"])

    @unittest.skipUnless(find_spec("rich"), "no rich")
    def test_progress_is_shown_in_virtual_time(self) -> None:
        shown = io.StringIO()
        with mock.patch("sys.stderr", shown), runtime(progress=True):
            checkpoint(compute())
        self.assertRegex(shown.getvalue(), "ioweave 0:02: 0 of 1 cpus busy, 0 pending, 2 done; ")

    def test_one_runtime_at_a_time(self) -> None:
        with runtime(), self.assertRaisesRegex(RuntimeError, "another Runtime is active"):
            SimulatedRuntime("sim://1x1", costs={}).start()


if __name__ == "__main__":
    unittest.main()
