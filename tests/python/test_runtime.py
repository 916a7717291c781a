"""The embedded runtime: failures, cancellation, retries, timeouts, waiting, back-pressure."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import re
import signal
import sys
import tempfile
import threading
import traceback
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import ioweave
from ioweave import _core, targets
from runtimes import Gate, RuntimeTest, pass_gate, until


@ioweave.task
def add(*values: int) -> int:
    return sum(values)


@ioweave.io(bytes=1, policy="none")
def io_after(*_: object) -> None:
    pass


@ioweave.task
def fail(text: str, *_: object) -> None:
    raise ValueError(text)


@ioweave.task
def fail_as_not_run() -> None:
    raise ioweave.DependencyFailed(("other#1", "task#2"), ValueError("lost"))


@ioweave.task
def fail_as_cancelled() -> None:
    raise ioweave.CancelledError("by something else")


class array:
    """A type of the same name as array.array."""


class Silent(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("what I am is nobody's business")


@ioweave.task
def fail_silently() -> None:
    raise Silent


class Failures(RuntimeTest):
    def test_result_raises_the_original_with_its_traceback_and_a_note(self) -> None:
        with self.runtime(cpus=1):
            future = fail("disk full", [1, 2, 3, 4, 5])
            for _ in range(2):  # the second time as the first
                try:
                    future.result()
                except ValueError as error:
                    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
                    notes = getattr(error, "__notes__", [])
                self.assertEqual(frames, [self._testMethodName, "result", "fail"])
            self.assertEqual(len(notes), 1)
            self.assertRegex(notes[0], r"^in task fail\('disk full', \[1, 2, 3, \.\.\.\]\) on node")

    def test_dependants_are_not_run_and_name_the_chain(self) -> None:
        with self.runtime(cpus=1):
            first = fail("bad")
            second = add(first)
            third = add(1, second)
            with self.assertRaises(ioweave.DependencyFailed) as caught:
                third.result()
            self.assertIsInstance(caught.exception.__cause__, ValueError)
            self.assertEqual(caught.exception.chain, ("fail#1", "add#2", "add#3"))
            self.assertEqual(
                str(caught.exception),
                "task add#3 was not run: it needs add#2, which needs fail#1, which failed: "
                "ValueError('bad')",
            )
            self.assertTrue(third.cancelled())
            self.assertFalse(first.cancelled())
            # Also where it had failed before.
            self.assertIsInstance(add(third).exception(), ioweave.DependencyFailed)
            self.assertIsInstance(first.exception(), ValueError)

    def test_a_body_that_raises_a_cancellation_has_failed(self) -> None:
        """It may be the error of a task that it called, which then counts as seen."""
        with self.assertRaisesRegex(ioweave.DependencyFailed, "lost"), self.runtime(cpus=1) as one:
            future = fail_as_not_run()
            self.assertIsInstance(future.exception(), ioweave.DependencyFailed)
            self.assertFalse(future.cancelled())
            fail_as_not_run()
        self.assertEqual((one.stats().failed, one.stats().cancelled), (2, 0))
        with self.runtime(cpus=1):
            self.assertIsInstance(fail_as_cancelled().exception(), ioweave.CancelledError)

    def test_an_argument_that_cannot_be_described_hides_no_failure(self) -> None:
        with self.runtime(cpus=1), self.assertRaisesRegex(ValueError, "mine") as caught:
            fail("mine", [array()]).result(timeout=60)
        self.assertIn("test_runtime", getattr(caught.exception, "__notes__", ("",))[0])

    def test_a_chain_of_many_is_cut_short(self) -> None:
        with self.runtime(cpus=1):
            value = fail("bad")
            value.exception()
            for _ in range(3000):
                value = add(value)
            error = value.exception()
            self.assertIsInstance(error, ioweave.DependencyFailed)
            self.assertEqual(error.chain[0], "fail#1")
            self.assertEqual(error.chain[-1], "add#3001")
            self.assertLess(len(str(error)), 400)

    def test_barrier_raises_the_first_failure_that_nobody_asked_for(self) -> None:
        with self.runtime(cpus=1):
            asked = fail("asked")
            first = fail("first")
            until(first.done)
            fail("second")
            self.assertIsInstance(asked.exception(), ValueError)
            with self.assertRaisesRegex(ValueError, "first") as caught:
                ioweave.barrier()
            self.assertIn("and 1 more tasks failed", getattr(caught.exception, "__notes__", ()))
            ioweave.barrier()  # said once

    def test_a_task_not_run_after_a_known_failure_is_told_too(self) -> None:
        with self.assertLogs("ioweave"), self.runtime(cpus=1) as runtime:
            failed = fail("told")
            self.assertIsInstance(failed.exception(), ValueError)
            add(add(failed))
            with self.assertRaisesRegex(ioweave.DependencyFailed, "add#2 was not run"):
                ioweave.barrier()
            ioweave.barrier()
            self.assertIsInstance(add(failed).exception(), ioweave.DependencyFailed)
            io_after(failed)
            with self.assertRaisesRegex(ioweave.DependencyFailed, "io_after#5 was not run"):
                ioweave.barrier()
            seen = io_after(failed)
            self.assertIsInstance(seen.exception(), ioweave.DependencyFailed)
        self.assertEqual(len(runtime.not_written), 1)
        self.assertIn("io_after(<Future of fail#1: ValueError>)", runtime.not_written[0])

    def test_failures_that_are_not_kept_are_counted(self) -> None:
        kept = mock.patch("ioweave.runtime.KEPT_FAILURES", 3)
        with kept, self.runtime(cpus=1):
            for failures in (10, 2):
                futures = [fail(str(number)) for number in range(failures)]
                until(lambda: all(future.done() for future in futures))  # noqa: B023
                with self.assertRaises(ValueError) as caught:
                    ioweave.barrier()
                notes = getattr(caught.exception, "__notes__", ())
                self.assertIn(f"and {failures - 1} more tasks failed", notes)

    def test_asking_for_a_dependant_counts_as_seeing_the_failure(self) -> None:
        with self.runtime(cpus=1):
            self.assertIsInstance(add(fail("seen")).exception(), ioweave.DependencyFailed)

    def test_the_end_of_the_block_waits_for_all_tasks(self) -> None:
        with self.runtime(cpus=1) as runtime, contextlib.ExitStack() as gates:
            gate = gates.enter_context(Gate())
            futures = [io_after(gate.future), add(1), io_after(add(2))]
            gates.pop_all()
            gate.open_when(lambda: runtime._state == "closing")
        self.assertTrue(all(future.done() for future in (gate.future, *futures)))

    def test_the_end_of_the_block_raises_a_task_not_run_after_a_known_failure(self) -> None:
        with self.assertRaisesRegex(ioweave.DependencyFailed, "add#2"), self.runtime(cpus=1):
            failed = fail("told")
            self.assertIsInstance(failed.exception(), ValueError)
            add(failed)

    def test_io_that_was_not_run_for_a_failure_is_logged_after_a_normal_end(self) -> None:
        """Nothing is raised, since the program asked for the failure."""
        save = ioweave.io(name="save", bytes=1, policy="none")(io_after.function)
        with (
            self.assertLogs("ioweave", "WARNING") as logged,
            self.runtime(cpus=1) as runtime,
            Gate() as gate,
        ):
            failed = fail("told", gate.future)
            save(failed)
            asked = save(failed, "asked")
            gate.open()
            self.assertIsInstance(failed.exception(), ValueError)
            self.assertIsInstance(asked.exception(), ioweave.DependencyFailed)
        self.assertEqual(len(runtime.not_written), 1)
        self.assertIn("save(<Future of fail#2: ", runtime.not_written[0])
        self.assertEqual(len(logged.output), 1)
        self.assertIn("1 I/O tasks were not done: save(", logged.output[0])

    def test_the_end_of_the_block_raises_the_first_failure(self) -> None:
        with self.assertRaisesRegex(ValueError, "late"), self.runtime(cpus=1):
            fail("late")

    def test_a_call_that_does_not_fit_is_refused_when_it_is_made(self) -> None:
        @ioweave.task
        def two(a: int, b: int = 0) -> None: ...

        with self.runtime(cpus=1) as runtime:
            for call in (lambda: two(), lambda: two(1, 2, 3), lambda: two(1, c=3)):
                self.assertRaisesRegex(TypeError, "task 'two': ", call)
            self.assertEqual(runtime.stats().submitted, 0)

    def test_more_cpus_than_there_are_is_refused(self) -> None:
        with self.runtime(cpus=2), self.assertRaisesRegex(ValueError, "needs 3 cpus .* has 2"):
            ioweave.task(cpus=3)(lambda: None)()

    def test_an_exception_in_the_block_cancels_what_has_not_begun(self) -> None:
        with self.assertRaisesRegex(KeyError, "mine"), self.runtime(cpus=1):
            gate = Gate()
            waiting = add(1)
            dependant = add(gate.future)
            gate.open_when(waiting.done)
            raise KeyError("mine")
        self.assertEqual(gate.future.result(), "held")
        self.assertTrue(waiting.cancelled() and dependant.cancelled())

    def test_an_exception_in_the_block_logs_unseen_failures(self) -> None:
        save = ioweave.io(name="save")(lambda number, block: None)
        with (
            self.assertLogs("ioweave") as logged,
            self.assertRaisesRegex(KeyError, "mine"),
            self.runtime(cpus=1) as runtime,
        ):
            failed, again = fail("unasked"), fail("unasked too")
            until(lambda: failed.done() and again.done())
            with Gate() as gate:
                waiting = [save(number, gate.future) for number in range(25)]
                gate.open_when(lambda: all(call.done() for call in waiting))
                raise KeyError("mine")
        self.assertEqual(len(runtime.not_written), 25)
        self.assertRegex(runtime.not_written[0], r"save\(0, <Future.*>\)")
        self.assertRegex(
            logged.output[0], "ended by KeyError: 25 I/O tasks were not done: .*all in not_written"
        )
        self.assertRegex(logged.output[1], "(?s)tasks failed.*ValueError: unasked")
        self.assertEqual(len(logged.output), 2)

    def test_exit_with_status_0_is_a_normal_end(self) -> None:
        for code in (None, 0):
            with self.assertRaises(SystemExit), self.runtime(cpus=1) as runtime:
                futures = [add(n) for n in range(20)]
                raise SystemExit(code)
            self.assertEqual(ioweave.wait(futures), list(range(20)))
            self.assertEqual(runtime.stats().cancelled, 0)
        with self.assertRaisesRegex(ValueError, "late"), self.runtime(cpus=1):
            fail("late")
            raise SystemExit
        with self.assertRaises(SystemExit), self.runtime(cpus=1):
            gate = Gate()
            waiting = add(1)
            gate.open_when(waiting.done)
            raise SystemExit("wrong arguments")
        self.assertTrue(waiting.cancelled())

    def test_what_a_callback_raises_is_logged(self) -> None:
        def bad(_: ioweave.Future[int]) -> None:
            raise ValueError("in a callback")

        with self.assertLogs("ioweave", logging.ERROR) as logged, self.runtime(cpus=1):
            add(1).add_done_callback(bad)
        self.assertIn("in a callback", logged.output[0])

    def test_a_callback_that_exits_ends_no_thread(self) -> None:
        with self.assertLogs("ioweave", logging.ERROR) as logged, self.runtime(cpus=1):
            with Gate() as gate:
                gate.future.add_done_callback(lambda _: sys.exit("in a callback"))
                seen: list[object] = []
                gate.future.add_done_callback(seen.append)
                gate.open()
            self.assertEqual(add(1).result(timeout=60), 1)
        self.assertIn("SystemExit: in a callback", logged.output[0])
        self.assertEqual(seen, [gate.future])

    def test_the_end_of_the_block_waits_for_callbacks_and_what_they_submit(self) -> None:
        later: list[Any] = []

        def submit(_: object) -> None:
            until(lambda: runtime._state == "closed" or bool(runtime._callbacks._doors))
            later.append(add(len(later)))
            if len(later) < 5:
                later[-1].add_done_callback(submit)

        with self.runtime(cpus=1) as runtime, Gate() as gate:
            gate.future.add_done_callback(submit)
            gate.open()
        self.assertEqual(ioweave.wait(later), list(range(5)))


class Retries(RuntimeTest):
    def test_a_task_that_fails_is_run_again(self) -> None:
        runs: list[int] = []

        @ioweave.task(retries=2)
        def third_time() -> int:
            runs.append(1)
            if len(runs) < 3:
                raise OSError("again")
            return len(runs)

        with self.runtime(cpus=1) as runtime:
            self.assertEqual(third_time().result(), 3)
            self.assertEqual(runtime.stats().retried, 2)

    def test_a_task_whose_object_cannot_be_restored_is_not_run(self) -> None:
        @ioweave.task(retries=1)
        def change(locks: Annotated[list[Any], ioweave.InOut]) -> None:
            locks.clear()

        locks = [threading.Lock()]
        with (
            self.runtime(cpus=1),
            self.assertRaisesRegex(TypeError, "'change'.* cannot be (copied|sent)"),
        ):
            change(locks).result()
        self.assertEqual(len(locks), 1)

    def test_the_last_run_that_fails_leaves_objects_as_they_were(self) -> None:
        @ioweave.task(retries=1)
        def change(numbers: Annotated[list[int], ioweave.InOut]) -> None:
            numbers.append(1)
            raise OSError("never")

        numbers = [0]
        with self.runtime(cpus=1), self.assertRaisesRegex(OSError, "never"):
            change(numbers).result()
        self.assertEqual(numbers, [0])

    def test_the_last_failure_stands(self) -> None:
        @ioweave.task(retries=1)
        def never() -> None:
            raise OSError("never")

        with self.runtime(cpus=1), self.assertRaises(OSError) as caught:
            never().result()
        self.assertIn("attempt 2", caught.exception.__notes__[0])  # type: ignore[attr-defined]


class Timeouts(RuntimeTest):
    def test_a_task_that_hangs_fails_and_its_slot_is_replaced(self) -> None:
        go = threading.Event()
        self.addCleanup(go.set)

        @ioweave.task(timeout=0.05)
        def hang() -> None:
            go.wait()

        logs = self.assertLogs("ioweave", logging.WARNING)
        with logs as logged, self.runtime(cpus=1) as runtime:
            hung = [hang(), hang()]
            for future in hung:
                self.assertIsInstance(future.exception(), ioweave.TaskTimeout)
            self.assertEqual(add(1, 2).result(), 3)
            self.assertEqual(runtime.stats().timed_out, 2)
        self.assertEqual(len(logged.output), 1)  # said once
        self.assertIn("written off and replaced", logged.output[0])

    def test_a_task_in_time_is_left_alone(self) -> None:
        @ioweave.task(timeout=60)
        def quick(value: int) -> int:
            return value

        with self.runtime(cpus=2) as runtime:
            self.assertEqual(ioweave.wait([quick(n) for n in range(100)]), list(range(100)))
            self.assertEqual(runtime.stats().timed_out, 0)

    def test_callbacks_hold_up_no_timeout(self) -> None:
        """A callback of a task that timed out waits for a task that will time out."""
        go = threading.Event()
        self.addCleanup(go.set)
        seen: list[object] = []

        @ioweave.task(timeout=0.05)
        def hang() -> None:
            go.wait()

        with self.assertLogs("ioweave"), self.runtime(cpus=2):
            first = hang()
            first.add_done_callback(lambda _: seen.append(hang().exception(timeout=60)))
            self.assertIsInstance(first.exception(), ioweave.TaskTimeout)
        self.assertIsInstance(seen[0], ioweave.TaskTimeout)

    def test_a_timeout_can_be_retried_and_the_late_value_is_void(self) -> None:
        go, runs = threading.Event(), []

        @ioweave.task(timeout=0.05, retries=1)
        def first_hangs() -> str:
            runs.append(1)
            if len(runs) == 1:
                go.wait()
                return "late"
            return "in time"

        with self.assertLogs("ioweave"), self.runtime(cpus=1):
            future = first_hangs()
            self.assertEqual(future.result(), "in time")
            go.set()
            self.assertEqual(add(1).result(), 1)
            self.assertEqual(future.result(), "in time")

    def test_result_with_a_timeout_leaves_the_task_running(self) -> None:
        with self.runtime(cpus=1), Gate() as gate:
            with self.assertRaisesRegex(TimeoutError, "hold#1 is not done after 0.01 s"):
                gate.future.result(timeout=0.01)
            self.assertTrue(gate.future.running())
            gate.open()
            self.assertEqual(gate.future.result(timeout=60), "held")


class Cancellation(RuntimeTest):
    def test_a_task_that_has_not_begun_is_cancelled_with_all_that_need_it(self) -> None:
        with self.runtime(cpus=1), Gate() as gate:
            queued, after = add(1), add(gate.future)
            dependant = add(queued, 1)
            self.assertTrue(queued.cancel() and after.cancel())
            self.assertTrue(queued.cancel())  # it is
            self.assertRaises(ioweave.CancelledError, queued.result)
            self.assertRaises(ioweave.CancelledError, queued.exception)
            self.assertRaisesRegex(
                ioweave.DependencyFailed, "add#4 was not run: .* add#2.*cancelled", dependant.result
            )
            self.assertFalse(gate.future.cancel())
            gate.open()
            self.assertFalse(gate.future.cancelled())

    def test_a_large_task_that_is_cancelled_lets_others_pass(self) -> None:
        with self.runtime(cpus=2), Gate() as gate:
            large = ioweave.task(cpus=2)(lambda: None)()
            small = add(1)
            self.assertFalse(small.done())
            self.assertTrue(large.cancel())
            self.assertEqual(small.result(timeout=60), 1)
            gate.open()

    def test_callbacks_have_a_thread_of_their_own_and_never_overlap(self) -> None:
        threads: list[threading.Thread] = []
        inside, most = [0], [0]

        def called(_: object) -> None:
            threads.append(threading.current_thread())
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            threading.Event().wait(0.001)
            inside[0] -= 1

        with self.runtime(cpus=4), Gate() as gate:
            for _ in range(30):
                io_after(gate.future).add_done_callback(called)
            gate.open()
        self.assertEqual((len(threads), len(set(threads)), most), (30, 1, [1]))
        self.assertIsNot(threads[0], threading.main_thread())

    def test_callbacks_are_called_for_every_end(self) -> None:
        seen: list[str] = []
        with self.runtime(cpus=1), Gate() as gate:
            done = add(1)
            # It waits for the one before: of two that may run Dask takes either first.
            failed = fail("x", done)
            futures = {"done": done, "failed": failed, "cancelled": add(2)}
            for name, future in futures.items():
                future.add_done_callback(lambda _, name=name: seen.append(name))
            futures["cancelled"].cancel()
            gate.open()
            failed.exception()
        done.add_done_callback(lambda _: seen.append("at once"))
        self.assertEqual(seen, ["cancelled", "done", "failed", "at once"])


class Waiting(RuntimeTest):
    def test_waiting_inside_a_task_gives_its_slot_back(self) -> None:
        @ioweave.task
        def fibonacci(n: int) -> int:
            if n < 2:
                return n
            return sum(ioweave.wait([fibonacci(n - 1), fibonacci(n - 2)]))

        with self.runtime(cpus=1) as runtime:
            self.assertEqual(fibonacci(8).result(), 21)
            self.assertEqual(runtime.stats().cpus_free, 1)

    def test_slots_bound_what_runs_at_once(self) -> None:
        lock, running, most = threading.Lock(), [0], [0]

        def body(cpus: int) -> None:
            with lock:
                running[0] += cpus
                most[0] = max(most[0], running[0])
            threading.Event().wait(0.001)
            with lock:
                running[0] -= cpus

        one, two = ioweave.task(body), ioweave.task(cpus=2)(body)
        with self.runtime(cpus=3):
            for _ in range(30):
                one(1)
                two(2)
        self.assertLessEqual(most[0], 3)
        self.assertGreaterEqual(most[0], 2)

    def test_a_callback_may_wait(self) -> None:
        got: list[int] = []
        with self.runtime(cpus=1), Gate() as gate:
            later = add(2)
            gate.future.add_done_callback(lambda _: got.append(later.result()))
            gate.open()
        self.assertEqual(got, [2])

    def test_closing_in_a_callback_is_refused(self) -> None:
        with self.assertLogs("ioweave") as logged, self.runtime(cpus=1) as runtime, Gate() as gate:
            gate.future.add_done_callback(lambda _: runtime.close())
            gate.open()
        self.assertIn("close() inside a callback would wait for the callback", logged.output[0])

    def test_a_task_that_waits_for_itself_is_told_so(self) -> None:
        box: list[Any] = []
        ready = threading.Event()

        @ioweave.task
        def own() -> None:
            ready.wait()
            box[0].result()

        with self.runtime(cpus=2):
            box.append(own())
            ready.set()
            with self.assertRaisesRegex(ioweave.CycleError, "own#1 waits for .* own#1 itself"):
                box[0].result()

    def test_a_task_that_waits_for_its_dependant_is_told_so(self) -> None:
        box: list[Any] = []
        ready = threading.Event()

        @ioweave.task
        def first() -> int:
            ready.wait()
            return int(box[0].result())

        with self.runtime(cpus=2):
            future = first()
            box.append(add(add(future)))
            ready.set()
            with self.assertRaisesRegex(ioweave.CycleError, r"through add#3, add#2"):
                future.result()

    def test_two_tasks_that_wait_for_each_other_are_told_so(self) -> None:
        futures: list[Any] = []
        ready = threading.Event()

        @ioweave.task
        def wait_for(other: int) -> None:
            ready.wait()
            futures[other].result()

        with self.runtime(cpus=2):
            futures += [wait_for(1), wait_for(0)]
            ready.set()
            errors = [future.exception() for future in futures]
        self.assertTrue(any(isinstance(error, ioweave.CycleError) for error in errors))

    def test_barrier_and_close_inside_a_task_are_refused(self) -> None:
        with self.runtime(cpus=1) as runtime:
            for function in (ioweave.barrier, runtime.close):
                with self.assertRaisesRegex(RuntimeError, "would wait for the task itself"):
                    ioweave.task(lambda call=function: call())().result()

    def test_futures_can_be_awaited(self) -> None:
        async def program() -> list[Any]:
            failed = fail("awaited")
            values = await asyncio.gather(*(add(n) for n in range(100)))
            with self.assertRaisesRegex(ValueError, "awaited"):
                await failed
            return [*values, await add(1, add(2))]

        with self.runtime(cpus=2):
            self.assertEqual(asyncio.run(program()), [*range(100), 3])

    def test_a_cancelled_await_leaves_the_task_alone(self) -> None:
        async def program(gate: Gate) -> None:
            async def wait() -> object:
                return await gate.future

            waiter = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            waiter.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiter

        with self.runtime(cpus=1), Gate() as gate:
            asyncio.run(program(gate))
            gate.open()  # its loop is closed
            self.assertEqual(gate.future.result(), "held")


class BackPressure(RuntimeTest):
    def submits(self, runtime: ioweave.Runtime, submit: Callable[[], None]) -> threading.Thread:
        """Submits on another thread, and returns when that thread is held up."""
        thread = threading.Thread(target=submit)
        thread.start()
        while not runtime._submitters:
            self.assertTrue(thread.is_alive(), "it was not held up")
        return thread

    def test_submitting_blocks_at_max_pending(self) -> None:
        with self.runtime(cpus=1, max_pending=10) as runtime, Gate() as gate:
            futures: list[Any] = []
            thread = self.submits(runtime, lambda: futures.extend(add(n) for n in range(30)))
            self.assertEqual(runtime.stats().pending, 10)
            gate.open()
            thread.join()
            self.assertEqual(ioweave.wait(futures), list(range(30)))

    def test_submitting_blocks_at_max_pending_bytes(self) -> None:
        size = ioweave.task(lambda data: len(data))
        with self.runtime(cpus=1, max_pending_bytes=1000) as runtime, Gate() as gate:
            futures: list[Any] = []
            thread = self.submits(
                runtime, lambda: futures.extend(size(bytes(300)) for _ in range(9))
            )
            self.assertEqual(runtime.stats().pending_bytes, 900)
            gate.open()
            thread.join()
            self.assertEqual(ioweave.wait(futures), [300] * 9)
            # One that is larger than the bound runs alone.
            self.assertEqual(size(bytes(2000)).result(), 2000)
            self.assertEqual(runtime.stats().pending_bytes, 0)

    def test_what_an_io_task_moves_is_not_what_it_holds(self) -> None:
        io = ioweave.io(bandwidth=10, device="slow", bytes=290_000_000)
        copy = io(lambda path, *_: None)
        devices = [ioweave.Device("slow", bandwidth=10)]
        bound = 10**12
        with self.runtime(cpus=1, max_pending_bytes=bound, devices=devices) as runtime:
            with Gate(io(pass_gate)) as gate:
                for number in range(3):
                    copy(str(number), bytes(100))
                self.assertEqual(runtime.stats().pending_bytes, 300)
                gate.open()
            ioweave.barrier()
            self.assertEqual(sum(flow.bytes for flow in runtime.stats().flows), 4 * 290_000_000)

    def test_a_buffer_that_many_hold_counts_once(self) -> None:
        size = ioweave.task(lambda needed, *data: len(data))
        block = bytearray(600)
        with (
            self.runtime(cpus=1, max_pending_bytes=10**6, arguments="share") as runtime,
            Gate() as gate,
        ):
            for _ in range(5):
                size(gate.future, block, [block])
            self.assertEqual(runtime.stats().pending_bytes, 600)
            gate.open()
        self.assertEqual(runtime.stats().pending_bytes, 0)

    def test_what_futures_bring_counts_once_it_is_there(self) -> None:
        @ioweave.task
        def make(number: int) -> list[bytes]:
            pass_gate(number)
            return [bytes(100), bytes(200)]

        size = ioweave.task(lambda needed, *data: len(data))
        save = ioweave.io(policy="none", bytes=1, name="save")(size.function)
        with self.runtime(cpus=2) as runtime, Gate() as gate, Gate(make) as made:
            for task in (size, save):
                task(gate.future, made.future, made.future)
            self.assertEqual(runtime.stats().pending_bytes, 0)
            made.open()
            until(lambda: runtime.stats().pending_bytes == 300)
            block = ioweave.task(lambda: bytearray(50))()
            block.result()
            size(gate.future, block)  # which was there before
            self.assertEqual(runtime.stats().pending_bytes, 350)
            gate.open()
        self.assertEqual((runtime.stats().pending_bytes, runtime._held), (0, {}))

    def test_a_task_that_submits_is_never_blocked(self) -> None:
        @ioweave.task
        def many() -> list[Any]:
            return [add(n) for n in range(50)]

        with self.runtime(cpus=1, max_pending=2):
            self.assertEqual(ioweave.wait(many().result()), list(range(50)))


class Lifetime(unittest.TestCase):
    def test_one_runtime_at_a_time_and_each_once(self) -> None:
        runtime = ioweave.Runtime(cpus=1)
        with runtime:
            with self.assertRaisesRegex(RuntimeError, "another Runtime is active"):
                ioweave.Runtime().start()
            self.assertEqual(add(1).result(), 1)
        self.assertEqual(add(1), 1)
        with self.assertRaisesRegex(RuntimeError, "used once"):
            runtime.start()

    def test_a_runtime_that_is_starting_counts_as_active(self) -> None:
        begun, go = threading.Event(), threading.Event()

        class Slow(ioweave.Runtime):
            def _open(self) -> None:
                begun.set()
                go.wait(60)
                super()._open()

        slow: Any = Slow()
        starting = threading.Thread(target=slow.start)
        starting.start()
        begun.wait(60)
        with contextlib.ExitStack() as ending:
            ending.callback(starting.join)
            ending.callback(go.set)
            with self.assertRaisesRegex(RuntimeError, "another Runtime is active"):
                ioweave.Runtime().start().close()
        self.assertEqual(add(1, 2).result(), 3)
        slow.close()

    def test_a_runtime_that_cannot_start_does_not_block_the_next(self) -> None:
        with self.assertRaises(OSError):
            ioweave.Runtime(run_file="/no/such/folder/file").start()
        with ioweave.Runtime():
            self.assertEqual(add(1, 2).result(), 3)

    def test_after_any_failure_at_the_end_the_next_runtime_can_begin(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        reports = ("_report_not_written", "_report_failures")
        for step in (*reports, "_close_down", "_close_recorder", "_save_learned"):
            runtime = ioweave.Runtime(cpus=1)
            wrong = mock.patch.object(runtime, step, side_effect=ValueError(step))
            with self.subTest(step), wrong, self.assertRaisesRegex(ValueError, step), runtime:
                raise KeyError("mine")
            self.assertIs(signal.getsignal(signal.SIGINT), before)
            with ioweave.Runtime(cpus=1):
                self.assertEqual(add(1).result(), 1)

    def test_start_and_close_work_without_a_block(self) -> None:
        runtime = ioweave.Runtime(cpus=1).start()
        future = add(1, 1)
        runtime.close()
        runtime.close()
        self.assertEqual(future.result(), 2)

    def test_the_end_leaves_no_thread(self) -> None:
        before = set(threading.enumerate())
        with ioweave.Runtime(cpus=4):
            ioweave.wait([add(n) for n in range(100)])
            ours = set(threading.enumerate()) - before
        self.assertTrue(ours)
        for thread in ours:
            thread.join(timeout=60)  # the last steps of threads that have left the pool
            self.assertFalse(thread.is_alive())

    def test_options_out_of_bounds_are_refused(self) -> None:
        for options, words in (
            ({"cpus": 0}, "cpus must be a whole number above 0, not 0"),
            ({"io_threads": "4"}, "io_threads"),
            ({"max_pending": 0}, "max_pending"),
            ({"max_pending_bytes": -1}, "max_pending_bytes"),
            ({"workers": "greenlets"}, "workers must be 'threads' or 'processes'"),
            ({"on_interrupt": "ignore"}, "on_interrupt must be 'drain' or 'cancel'"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, words):
                ioweave.Runtime(**options)
        for devices in (ioweave.Device("s"), "s", ["s"], {"s": ioweave.Device("s")}):
            with self.subTest(devices), self.assertRaisesRegex(TypeError, "must be a list of"):
                ioweave.Runtime(devices=devices)  # type: ignore[arg-type]

    @unittest.skipUnless(os.access("/dev/full", os.W_OK), "no /dev/full")
    def test_a_log_that_cannot_be_written_costs_neither_run_file_nor_failures(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        write = ioweave.io(lambda value: value)
        with (
            self.assertLogs("ioweave") as logged,
            self.assertRaisesRegex(ValueError, "mine"),
            ioweave.Runtime(
                log="/dev/full", run_file=folder / "run.jsonl", learned=folder / "learned.json"
            ),
        ):
            for i in range(2000):
                write(i)
            raise ValueError("mine")
        cut_off = [line for line in logged.output if "the log /dev/full is cut off" in line]
        self.assertEqual(len(cut_off), 1, logged.output)
        self.assertTrue((folder / "run.jsonl").exists())
        self.assertTrue((folder / "learned.json").exists())

    def test_files_that_cannot_be_written_in_the_end_are_refused_at_the_start(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        wrong: tuple[dict[str, Any], ...] = (
            {"learned": folder / "missing" / "learned.json"},
            {"run_file": folder},
            {"run_file": folder / "run.jsonl", "log": folder},
        )
        for options in wrong:
            with self.subTest(options), self.assertRaises(OSError):
                ioweave.Runtime(**options).start()
        self.assertEqual(list(folder.iterdir()), [])

    def test_what_was_learned_and_cannot_be_written_costs_no_task(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "learned.json"
            with ioweave.Runtime(cpus=1, learned=file):
                io_after()
            before = file.read_text()
            with (
                self.assertLogs("ioweave") as logged,
                mock.patch.object(_core, "write_learned", side_effect=OSError(28, "No space left")),
                ioweave.Runtime(cpus=1, learned=file),
            ):
                future = io_after()
            self.assertIsNone(future.result())
            self.assertEqual(file.read_text(), before)
        self.assertEqual(len(logged.output), 1)
        self.assertRegex(logged.output[0], "learned values are not saved in .*No space left")

    def test_pending_bytes_are_bounded_by_a_quarter_of_the_memory(self) -> None:
        (total,) = re.findall(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())
        self.assertEqual(ioweave.Runtime()._max_bytes, int(total) * 1024 // 4)

    def test_an_unknown_target_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "target 'spark://host:1' is not known"):
            ioweave.Runtime("spark://host:1")

    def test_a_registered_target_makes_the_runtime(self) -> None:
        class Fake(ioweave.Runtime):
            def submit(self, *_: Any) -> Any:
                return "submitted"

        targets.register("fake", lambda: Fake)
        self.addCleanup(targets._classes.pop, "fake")
        with ioweave.Runtime("fake://x", cpus=3) as runtime:
            self.assertEqual((type(runtime), runtime.stats().cpus), (Fake, 3))
            self.assertEqual(add(1), "submitted")

    def test_a_future_is_neither_true_nor_false(self) -> None:
        with ioweave.Runtime(cpus=1):
            future = add(0, 0)
            with self.assertRaisesRegex(
                TypeError, r"<Future of .* is neither true nor false .*ioweave\.wait\(future"
            ):
                bool(future)
            self.assertIs(bool(ioweave.wait(future)), False)

    def test_an_exception_that_cannot_be_described_fails_those_that_need_it(self) -> None:
        with ioweave.Runtime(cpus=1):
            failed = fail_silently()
            error = add(failed).exception(timeout=60)
            self.assertIsInstance(error, ioweave.DependencyFailed)
            self.assertIsInstance(failed.exception(), Silent)

    def test_a_future_cannot_be_pickled(self) -> None:
        import pickle

        with ioweave.Runtime(cpus=1), self.assertRaisesRegex(TypeError, "cannot be pickled"):
            pickle.dumps(add(1))


class Thing:
    """An object that asks the runtime something at its end."""

    lock: threading.Lock
    made = 0
    freed: list[bool]

    def __init__(self) -> None:
        Thing.made += 1

    def __del__(self) -> None:
        free = self.lock.acquire(timeout=10)
        if free:
            self.lock.release()
        self.freed.append(free)


@ioweave.task
def use(*_: object) -> Thing:
    return Thing()


@ioweave.task
def change(_: Annotated[Thing, ioweave.InOut]) -> Thing:
    return Thing()


@ioweave.io(policy="none")
def store(_: Thing) -> Thing:
    return Thing()


@ioweave.task
def lose(_: Thing) -> None:
    raise ValueError("lost")


class Ends(unittest.TestCase):
    def setUp(self) -> None:
        Thing.freed, Thing.made = [], 0

    def run_program(self, program: Callable[[], object]) -> None:
        with ioweave.Runtime(cpus=1) as runtime:
            Thing.lock = runtime._lock
            program()
            ioweave.barrier()
            add(1)  # what a thread has run it lets go of before it goes on
        del runtime
        gc.collect()
        self.assertEqual(Thing.freed, [True] * Thing.made)

    def test_arguments_and_values_end_while_the_lock_is_free(self) -> None:
        self.run_program(lambda: use(Thing()))

    def test_values_between_tasks_end_while_the_lock_is_free(self) -> None:
        self.run_program(lambda: store(use(store(use(Thing())))))

    def test_objects_that_tasks_change_end_while_the_lock_is_free(self) -> None:
        def program() -> None:
            thing = Thing()
            for _ in range(3):
                change(thing)
                use(thing)

        self.run_program(program)

    def test_cancelled_calls_end_while_the_lock_is_free(self) -> None:
        def program() -> None:
            with Gate():
                first = use(Thing())
                last = use(first, Thing())
                first.cancel()
                self.assertTrue(last.cancelled())

        self.run_program(program)

    def test_objects_of_a_failure_end_while_the_lock_is_free(self) -> None:
        def program() -> None:
            failed = lose(Thing())
            self.assertIsInstance(use(failed).exception(), ioweave.DependencyFailed)

        self.run_program(program)


class RandomRuns(unittest.TestCase):
    def test_nothing_leaks_over_random_failures(self) -> None:
        for seed in range(20):
            with self.subTest(seed=seed):
                self.run_one(random.Random(seed))

    def run_one(self, draw: random.Random) -> None:
        @ioweave.task(retries=1)
        def perhaps(chance: float, *_: object) -> int:
            if chance < 0.2:
                raise ValueError(str(chance))
            return 1

        @ioweave.task(cpus=2)
        def two(*_: object) -> int:
            return 2

        with ioweave.Runtime(cpus=3) as runtime:
            futures: list[ioweave.Future[int]] = [two()]
            for _ in range(200):
                needed = draw.sample(futures, min(len(futures), draw.randrange(3)))
                futures.append(
                    draw.choice((lambda n: two(*n), lambda n: perhaps(draw.random(), *n)))(needed)
                )
                if draw.random() < 0.1:
                    draw.choice(futures).cancel()
            for future in futures:
                with contextlib.suppress(ValueError, ioweave.CancelledError):
                    future.result()
            stats = runtime.stats()
            self.assertEqual((stats.pending, stats.pending_bytes), (0, 0))
            self.assertEqual(stats.succeeded + stats.failed + stats.cancelled, stats.submitted)
            while runtime.stats().cpus_free != 3:
                pass  # a thread gives its slots back after it has told the futures
            self.assertEqual((runtime._accesses._table, runtime._held), ({}, {}))


if __name__ == "__main__":
    unittest.main()
