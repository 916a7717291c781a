"""Programs of tasks on a Dask cluster: what the embedded runtime's tests ask of it, and more.

The workers are threads of this process, so that a test sees into the tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import io
import operator
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

try:
    import distributed
    from dask import config
    from dask.delayed import delayed
except ModuleNotFoundError as missing:
    print(f"SKIP: no Dask: {missing}")
    sys.exit(77)

import in_flight
import ioweave
import ioweave.dask
import test_dependencies
import test_io_tasks
import test_runtime
from ioweave import _core, learning, pictures, run_file
from ioweave.contents import update_in_place
from ioweave.dask.cluster import worker_options
from ioweave.dask.reports import check_client
from runtimes import Gate, RuntimeTest, pass_gate

_PATIENCE = 60  # seconds until a test that waits for something fails


class OnDask(RuntimeTest):
    """Runtimes on clusters that the tests of a class share: one for each number of cores."""

    LONG = 200
    SEEDS = 2

    clients: dict[int, distributed.Client]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.clients = {}

    def client(self, cpus: int = 0) -> distributed.Client:
        """Returns a client of a cluster with so many cores on one node; 0: 2 on each of two."""
        if cpus not in self.clients:
            cluster = ioweave.dask.local_cluster(
                nodes=1 if cpus else 2,
                cores=cpus or 2,
                io_slots=4,
                processes=False,
                memory_limit=0,
            )
            self.addClassCleanup(cluster.close)
            self.clients[cpus] = distributed.Client(cluster)
            self.addClassCleanup(self.clients[cpus].close)
        return self.clients[cpus]

    def runtime(self, *, cpus: int = 0, **options: Any) -> Any:
        return ioweave.Runtime(self.client(cpus), **options)

    def tearDown(self) -> None:
        """Checks that the clusters have forgotten all tasks of a test whose runtime is closed."""
        for client in self.clients.values():
            tasks = _scheduler(client).tasks
            self.until(functools.partial(operator.not_, tasks))
            plugin = _scheduler(client).plugins.get("ioweave")
            if plugin is not None:  # a worker has yet to say that it gave up what was taken back
                self.until(functools.partial(operator.not_, plugin._left_behind))
            check_idle(self, client)
        super().tearDown()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            gc.collect()  # exceptions hold the frames of a test, and so its futures
            self.assertLess(time.monotonic(), deadline)


def _scheduler(client: distributed.Client) -> Any:
    cluster: Any = client.cluster
    return cluster.scheduler


def check_idle(test: unittest.TestCase, client: distributed.Client) -> None:
    """Checks that no slot is taken, and that no table holds anything."""
    plugin = _scheduler(client).plugins.get("ioweave")
    if plugin is None:
        return
    test.assertEqual((plugin._live, plugin._left_behind, plugin._runs), ({}, {}, {}))
    for address, free in plugin._free.items():
        test.assertEqual(free, _scheduler(client).workers[address].resources["io"])
    test.assertEqual(plugin._admission._operations, {})
    policy = plugin._admission.policy
    test.assertEqual((policy.waiting, policy.running), (0, 0))


@ioweave.task
def change_and_fail(numbers: Annotated[list[int], ioweave.InOut]) -> None:
    numbers.append(2)
    raise ValueError("after the change")


class Thing:
    """An object that tasks change, or that shows how long what holds it is kept."""


@ioweave.task
def touch(thing: Annotated[Any, ioweave.InOut]) -> None:
    if isinstance(thing, bytearray):
        thing.append(1)


# ---- The tests of the embedded runtime. ---------------------------------------------------------


class Futures(OnDask, test_dependencies.Futures):
    test_an_argument_without_futures_is_passed_as_it_is: Any = None  # but as a copy


class Files(OnDask, test_dependencies.Files):
    pass


class Objects(OnDask, test_dependencies.Objects):
    def test_a_failed_run_leaves_objects_as_they_were(self) -> None:
        numbers = [1]
        with self.runtime():
            self.assertIsInstance(change_and_fail(numbers).exception(), ValueError)
        self.assertEqual(numbers, [1])

    def _drop_after_change(self, make: Callable[[Thing], object]) -> weakref.ref[Thing]:
        """Drops an object that a task has changed; returns a reference to what it held."""
        inside = Thing()
        touch(make(inside))
        ioweave.barrier()
        found = weakref.ref(inside)
        del inside
        gc.collect()
        return found

    def test_a_list_or_dict_that_a_task_changes_is_kept_until_the_end(self) -> None:
        makers: list[Callable[[Thing], object]] = [lambda thing: [thing], lambda thing: {1: thing}]
        for make in makers:
            with self.subTest(make(Thing())):
                with self.runtime():
                    found = self._drop_after_change(make)
                    self.assertIsNotNone(found())
                gc.collect()
                self.assertIsNone(found())

    def test_a_bytearray_that_a_task_changes_is_kept_until_the_end(self) -> None:
        with self.runtime() as runtime:
            touch(bytearray(b"0"))
            ioweave.barrier()
            gc.collect()
            (kept,) = runtime._versions.things()
        self.assertEqual(kept, b"0\x01")

    def test_a_set_or_plain_object_that_the_program_drops_goes(self) -> None:
        def plain(inside: Thing) -> Thing:
            thing = Thing()
            vars(thing)["inside"] = inside
            return thing

        makers: list[Callable[[Thing], object]] = [lambda thing: {thing}, plain]
        for make in makers:
            with self.subTest(make(Thing())), self.runtime() as runtime:
                self.assertIsNone(self._drop_after_change(make)())
                self.assertEqual(runtime._versions.things(), [])


class Requests(OnDask, test_dependencies.Requests):
    def test_a_call_waits_for_its_requests(self) -> None:
        gate = in_flight.Gate(self)
        futures: list[Any] = []
        with self.runtime():
            request = gate.read(bytearray(4))
            calling = threading.Thread(
                target=lambda: futures.append(test_dependencies.joined(request))
            )
            calling.start()
            calling.join(0.05)
            self.assertEqual(futures, [])
            gate.open(b"abcd")
            calling.join()
            self.assertEqual(futures.pop().result(_PATIENCE), 4)


class RandomGraphs(OnDask, test_dependencies.RandomGraphs):
    pass


class Failures(OnDask, test_runtime.Failures):
    test_more_cpus_than_there_are_is_refused: Any = None  # below, in other words


class Retries(OnDask, test_runtime.Retries):
    pass


class Timeouts(OnDask, test_runtime.Timeouts):
    # Below, with tasks that can be pickled.
    test_a_task_that_hangs_fails_and_its_slot_is_replaced: Any = None
    test_a_timeout_can_be_retried_and_the_late_value_is_void: Any = None
    test_callbacks_hold_up_no_timeout: Any = None  # there is no thread for timeouts


class Cancellation(OnDask, test_runtime.Cancellation):
    pass


class Waiting(OnDask, test_runtime.Waiting):
    # Tasks called in a task are plain calls: they cannot wait for each other.
    test_a_task_that_waits_for_itself_is_told_so: Any = None
    test_a_task_that_waits_for_its_dependant_is_told_so: Any = None
    test_two_tasks_that_wait_for_each_other_are_told_so: Any = None
    # Their tasks cannot be pickled.
    test_slots_bound_what_runs_at_once: Any = None
    test_barrier_and_close_inside_a_task_are_refused: Any = None


class BackPressure(OnDask, test_runtime.BackPressure):
    test_what_futures_bring_counts_once_it_is_there: Any = None  # it is on the cluster


class Refused(OnDask, test_io_tasks.Refused):
    test_a_device_whose_path_does_not_exist_is_refused: Any = None  # it need not exist here


class FullDisk(OnDask, test_io_tasks.FullDisk):
    pass


# ---- What is Dask's own. ------------------------------------------------------------------------


@ioweave.task
def add(*values: int) -> int:
    return sum(values)


@ioweave.io(bandwidth=50, device="disk")
def write(path: Annotated[Path, ioweave.Out], text: object, gate: int | None = None) -> None:
    if gate is not None:
        pass_gate(gate)
    path.write_text(str(text))


@ioweave.task
def read(path: Annotated[Path, ioweave.In], gate: int) -> None:
    pass_gate(gate)


@ioweave.io(bandwidth=50, device="disk")
def hold_io(gate: int) -> None:
    pass_gate(gate)


@ioweave.task(timeout=0.05, retries=1)
def hang(runs: Path) -> None:
    runs.write_text(runs.read_text() + "+" if runs.exists() else "+")
    if runs.read_text() == "+":
        _never.wait()


@ioweave.task(timeout=0.05)
def hang_once() -> None:
    _never.wait()


@ioweave.io(bandwidth=50, device="narrow", timeout=0.05)
def hang_io() -> None:
    _hanging.wait()


@ioweave.io(bandwidth=50, device="narrow")
def end_io() -> bool:
    return _hanging.is_set()


@ioweave.task
def made_on(gate: int) -> str:
    pass_gate(gate)
    return str(distributed.get_worker().address)


@ioweave.io(bandwidth=50, device="disk")
def written_on(gate: int, block: str) -> str:
    pass_gate(gate)
    return str(distributed.get_worker().address)


_never = threading.Event()
_hanging = threading.Event()
_DISK = ioweave.Device("disk", bandwidth=100)


def _total(nested: list[list[int]]) -> int:
    return sum(map(sum, nested))


class Program(OnDask):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_an_address_is_a_target_and_its_values_outlive_the_block(self) -> None:
        address = _scheduler(self.client()).address
        clients = len(_scheduler(self.client()).clients)
        with ioweave.Runtime(address.replace("tcp://", "dask://")) as runtime:
            self.assertIsInstance(runtime, ioweave.Runtime)
            future = add(20, 22)
        self.assertEqual(future.result(), 42)
        del future, runtime
        self.until(lambda: len(_scheduler(self.client()).clients) == clients)

    def test_a_forked_child_has_the_values_that_were_fetched(self) -> None:
        numbers = [1]
        with self.runtime(cpus=1):
            near, far, nothing = add(1, 2), add(3, 4), test_runtime.io_after()
            appended = test_dependencies.append(numbers, 2)
            ioweave.barrier()
            self.assertEqual((near.result(), far.done()), (3, True))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of Python 3.12, since there are threads
                child = os.fork()
            if child == 0:
                try:
                    seen: list[Any] = [near.result(), nothing.result(), ioweave.wait([near, 5])]
                    for ask in (far.result, lambda: ioweave.wait(numbers)):
                        with self.assertRaisesRegex(RuntimeError, "forked"):
                            ask()
                    os._exit(3 if seen == [3, None, [3, 5]] else 4)
                finally:
                    os._exit(5)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)
            self.assertEqual((far.result(), appended.exception()), (7, None))

    def test_a_malformed_target_is_refused(self) -> None:
        for target in ("dask://", "dask://localhost", "dask://localhost:"):
            with self.subTest(target), self.assertRaisesRegex(ValueError, "give dask://HOST:PORT"):
                ioweave.Runtime(target)

    def test_a_missing_scheduler_is_named_and_leaves_no_file(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        with (
            config.set({"distributed.comm.timeouts.connect": "0.1s"}),
            self.assertRaisesRegex(ConnectionError, "dask://127.0.0.1:1: no Dask scheduler"),
        ):
            ioweave.Runtime("dask://127.0.0.1:1", run_file=folder / "run.jsonl").start()
        self.assertEqual(list(folder.iterdir()), [])

    def test_arguments_that_cannot_be_sent_are_named_where_the_task_is_called(self) -> None:
        with self.runtime() as runtime:
            with self.assertRaisesRegex(TypeError, "task 'add': argument 'values' cannot be sent"):
                add(1, threading.Lock())
            lock = threading.Lock()
            with self.assertRaisesRegex(TypeError, "'bad' cannot be sent .*its function refers to"):
                ioweave.task(name="bad")(lambda: lock.locked())()
            self.assertEqual(runtime.stats().submitted, 0)

    def test_more_cores_than_a_worker_has_are_refused(self) -> None:
        words = "task '<lambda>': cpus=3, but the largest worker of this cluster had 2 cores"
        with self.runtime(cpus=2), self.assertRaisesRegex(ValueError, words):
            ioweave.task(cpus=3)(lambda: None)()

    def test_futures_of_dasks_own_are_waited_for_and_replaced(self) -> None:
        told: dict[str, Any] = {"policy": "none", "bytes": lambda data: 3 * len(data[0])}
        count = ioweave.io(name="count once", **told)(_total)
        with self.runtime() as runtime, distributed.Client(self.client().cluster) as other:
            one, later = self.client().submit(operator.add, 40, 1), delayed(operator.add)(3, 4)
            self.assertEqual(add(one, later).result(), 48)
            self.assertEqual(count([[one, later]]).result(), 48)
            sizes = [flow.bytes for flow in runtime.stats().flows]
            with self.assertRaises(ZeroDivisionError):
                add(1, self.client().submit(operator.truediv, 1, 0)).result()
            with self.assertRaisesRegex(TypeError, "'add': .* belongs to another Client than that"):
                add(other.submit(operator.add, 1, 1))
            del one, later
        self.assertEqual(sizes, [6])

    def test_a_larger_worker_that_comes_later_is_found(self) -> None:
        cluster = ioweave.dask.local_cluster(processes=False, cores=1, memory_limit=0)
        wide = ioweave.task(cpus=3)(lambda: "wide")
        with cluster, distributed.Client(cluster) as client, ioweave.Runtime(client):
            self.assertRaises(ValueError, wide)
            (first,) = cluster.worker_spec.values()
            options = first["options"] | worker_options(cores=3, io_slots=1)
            cluster.worker_spec["larger"] = first | {"options": options}
            cluster.sync(cluster._correct_state)  # type: ignore[no-untyped-call]
            client.wait_for_workers(2, timeout=_PATIENCE)
            self.assertEqual(wide().result(), "wide")

    def test_a_task_that_hangs_fails_gives_its_core_back_and_can_be_retried(self) -> None:
        self.addCleanup(_never.set)
        with self.runtime(cpus=1) as runtime:
            self.assertIsInstance(hang_once().exception(), ioweave.TaskTimeout)
            self.assertIsNone(hang(self.folder / "b").result())
            self.assertEqual(add(1, 2).result(), 3)
            stats = runtime.stats()
            self.assertEqual((stats.timed_out, stats.retried), (1, 1))

    def test_an_io_task_that_hangs_leaves_its_place_to_the_next(self) -> None:
        self.addCleanup(_hanging.set)
        narrow = ioweave.Device("narrow", bandwidth=50)  # one at a time
        with self.runtime(cpus=1, devices=[narrow]) as runtime:
            hanging = [hang_io() for _ in range(2)]
            after = end_io()
            for future in hanging:
                self.assertIsInstance(future.exception(_PATIENCE), ioweave.TaskTimeout)
            self.assertIs(after.result(_PATIENCE), False)  # their threads hang still
            ioweave.barrier()
            stats = runtime.stats()
            self.assertEqual((stats.timed_out, stats.io_running, stats.io_waiting), (2, 0, 0))

    def test_constraints_hold_and_stats_explain_and_records_tell_of_them(self) -> None:
        with self.runtime(cpus=1, devices=[_DISK], records=True) as runtime:
            gates = [Gate(hold_io) for _ in range(2)]
            late = [write(self.folder / str(n), add(n, 1)) for n in range(5)]
            self.until(lambda: runtime.stats().io_waiting == 5)
            self.assertTrue(gates[0].future.running())
            self.assertFalse(late[0].running() or late[0].done())
            self.assertEqual(runtime.stats().io_running, 2)
            for gate in gates:
                gate.open()
            ioweave.barrier()
            self.assertEqual(runtime.explain(write)["limit"], 2)
            records = runtime.records()
        self.assertEqual(runtime.explain("write")["bytes"], 0)  # ints and paths hold none
        self.assertEqual(sorted({record.task for record in records}), ["add", "hold_io", "write"])
        for record in records:
            self.assertEqual(record.device, None if record.task == "add" else "disk")
            self.assertLessEqual(record.ready_s, record.start_s + 0.1)  # two clocks' worth
            self.assertLessEqual(record.start_s, record.end_s)
        self.assertEqual(runtime.stats().succeeded, 2 + 5 + 5)

    def test_records_tell_on_which_node_a_task_ran(self) -> None:
        tasks = [ioweave.task(name=f"made {n}")(made_on.function) for n in range(4)]
        with self.runtime(records=True) as runtime, contextlib.ExitStack() as gates:
            made = [gates.enter_context(Gate(task)).future for task in tasks]  # all cores
            gates.close()
            addresses = ioweave.wait(made)
            nodes = {record.task: record.node for record in runtime.records()}
        ran = {(address, nodes[task.name]) for address, task in zip(addresses, tasks, strict=True)}
        self.assertEqual(len({address for address, _ in ran}), 2)
        self.assertEqual(len({node for _, node in ran}), 2)
        self.assertEqual(len(ran), 2)

    def test_bytes_that_depend_on_values_are_told_by_the_worker(self) -> None:
        make = ioweave.task(lambda size: bytes(size))
        count = ioweave.io(policy="none", bytes=lambda data: 3 * len(data), name="count")(len)
        found = ioweave.io(policy="none", name="found")(len)
        with self.runtime() as runtime:
            self.assertEqual(ioweave.wait([count(make(1000)), found(make(500))]), [1000, 500])
            ioweave.barrier()
            moved = {flow.task: flow.bytes for flow in runtime.stats().flows}
        self.assertEqual(moved, {"count": 3000, "found": 500})

    def test_the_threads_of_a_node_bound_its_device_and_are_the_executors_of_auto(self) -> None:
        quick = ioweave.io(bandwidth="auto", device="ssd", name="quick")(lambda: None)
        with self.runtime(cpus=2, devices=[ioweave.Device("ssd", bandwidth=400)]) as runtime:
            quick()
            ioweave.barrier()
            self.assertEqual(runtime.explain("quick")["constraint"], "auto:4")
            unbound = ioweave.io(policy="none", device="ssd", name="unbound")(hold_io.function)
            gates = [Gate(unbound) for _ in range(4)]
            fifth = unbound(-1)
            self.until(lambda: runtime.stats().io_waiting == 1)
            self.assertEqual(runtime.stats().io_running, 4)
            self.assertTrue(fifth.cancel())
            for gate in gates:
                gate.open()

    def test_what_was_learned_goes_to_the_cluster_and_comes_back(self) -> None:
        kept = learning.Learned()
        write = ioweave.io(bandwidth="auto(10,40,2)", device="tape", name="learn")(lambda: None)
        devices = [ioweave.Device("tape", bandwidth=40)]
        with mock.patch("ioweave.dask.runtime.of_this_process", kept):
            with self.runtime(cpus=1, devices=devices) as runtime:
                for _ in range(20):
                    write()
                ioweave.barrier()
                self.assertEqual(
                    [e["tasks"] for e in runtime.explain("learn")["epochs"]], [4, 2, 1]
                )
            self.assertNotEqual(kept.get(write.key, "tape"), "")
            with self.runtime(cpus=2, devices=devices) as runtime:  # another cluster
                write()
                ioweave.barrier()
                explained = runtime.explain("learn")
        self.assertEqual((explained["phase"], explained["epochs"]), ("chosen", []))

    def test_the_schedulers_log_replays_and_only_the_first_one_counts(self) -> None:
        log = self.folder / "policy.log"
        with (
            ioweave.dask.local_cluster(processes=False, cores=1, memory_limit=0) as cluster,
            distributed.Client(cluster) as client,
        ):
            with ioweave.Runtime(client, devices=[_DISK], log=log):
                for number in range(10):
                    write(self.folder / str(number), number)
            other = ioweave.Runtime(client, log=self.folder / "other")
            with self.assertRaisesRegex(ValueError, "the first connection says where it is"):
                other.start()
        replayed = _core.replay(log)
        self.assertTrue(replayed.same, replayed.reason)
        self.assertGreaterEqual(replayed.decisions, 10)

    def test_an_object_with_contents_that_a_task_changes_is_brought_back_by_the_end(self) -> None:
        box: list[int] = []
        with self.runtime():
            for number in range(3):
                test_dependencies.append(box, number)
        self.assertEqual(box, [0, 1, 2])

    def test_an_object_is_the_programs_own_again_after_wait(self) -> None:
        box: list[int] = []
        with self.runtime():
            test_dependencies.append(box, 1)
            ioweave.wait(box)
            box.append(2)
            self.assertEqual(test_dependencies.length(box).result(), 2)

    def test_a_task_that_ends_before_its_submission_returns_leaves_others_its_value(self) -> None:
        box: list[int] = []
        ended, go = threading.Event(), threading.Event()
        with self.runtime() as runtime:
            submit = runtime._submit_call

            def submit_and_return_late(call: Any) -> Any:
                future = submit(call)
                if call.number == 1:
                    future.result()
                    runtime._client.sync(asyncio.sleep, 0)  # what it heard of the end is dealt with
                    ended.set()
                    go.wait(_PATIENCE)
                return future

            with mock.patch.object(runtime, "_submit_call", submit_and_return_late):
                first = threading.Thread(target=test_dependencies.append, args=(box, 1))
                first.start()
                self.assertTrue(ended.wait(_PATIENCE))
                test_dependencies.append(box, 2)
                go.set()
                first.join()
            self.assertEqual(ioweave.wait(box), [1, 2])

    def test_a_reader_that_comes_while_contents_are_brought_back_finds_the_new_ones(self) -> None:
        box: list[int] = []
        lengths: list[Any] = []
        reader = threading.Thread(target=lambda: lengths.append(test_dependencies.length(box)))

        def update(task: str, old: Any, new: Any) -> None:
            reader.start()
            reader.join(0.2)
            update_in_place(task, old, new)

        with mock.patch("ioweave.dask.runtime.update_in_place", update), self.runtime():
            test_dependencies.append(box, 1)
            ioweave.wait(box)
            reader.join()
            self.assertEqual(lengths.pop().result(), 1)

    def test_a_call_is_not_sent_if_its_input_fails_meanwhile(self) -> None:
        with self.runtime() as runtime:
            submit = runtime._submit_call

            def raise_as_dask_may(call: Any) -> Any:
                raise RuntimeError("what the call needs was taken back")

            for go_on in (submit, raise_as_dask_may):
                with self.subTest(go_on), Gate() as gate:
                    late = functools.partial(_after_failure, runtime, gate.future._call, go_on)
                    with (
                        mock.patch.object(runtime, "_submit_call", late),
                        mock.patch.object(runtime._client, "submit") as sent,
                    ):
                        needs_it = add(gate.future)
                    self.assertIsInstance(gate.future.exception(), ValueError)
                    self.assertIsInstance(needs_it.exception(), ioweave.DependencyFailed)
                    self.assertEqual(sent.call_count, 0)
            stats = runtime.stats()
            self.assertEqual((stats.submitted, stats.failed, stats.cancelled), (4, 2, 2))

    def test_calls_are_sent_at_once_unless_only_a_file_makes_them_follow(self) -> None:
        path = self.folder / "a"
        follow = ioweave.task(lambda before: None)
        sent = _scheduler(self.client()).tasks
        with (
            self.runtime(devices=[_DISK]),
            Gate(functools.partial(read, path)) as gate,
        ):
            chain = [gate.future]
            for _ in range(10):
                chain.append(follow(chain[-1]))
            writer = write(path, 1)
            self.until(lambda: all(future._call.key in sent for future in chain))
            self.assertFalse(writer._call.sent)
            gate.open()
            self.assertIsNone(writer.result(_PATIENCE))

    def test_none_is_not_kept_on_the_cluster(self) -> None:
        with self.runtime():
            done = [ioweave.task(lambda: None)() for _ in range(3)]
            ioweave.barrier()
            self.until(lambda: not _scheduler(self.client()).tasks)
            after = ioweave.task(lambda values: values)(done)
            self.assertEqual((after.result(), done[0].result()), ([None] * 3, None))

    def test_io_runs_where_its_data_is_or_with_a_shared_directory_where_there_is_room(self) -> None:
        first, second = _scheduler(self.client()).workers
        for shared, nodes in ((False, [second, second]), (True, [first, first, second, second])):
            with (
                self.subTest(shared=shared),
                self.runtime(devices=[_DISK], shared_directory=shared) as runtime,
                contextlib.ExitStack() as gates,
            ):
                made = [Gate(made_on) for _ in range(4)]  # two on each node: all its cores
                for gate in made:
                    gate.open()
                blocks = {gate.future.result(): gate.future for gate in made}
                write = functools.partial(written_on, block=blocks[second])
                # No more have room where they may run.
                written = [gates.enter_context(Gate(write)).future for _ in nodes]
                waiting = written_on(-1, blocks[second])
                self.until(lambda: runtime.stats().io_waiting == 1)
                self.assertTrue(waiting.cancel())
                gates.close()
                self.assertEqual(sorted(ioweave.wait(written)), sorted(nodes))
                del made, gate, blocks, write, written, waiting

    def test_two_runtimes_may_be_two_clients_of_a_cluster(self) -> None:
        with self.runtime(cpus=1, devices=[_DISK]), Gate(hold_io), Gate(hold_io) as gate:
            handle = ioweave.dask.connect(distributed.Client(self.client(1).cluster))
            where = {"device": "disk", "constraint": "fixed:50", "flow": "hold_io"}
            other = handle.submit_io(len, [1, 2], **where)
            self.until(lambda: handle.stats()["waiting"] == 1)
            gate.open()
            self.assertEqual(other.result(_PATIENCE), 2)
            handle.client.close()
            del other

    def test_ctrl_c_cancels_what_has_not_begun_and_says_what_was_not_written(self) -> None:
        runtime = self.runtime(cpus=1, devices=[_DISK], on_interrupt="cancel")
        with (
            self.assertLogs("ioweave", "WARNING") as logged,
            self.assertRaises(KeyboardInterrupt),
            runtime,
        ):
            gates = [Gate(hold_io) for _ in range(2)]
            waiting = [write(Path("never"), number) for number in range(2)]
            for gate in gates:
                threading.Timer(0.1, gate.open).start()
            signal.raise_signal(signal.SIGINT)
        self.assertEqual(len(runtime.not_written), 2)
        self.assertRegex(logged.output[0], r"2 I/O tasks were not done: write\(")
        self.assertTrue(all(future.cancelled() for future in waiting))
        self.assertIsNone(gates[0].future.result())

    def test_ctrl_c_ends_the_wait_for_a_scheduler_that_is_silent(self) -> None:
        with self.runtime() as runtime:
            handlers = _scheduler(self.client()).handlers
            asked = threading.Event()

            async def silent(**_: Any) -> None:
                asked.set()
                await asyncio.sleep(_PATIENCE)

            def press() -> None:
                asked.wait(_PATIENCE)
                os.kill(os.getpid(), signal.SIGINT)

            pressing = threading.Thread(target=press)
            pressing.start()
            with (
                mock.patch.dict(handlers, {"ioweave": silent}),
                self.assertRaises(KeyboardInterrupt),
            ):
                runtime.stats()
            pressing.join()
            self.assertEqual(runtime.stats().pending, 0)

    def test_its_lock_is_free_while_it_connects(self) -> None:
        runtime = self.runtime()
        other = threading.Thread(target=runtime.close)  # of a runtime that is not open: nothing

        def connect(*args: Any, **kwargs: Any) -> Any:
            other.start()
            other.join(_PATIENCE)
            self.assertFalse(other.is_alive())
            return ioweave.dask.connect(*args, **kwargs)

        with mock.patch("ioweave.dask.runtime.connect", connect), runtime:
            self.assertEqual(add(1, 2).result(_PATIENCE), 3)

    def test_statistics_and_explanations_are_one_question(self) -> None:
        with self.runtime(devices=[_DISK]) as runtime:
            write(Path("nowhere/at/all"), 1).exception()
            handlers = _scheduler(self.client()).handlers
            answer, questions = handlers["ioweave"], []

            async def count(question: str, **arguments: Any) -> Any:
                questions.append(question)
                return await answer(question=question, **arguments)

            with mock.patch.dict(handlers, {"ioweave": count}):
                self.assertEqual(runtime.stats().flows[0].task, "write")
                (explained,) = runtime._explain_flows()
            self.assertEqual((explained["flow"], len(questions)), ("write", 1))

    def test_a_client_that_has_changed_inside_is_refused_with_what_is_missing(self) -> None:
        class Changed:
            _stream_handlers: dict[str, object] = {"task-erred": None}  # noqa: RUF012
            loop = None

        with self.assertRaisesRegex(
            RuntimeError,
            "the handler of 'key-in-memory', .*Client.futures of the client is missing",
        ) as refused:
            check_client(Changed())  # type: ignore[arg-type]
        self.assertNotIn("task-erred", str(refused.exception))
        with self.runtime():  # and this one has not
            check_client(self.client())

    def test_a_restart_of_the_cluster_cancels_what_is_not_done(self) -> None:
        cluster = ioweave.dask.local_cluster(processes=True, cores=1, memory_limit=0)
        with cluster, distributed.Client(cluster) as client, ioweave.Runtime(client):
            future = ioweave.task(_sleep_for_ever)()
            after = add(future)
            self.until(future.running)
            client.restart()
            with self.assertRaisesRegex(ioweave.CancelledError, "estarted"):
                future.result(_PATIENCE)
            self.assertIsInstance(after.exception(), ioweave.DependencyFailed)
            self.assertEqual(add(1, 2).result(_PATIENCE), 3)

    def test_a_cluster_that_goes_away_fails_what_is_not_done(self) -> None:
        with config.set({"distributed.comm.timeouts.connect": "1s"}):
            cluster = ioweave.dask.local_cluster(processes=False, cores=1, memory_limit=0)
            runtime = ioweave.Runtime(_scheduler_address(cluster)).start()
            gate = Gate()
            waiting = add(gate.future)
            gate.open()
            cluster.close()
            with contextlib.suppress(ioweave.CancelledError):
                self.assertEqual(gate.future.result(_PATIENCE), "held")
            with contextlib.suppress(Exception):
                waiting.result(_PATIENCE)
            runtime.close()
            self.assertEqual(runtime.stats().pending, 0)

    # ---- Records and the run file. --------------------------------------------------------------

    def test_the_run_file_is_read_drawn_and_reported_like_any(self) -> None:
        path = self.folder / "run.jsonl"
        with (
            contextlib.redirect_stderr(io.StringIO()) as shown,
            self.runtime(devices=[_DISK], run_file=path, records=True, progress=True) as runtime,
        ):
            ioweave.wait([write(self.folder / str(n), add(n, 1)) for n in range(5)])
        found = run_file.read(path)
        self.assertEqual(found.run["runtime"], {"kind": "dask", "target": "dask"})
        self.assertEqual(len(found.records), len(runtime.records()))
        self.assertEqual(found.tasks["write", "disk"]["calls"], 5)
        self.assertEqual(found.tasks["write", "disk"]["explanation"], runtime.explain(write))
        assert found.summary is not None
        self.assertEqual((found.summary["exit_code"], found.summary["tasks"]["succeeded"]), (0, 10))
        self.assertIn("10 done; write on disk 0 waiting", shown.getvalue())
        pictures.timeline(found.records, self.folder / "timeline.svg")
        command = [sys.executable, "-m", "ioweave", "report", str(path)]
        report = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertIn("write", report.stdout)

    def test_the_run_file_is_whole_when_the_block_raises(self) -> None:
        path = self.folder / "run.jsonl"
        with self.assertRaisesRegex(ValueError, "no"), self.runtime(run_file=path):
            ioweave.wait(add(1, 2))
            raise ValueError("no")
        found = run_file.read(path)
        assert found.summary is not None
        self.assertEqual((found.summary["exit_code"], len(found.records)), (1, 1))

    def test_the_run_file_grows_while_the_program_runs(self) -> None:
        path = self.folder / "run.jsonl"
        with mock.patch("ioweave.dask.runtime._LOOK_S", 0.01), self.runtime(run_file=path):
            part = path.with_name("run.jsonl.part")
            add(1, 2)
            with mock.patch("ioweave.run_file._PERIOD_S", 0.0):
                self.until(lambda: not add(1, 2).result() or '"call"' in part.read_text())

    def test_a_cluster_that_goes_away_is_told_of_and_leaves_the_run_file_whole(self) -> None:
        path = self.folder / "run.jsonl"
        nowhere = ioweave.io(policy="none", device="burst", name="nowhere")(lambda: None)
        before = signal.getsignal(signal.SIGINT)
        with config.set({"distributed.comm.timeouts.connect": "1s"}):
            cluster = ioweave.dask.local_cluster(processes=False, cores=1, memory_limit=0)
            devices = [_DISK, ioweave.Device("burst", nodes=["nobody-*"])]
            runtime = ioweave.Runtime(
                _scheduler_address(cluster), devices=devices, run_file=path
            ).start()
            write(self.folder / "a", 1).result()
            runtime.stats()
            nowhere()
            cluster.close()
            with self.assertRaisesRegex(ioweave.CancelledError, "nowhere.* was cancelled"):
                runtime.close()
        found = run_file.read(path)
        assert found.summary is not None
        self.assertEqual(found.summary["exit_code"], 1)
        self.assertIn("write", [record.task for record in found.records])
        self.assertIs(signal.getsignal(signal.SIGINT), before)
        with self.assertRaisesRegex(RuntimeError, "the cluster is gone"):
            runtime.explain("nowhere")

    def test_what_was_known_of_a_scheduler_that_is_lost_is_still_told(self) -> None:
        put = ioweave.io(policy="none", bytes=7, name="put")(lambda: None)
        with config.set({"distributed.comm.timeouts.connect": "1s"}):
            cluster = ioweave.dask.local_cluster(processes=False, cores=1, memory_limit=0)
            runtime: Any = ioweave.Runtime(_scheduler_address(cluster), records=True).start()
            put().result(_PATIENCE)
            runtime.stats()  # as is done every second
            cluster.close()
            self.until(lambda: runtime._client.status != "running")
            self._check_what_is_known(runtime)
            runtime.close()
            self._check_what_is_known(runtime)

    def _check_what_is_known(self, runtime: Any) -> None:
        explained = runtime.explain("put")
        self.assertEqual((explained["done"], explained["bytes"]), (1, 7))
        self.assertEqual([record.task for record in runtime.records()], ["put"])

    def test_a_client_continues_after_losing_its_connection_for_a_moment(self) -> None:
        path = self.folder / "run.jsonl"
        cluster = ioweave.dask.local_cluster(processes=False, cores=1, memory_limit=0)
        with (
            cluster,
            distributed.Client(cluster) as client,
            ioweave.Runtime(client, run_file=path),
        ):
            ioweave.wait(add(1, 2))
            before = client.scheduler_comm
            client.sync(_cut, client)
            self.until(lambda: client.status == "running" and client.scheduler_comm is not before)
            self.assertEqual(add(3, 4).result(_PATIENCE), 7)
        self.assertEqual([record.task for record in run_file.read(path).records], ["add", "add"])

    def test_a_loss_that_is_told_of_late_spares_the_calls_sent_since(self) -> None:
        with self.runtime() as runtime, Gate() as gate:
            runtime._handle_loss("the connection was lost")
            gate.open()
            gate.future.result(_PATIENCE)

    def test_a_call_lost_while_it_is_sent_is_cancelled(self) -> None:
        with self.runtime() as runtime:

            def submit(*args: Any, **kwargs: Any) -> Any:
                future: Any = client_submit(*args, **kwargs)
                future._state.cancel()
                runtime._handle_loss("the connection was lost")
                return future

            client_submit = runtime._client.submit
            with (
                mock.patch.object(runtime._client, "submit", submit),
                Gate() as gate,
                self.assertRaisesRegex(ioweave.CancelledError, "the connection was lost"),
            ):
                gate.future.result(_PATIENCE)

    def test_a_runtime_that_the_cluster_forgot_says_what_is_missing(self) -> None:
        fail_once = ioweave.task(retries=1)(lambda path: path.exists() or path.mkdir() or 1 / 0)
        with (
            self.assertLogs("ioweave", "WARNING") as logged,
            self.runtime(records=True) as runtime,
        ):
            self.assertTrue(fail_once(self.folder / "a").result())
            records = runtime.records()
            # As after a minute without a connection.
            _scheduler(self.client()).plugins["ioweave"]._runs.clear()
            self.assertEqual(add(1, 2).result(), 3)
            stats = runtime.stats()
            self.assertEqual((stats.succeeded, stats.retried), (2, 1))
            self.assertEqual(runtime.records(), records)
        self.assertEqual(len(records), 1)
        self.assertIn("the cluster forgot this Runtime", logged.output[0])

    def test_a_runtime_that_cannot_begin_leaves_no_file(self) -> None:
        with config.set({"distributed.comm.timeouts.connect": "0.1s"}):
            runtime = ioweave.Runtime("dask://127.0.0.1:1", run_file=self.folder / "run.jsonl")
            with self.assertRaises(OSError):
                runtime.start()
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_nodes_of_a_device_are_passed_on(self) -> None:
        device = ioweave.Device("burst", nodes=["nobody-*"])
        put = ioweave.io(policy="none", device="burst", name="put")(lambda: None)
        with self.runtime(devices=[device]) as runtime:
            future = put()
            self.until(lambda: runtime.stats().io_waiting == 1)
            self.assertEqual(runtime.explain("put")["nodes"], 0)
            self.assertTrue(future.cancel())


def _after_failure(runtime: Any, needed: Any, go_on: Callable[[Any], Any], call: Any) -> Any:
    """Sends a call after its input has failed."""
    runtime._handle_report(needed.key, ValueError("no"), None, None)
    return go_on(call)


async def _cut(client: distributed.Client) -> None:
    comm: Any = client.scheduler_comm
    comm.comm.abort()


def _scheduler_address(cluster: Any) -> str:
    return str(cluster.scheduler_address).replace("tcp://", "dask://")


def _sleep_for_ever(*_: object) -> None:
    threading.Event().wait()


class Adaptive(unittest.TestCase):
    def test_scaling_up_and_down_loses_no_io_task_and_no_slot(self) -> None:
        with (
            ioweave.dask.local_cluster(
                nodes=1, cores=1, io_slots=2, processes=False, memory_limit=0
            ) as cluster,
            distributed.Client(cluster) as client,
            tempfile.TemporaryDirectory() as folder,
            ioweave.Runtime(client, devices=[_DISK]) as runtime,
        ):
            cluster.adapt(
                minimum=1, maximum=3, interval="50ms", wait_count=2, target_duration="10ms"
            )
            gates = [Gate(hold_io) for _ in range(2)]
            waiting = [write(Path(folder) / str(n), n) for n in range(40)]
            self._wait(lambda: len(_scheduler(client).workers) == 3)
            for gate in gates:
                gate.open()
            ioweave.wait(waiting)
            self._wait(lambda: len(_scheduler(client).workers) == 1)
            for number in range(40):
                write(Path(folder) / str(number), -number)
            ioweave.barrier()
            self.assertEqual([int((Path(folder) / str(n)).read_text()) for n in (1, 39)], [-1, -39])
            self.assertEqual(runtime.stats().succeeded, 82)
            del gates, gate, waiting
        check_idle_after = _scheduler(client).plugins["ioweave"]._admission._operations
        self.assertEqual(check_idle_after, {})

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline)


class Anything(unittest.TestCase):
    """Random failures, cancellations and lost workers leave no slot taken and lose no call."""

    def test_random_programs_leave_no_slot_taken(self) -> None:
        for seed in range(3):
            with (
                self.subTest(seed=seed),
                config.set({"distributed.scheduler.allowed-failures": 100}),
                ioweave.dask.local_cluster(
                    nodes=2, cores=2, io_slots=3, processes=False, memory_limit=0
                ) as cluster,
                distributed.Client(cluster) as client,
            ):
                self._run(client, random.Random(seed))

    def _run(self, client: distributed.Client, draw: random.Random) -> None:
        devices = [_DISK, ioweave.Device("pfs", bandwidth=60, scope="shared")]
        kinds = [
            ioweave.io(bandwidth=50, device="disk", name="a", retries=1)(_perhaps),
            ioweave.io(policy="none", device="disk", name="b")(_perhaps),
            ioweave.io(bandwidth=30, device="pfs", name="c")(_perhaps),
            ioweave.task(retries=1)(_perhaps),
        ]
        cluster: Any = client.cluster
        with tempfile.TemporaryDirectory() as name, ioweave.Runtime(client, devices=devices) as run:
            files = [Path(name) / str(number) for number in range(4)]
            futures: list[Any] = []
            for _ in range(120):
                needed = draw.sample(futures, min(len(futures), draw.randrange(3)))
                dice = draw.random()
                if dice < 0.1:
                    futures.append(write(draw.choice(files), needed))
                elif dice < 0.2:
                    futures.append(test_dependencies.read(draw.choice(files)))
                else:
                    futures.append(draw.choice(kinds)(draw.random(), *needed))
                if draw.random() < 0.15:
                    draw.choice(futures).cancel()
                if draw.random() < 0.03:
                    cluster.sync(self._lose_a_worker, cluster, draw)
            for future in futures:
                with contextlib.suppress(OSError, ioweave.CancelledError):
                    future.result(_PATIENCE)
            stats = run.stats()
            self.assertEqual((stats.pending, stats.io_waiting), (0, 0))
            self.assertEqual(stats.succeeded + stats.failed + stats.cancelled, stats.submitted)
            self.assertEqual(run._accesses._table.keys() - {str(file) for file in files}, set())
            with contextlib.suppress(OSError):
                run.barrier()
            while run.stats().io_running:
                pass  # a run that was taken back holds its slot until it ends
            del futures, future, needed
        while _scheduler(client).tasks:
            gc.collect()
        check_idle(self, client)

    async def _lose_a_worker(self, cluster: Any, draw: random.Random) -> None:
        """Loses a worker, and starts another one in its place."""
        number = draw.choice(list(cluster.workers))
        lost = cluster.workers.pop(number)
        await cluster.scheduler.remove_worker(lost.address, stimulus_id="test")
        await lost.close(reason="lost by the test")
        del cluster.worker_spec[number]
        cluster.worker_spec.update(cluster.new_worker_spec())
        await cluster._correct_state()


def _perhaps(chance: float, *_: object) -> int:
    if chance < 0.2:
        raise OSError(28, "disk full")
    return 1


if __name__ == "__main__":
    unittest.main()
