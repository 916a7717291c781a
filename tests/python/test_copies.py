"""What the program changes after a call, while the task has not read it yet."""

from __future__ import annotations

import array
import tempfile
import unittest
from typing import Annotated, Any

import ioweave
from runtimes import Gate, pass_gate

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


class Thing:
    numbers: list[int]


class Copies(unittest.TestCase):
    def test_containers_and_buffers_are_those_of_the_call(self) -> None:
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

    def test_a_change_of_what_a_copy_holds_is_an_error_too(self) -> None:
        for value in ([[1]], {0: {0: 1}}, ([1],), [bytearray(1)], [memoryview(bytearray(1))]):
            with (
                self.subTest(value),
                ioweave.Runtime(cpus=1),
                self.assertRaisesRegex(TypeError, "'inside' changed .*InOut|read-only memory"),
            ):
                inside(value).result()

    def test_a_change_is_found_where_a_new_object_has_the_place_of_an_old_one(self) -> None:
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

    def test_what_tasks_change_is_not_copied(self) -> None:
        numbers = [1]
        with ioweave.Runtime(cpus=1), Gate():
            append(numbers, 2)
            later = length(numbers)
        self.assertEqual((later.result(), numbers), (2, [1, 2]))

    def test_what_cannot_change_and_what_tasks_return_is_not_copied(self) -> None:
        fixed = (b"ab", ("a", 1))
        with ioweave.Runtime(cpus=1):
            self.assertIs(itself(fixed).result(), fixed)
            made = itself([1])
            self.assertIs(itself(made).result(), made.result())

    def test_the_task_decides_before_the_runtime(self) -> None:
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


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Arrays(unittest.TestCase):
    def test_an_array_is_that_of_the_call(self) -> None:
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
                part = mapped[2:]
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
