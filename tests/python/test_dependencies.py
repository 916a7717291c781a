"""The order of tasks, from futures, files and objects."""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import random
import sys
import tempfile
import types
import unittest
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import in_flight
import ioweave
from ioweave import graph
from runtimes import Gate, RuntimeTest, pass_gate, until


@ioweave.task
def add(*values: int) -> int:
    return sum(values)


@ioweave.task
def total(nested: Any) -> int:
    return _sum(nested)


def _sum(value: Any) -> int:
    if isinstance(value, int):
        return value
    if dataclasses.is_dataclass(value):
        return sum(_sum(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, dict):
        return _sum(list(value.keys())) + _sum(list(value.values()))
    return sum(map(_sum, value))


@dataclasses.dataclass(frozen=True)
class Pair:
    left: Any
    right: Any


Point = collections.namedtuple("Point", "x y")


class Batch(list[Any]):
    def __init__(self, *items: Any) -> None:
        super().__init__(items)
        self.label = "a batch"


class Row(tuple[Any, ...]):
    pass


@dataclasses.dataclass
class Record(dict[str, Any]):
    field: Any

    def clear(self) -> None:
        raise TypeError("its keys are those that it has")


CONTAINERS: list[Callable[[Any], Any]] = [  # that hold a value
    lambda one: collections.OrderedDict(b=2, a=one),
    lambda one: collections.defaultdict(list, a=[one]),
    lambda one: collections.deque([2, one], maxlen=2),
    lambda one: collections.Counter(a=one),
    lambda one: collections.ChainMap({"a": one}, {"b": 2}),
    lambda one: collections.UserDict({"a": one}),
    lambda one: collections.UserList([one]),
    lambda one: types.SimpleNamespace(a=one),
    lambda one: types.MappingProxyType({"a": one}),
    lambda one: {one: 2}.keys(),
    lambda one: {2: one}.values(),
    lambda one: {one: 2, 3: [one]}.items(),
    lambda one: Batch(one, [one]),
    lambda one: Row((one, 2)),
    lambda one: Record(one),
    lambda one: Point(one, Pair(one, 2)),
    lambda one: functools.partial(print, one, 2, sep=[one]),
]


@ioweave.task
def shown(value: Any) -> str:
    return f"{type(value).__name__} {value!r} {getattr(value, 'label', None)}"


@ioweave.task
def append(target: Annotated[list[int], ioweave.InOut], value: int) -> None:
    target.append(value)


@ioweave.task
def spoil(target: Annotated[list[int], ioweave.InOut]) -> None:
    raise ValueError("no")


@ioweave.task
def length(target: list[int]) -> int:
    return len(target)


@ioweave.task
def joined(part: Any, *, more: Any = b"") -> Any:
    if isinstance(part, int):
        return part
    parts = [*part["a"], *more] if isinstance(part, dict) else [part, more]
    return b"".join(parts)


@ioweave.io
def measured(block: bytes) -> int:
    return len(block)


@ioweave.task
def make_list(*values: int) -> list[int]:
    return list(values)


@ioweave.task
def write(path: Annotated[Path, ioweave.Out], text: str) -> None:
    path.write_text(text)


@ioweave.task(retries=1)
def write_half(path: Annotated[Path, ioweave.Out]) -> None:
    path.write_text("half")
    raise OSError("disk full")


@ioweave.task
def append_file(path: Annotated[Path, ioweave.InOut], text: str) -> None:
    path.write_text(path.read_text() + text)


@ioweave.task
def read(path: Annotated[Path, ioweave.In]) -> str:
    return path.read_text()


@ioweave.task
def slow_write(path: Annotated[Path, ioweave.Out], gate: int) -> None:
    pass_gate(gate)


@ioweave.task
def slow_read(path: Annotated[Path, ioweave.In], gate: int) -> str:
    pass_gate(gate)
    return path.read_text()


@ioweave.task
def slow_append(target: Annotated[list[int], ioweave.InOut], value: int, gate: int) -> None:
    pass_gate(gate)
    target.append(value)


@ioweave.io(policy="none")
def io_length(target: list[int]) -> int:
    return len(target)


@ioweave.task
def slow_length(target: list[int], gate: int) -> int:
    pass_gate(gate)
    return len(target)


class Futures(RuntimeTest):
    def test_futures_are_found_at_any_depth_and_replaced(self) -> None:
        with self.runtime(cpus=2):
            one, two, three = add(1), add(2), add(3)
            value = [one, (two, {3: [three]}), {one}, Pair(one, Point(two, 4))]
            self.assertEqual(total(value).result(), 1 + 2 + 3 + 3 + 1 + 1 + 2 + 4)

    def test_an_argument_without_futures_is_passed_as_it_is(self) -> None:
        box = [[1, 2], {"a": (3,)}]

        @ioweave.task
        def same(value: object, _: object) -> bool:
            return value is box

        with self.runtime(cpus=1, arguments="share"):
            self.assertTrue(same(box, add(1)).result())

    def test_futures_are_found_in_containers_whose_subclasses_keep_their_type(
        self,
    ) -> None:
        with self.runtime(cpus=2):
            for made in CONTAINERS:
                with self.subTest(made(1)):
                    self.assertEqual(shown(made(add(1))).result(), shown.function(made(1)))
                    self.assertEqual(repr(ioweave.wait(made(add(1)))), repr(made(1)))

    def test_a_container_used_twice_stays_one(self) -> None:
        @ioweave.task
        def one_object(pair: list[object]) -> bool:
            return pair[0] is pair[1]

        with self.runtime(cpus=1):
            inner = [add(1)]
            self.assertTrue(one_object([inner, inner]).result())

    def test_a_container_that_contains_itself_and_futures_is_refused(self) -> None:
        with self.runtime(cpus=1):
            loop: list[Any] = [add(1)]
            loop.append(loop)
            with self.assertRaisesRegex(ValueError, "contains itself and futures"):
                total(loop)

    def test_keyword_arguments_count_too(self) -> None:
        @ioweave.task
        def keyword(*, value: int) -> int:
            return value

        with self.runtime(cpus=1):
            self.assertEqual(keyword(value=add(2, 3)).result(), 5)

    def test_several_values_give_several_futures(self) -> None:
        @ioweave.task(returns=2)
        def split(value: int) -> tuple[int, int]:
            return value // 10, value % 10

        with self.runtime(cpus=1):
            tens, ones = split(42)
            self.assertEqual(add(tens, ones).result(), 6)

    def test_a_wrong_number_of_values_is_a_failure(self) -> None:
        @ioweave.task(returns=2)
        def three() -> tuple[int, ...]:
            return 1, 2, 3

        with self.runtime(cpus=1):
            first, _ = three()
            with self.assertRaisesRegex(TypeError, "returns=2, but its value is tuple with 3"):
                first.result()

    def test_a_long_chain_needs_no_deep_stack(self) -> None:
        with self.runtime(cpus=2):
            value = add(0)
            for _ in range(self.LONG):
                value = add(value, 1)
            self.assertEqual(value.result(), self.LONG)

    def test_wait_replaces_futures_in_nested_values(self) -> None:
        with self.runtime(cpus=2):
            value = {"a": [add(1), add(2)], "b": Pair(add(3), Point(add(4), 5))}
            self.assertEqual(ioweave.wait(value), {"a": [1, 2], "b": Pair(3, Point(4, 5))})

    def test_wait_without_futures_is_the_value_itself(self) -> None:
        value = [1, {"a": (2,)}]
        with self.runtime(cpus=1):
            self.assertIs(ioweave.wait(value), value)


class FuturesHere(unittest.TestCase):
    def test_replacing_futures_leaves_what_copies_share_unchanged(self) -> None:
        class Both(dict[str, Any]):
            inverse: dict[Any, str]

            def clear(self) -> None:
                super().clear()
                self.inverse.clear()

        class Only(list[Any]):
            def __copy__(self) -> Only:
                return self

        both, only = Both(), Only()
        with ioweave.Runtime(cpus=1):
            both["a"] = only_one = add(1)
            both.inverse = {1: "a"}
            self.assertEqual(ioweave.wait(both), {"a": 1})
            only.append(only_one)
            error = shown(only).exception()
            self.assertRegex(str(error), "type Only holds futures, which cannot be replaced")
        self.assertEqual((both.inverse, len(both), len(only)), ({1: "a"}, 1, 1))

    def test_iterators_arrays_of_objects_and_other_objects_are_not_looked_into(self) -> None:
        itself = ioweave.task(lambda value: value)
        holder: Any = type("Holder", (), {})()
        with ioweave.Runtime(cpus=2):
            future = holder.future = add(1)
            self.assertIs(itself(holder).result().future, future)
            self.assertIs(next(itself(iter([future])).result()), future)
            if find_spec("numpy"):
                import numpy as np

                self.assertIs(itself(np.array([future], dtype=object)).result()[0], future)


class Files(RuntimeTest):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "file"

    def test_read_after_write_and_write_after_read(self) -> None:
        with self.runtime(cpus=4):
            texts = []
            for step in range(50):
                write(self.path, str(step))
                texts += [read(self.path), read(self.path)]
                append_file(self.path, "+")
                texts.append(read(self.path))
            got = ioweave.wait(texts)
        self.assertEqual(got, [t for s in range(50) for t in (str(s), str(s), f"{s}+")])

    def test_two_spellings_of_a_path_are_one_file(self) -> None:
        with self.runtime(cpus=4):
            write(self.path, "a")
            other = self.path.parent / "x" / ".." / self.path.name
            self.path.parent.joinpath("x").mkdir()
            self.assertEqual(read(other).result(), "a")

    def test_a_relative_path_is_that_of_the_call(self) -> None:
        self.addCleanup(os.chdir, Path.cwd())
        os.chdir(self.path.parent)
        with (
            self.runtime(cpus=2),
            Gate(lambda number: slow_write(Path("file"), number)) as gate,
        ):
            os.chdir("/")
            text = read(self.path)
            self.assertEqual(add(1).result(), 1)  # a free thread has looked at the queue
            self.assertFalse(text.done())
            self.path.write_text("there")
            gate.open()
            self.assertEqual(text.result(), "there")

    def test_a_link_is_another_file_than_what_it_leads_to(self) -> None:
        link = self.path.with_name("link")
        link.symlink_to(self.path)
        self.path.write_text("old")
        with self.runtime(cpus=2), Gate(lambda number: slow_write(link, number)):
            self.assertEqual(read(self.path).result(timeout=60), "old")

    def test_a_file_stays_as_a_failed_run_left_it(self) -> None:
        with self.runtime(cpus=1):
            self.assertIsInstance(write_half(self.path).exception(), OSError)
        self.assertEqual(self.path.read_text(), "half")

    def test_a_path_that_is_a_future_is_refused(self) -> None:
        with self.runtime(cpus=1), self.assertRaisesRegex(TypeError, "'path' names a file"):
            read(add(1))

    def test_a_reader_of_a_file_that_a_failed_task_should_write_is_not_run(self) -> None:
        @ioweave.task
        def fail(path: Annotated[Path, ioweave.Out]) -> None:
            raise OSError("disk full")

        with self.runtime(cpus=2):
            failed = fail(self.path)
            early = read(self.path)
            until(failed.done)
            for reader in (early, read(self.path)):
                with self.assertRaises(ioweave.DependencyFailed):
                    reader.result()
            write(self.path, "anew")
            self.assertEqual(read(self.path).result(), "anew")

    def test_after_the_program_was_told_a_reader_gets_the_file_as_it_is(self) -> None:
        with self.runtime(cpus=2):
            write(self.path, "ab")
            self.assertIsInstance(append_file(self.path, 3).exception(), TypeError)
            self.assertEqual(read(self.path).result(), "ab")
            append_file(self.path, "c")
            self.assertEqual(read(self.path).result(), "abc")

    def test_wait_for_a_path_waits_for_its_writer(self) -> None:
        with self.runtime(cpus=2):
            write(self.path, "a")
            append_file(self.path, "b")
            self.assertEqual(ioweave.wait(self.path).read_text(), "ab")

    def test_wait_for_the_text_of_a_path_or_for_several_waits_for_the_writers(self) -> None:
        for paths in (str(self.path), [str(self.path)], (self.path, "no file")):
            with (
                self.subTest(paths),
                self.runtime(cpus=2),
                Gate(lambda number: slow_write(self.path, number)) as gate,
            ):
                gate.open_when(lambda: bool(gate.future._call.latches))
                self.assertEqual(ioweave.wait(paths), paths)
                self.assertTrue(gate.future.done())

    def test_a_writer_follows_the_readers_before_a_writer_that_was_cancelled(self) -> None:
        self.path.write_text("old")
        with self.runtime(cpus=2), Gate(lambda number: slow_read(self.path, number)) as gate:
            self.assertTrue(append_file(self.path, "cancelled").cancel())
            writer = write(self.path, "new")
            self.assertEqual(add(1).result(), 1)  # a free thread has looked at the queue
            self.assertFalse(writer.done())
            gate.open()
            self.assertEqual(gate.future.result(), "old")
        self.assertEqual(self.path.read_text(), "new")


class FilesHere(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "file")

    def test_wait_for_texts_takes_no_lock_unless_a_task_uses_such_a_file(self) -> None:
        texts = [f"line {number}" for number in range(1000)]
        with ioweave.Runtime(cpus=1) as runtime:
            with mock.patch.object(graph, "file_key") as file_key:
                self.assertEqual(ioweave.wait(texts), texts)
                file_key.assert_not_called()
            write(self.path, "there").result()
            seen: list[bool] = []

            def key(text: str) -> str:
                seen.append(runtime._lock.locked())
                return text

            with mock.patch.object(graph, "file_key", key):
                self.assertEqual(ioweave.wait(texts), texts)
            self.assertEqual(seen, [False] * len(texts))

    def test_wait_for_a_text_in_a_folder_that_is_gone_is_the_text(self) -> None:
        self.addCleanup(os.chdir, Path.cwd())
        gone = self.path.with_name("gone")
        gone.mkdir()
        with ioweave.Runtime(cpus=1):
            write(self.path, "there")
            os.chdir(gone)
            gone.rmdir()
            self.assertEqual(ioweave.wait("text"), "text")


class Objects(RuntimeTest):
    def test_later_tasks_see_what_was_written_to_an_object(self) -> None:
        with self.runtime(cpus=4):
            numbers: list[int] = []
            lengths = []
            for value in range(100):
                append(numbers, value)
                lengths.append(length(numbers))
            self.assertEqual(ioweave.wait(lengths), list(range(1, 101)))
            self.assertEqual(ioweave.wait(numbers), list(range(100)))

    def test_a_future_can_be_changed_too(self) -> None:
        with self.runtime(cpus=4):
            numbers = make_list(1, 2)
            for value in range(50):
                append(numbers, value)
            last = length(numbers)
            self.assertEqual(len(ioweave.wait(numbers)), 52)
            self.assertEqual(last.result(), 52)

    def test_readers_submitted_before_the_first_writer_are_waited_for(self) -> None:
        numbers = [1]
        with (
            self.runtime(cpus=2, arguments="share"),
            Gate(lambda number: slow_length(numbers, number)) as gate,
        ):
            append(numbers, 2)
            self.assertEqual(add(1).result(), 1)
            self.assertEqual(numbers, [1])
            gate.open()
            self.assertEqual(gate.future.result(), 1)
            self.assertEqual(ioweave.wait(numbers), [1, 2])

    def test_a_reader_follows_the_first_writer_that_came_while_it_was_submitted(self) -> None:
        numbers, gates = [1], []
        with ioweave.Runtime(cpus=1, arguments="share") as runtime:
            ask = runtime._ask_flow

            def write_meanwhile(call: Any) -> None:
                gates.append(Gate(lambda number: slow_append(numbers, 2, number)))
                ask(call)

            with mock.patch.object(runtime, "_ask_flow", write_meanwhile):
                length = io_length(numbers)
            with gates[0]:
                self.assertEqual(io_length([]).result(), 0)
                self.assertFalse(length.done())
            self.assertEqual(length.result(), 2)

    def test_a_value_that_cannot_change_is_refused(self) -> None:
        with self.runtime(cpus=1), self.assertRaisesRegex(TypeError, "int cannot change in pla"):
            append(3, 4)

    def test_a_failed_writer_spoils_the_object_until_the_program_is_told(self) -> None:
        def ask(waiter: Callable[[], object]) -> None:
            with self.assertRaisesRegex(ValueError, "no"):
                waiter()

        for told in (ioweave.barrier, None, "wait"):
            with self.subTest(told), self.runtime(cpus=1):
                numbers = [1]
                append(numbers, 2)
                failed = spoil(numbers)
                until(failed.done)
                late = length(numbers)
                until(late.done)
                if told is None:
                    self.assertIsInstance(failed.exception(), ValueError)
                elif told == "wait":
                    ask(lambda: ioweave.wait(numbers))  # noqa: B023
                else:
                    ask(ioweave.barrier)
                self.assertIsInstance(late.exception(), ioweave.DependencyFailed)
                append(numbers, 3)
                self.assertEqual(length(numbers).result(), 3)
                self.assertEqual(ioweave.wait(numbers), [1, 2, 3])

    def test_the_program_is_told_by_a_count_by_one_that_was_not_run_and_by_its_own_cancel(
        self,
    ) -> None:
        with self.runtime(cpus=1):
            first, second, third = [1], [1], [1]
            failed = [spoil([]), spoil(first)]
            until(lambda: all(future.done() for future in failed))
            with self.assertRaises(ValueError) as caught:
                ioweave.barrier()
            self.assertIn("and 1 more tasks failed", getattr(caught.exception, "__notes__", ()))
            append(first, 2)

            spoil(second)
            self.assertIsInstance(length(second).exception(), ioweave.DependencyFailed)
            append(second, 2)

            with Gate():
                self.assertTrue(append(third, 1).cancel())
                append(third, 2)
            self.assertEqual(ioweave.wait([first, second, third]), [[1, 2]] * 3)

    def test_a_failed_writer_leaves_the_object_as_the_last_one_made_it(self) -> None:
        numbers = [1]
        with self.assertRaisesRegex(ValueError, "no"), self.runtime(cpus=1):
            append(numbers, 2)
            spoil(numbers)
            append(numbers, 3)
        self.assertEqual(numbers, [1, 2])

    def test_a_cancelled_writer_leaves_the_object_to_later_ones(self) -> None:
        numbers = [1]
        with self.runtime(cpus=1), Gate():
            self.assertTrue(append(numbers, 2).cancel())
            append(numbers, 3)
        self.assertEqual(numbers, [1, 3])


class Requests(RuntimeTest):
    """Tasks that need transfers of ioweave.File."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "file"
        path.write_bytes(bytes(range(100)))
        self.file = ioweave.open(path)
        self.addCleanup(self.file.close)

    def test_requests_are_replaced_by_what_they_read(self) -> None:
        with self.runtime(cpus=2):
            single = joined(self.file.apread(2, 5))
            nested = joined({"a": [self.file.apread(1, 9)]}, more=(b"x", self.file.apread(1, 8)))
            same = self.file.apread(3, 0)
            both = joined(same, more=same)
            written = measured(self.file.apread(50, 0))
            self.assertEqual(single.result(), b"\5\6")
            self.assertEqual(nested.result(), b"\x09x\x08")
            self.assertEqual(both.result(), b"\0\1\2\0\1\2")
            self.assertEqual(written.result(), 50)
            self.assertEqual(ioweave.wait([self.file.apread(1, 4)]), [b"\4"])
        self.assertEqual(ioweave.wait([self.file.apread(1, 4)]), [b"\4"])


class RequestsHere(unittest.TestCase):
    def test_a_task_waits_for_a_request_and_holds_up_no_other(self) -> None:
        gate = in_flight.Gate(self)
        with ioweave.Runtime(cpus=1) as runtime:
            waiting = joined(gate.read(bytearray(4)), more=b"x")
            after = total(waiting)
            self.assertEqual(add(1, 2).result(), 3)
            self.assertEqual((waiting.done(), runtime.stats().pending), (False, 2))
            gate.open(b"abcd")
            self.assertEqual((waiting.result(), after.result()), (4, 4))

    def test_a_failed_request_fails_the_tasks_that_need_it_and_is_raised(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            path.touch()
            with ioweave.open(path) as read_only:
                with (
                    self.assertRaisesRegex(OSError, "Bad file descriptor"),
                    ioweave.Runtime(cpus=1),
                ):
                    failed = joined(read_only.apwrite(b"x", 0))
                with self.assertRaisesRegex(ioweave.DependencyFailed, r"it needs transfer#\d+, "):
                    failed.result()
                with ioweave.Runtime(cpus=1):
                    error = joined(read_only.apwrite(b"x", 0)).exception()
                self.assertIsInstance(error and error.__cause__, OSError)

    def test_bytes_that_exit_hold_up_no_request(self) -> None:
        write = ioweave.io(bytes=lambda _: sys.exit("no idea"))(joined.function)
        with ioweave.Runtime(cpus=1):
            futures = []
            for task in (write, joined):
                gate = in_flight.Gate(self)
                futures.append(task(gate.read(bytearray(4))))
                gate.open(b"abcd")
            self.assertRaises(SystemExit, futures[0].result, 60)
            self.assertEqual(futures[1].result(60), 4)

    def test_a_runtime_ends_while_a_request_that_nobody_needs_any_more_goes_on(self) -> None:
        gate = in_flight.Gate(self)
        request = gate.read(bytearray(4))
        with ioweave.Runtime(cpus=1):
            self.assertTrue(joined(request).cancel())
        self.assertFalse(request.done())
        gate.open(b"abcd")
        self.assertEqual(request.result(60), 4)


class RandomGraphs(RuntimeTest):
    """Random programs give the same with any number of threads as line by line."""

    def run_program(self, seed: int, folder: Path) -> list[Any]:
        draw = random.Random(seed)
        paths = [folder / str(n) for n in range(3)]
        for path in paths:
            path.write_text("0")
        lists: list[list[int]] = [[], []]
        made: list[Any] = [add(1)]
        for step in range(120):
            kind = draw.randrange(7)
            path, numbers = draw.choice(paths), draw.choice(lists)
            if kind == 0:
                write(path, str(step))
            elif kind == 1:
                append_file(path, f",{step}")
            elif kind == 2:
                made.append(read(path))
            elif kind == 3:
                append(numbers, step)
            elif kind == 4:
                made.append(length(numbers))
            elif kind == 5:
                made.append(combine(draw.sample(made, min(3, len(made))), step))
            else:
                made.append(combine({"k": [draw.choice(made)], "n": (numbers,)}, step))
        ioweave.barrier()
        return [ioweave.wait(made), ioweave.wait(lists), [path.read_text() for path in paths]]

    def test_random_graphs_give_the_sequential_result(self) -> None:
        for seed in range(2 * self.SEEDS):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as name:
                expected = self.run_program(seed, Path(name))
                with self.runtime(cpus=1 + seed % 5):
                    self.assertEqual(self.run_program(seed, Path(name)), expected)


@ioweave.task
def combine(value: Any, salt: int) -> int:
    return hash((repr(value), salt)) % 1000003


if __name__ == "__main__":
    unittest.main()
