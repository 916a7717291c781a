"""I/O tasks on a Dask cluster whose workers are all in this process, so that a test sees into them.

A task of these tests enters a *room*: a place that counts who is inside and keeps them there until
the test lets them go.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import tempfile
import threading
import unittest
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any
from unittest import mock

try:
    import distributed
    from dask import config
    from dask.base import annotate
    from distributed.core import Status
    from distributed.scheduler import Scheduler
except ModuleNotFoundError as missing:
    print(f"SKIP: no Dask: {missing}")
    sys.exit(77)

import ioweave.dask
from ioweave._core import SetLimit, Start, replay
from ioweave.dask.plugin import IoweaveSchedulerPlugin, check
from ioweave.dask.protocol import MEASURED, io_resources
from ioweave.dask.queue import ByResource

_PATIENCE = 30  # seconds until a test that waits for something fails
SEEDS = (1, 2)


class Room:
    """The place of tasks while they run; a task finds it by `name`."""

    rooms: dict[str, Room] = {}  # noqa: RUF012 - one for the process

    def __init__(self, name: str, *, is_open: bool = False) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.inside: list[str] = []  # the address of the worker of each
        self.entered = 0
        self.most = 0
        self.most_on: dict[str, int] = {}
        self.leave = threading.Semaphore(1_000_000 if is_open else 0)
        Room.rooms[name] = self

    def let_go(self, number: int = 1_000_000) -> None:
        if number:
            self.leave.release(number)

    async def wait_for(self, entered: int) -> None:
        """Waits until so many tasks have entered in all."""

        def wait() -> None:
            with self.changed:
                if not self.changed.wait_for(lambda: self.entered >= entered, _PATIENCE):
                    raise AssertionError(f"{self.entered} entered, not {entered}")

        await asyncio.to_thread(wait)


def enter(name: str, *inputs: object, failures: int = 0) -> str:
    """A task. Returns the address of its worker, but fails in the first `failures` runs."""
    room = Room.rooms[name]
    worker = distributed.get_worker().address
    with room.changed:
        room.entered += 1
        entered = room.entered
        room.inside.append(worker)
        room.most = max(room.most, len(room.inside))
        room.most_on[worker] = max(room.most_on.get(worker, 0), room.inside.count(worker))
        room.changed.notify_all()
    assert room.leave.acquire(timeout=_PATIENCE)
    with room.lock:
        room.inside.remove(worker)
    if entered <= failures:
        raise OSError(f"no space in {name}")
    return str(worker)


def here(*inputs: object) -> str:
    return str(distributed.get_worker().address)


class ClusterTest(unittest.IsolatedAsyncioTestCase):
    """A cluster whose scheduler and workers check their own invariants after each transition."""

    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().set_debug(False)  # unittest sets it, and Dask is slow then
        Room.rooms.clear()
        settings = config.set(
            {
                "distributed.scheduler.validate": True,
                "distributed.worker.validate": True,
                "distributed.scheduler.allowed-failures": 100,
            }
        )
        settings.__enter__()
        self.addCleanup(settings.__exit__, None, None, None)

    @contextlib.asynccontextmanager
    async def cluster(self, **options: Any) -> AsyncIterator[ioweave.dask.Handle]:
        settings = {"nodes": 2, "cores": 2, "io_slots": 4, "memory_limit": 0} | options
        async with (
            ioweave.dask.local_cluster(processes=False, asynchronous=True, **settings) as cluster,
            distributed.Client(cluster, asynchronous=True) as client,
        ):
            self.scheduler: Scheduler = cluster.scheduler
            self.local = cluster
            handle = await ioweave.dask.connect(client)
            test = asyncio.current_task()
            assert test is not None
            patience = asyncio.get_running_loop().call_later(_PATIENCE, test.cancel)
            try:
                yield handle
            finally:
                patience.cancel()
                for room in Room.rooms.values():
                    room.let_go()

    @property
    def plugin(self) -> IoweaveSchedulerPlugin:
        plugin = self.scheduler.plugins["ioweave"]
        assert isinstance(plugin, IoweaveSchedulerPlugin)
        return plugin

    async def io(
        self, handle: ioweave.dask.Handle, number: int, room: str = "io", **options: Any
    ) -> list[Any]:
        """Submits I/O tasks that hold 50 of the 100 MB/s that a device has on each node."""
        await handle.declare_device("disk", bandwidth=100)
        where: dict[str, Any] = {"device": "disk", "constraint": "fixed:50"}
        await handle.declare_flow("io", **where)
        return [handle.submit_io(enter, room, flow="io", **where, **options) for _ in range(number)]

    async def until(self, handle: ioweave.dask.Handle, **expected: Any) -> None:
        """Asks for the statistics until they are as expected."""

        async def ask() -> None:
            stats: dict[str, Any] = {}
            while {name: stats.get(name) for name in expected} != expected:
                stats = await handle.stats()

        await asyncio.wait_for(ask(), _PATIENCE)

    async def idle(self, handle: ioweave.dask.Handle) -> None:
        """Waits until the policy knows no operation; checks that no table holds anything then."""
        await self.until(handle, waiting=0, running=0)
        plugin = self.plugin
        self.assertEqual((plugin._live, plugin._left_behind), ({}, {}))
        for address, free in plugin._free.items():
            worker = self.scheduler.workers[address]
            self.assertEqual(free, worker.resources.get("io", worker.nthreads))
        self.assertEqual(plugin._admission._operations, {})

    async def forget(self, handle: ioweave.dask.Handle, futures: list[Any]) -> None:
        """Lets tasks go, whose values Dask would compute again when their workers leave."""
        futures.clear()
        while self.scheduler.tasks:
            await handle.stats()
        await self.idle(handle)


class IoTasks(ClusterTest):
    async def test_io_tasks_run_while_computations_take_every_core(self) -> None:
        async with self.cluster() as handle:
            busy, room = Room("busy"), Room("io", is_open=True)
            computing = [handle.submit_compute(enter, "busy") for _ in range(5)]
            await busy.wait_for(4)
            await handle.client.gather(await self.io(handle, 8))
            self.assertEqual((room.entered, busy.entered), (8, 4))
            busy.let_go()
            await handle.client.gather(computing)
            await self.idle(handle)

    async def test_io_tasks_leave_the_cores_to_computations(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room = Room("io")
            await handle.declare_flow("io")
            io = [handle.submit_io(enter, "io", flow="io") for _ in range(10)]
            await room.wait_for(4)
            await handle.client.gather([handle.submit_compute(here) for _ in range(4)])
            room.let_go()
            await handle.client.gather(io)
            self.assertEqual(room.most, 4)
            await self.idle(handle)

    async def test_brief_io_tasks_wait_for_a_thread_on_their_worker(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room = Room("io")
            await handle.declare_flow("io")
            await handle.client.gather([handle.submit_io(here, flow="io") for _ in range(8)])
            io = [handle.submit_io(enter, "io", flow="io") for _ in range(20)]
            await room.wait_for(4)
            (worker,) = self.local.workers.values()
            while len(worker.state.constrained) < 16:
                await handle.stats()
            await handle.client.gather([handle.submit_compute(here) for _ in range(4)])
            self.assertEqual(room.entered, 4)
            await handle.client.cancel(io[15:])
            room.let_go()
            await handle.client.gather(io[:15])
            self.assertEqual(room.most, 4)
            await self.idle(handle)

    async def test_long_io_tasks_wait_for_any_worker(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room = Room("io")
            await handle.declare_flow("io")
            await handle.submit_io(here, flow="io")
            self.plugin._admission.flows[0].seconds = 10.0
            io = [handle.submit_io(enter, "io", flow="io") for _ in range(20)]
            await room.wait_for(4)
            await self.until(handle, running=20)
            (worker,) = self.local.workers.values()
            self.assertEqual((len(worker.state.executing), len(worker.state.constrained)), (4, 0))
            room.let_go()
            await handle.client.gather(io)

    async def test_io_tasks_hold_at_most_the_budget_of_each_node(self) -> None:
        async with self.cluster() as handle:
            room = Room("io")
            io = await self.io(handle, 12)
            await room.wait_for(4)
            await self.until(handle, waiting=8, running=4)
            for entered in range(5, 13):
                room.let_go(1)
                await room.wait_for(entered)
            room.let_go()
            await handle.client.gather(io)
            self.assertEqual(list(room.most_on.values()), [2, 2])
            await self.idle(handle)

    async def test_io_tasks_hold_at_most_the_budget_that_nodes_share(self) -> None:
        async with self.cluster() as handle:
            room = Room("io")
            await handle.declare_device("pfs", bandwidth=100, scope="shared")
            where: dict[str, Any] = {"flow": "io", "device": "pfs", "constraint": "fixed:30"}
            await handle.declare_flow("io", device="pfs", constraint="fixed:30")
            io = [handle.submit_io(enter, "io", **where) for _ in range(10)]
            await room.wait_for(3)
            room.let_go()
            await handle.client.gather(io)
            self.assertEqual(room.most, 3)

    async def test_futures_of_io_tasks_are_inputs_of_all_kinds_of_tasks(self) -> None:
        async with self.cluster() as handle:
            Room("io", is_open=True)
            (read,) = await self.io(handle, 1)
            computed = handle.submit_compute(lambda address: [address], read)
            plain = handle.client.submit(lambda addresses: len(addresses), computed)
            self.assertEqual(await plain, 1)

    async def test_the_policy_is_told_the_bytes_and_time_of_io_tasks(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "policy.log"
            with mock.patch("ioweave.dask.connect", _connect_with(str(log))):
                async with self.cluster() as handle:
                    Room("io", is_open=True)
                    await handle.client.gather(await self.io(handle, 5, bytes=1000))
                    await self.idle(handle)
                    self.assertEqual((await handle.explain("io"))["bytes"], 5000)
            lines = log.read_text().splitlines()
            finished = [line for line in lines if " finished " in line]
            self.assertEqual(len(finished), 5)
            self.assertTrue(all(line.endswith(" bytes=1000") for line in finished), finished)
            self.assertTrue(all("seconds=0 " not in line for line in finished), finished)
            self.assertTrue(replay(log).same)


def _connect_with(log: str) -> Callable[..., Any]:
    connect = ioweave.dask.connect
    return lambda client: connect(client, log=log)


class Placement(ClusterTest):
    async def test_an_io_task_runs_where_its_inputs_are(self) -> None:
        async with self.cluster() as handle:
            for worker in list(self.scheduler.workers):
                block = handle.client.submit(here, workers=[worker], pure=False)
                await handle.declare_flow("io")
                written = [handle.submit_io(here, block, flow="io") for _ in range(3)]
                self.assertEqual(await handle.client.gather(written), [worker] * 3)

    async def test_an_io_task_runs_where_most_bytes_of_its_inputs_are(self) -> None:
        async with self.cluster() as handle:
            workers = list(self.scheduler.workers)
            await handle.declare_flow("io")
            for most in workers:
                blocks = [
                    handle.client.submit(
                        bytes, 10**6 if worker == most else 10**3, workers=[worker], pure=False
                    )
                    for worker in workers
                ]
                written = [handle.submit_io(here, *blocks, flow="io") for _ in range(3)]
                self.assertEqual(await handle.client.gather(written), [most] * 3)

    async def test_with_a_shared_folder_an_io_task_runs_on_the_first_node_with_budget(self) -> None:
        async with self.cluster() as handle:
            room = Room("io")
            first, second = self.scheduler.workers
            block = handle.client.submit(here, workers=[second])
            await block
            await handle.declare_device("disk", bandwidth=100)
            where: dict[str, Any] = {"device": "disk", "constraint": "fixed:50"}
            await handle.declare_flow("io", **where)
            io = [
                handle.submit_io(enter, "io", block, flow="io", anywhere=True, **where)
                for _ in range(3)
            ]
            await room.wait_for(3)
            self.assertEqual(sorted(room.inside), sorted([first, first, second]))
            room.let_go()
            await handle.client.gather(io)

    async def test_workers_of_one_host_are_one_node(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room = Room("io", is_open=True)
            options = ioweave.dask.worker_options(cores=1, io_slots=4)
            worker = distributed.Worker(
                self.scheduler.address, host="127.0.0.1", dashboard=False, **options
            )
            async with worker:
                self.assertEqual((await handle.stats())["nodes"]["127.0.0.1"]["workers"], 2)
                await handle.client.gather(await self.io(handle, 20))
            self.assertEqual(room.entered, 20)
            self.assertLessEqual(room.most, 2)
            self.assertEqual((await handle.stats())["nodes"]["127.0.0.1"]["workers"], 1)
            await self.idle(handle)

    async def test_an_io_task_runs_where_its_device_is(self) -> None:
        async with self.cluster() as handle:
            room, made = Room("io"), Room("block")
            first, second = self.scheduler.workers
            block = handle.client.submit(enter, "block", workers=[first], pure=False)
            where: dict[str, Any] = {"device": "bb", "constraint": "fixed:50"}
            await handle.declare_device("bb", bandwidth=100, nodes=["127.0.0.[2-4]", "bb*"])
            await handle.declare_flow("io", **where)
            io = [handle.submit_io(enter, "io", block, flow="io", **where) for _ in range(6)]
            # All at once: one that came later would find the block where the first ones took it.
            while not all(future.key in self.scheduler.tasks for future in io):
                await asyncio.sleep(0.01)
            made.let_go()
            await room.wait_for(2)
            self.assertEqual(room.inside, [second, second])  # the block is on the first
            self.assertEqual((await handle.explain("io"))["nodes"], 1)
            self.local.scale(3)  # 127.0.0.3 has it too
            await room.wait_for(4)
            # Of the node that went with its operations, nothing is left to wait for.
            await self.scheduler.remove_worker(second, stimulus_id="test")
            room.let_go()
            self.assertNotIn(first, await handle.client.gather(io))
            await self.idle(handle)

    async def test_of_the_nodes_with_its_device_an_io_task_runs_where_most_bytes_are(self) -> None:
        async with self.cluster(nodes=3) as handle:
            first, second, third = self.scheduler.workers
            where: dict[str, Any] = {"flow": "io", "device": "bb"}
            await handle.declare_device("bb", nodes=["127.0.0.[23]"])
            await handle.declare_flow("io", device="bb")
            cases = (
                (third, {first: 10**6, third: 10**4}),
                (second, {first: 10**6, second: 2 * 10**4, third: 10**4}),
                (third, {first: 10**6, second: 10**4, third: 2 * 10**4}),
            )
            for most, sizes in cases:
                blocks = [
                    handle.client.submit(bytes, size, workers=[worker], pure=False)
                    for worker, size in sizes.items()
                ]
                written = [handle.submit_io(here, *blocks, **where) for _ in range(3)]
                self.assertEqual(await handle.client.gather(written), [most] * 3)

    async def test_an_io_task_waits_for_a_worker_whose_name_has_the_device(self) -> None:
        async with self.cluster(nodes=1) as handle:
            await handle.declare_device("bb", nodes=["bb*"])
            await handle.declare_flow("io", device="bb")
            written = handle.submit_io(here, flow="io", device="bb")
            await self.until(handle, waiting=1)
            self.assertEqual((await handle.explain("io"))["nodes"], 0)
            options = ioweave.dask.worker_options(cores=1, io_slots=4)
            worker = distributed.Worker(
                self.scheduler.address, host="127.0.0.9", name="bb1", dashboard=False, **options
            )
            async with worker:
                self.assertEqual(await written, worker.address)

    async def test_choosing_the_worker_of_an_io_task_is_refused(self) -> None:
        async with self.cluster() as handle:
            await handle.declare_flow("io")
            with annotate(workers=["127.0.0.2"]):
                io = handle.submit_io(here, flow="io")
            with self.assertRaisesRegex(ValueError, "leave workers= out"):
                await io


class Failures(ClusterTest):
    async def test_exceptions_reach_the_caller_and_free_the_slot(self) -> None:
        async with self.cluster(nodes=1) as handle:
            Room("io", is_open=True)
            io = await self.io(handle, 6, failures=3)
            errors = [await future.exception() for future in io]
            self.assertEqual(sum(isinstance(error, OSError) for error in errors), 3)
            await self.idle(handle)

    async def test_retries_run_under_the_same_limit(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room = Room("io", is_open=True)
            await handle.client.gather(await self.io(handle, 6, failures=5, retries=5))
            self.assertEqual(room.entered, 11)
            self.assertLessEqual(room.most, 2)
            await self.idle(handle)

    async def test_a_failed_io_task_can_be_retried_by_hand(self) -> None:
        async with self.cluster(nodes=1) as handle:
            Room("io", is_open=True)
            (io,) = await self.io(handle, 1, failures=1)
            self.assertIsInstance(await io.exception(), OSError)
            await io.retry()
            self.assertIsInstance(await io, str)
            await self.idle(handle)

    async def test_a_failed_computation_fails_the_io_task_that_needs_it(self) -> None:
        async with self.cluster(nodes=1) as handle:
            Room("busy", is_open=True)
            computed = handle.submit_compute(enter, "busy", failures=2, retries=1)
            await handle.declare_flow("io")
            written = handle.submit_io(here, computed, flow="io")
            self.assertIsInstance(await written.exception(), OSError)
            await self.idle(handle)


class Cancellation(ClusterTest):
    async def test_cancelling_a_waiting_task_lets_the_next_one_start(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room = Room("io")
            io = await self.io(handle, 6)
            await self.until(handle, waiting=4, running=2)
            await room.wait_for(2)
            await handle.client.cancel(io[2:5])
            room.let_go()
            await handle.client.gather([*io[:2], io[5]])
            self.assertEqual(room.entered, 3)
            await self.idle(handle)

    async def test_a_running_task_that_is_cancelled_frees_its_slot_when_it_ends(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room = Room("io")
            io = await self.io(handle, 4)
            await self.until(handle, waiting=2, running=2)
            await room.wait_for(2)
            started = [future for future in io if self._state(future) == "processing"]
            await handle.client.cancel(started)
            await self.until(handle, waiting=2, running=2)
            self.assertEqual(len(room.inside), 2)
            room.let_go()
            await handle.client.gather([future for future in io if future not in started])
            self.assertEqual((room.entered, room.most), (4, 2))
            await self.idle(handle)

    def _state(self, future: Any) -> str:
        return self.scheduler.tasks[future.key].state

    async def test_a_cancelled_task_that_is_asked_for_again_continues(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room = Room("io")
            (io,) = await self.io(handle, 1, key="the-one")
            await room.wait_for(1)
            io.release()
            while not self.plugin._left_behind:
                await handle.stats()
            (again,) = await self.io(handle, 1, key="the-one")
            await self.until(handle, waiting=0, running=2)
            room.let_go()
            self.assertIsInstance(await again, str)
            await self.idle(handle)

    async def test_cancelling_an_input_cancels_the_io_task(self) -> None:
        async with self.cluster(nodes=1) as handle:
            busy = Room("busy")
            computed = handle.submit_compute(enter, "busy")
            await handle.declare_flow("io")
            written = handle.submit_io(here, computed, flow="io")
            await busy.wait_for(1)
            await handle.client.cancel([computed])
            with self.assertRaises(CancelledError):
                await written
            busy.let_go()
            await self.idle(handle)


class Withdrawal(ClusterTest):
    """A Runtime withdraws tasks, and tells its user that they have not run."""

    async def test_tasks_that_could_start_while_workers_are_asked_are_withdrawn(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room = Room("io")
            io = await self.io(handle, 3)
            await room.wait_for(2)
            await self.until(handle, waiting=1, running=2)
            running = {key for key, task in self.scheduler.tasks.items() if task.processing_on}
            ask = self.plugin._ask_workers

            async def slowly(*args: Any, **kwargs: Any) -> Any:
                room.let_go()
                await self.until(handle, waiting=0, running=0)
                return await ask(*args, **kwargs)

            with mock.patch.object(self.plugin, "_ask_workers", slowly):
                begun = await self.plugin._withdraw_tasks([f.key for f in io], handle.client.id)
            self.assertEqual((set(begun), room.entered), (running, 2))
            await self.idle(handle)

    async def _sent_ahead(self, handle: ioweave.dask.Handle) -> tuple[Room, list[Any]]:
        room = Room("io")
        await handle.declare_flow("io")
        await handle.submit_io(here, flow="io")
        io = [handle.submit_io(enter, "io", flow="io") for _ in range(10)]
        await room.wait_for(4)
        (worker,) = self.local.workers.values()
        while len(worker.state.constrained) < 6:
            await handle.stats()
        return room, io

    async def test_withdrawal_continues_without_a_worker_lost_meanwhile(self) -> None:
        async with self.cluster() as handle:
            room = Room("io")
            where: dict[str, Any] = {"flow": "io", "device": "disk"}
            await handle.declare_device("disk", max_in_flight=10)
            await handle.declare_flow("io", device="disk")
            await handle.submit_io(here, **where)
            io: list[Any] = [handle.submit_io(enter, "io", **where) for _ in range(20)]
            await room.wait_for(8)
            workers = list(self.local.workers.values())
            while sum(len(worker.state.constrained) for worker in workers) < 12:
                await handle.stats()
            first, second = self.scheduler.workers
            ask = self.plugin._ask_workers

            async def lose_one(*args: Any, **kwargs: Any) -> Any:
                await self.scheduler.remove_worker(first, stimulus_id="test")
                (lost,) = (worker for worker in workers if worker.address == first)
                while lost.status is Status.running:  # until it hears, it would run what it has
                    await handle.stats()
                return await ask(*args, **kwargs)

            with mock.patch.object(self.plugin, "_ask_workers", lose_one):
                begun = await self.plugin._withdraw_tasks([f.key for f in io], handle.client.id)
            room.let_go()
            kept = [future for future in io if future.key in begun]
            self.assertEqual(await handle.client.gather(kept), [second] * 4)
            await self.idle(handle)
            self.assertEqual(room.entered, 8)

    async def test_withdrawal_leaves_only_tasks_that_have_begun(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room, io = await self._sent_ahead(handle)
            begun = await self.plugin._withdraw_tasks([f.key for f in io], handle.client.id)
            self.assertEqual((len(begun), room.entered), (4, 4))
            taken = [future for future in io if future.key not in begun]
            for future in taken:
                while not future.cancelled():  # the scheduler tells its client
                    await handle.stats()
            room.let_go()
            await handle.client.gather([future for future in io if future.key in begun])
            self.assertEqual(room.entered, 4)
            await self.idle(handle)

    async def test_a_late_answer_of_a_worker_loses_no_task(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room, io = await self._sent_ahead(handle)
            with mock.patch("ioweave.dask.plugin._SILENT_S", 0):
                begun = await self.plugin._withdraw_tasks([f.key for f in io], handle.client.id)
            self.assertEqual(set(begun), {future.key for future in io})
            room.let_go()
            await handle.client.gather(io)
            self.assertEqual(room.entered, 10)
            await self.idle(handle)


class Workers(ClusterTest):
    async def test_workers_that_join_take_waiting_tasks(self) -> None:
        async with self.cluster(nodes=0) as handle:
            room = Room("io", is_open=True)
            io = await self.io(handle, 5)
            await self.until(handle, waiting=5)
            self.local.scale(2)
            await handle.client.gather(io)
            self.assertEqual(room.entered, 5)
            await self.idle(handle)

    async def test_a_lost_worker_loses_no_task(self) -> None:
        async with self.cluster() as handle:
            room = Room("io")
            io = await self.io(handle, 6)
            await room.wait_for(4)
            first, second = self.scheduler.workers
            await self.scheduler.remove_worker(second, stimulus_id="test")
            self.assertEqual((await handle.stats())["running"], 2)
            room.let_go()
            self.assertEqual(set(await handle.client.gather(io)), {first})
            await self.idle(handle)

    async def test_a_lost_worker_frees_the_tasks_bound_to_it(self) -> None:
        async with self.cluster() as handle:
            room = Room("io")
            first, second = self.scheduler.workers
            block = handle.client.submit(here, workers=[second])
            await block
            await handle.client.replicate([block])
            io = await self.io(handle, 4, room="io")
            await handle.client.gather([])
            await room.wait_for(4)
            with mock.patch.object(self.plugin, "_find_node_of_inputs", lambda task, device: 1):
                where: dict[str, Any] = {"flow": "io", "device": "disk", "constraint": "fixed:50"}
                bound = [handle.submit_io(here, block, **where) for _ in range(3)]
                await self.until(handle, waiting=3, running=4)
            await self.scheduler.remove_worker(second, stimulus_id="test")
            room.let_go()
            self.assertEqual(set(await handle.client.gather(bound)), {first})
            await handle.client.gather(io)
            await self.idle(handle)

    async def test_a_paused_worker_holds_up_only_tasks_started_there(self) -> None:
        async with self.cluster(nodes=1) as handle:
            room = Room("io", is_open=True)
            (worker,) = self.local.workers.values()
            worker.status = distributed.Status.paused
            (address,) = self.scheduler.workers
            while self.scheduler.workers[address].status != distributed.Status.paused:
                await handle.stats()
            io = await self.io(handle, 4)
            await self.until(handle, waiting=2, running=2)
            self.assertEqual(room.entered, 0)
            worker.status = distributed.Status.running
            await handle.client.gather(io)
            await self.idle(handle)

    async def test_a_worker_that_sends_nonsense_stays(self) -> None:
        async with self.cluster(nodes=1) as handle:
            (worker,) = self.local.workers.values()
            message = {"device": "nowhere", "counter": "", "bytes_per_second": 1, "seconds": 1}
            with self.assertLogs("ioweave.dask", "ERROR") as logged:
                worker.batched_send({"op": MEASURED, **message})
                while not logged.records:
                    await handle.stats()
            self.assertIn("failed to deal with", logged.output[0])
            self.assertEqual(await handle.submit_compute(here), worker.address)

    async def test_computations_on_workers_without_cores_are_refused(self) -> None:
        async with (
            distributed.SpecCluster(
                scheduler={"cls": Scheduler, "options": {"dashboard_address": ":0"}},
                workers={0: {"cls": distributed.Worker, "options": {"dashboard": False}}},
                asynchronous=True,
            ) as cluster,
            distributed.Client(cluster, asynchronous=True) as client,
        ):
            with self.assertLogs("ioweave.dask", "WARNING") as logged:
                handle = await ioweave.dask.connect(client)
            self.assertIn("offers no resource 'cpu'", logged.output[0])
            with self.assertRaisesRegex(ValueError, "--resources cpu=CORES,io=SLOTS"):
                handle.submit_compute(here)
            await handle.declare_flow("io")
            self.assertEqual(await handle.submit_io(here, flow="io"), cluster.workers[0].address)

    def _worker(self, host: str, **options: Any) -> distributed.Worker:
        return distributed.Worker(self.scheduler.address, host=host, dashboard=False, **options)

    async def test_a_worker_without_io_runs_as_many_io_tasks_as_it_has_threads(self) -> None:
        async with self.cluster(nodes=0) as handle:
            room = Room("io")
            with self.assertLogs("ioweave.dask", "WARNING"):  # that it runs no computations
                worker = await self._worker("127.0.0.1", nthreads=3)
            async with worker:
                self.assertEqual((await handle.stats())["io_slots"], 3)
                await handle.declare_device("disk")
                await handle.declare_flow("io", device="disk")
                io = [handle.submit_io(enter, "io", flow="io", device="disk") for _ in range(6)]
                await room.wait_for(3)
                await self.until(handle, waiting=3, running=3)
                room.let_go()
                await handle.client.gather(io)
                self.assertEqual((room.entered, room.most), (6, 3))
                await self.forget(handle, io)

    async def test_the_largest_node_when_a_device_is_first_used_bounds_it(self) -> None:
        async with self.cluster(nodes=1, io_slots=2) as handle:
            larger = ioweave.dask.worker_options(cores=1, io_slots=5)
            largest = ioweave.dask.worker_options(cores=1, io_slots=9)
            async with self._worker("127.0.0.2", **larger) as second:
                room = Room("io")
                await handle.declare_device("disk")
                await handle.declare_flow("io", device="disk")
                io = [handle.submit_io(enter, "io", flow="io", device="disk") for _ in range(20)]
                await room.wait_for(2 + 5)  # the threads that there are
                await self.until(handle, waiting=10, running=5 + 5)
                async with self._worker("127.0.0.3", **largest) as third:
                    await room.wait_for(2 + 5 + 5)
                    await self.until(handle, waiting=5, running=5 + 5 + 5)
                    room.let_go()
                    await handle.client.gather(io)
                    self.assertEqual(room.most_on[second.address], 5)
                    self.assertEqual(room.most_on[third.address], 5)
                    await self.forget(handle, io)


class Clients(ClusterTest):
    async def test_a_runtime_refuses_an_asynchronous_client(self) -> None:
        async with self.cluster(nodes=1) as handle:
            words = r"Runtime\(client\) needs a client that is not asynchronous"
            with self.assertRaisesRegex(ValueError, words):
                ioweave.Runtime(handle.client)

    async def test_clients_share_devices_and_flows(self) -> None:
        async with self.cluster(nodes=1) as one:
            room = Room("io")
            async with distributed.Client(self.scheduler.address, asynchronous=True) as client:
                two = await ioweave.dask.connect(client)
                io = [*await self.io(one, 3), *await self.io(two, 3)]
                await self.until(two, waiting=4, running=2)
                await room.wait_for(2)
                self.assertEqual(len((await two.stats())["flows"]), 1)
                room.let_go()
                self.assertEqual(len(await client.gather(io[3:])), 3)
            await one.client.gather(io[:3])
            self.assertEqual(room.most, 2)
            await self.idle(one)

    async def test_tasks_of_a_client_that_goes_away_are_cancelled(self) -> None:
        async with self.cluster(nodes=1) as one:
            room = Room("io")
            async with distributed.Client(self.scheduler.address, asynchronous=True) as client:
                await self.io(await ioweave.dask.connect(client), 5)
                await room.wait_for(2)
            await self.until(one, waiting=0, running=2)
            room.let_go()
            await self.idle(one)


class BadInput(ClusterTest):
    async def test_bad_input_is_refused_with_the_way_out(self) -> None:
        async with self.cluster() as handle:
            await self.io(handle, 0)
            with self.assertRaisesRegex(
                ValueError, "no device 'tape'; the known ones are 'default', 'disk'"
            ):
                await handle.declare_flow("io", device="tape")
            with self.assertRaisesRegex(ValueError, "budget of device 'disk'"):
                await handle.declare_flow("io", device="disk", constraint="fixed:500")
            with self.assertRaisesRegex(
                ValueError, "bandwidth=100.0, not 7.0: declare it with the same settings"
            ):
                await handle.declare_device("disk", bandwidth=7)
            with self.assertRaisesRegex(ValueError, "scope"):
                await handle.declare_device("tape", scope="rack")
            with self.assertRaisesRegex(RuntimeError, r"await handle.declare_flow\('other'"):
                handle.submit_io(here, flow="other")
            for size in (-1, 2**63, 0.5):
                with self.assertRaisesRegex(ValueError, f"bytes must be .* not {size}"):
                    handle.submit_io(here, flow="io", bytes=size)  # type: ignore[arg-type]
            with self.assertRaisesRegex(ValueError, "cpus must be"):
                handle.submit_compute(here, cpus=0)
            with self.assertRaisesRegex(ValueError, "largest worker of this cluster had 2 cores"):
                handle.submit_compute(here, cpus=3)
            with self.assertRaisesRegex(ValueError, "no flow 'writ'.* the known ones are 'io'"):
                await handle.explain("writ")
            await handle.declare_flow("io")
            with self.assertRaisesRegex(ValueError, "several flows .* device='default'"):
                await handle.explain("io")
            self.assertEqual((await handle.explain("io", device="disk"))["waiting"], 0)

    async def test_a_task_of_an_unknown_flow_fails(self) -> None:
        async with self.cluster() as handle:
            handle._flows["io", "default", "none"] = 77
            with self.assertRaisesRegex(ValueError, r"does not know its flow .*connect\(\) again"):
                await handle.submit_io(here, flow="io")

    async def test_a_task_with_too_many_bytes_fails(self) -> None:
        async with self.cluster() as handle:
            await handle.declare_flow("io")
            (flow,) = handle._flows.values()
            for size in (-1, 2**63):
                resources = io_resources(flow, size, anywhere=False)
                with self.assertRaisesRegex(ValueError, f"its bytes are not .* but {size}"):
                    await handle.client.submit(here, resources=resources, pure=False)
            await self.idle(handle)

    def test_wrong_numbers_for_workers_name_the_option(self) -> None:
        words = ioweave.dask.worker_arguments(cores=48, io_slots=16)
        self.assertEqual(" ".join(words), "--nthreads 64 --resources cpu=48,io=16")
        with self.assertRaisesRegex(ValueError, "io_slots must be"):
            ioweave.dask.worker_options(cores=1, io_slots=0)
        with self.assertRaisesRegex(ValueError, "nodes must be"):
            ioweave.dask.local_cluster(nodes=-1)

    async def test_a_cluster_that_fails_waiting_tasks_is_refused(self) -> None:
        with (
            config.set({"distributed.scheduler.no-workers-timeout": "1h"}),
            self.assertRaisesRegex(RuntimeError, "3600 s .*no-workers-timeout"),
        ):
            async with self.cluster():
                pass


class Canary(ClusterTest):
    """Fails first, with a clear text, when a new Dask has changed undocumented parts."""

    async def test_the_canary_finds_all_parts_of_dask_that_are_used(self) -> None:
        async with self.cluster(nodes=1):
            check(self.scheduler)

    def test_the_canary_names_missing_parts_of_dask(self) -> None:
        class Changed:
            tasks: tuple[()] = ()
            _TRANSITIONS_TABLE = dict.fromkeys([("waiting", "no-worker")])

        with self.assertRaisesRegex(
            RuntimeError,
            r"(?s)Scheduler\.transitions.*the transition no-worker -> processing.*'distributed>=",
        ) as refused:
            check(Changed())  # type: ignore[arg-type]
        self.assertNotIn("Scheduler.tasks", str(refused.exception))
        self.assertNotIn("waiting -> no-worker", str(refused.exception))


class Queue(unittest.TestCase):
    class Task:
        def __init__(self, priority: int, **resources: int) -> None:
            self.priority = priority
            self.resource_restrictions = resources

    def test_tasks_overtake_those_that_wait_for_another_resource(self) -> None:
        free = {"cpu": 1, "io": 1}
        queue: Any = ByResource(
            lambda task: all(free[n] >= x for n, x in task.resource_restrictions.items())
        )
        wide, narrow = self.Task(1, cpu=2), self.Task(2, cpu=1)
        late, early = self.Task(4, io=1), self.Task(3, io=1)
        for task in (late, wide, early, narrow):
            queue.add(task)
        self.assertEqual([queue.pop(), queue.pop()], [early, late])
        self.assertIs(queue.peek(), wide)  # narrow ones would keep it waiting for ever
        queue.discard(wide)
        self.assertEqual((list(queue), narrow in queue, len(queue)), ([narrow], True, 1))
        self.assertIs(queue.pop(), narrow)
        with self.assertRaises(KeyError):
            queue.peek()


class ChangingPolicy:
    """Starts `limit` operations at once when 40 are there, and doubles it with each sample."""

    def __init__(self) -> None:
        self.limit = 1
        self.queue: list[int] = []
        self.started: set[int] = set()
        self.samples: list[tuple[float, int]] = []

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def running(self) -> int:
        return len(self.started)

    def add_device(self, name: str, **settings: Any) -> int:
        return 1

    def add_flow(self, name: str, device: int, constraint: str) -> int:
        return 0

    def explain(self, flow: int) -> str:
        return "{}"

    def node_down(self, node: int, now: int) -> list[Start]:
        return []

    def ready(self, operation: int, *rest: Any) -> list[Start]:
        self.queue.append(operation)
        return self._starts() if self.waiting >= 40 else []

    def finished(self, operation: int, *rest: Any) -> list[Start]:
        self.started.remove(operation)
        return self._starts()

    def flow_counts(self, flow: int) -> tuple[int, int]:
        return self.waiting, self.running

    def needs_samples(self, device: int) -> bool:
        return self.waiting + self.running > 0

    def running_on(self, node: int) -> int:
        return self.running

    def sample(
        self, device: int, node: int, rate: float, now: int, seconds: float
    ) -> list[Start | SetLimit]:
        self.samples.append((rate, self.running))
        self.limit *= 2
        return [SetLimit(0, self.limit), *self._starts()]

    def _starts(self) -> list[Start]:
        room = max(0, self.limit - len(self.started))
        starting, self.queue = self.queue[:room], self.queue[room:]
        self.started.update(starting)
        return [Start(operation, 0) for operation in starting]


class Measuring(ClusterTest):
    async def test_samples_reach_a_policy_that_changes_its_limit(self) -> None:
        with mock.patch("ioweave.dask.worker._PERIOD_MS", 20):
            async with self.cluster(nodes=1, io_slots=16) as handle:
                policy = self.plugin._admission.policy = ChangingPolicy()  # type: ignore[assignment]
                room = Room("io")
                await handle.declare_device("disk", path="/proc")  # which is on no disk
                where: dict[str, Any] = {"device": "disk", "constraint": "climb"}
                await handle.declare_flow("io", **where)
                io = [handle.submit_io(enter, "io", flow="io", **where) for _ in range(40)]
                await room.wait_for(16)
                self.assertEqual([sample[1] for sample in policy.samples[:4]], [1, 2, 4, 8])
                self.assertGreaterEqual((await handle.explain("io"))["limit"], 16)
                room.let_go()
                await handle.client.gather(io)
                await self.idle(handle)
                # The next measurement finds nothing to measure, and is the last one.
                (worker,) = self.local.workers.values()
                while worker.plugins["ioweave"]._devices:
                    await handle.stats()


class Silence(ClusterTest):
    async def test_a_silent_scheduler_ends_a_question_with_an_error(self) -> None:
        async with self.cluster(nodes=1) as handle:
            with (
                mock.patch("ioweave.dask.client.ANSWER_S", 0.1),
                mock.patch.dict(self.scheduler.handlers, {"ioweave": _silent}),
                self.assertRaisesRegex(TimeoutError, "scheduler at .* has not answered for 0.1 s"),
            ):
                await handle.stats()
            await handle.stats()


async def _silent(**_: Any) -> None:
    await asyncio.sleep(_PATIENCE)


class Anything(ClusterTest):
    """Events of all kinds in any order leave no operation with the policy."""

    async def test_random_events_leave_no_slot_taken(self) -> None:
        for seed in SEEDS:
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as folder:
                log = Path(folder) / "policy.log"
                with mock.patch("ioweave.dask.connect", _connect_with(str(log))):
                    async with self.cluster() as handle:
                        await self._storm(handle, random.Random(seed))
                self.assertTrue(replay(log).same)

    async def _storm(self, handle: ioweave.dask.Handle, rng: random.Random) -> None:
        rooms = [Room(f"room {number}", is_open=True) for number in range(3)]
        for room in rooms:
            room.leave = threading.Semaphore(0)
        await self.io(handle, 0)
        await handle.declare_device("pfs", bandwidth=100, scope="shared")
        await handle.declare_flow("io", device="pfs", constraint="fixed:30")
        places: list[dict[str, Any]] = [
            {"device": "disk", "constraint": "fixed:50"},
            {"device": "pfs", "constraint": "fixed:30"},
        ]
        futures: list[Any] = []

        def submit() -> None:
            room = f"room {rng.randrange(3)}"
            inputs = rng.sample(futures, k=min(len(futures), rng.randrange(3)))
            failures, retries = rng.choice([0, 0, 3, 20]), rng.choice([0, 1])
            options: dict[str, Any] = {"failures": failures, "retries": retries}
            if rng.random() < 0.3:
                futures.append(handle.submit_compute(enter, room, *inputs, **options))
            else:
                place = {**rng.choice(places), "anywhere": rng.random() < 0.5}
                futures.append(
                    handle.submit_io(enter, room, *inputs, flow="io", **place, **options)
                )

        async def cancel() -> None:
            await handle.client.cancel(rng.sample(futures, k=min(len(futures), 3)))

        async def lose() -> None:
            workers = list(self.scheduler.workers)
            if workers:
                await self.scheduler.remove_worker(rng.choice(workers), stimulus_id="test")

        async def join() -> None:
            number = rng.randrange(2)
            old = self.local.workers.get(number)
            if old is None or old.status != distributed.Status.running:
                self.local.workers.pop(number, None)
                self.local.worker_spec.pop(number, None)
                self.local.worker_spec.update(self.local.new_worker_spec())
                await self.local._correct_state()

        async def leave() -> None:
            rng.choice(rooms).let_go(rng.randrange(4))
            await handle.stats()

        for _ in range(80):
            dice = rng.random()
            if dice < 0.5:
                submit()
            elif dice < 0.6 and futures:
                await cancel()
            elif dice < 0.64:
                await lose()
            elif dice < 0.72:
                await join()
            elif dice < 0.76 and futures:
                futures.pop(rng.randrange(len(futures)))
            else:
                await leave()
        for room in rooms:
            room.let_go()
        while len(self.scheduler.workers) < 2:
            await join()
            await handle.stats()  # a worker that was lost takes a while to see it
        await handle.client.gather(_not_cancelled(futures), errors="skip")
        await self.idle(handle)


def _not_cancelled(futures: Iterable[Any]) -> list[Any]:
    return [future for future in futures if not future.cancelled()]
