"""The decorators, and what they refuse."""

from __future__ import annotations

import numbers
import pickle
import unittest
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import ioweave
from ioweave import arguments
from ioweave.constraints import constraint_of
from ioweave.options import Options


@ioweave.task
def twice(value: int, *, plus: int = 0) -> int:
    """Twice the value."""
    return 2 * value + plus


class PlainCalls(unittest.TestCase):
    def test_without_a_runtime_a_task_is_the_plain_call(self) -> None:
        self.assertEqual(twice(4, plus=1), 9)

    def test_without_a_runtime_wait_and_barrier_do_nothing(self) -> None:
        value = [1, {"a": 2}]
        self.assertIs(ioweave.wait(value), value)
        ioweave.barrier()

    def test_a_task_keeps_name_and_docstring_of_its_function(self) -> None:
        self.assertEqual((twice.__qualname__, twice.__doc__), ("twice", "Twice the value."))

    def test_a_task_is_pickled_by_name(self) -> None:
        self.assertIs(pickle.loads(pickle.dumps(twice)), twice)


class _Red:
    def __repr__(self) -> str:
        return "\x1b[31mred\n"


class _Whole:
    """A whole number as those of NumPy."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value

    def __float__(self) -> float:
        return float(self._value)


numbers.Real.register(_Whole)


def _number(value: Any) -> Any:
    """A number, for type checkers."""
    return value


class Decorators(unittest.TestCase):
    def test_io_above_task_takes_its_options(self) -> None:
        @ioweave.io(bandwidth=20)
        @ioweave.task(retries=2, timeout=5, name="save")
        def write(data: bytes) -> None: ...

        self.assertEqual((write.name, write.retries, write.timeout), ("save", 2, 5))
        self.assertEqual(write.cpus, 0)

    def test_options_out_of_bounds_name_task_and_option(self) -> None:
        for options, words in (
            ({"cpus": 0}, "task 'f': cpus must be a whole number from 1 on, not 0"),
            ({"cpus": 1.5}, "cpus"),
            ({"retries": -1}, "retries"),
            ({"returns": 0}, "returns"),
            ({"timeout": 0}, "timeout must be seconds above 0"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, words):
                ioweave.task(**options)(_named("f"))

    def test_names_cannot_control_a_terminal(self) -> None:
        for name in ("", "a\x1b[2J", "two\nlines", "\x9b2J", "right\u202eleft"):
            with self.subTest(name):
                for decorator in (ioweave.task, ioweave.io):
                    with self.assertRaisesRegex(ValueError, "name must be text that can be print"):
                        decorator(name=name)(len)
                for kind in (ioweave.Device, ioweave.Node):
                    with self.assertRaisesRegex(ValueError, "needs a name, a text that can be"):
                        kind(name)
        self.assertEqual(arguments.describe("f", (_Red(),), {}), "f(?[31mred?)")

    def test_texts_of_calls_are_short_and_name_files_in_full(self) -> None:
        for path in ("/scratch/projects/p1234/run-7/checkpoint-000042.bin", Path("/scratch" * 20)):
            text = arguments.describe("save", (bytes(1000), path), {"more": list(range(1000))})
            self.assertIn(f", {path!r}, more=[0, 1, 2, ...])", text)
        self.assertEqual(len(arguments.describe("f", (Path("/a" * 1000),), {})), 243)

    def test_texts_of_calls_survive_any_repr_of_arguments(self) -> None:
        def exits(_: object) -> str:
            raise SystemExit

        for name in ("array", "Block"):  # reprlib knows a type of that name
            named = type(name, (), {"__repr__": lambda _: "mine"})()
            silent = type(name, (), {"__repr__": exits})()
            text = arguments.describe("f", ([named], silent), {"more": {1: silent}})
            self.assertEqual(text, f"f([mine], <{name}>, more={{1: <{name}>}})")

    def test_io_on_a_task_of_several_cpus_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "takes no CPU slot: leave cpus=2 out"):
            ioweave.io(ioweave.task(cpus=2)(_named("f")))

    def test_a_task_of_a_task_is_refused_but_for_io_above_task(self) -> None:
        for inner in (ioweave.task(_named("f")), ioweave.io(bandwidth=3)(_named("f"))):
            with self.assertRaisesRegex(TypeError, "'f' is a task already: .*io above @ioweave.t"):
                ioweave.task(inner)
        with self.assertRaisesRegex(TypeError, "task 'f' is a task already"):
            ioweave.io(inner)

    def test_numbers_may_be_of_other_types_than_pythons_own(self) -> None:
        one, seven, half = _number(_Whole(1)), _number(_Whole(7)), _number(Fraction(1, 2))
        computing = ioweave.task(cpus=seven, retries=one, timeout=half)(_named("f"))
        self.assertEqual((computing.cpus, computing.retries, computing.timeout), (7, 1, 0.5))
        io = ioweave.io(bandwidth=half, bytes=seven)(_named("f"))
        self.assertEqual((io.constraint, io.bytes), (constraint_of(0.5, None), 7))
        told = ioweave.io(bytes=lambda _: seven)(_named("f"))
        self.assertEqual(told.bytes_of(("x",), {}), 7)
        points = _number(iter([[one, half], (seven, 450)]))
        device = ioweave.Device("d", bandwidth=half, max_in_flight=seven, curve=points)
        alike = ioweave.Device("d", bandwidth=0.5, max_in_flight=7, curve=[(1, 0.5), (7, 450)])
        self.assertEqual(repr(device), repr(alike))
        self.assertEqual(ioweave.Node("n", cores=seven).cores, 7)
        self.assertEqual(Options(cpus=seven).cpus, 7)

    def test_truth_values_are_no_numbers(self) -> None:
        wrong: list[dict[str, Any]] = [{"cpus": True}, {"retries": False}, {"timeout": True}]
        for options in wrong:
            with self.subTest(options), self.assertRaises(ValueError):
                ioweave.task(**options)(_named("f"))

    def test_coroutine_functions_and_generators_are_refused(self) -> None:
        async def coroutine() -> None: ...

        def generator() -> Any:
            yield 1

        for function in (coroutine, generator):
            with self.assertRaisesRegex(TypeError, "async or yield"):
                ioweave.task(function)

    def test_an_object_that_cannot_be_called_is_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "made from a function, not from 3"):
            ioweave.task(3)  # type: ignore[call-overload]

    def test_bytes_must_be_a_number_or_a_function(self) -> None:
        for wrong in ("4k", -1, 2**63, 2.0, True):
            with self.assertRaisesRegex(ValueError, f"0 to .*, or a function .*, not {wrong!r}"):
                ioweave.io(bytes=_number(wrong))(_named("f"))


class Constraints(unittest.TestCase):
    def test_texts_of_the_policy_core(self) -> None:
        for bandwidth, policy, text in (
            (20, None, "fixed:20"),
            ("20", None, "fixed:20"),
            (0.1, "fixed", "fixed:0.10000000000000001"),
            ("auto", None, "auto:225"),
            (None, "paper-unbounded", "auto:225"),
            ("auto(2,256,2)", None, "auto:2,256,2"),
            (" auto( 2, 256 ,1.5) ", "paper-bounded", "auto:2,256,1.5"),
            (None, "none", "none"),
            (None, "climb", "climb"),
            (None, None, "climb"),
        ):
            with self.subTest(bandwidth=bandwidth, policy=policy):
                self.assertEqual(constraint_of(bandwidth, policy).text(225), text)

    def test_impossible_constraints_are_refused_at_decoration(self) -> None:
        for options, words in (
            ({"bandwidth": "auto(2,256)"}, r"not understood: .*'auto\(2,256,2\)'"),
            ({"bandwidth": "auto(2,256,2"}, "not understood"),
            ({"bandwidth": "auto(a,b,c)"}, "not understood"),
            ({"bandwidth": "auto(1,inf,2)"}, "not understood"),
            ({"bandwidth": "fast"}, "not understood"),
            ({"bandwidth": True}, "not understood"),
            ({"bandwidth": "auto(256,2,2)"}, "min, 256 MB/s, is above max, 2 MB/s"),
            ({"bandwidth": "auto(0,2,2)"}, "min, 0 MB/s, must be above 0"),
            ({"bandwidth": "auto(2,256,1)"}, "delta, 1, .* must be above 1"),
            ({"bandwidth": -3}, "must be above 0 MB/s"),
            ({"bandwidth": "nan"}, "must be above 0 MB/s"),
            ({"policy": "climp"}, "'climp' is not known .did you mean 'climb'"),
            ({"policy": 3}, "policy 3 is not known"),
            ({"device": 3}, "device must be the name of a device"),
            ({"device": ioweave.Device("s")}, "device must be the name of a device"),
            ({"policy": "fixed"}, "needs a bandwidth in MB/s"),
            ({"policy": "paper-bounded"}, r"needs bandwidth='auto\(min,max,delta\)'"),
            ({"policy": "climb", "bandwidth": 20}, "contradicts bandwidth=20"),
            ({"policy": "paper-unbounded", "bandwidth": "auto(2,4,2)"}, "contradicts"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, f"task 'f': .*{words}"):
                ioweave.io(**options)(_named("f"))


class Directions(unittest.TestCase):
    def test_paths_are_files_and_the_rest_objects(self) -> None:
        @ioweave.task
        def mixed(
            a: Annotated[Path, ioweave.In],
            b: Annotated[str | Path | None, ioweave.Out],
            c: Annotated[list[Path], ioweave.InOut],
            d: Annotated[list[int], ioweave.InOut],
            e: Annotated[dict[str, Path], ioweave.In],
            f: int,
        ) -> None: ...

        self.assertEqual(mixed.files, {"a": ioweave.In, "b": ioweave.Out, "c": ioweave.InOut})
        self.assertEqual(mixed.objects, {"d": ioweave.InOut, "e": ioweave.In})

    def test_a_direction_that_cannot_be_evaluated_is_refused(self) -> None:
        def function(path: Annotated[Nowhere, ioweave.Out]) -> None: ...  # type: ignore[name-defined]  # noqa: F821

        with self.assertRaisesRegex(TypeError, "Nowhere.*of 'path' is not understood"):
            ioweave.task(function)

    def test_other_annotations_that_cannot_be_evaluated_are_ignored(self) -> None:
        def function(path: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

        self.assertEqual(ioweave.task(function).files, {})

    def test_two_directions_are_refused(self) -> None:
        def function(path: Annotated[Path, ioweave.In, ioweave.Out]) -> None: ...

        with self.assertRaisesRegex(TypeError, "'path' has two directions"):
            ioweave.task(function)


def _named(name: str) -> Any:
    def function(*args: Any) -> None: ...

    function.__name__ = name
    return function


if __name__ == "__main__":
    unittest.main()
