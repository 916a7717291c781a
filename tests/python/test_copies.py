"""Arguments that the program changes after a call, before the task has read them."""

from __future__ import annotations

import array
import collections
import ctypes
import dataclasses
import functools
import mmap
import sys
import tempfile
import threading
import unittest
from multiprocessing import shared_memory
from typing import Annotated, Any, NamedTuple
from unittest import mock

import ioweave
from ioweave import copies
from runtimes import Gate, pass_gate, until

try:
    import numpy as np
except ModuleNotFoundError:
    HAS_NUMPY = False
else:
    HAS_NUMPY = True


@ioweave.task
def shown(value: Any, gate: int) -> Any:
    pass_gate(gate)
    return value


@ioweave.task
def change(value: Any) -> None:
    value[0] = 7


@ioweave.task
def append(target: Annotated[list[int], ioweave.InOut], value: int) -> None:
    target.append(value)


@ioweave.task
def length(target: list[int]) -> int:
    return len(target)


@ioweave.task
def itself(value: Any) -> Any:
    return value


@ioweave.task
def inside(value: Any) -> None:
    value[0][0] = 7


@ioweave.task
def add(value: int) -> int:
    return value + 1


class Thing:
    numbers: list[int]


class Rows(list[Any]):
    """A list whose copies share `cleared`."""

    cleared: list[int]

    def clear(self) -> None:
        super().clear()
        self.cleared.append(1)


@dataclasses.dataclass
class Plain:
    rows: list[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    rows: list[int]


@dataclasses.dataclass
class Single:
    rows: list[Any]

    def __copy__(self) -> Single:
        return self


@dataclasses.dataclass
class Local:
    rows: list[int]

    def __reduce__(self) -> Any:
        raise TypeError("it stays here")


class Named(NamedTuple):
    rows: list[int]


class Odd(Exception):
    def __str__(self) -> str:
        raise AttributeError("code")


class Copies(unittest.TestCase):
    def test_a_task_gets_containers_and_buffers_as_they_were_at_the_call(self) -> None:
        data = bytearray(b"ab")
        values: list[Any] = [[1], {"a": [1]}, bytearray(b"ab"), array.array("d", [1]), ([1],)]
        wanted = [[1], {"a": [1]}, bytearray(b"ab"), array.array("d", [1]), ([1],), b"ab"]
        with ioweave.Runtime(cpus=1), Gate(lambda n: shown([*values, memoryview(data)], n)) as gate:
            values[0].append(2)
            values[1]["a"].append(2)
            values[2][0] = values[3][0] = data[0] = 9
            values[4][0].append(2)
            gate.open()
            self.assertEqual(gate.future.result(), wanted)

    def test_a_copy_that_a_task_changes_is_an_error(self) -> None:
        with ioweave.Runtime(cpus=1):
            for value in ([1], bytearray(1), array.array("d", [1]), {0: 1}):
                with self.assertRaisesRegex(TypeError, "'change' changed .*InOut.*'share'"):
                    change(value).result()
        numbers = [1]
        with ioweave.Runtime(cpus=1, arguments="share"):
            change(numbers)
        self.assertEqual(numbers, [7])

    def test_a_change_inside_a_copy_is_an_error_too(self) -> None:
        for value in ([[1]], {0: {0: 1}}, ([1],), [bytearray(1)], [memoryview(bytearray(1))]):
            with (
                self.subTest(value),
                ioweave.Runtime(cpus=1),
                self.assertRaisesRegex(TypeError, "'inside' changed .*InOut|read-only memory"),
            ):
                inside(value).result()

    def test_a_change_is_found_when_a_new_object_reuses_an_old_id(self) -> None:
        @ioweave.task
        def replace(values: list[float], gate: int) -> None:
            pass_gate(gate)
            values.pop()  # nobody else has it
            values.append(float("2.5"))

        values = [float("1.5")]
        with ioweave.Runtime(cpus=1), Gate(lambda number: replace(values, number)) as gate:
            values.clear()
            gate.open()
            with self.assertRaisesRegex(TypeError, "'replace' changed an argument of type list"):
                gate.future.result()

    def test_objects_of_other_classes_are_not_copied(self) -> None:
        thing = Thing()
        thing.numbers = [1]
        with ioweave.Runtime(cpus=1):
            self.assertIs(itself(thing).result(), thing)
            self.assertIs(itself([thing]).result()[0], thing)

    def test_objects_with_their_own_copy_methods_are_not_copied(self) -> None:
        rows = Rows([[1]])
        rows.cleared = []
        made: list[Any] = [rows, Single([1]), Local([1])]
        with ioweave.Runtime(cpus=1):
            for value in made:
                self.assertIs(itself(value).result(), value)
        self.assertEqual((rows, rows.cleared), ([[1]], []))
        self.assertEqual([value.rows for value in made[1:]], [[1], [1]])

    def test_pythons_containers_and_plain_records_are_copied(self) -> None:
        ordered = collections.OrderedDict({1: [1]})
        counted, default = collections.Counter("aab"), collections.defaultdict(list, {1: [1]})
        last = collections.deque([[1]], maxlen=3)
        made = (Plain([1]), Fixed([1]), Named([1]), {1}, ordered, counted, default, last)
        with ioweave.Runtime(cpus=1):
            for value in made:
                copied = itself(value).result()
                self.assertIsNot(copied, value)
                self.assertEqual((type(copied), copied), (type(value), value))
            for value in made[:3]:
                self.assertIsNot(itself(value).result().rows, value.rows)
            self.assertEqual(itself(last).result().maxlen, 3)
            self.assertIs(itself(default).result().default_factory, list)

    def test_an_exception_without_a_text_ends_the_task(self) -> None:
        def fail(_: list[int]) -> None:
            raise Odd

        for task in (ioweave.task(fail), ioweave.io(fail)):
            with ioweave.Runtime(cpus=1):
                self.assertIs(type(task([1]).exception(timeout=60)), Odd)

    def test_a_task_that_changed_a_copy_is_not_run_again(self) -> None:
        sent: list[int] = []

        @ioweave.io(retries=2)
        def send(rows: list[int]) -> None:
            while rows:
                row = rows.pop(0)
                if row == 2:
                    raise OSError("for a moment")
                sent.append(row)

        with ioweave.Runtime(cpus=1) as runtime:
            error = send([1, 2, 3]).exception()
            self.assertRegex(str(error), "'send' changed an argument of type list")
            self.assertIsInstance(getattr(error, "__context__", None), OSError)
            self.assertEqual((sent, runtime.stats().retried), ([1], 0))

    def test_copies_stay_guarded_after_a_run_that_timed_out(self) -> None:
        late = threading.Event()
        self.addCleanup(late.set)
        threads: list[threading.Thread] = []

        @ioweave.task(timeout=0.5, retries=1)
        def second(value: Any) -> None:
            threads.append(threading.current_thread())
            if len(threads) == 1:
                late.wait()
                return
            late.set()
            until(lambda: not threads[0].is_alive())
            value[0] = 7

        values: list[Any] = [[1], bytearray(1)]
        if HAS_NUMPY:
            values.append(np.zeros(1))
        for value in values:
            threads.clear()
            late.clear()
            with self.subTest(value), self.assertLogs("ioweave"), ioweave.Runtime(cpus=1):
                error = second(value).exception()
                self.assertRegex(str(error), "'second' changed an argument|read-only")

    def test_the_next_run_finds_what_a_run_that_timed_out_changed(self) -> None:
        changed = threading.Event()
        runs: list[int] = []

        @ioweave.task(timeout=0.3, retries=1)
        def clear(rows: list[int]) -> int:
            runs.append(len(rows))
            rows.clear()
            changed.wait()
            return len(runs)

        self.addCleanup(changed.set)
        with self.assertLogs("ioweave"), ioweave.Runtime(cpus=1):
            self.assertRegex(str(clear([1]).exception()), "'clear' changed an argument")
        self.assertEqual(runs, [1])

    def test_a_change_of_a_copy_with_futures_is_an_error_too(self) -> None:
        def clear(values: Any) -> None:
            values.clear()

        for task in (ioweave.task(clear), ioweave.io(clear)):
            for value in ([add(1)], [1], {0: [1]}):
                with ioweave.Runtime(cpus=1):
                    numbers = [add(1), [add(2)], value]
                    error = task(numbers).exception()
                    self.assertRegex(str(error), "'clear' changed an argument of type list")

    def test_memoryviews_keep_their_format_and_shape(self) -> None:
        memory = array.array("d", range(6))
        view_of: Any = memoryview  # NumPy's stubs do not say that arrays are buffers
        views: list[Any] = [
            memoryview(memory),
            memoryview(memory).cast("B").cast("d", (2, 3)),
            memoryview((ctypes.c_double * 2)(1, 2)),
            memoryview((ctypes.c_long * 2)(1, 2)),
            memoryview(ctypes.create_string_buffer(b"ab")),
            memoryview(array.array("d")),
            memoryview(bytearray()),
        ]
        if HAS_NUMPY:
            for kind in (">f8", "complex", "longdouble", [("a", "i4")], "bool"):
                views.append(view_of(np.ones((2, 3), dtype=kind)))
            views += [view_of(np.zeros((0, 3))), view_of(np.zeros(()))]
        with ioweave.Runtime(cpus=1):
            for view in views:
                with self.subTest(view.format, shape=view.shape):
                    copied = itself(view).result()
                    self.assertEqual(copied.tobytes(), view.tobytes())
                    self.assertEqual((copied.shape, copied.itemsize), (view.shape, view.itemsize))
                    self.assertEqual(copied.format.lstrip("<"), view.format.lstrip("<"))
                    self.assertTrue(copied.readonly)

    def test_a_memoryview_of_unknown_format_becomes_one_of_bytes(self) -> None:
        class Point(ctypes.Structure):
            _fields_ = (("x", ctypes.c_int),)

        with ioweave.Runtime(cpus=1), mock.patch.dict(sys.modules):
            sys.modules.pop("numpy", None)
            copied = itself(memoryview((Point * 2)())).result()
        self.assertEqual((copied.tobytes(), copied.readonly), (bytes(8), True))

    def test_objects_that_tasks_change_are_not_copied(self) -> None:
        numbers = [1]
        with ioweave.Runtime(cpus=1), Gate():
            append(numbers, 2)
            later = length(numbers)
        self.assertEqual((later.result(), numbers), (2, [1, 2]))

    def test_immutable_objects_and_values_of_tasks_are_not_copied(self) -> None:
        fixed = (b"ab", ("a", 1))
        with ioweave.Runtime(cpus=1):
            self.assertIs(itself(fixed).result(), fixed)
            made = itself([1])
            self.assertIs(itself(made).result(), made.result())

    def test_the_option_of_a_task_overrides_that_of_the_runtime(self) -> None:
        same = ioweave.task(arguments="share")(itself.function)
        numbers = [1]
        with ioweave.Runtime(cpus=1):
            self.assertIs(same(numbers).result(), numbers)
            self.assertIsNot(itself(numbers).result(), numbers)
        with self.assertRaisesRegex(ValueError, "arguments must be 'snapshot'"):
            ioweave.io(arguments="copy")(itself.function)

    def test_copies_count_for_back_pressure(self) -> None:
        block = bytearray(1000)
        with ioweave.Runtime(cpus=1) as runtime, Gate() as gate:
            for _ in range(3):
                itself(block)
            self.assertEqual(runtime.stats().pending_bytes, 3000)
            gate.open()

    def test_copies_of_containers_count_for_back_pressure(self) -> None:
        table = dict.fromkeys(range(1000))
        with ioweave.Runtime(cpus=1) as runtime, Gate() as gate:
            for _ in range(3):
                itself(table)
            self.assertGreaterEqual(runtime.stats().pending_bytes, 3 * sys.getsizeof(table))
            gate.open()
            ioweave.barrier()
            self.assertEqual(runtime.stats().pending_bytes, 0)


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Arrays(unittest.TestCase):
    def test_a_task_gets_an_array_as_it_was_at_the_call(self) -> None:
        block = np.zeros(3)
        with ioweave.Runtime(cpus=1), Gate(lambda number: shown(block[1:], number)) as gate:
            block += 1
            gate.open()
            self.assertEqual(gate.future.result().tolist(), [0, 0])
            gate.future.result()[0] = 1  # it is the program's now

    def test_a_task_that_writes_into_its_copy_gets_an_error(self) -> None:
        with ioweave.Runtime(cpus=1), self.assertRaisesRegex(ValueError, "read-only") as caught:
            change(np.zeros(3)).result()
        self.assertIn("arguments='share'", "".join(getattr(caught.exception, "__notes__", ())))

    def test_a_frozen_array_is_read_only_until_the_last_task_has_ended(self) -> None:
        block = np.zeros(3)
        part = block[1:]
        with ioweave.Runtime(cpus=2, arguments="freeze"):
            with Gate(lambda number: shown(block, number)) as first:
                with Gate(lambda number: shown(part, number)) as second:
                    second.open()
                    self.assertEqual(second.future.result().tolist(), [0, 0])
                for written in (block, part):
                    with self.assertRaisesRegex(ValueError, "read-only"):
                        written += 1
                first.open()
                first.future.result()
            block += 1
            part += 1
        self.assertEqual(block.tolist(), [1, 2, 2])

    def test_a_frozen_array_is_read_only_until_every_call_that_got_it_is_done(self) -> None:
        frozen = ioweave.task(arguments="freeze")(shown.function)
        block = np.zeros(3)
        with ioweave.Runtime(cpus=2), Gate(lambda number: frozen(block, number)) as first:
            with Gate(lambda number: frozen(block, number)) as second:
                first.open()
                first.future.result()
                with self.assertRaisesRegex(ValueError, "read-only"):
                    block += 1
                second.open()
                second.future.result()
            block += 1

    def test_an_array_that_is_frozen_for_another_call_is_copied(self) -> None:
        frozen = ioweave.task(arguments="freeze")(shown.function)
        block: Any = np.zeros(3)
        with ioweave.Runtime(cpus=2), Gate(lambda number: frozen(block, number)) as first:
            for given in (block, block[1:], memoryview(block)):
                with Gate(functools.partial(shown, given)) as second:
                    second.open()
                    self.assertFalse(np.shares_memory(second.future.result(), block))
            first.open()

    def test_an_array_that_a_task_passes_on_is_copied_again(self) -> None:
        children: list[Any] = []

        @ioweave.task
        def parent(block: Any, gate: int) -> Any:
            children.append(shown(block, gate))
            return block

        with ioweave.Runtime(cpus=2), Gate(lambda number: parent(np.zeros(2), number)) as gate:
            mine = gate.future.result()
            mine += 1
            gate.open()
            self.assertEqual(children[0].result().tolist(), [0, 0])

    def test_an_array_that_could_not_be_thawed_is_copied(self) -> None:
        class Owner:
            def __init__(self) -> None:
                self.memory = (ctypes.c_double * 3)()
                self.__array_interface__ = {
                    "shape": (3,),
                    "typestr": "<f8",
                    "data": (ctypes.addressof(self.memory), False),
                    "version": 3,
                }

        whole = np.zeros(3)
        part = whole[1:]
        whole.flags.writeable = False  # then NumPy lets no part become writable
        with ioweave.Runtime(cpus=1, arguments="freeze"):
            for block in (np.asarray(Owner()), part):
                self.assertFalse(np.shares_memory(itself(block).result(), block))
                block += 1
            for block in (np.frombuffer(bytearray(8)), np.frombuffer(array.array("d", [0]))):
                self.assertIs(itself(block).result(), block)
                block += 1

    def test_a_call_that_is_refused_freezes_nothing(self) -> None:
        block = np.zeros(3)
        runtime = ioweave.Runtime(arguments="freeze").start()
        runtime.close()
        with self.assertRaisesRegex(RuntimeError, "after the Runtime was closed"):
            runtime.submit(itself, (block,), {})
        block += 1

    def test_thawing_takes_as_many_steps_as_the_call_has_arrays(self) -> None:
        frozen, whole = copies.Frozen(), np.zeros(100)
        calls = [frozen.freeze([whole[n : n + 1]]) for n in range(100)]
        step = copies.Frozen._thaw_array
        with mock.patch.object(
            copies.Frozen, "_thaw_array", autospec=True, side_effect=step
        ) as thaw:
            for call in calls:
                frozen.thaw(call)
            self.assertLessEqual(thaw.call_count, 3 * len(calls))
        self.assertEqual((frozen._arrays, whole.flags.writeable), ({}, True))

    def test_parts_become_writable_with_the_whole(self) -> None:
        frozen, whole = copies.Frozen(), np.zeros(4)
        part = whole[1:]
        first, second, third = (frozen.freeze([one]) for one in (part, whole, part))
        frozen.thaw(first)
        frozen.thaw(third)
        self.assertFalse(part.flags.writeable)
        frozen.thaw(frozen.freeze([part]))
        frozen.thaw(second)
        self.assertTrue(part.flags.writeable and whole.flags.writeable)
        self.assertEqual(frozen._arrays, {})

    def test_a_returned_part_of_a_copy_is_writable_for_the_program(self) -> None:
        @ioweave.task
        def inner(block: Any) -> Any:
            return block[1:-1]

        @ioweave.task(returns=2)
        def halves(block: Any) -> Any:
            return block[:2], block[2:]

        @ioweave.task
        def step(block: Annotated[Any, ioweave.InOut]) -> None:
            block += 1

        for how in ("snapshot", "freeze"):
            with ioweave.Runtime(cpus=1, arguments=how):
                block = np.zeros(4)
                part = inner(block)
                step(part)
                self.assertEqual(ioweave.wait(part).tolist(), [1, 1])
                for half in halves(np.zeros(4)):
                    half.result()[0] = 1

    def test_copies_keep_the_order_of_the_memory(self) -> None:
        block = np.asfortranarray(np.zeros((2, 3)))
        with ioweave.Runtime(cpus=1):
            self.assertTrue(itself(block).result().flags.f_contiguous)
            self.assertEqual(itself(block.T).result().strides, block.T.strides)

    def test_memory_that_is_shown_many_times_is_copied_once(self) -> None:
        block = np.arange(1000.0)
        windows = np.lib.stride_tricks.sliding_window_view(block, 100)
        shown_often = [
            (np.broadcast_to(block, (100, 1000)), 8000),
            (windows, 8000),
            (windows[::3], 8000),
            (np.broadcast_to(block[::2], (100, 500)), 8000),
            (np.broadcast_to(np.float64(3), (1000,)), 8),
        ]
        for view, most in shown_often:
            with ioweave.Runtime(cpus=1) as runtime, Gate(functools.partial(shown, view)) as gate:
                self.assertLessEqual(runtime.stats().pending_bytes, most)
                wanted = view.tolist()
                block += 1
                gate.open()
                self.assertEqual(gate.future.result().tolist(), wanted)

    def test_anonymous_memory_is_copied_and_shared_memory_is_not(self) -> None:
        anonymous = np.frombuffer(mmap.mmap(-1, 4096), dtype=np.uint8)
        shared = shared_memory.SharedMemory(create=True, size=4096)
        self.addCleanup(shared.unlink)
        memory: Any = shared.buf
        block = np.frombuffer(memory, dtype=np.uint8)
        with ioweave.Runtime(cpus=1):
            self.assertFalse(np.shares_memory(itself(anonymous).result(), anonymous))
            self.assertIs(itself(block).result(), block)
        del block, memory
        shared.close()

    def test_an_array_that_cannot_change_is_not_copied(self) -> None:
        fixed = np.zeros(3)
        fixed.flags.writeable = False
        with ioweave.Runtime(cpus=1):
            self.assertIs(itself(fixed).result(), fixed)
            whole = np.frombuffer(b"ab", dtype=np.uint8)
            self.assertIs(itself(whole).result(), whole)

    def test_views_made_before_a_freeze_stay_writable_and_the_rest_is_copied(self) -> None:
        block, numbers = np.zeros(3), [1]
        view = block[1:]
        with (
            ioweave.Runtime(cpus=1, arguments="freeze"),
            Gate(lambda number: shown((block, numbers), number)) as gate,
        ):
            view += 1
            numbers.append(2)
            with self.assertRaisesRegex(ValueError, "read-only"):
                block += 1
            gate.open()
            array_of_task, list_of_task = gate.future.result()
        self.assertIs(array_of_task, block)
        self.assertEqual((block.tolist(), list_of_task), ([0, 1, 1], [1]))

    def test_arrays_in_mapped_files_are_not_copied(self) -> None:
        with tempfile.TemporaryFile() as file:
            mapped = np.memmap(file, dtype=np.uint8, shape=(10,))
            with ioweave.Runtime(cpus=1):
                self.assertIs(itself(mapped).result(), mapped)
                for part in (mapped[2:], np.lib.stride_tricks.sliding_window_view(mapped, 3)):
                    self.assertIs(itself(part).result(), part)

    def test_what_is_inside_an_array_of_objects_is_not_copied(self) -> None:
        inside = [1]
        block = np.empty(1, dtype=object)
        block[0] = inside
        with ioweave.Runtime(cpus=1):
            copied = itself(block).result()
        self.assertIsNot(copied, block)
        self.assertIs(copied[0], inside)


if __name__ == "__main__":
    unittest.main()
