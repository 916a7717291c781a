"""Plans and pre-execution: reads return what the file holds, whatever was planned."""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import gc
import os
import random
import sys
import tempfile
import threading
import time
import unittest
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ioweave
import numpy as np
from ioweave._plan import AnyFile

PAGE = 4096


class Plans(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.data = random.Random(1).randbytes(64 * PAGE)
        self.path = self.folder / "file"
        self.make_file(self.path, self.data)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        self.addCleanup(os.close, self.fd)

    def make_file(self, path: Path, data: bytes) -> None:
        """A file that was not just changed: such a one is not read ahead yet."""
        path.write_bytes(data)
        os.utime(path, (10**9, 10**9))
        time.sleep(0.025)  # the change of the times is a change, too

    def plan(self, **options: Any) -> ioweave.Plan:
        plan = ioweave.Plan(**options)
        self.addCleanup(plan.close)
        return plan

    def wait_ahead(self, plan: ioweave.Plan, nbytes: int) -> None:
        """Waits until so many bytes need not be waited for any more."""
        ready = 0
        for _ in range(20_000):
            stats = plan.stats()
            ready = stats.ahead_bytes + stats.cached_bytes
            if ready >= nbytes:
                return
            time.sleep(0.001)
        self.fail(f"{ready} bytes were read ahead or cached, not {nbytes}")

    def page(self, number: int) -> bytes:
        return self.data[number * PAGE : (number + 1) * PAGE]

    def descriptors_of(self, path: Path) -> int:
        """Returns how many this process has open on a file."""
        found = 0
        for link in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
                found += link.readlink() == path
        return found


class Contents(Plans):
    def test_what_was_planned_is_copied(self) -> None:
        plan = self.plan()
        places = random.Random(2).sample(range(64), 64)
        for place in places:
            plan.add(self.fd, place * PAGE, PAGE)
        self.wait_ahead(plan, len(self.data))
        for place in places:
            self.assertEqual(plan.read(self.fd, place * PAGE, PAGE), self.page(place))
        stats = plan.stats()
        self.assertEqual((stats.planned_reads, stats.hit_bytes), (64, len(self.data)))
        self.assertEqual((stats.hit_bytes, stats.own_bytes), (len(self.data), 0))
        self.assertEqual((stats.unplanned_reads, stats.unread_bytes), (0, 0))

    def test_files_of_every_kind_are_one_file(self) -> None:
        plan = self.plan()
        file = ioweave.open(self.path)
        with file, self.path.open("rb") as buffered, self.path.open("rb", 0) as raw:
            kinds: tuple[AnyFile, ...] = (file, self.fd, buffered, raw)
            for i, kind in enumerate(kinds):
                plan.add(kind, i * PAGE, PAGE)
            self.wait_ahead(plan, len(kinds) * PAGE)
            for i, kind in enumerate(reversed(kinds)):
                self.assertEqual(plan.read(kind, i * PAGE, PAGE), self.page(i))
        self.assertEqual(plan.stats().hit_bytes, 4 * PAGE)

    def test_buffers_and_arrays_are_filled(self) -> None:
        plan = self.plan()
        plan.add_sequential(self.fd, 4 * PAGE)
        array = np.empty((2, 2 * PAGE), np.uint8)
        self.assertEqual(plan.read_into(self.fd, 0, array), 4 * PAGE)
        self.assertEqual(array.tobytes(), self.data[: 4 * PAGE])
        self.assertEqual(plan.read_into(self.fd, 5, array[1]), 2 * PAGE)
        self.assertEqual(array[1].tobytes(), self.data[5 : 5 + 2 * PAGE])
        buffer = bytearray(100)
        self.assertEqual(plan.read_into(self.fd, np.int64(7), buffer), 100)
        self.assertEqual(buffer, self.data[7:107])

    def test_the_end_of_the_file_cuts_reads(self) -> None:
        plan = self.plan()
        plan.add_sequential(self.fd, 3 * PAGE)  # 64 is no multiple of 3
        end = len(self.data)
        self.assertEqual(plan.stats().planned_reads, 22)
        self.assertEqual(plan.read(self.fd, end - 10, PAGE), self.data[-10:])
        self.assertEqual(plan.read(self.fd, end, PAGE), b"")
        self.assertEqual(plan.read_into(self.fd, end - 3, bytearray(10)), 3)
        self.assertEqual(plan.read(self.fd, 5, 0), b"")

    def test_strides_are_planned_in_one_line(self) -> None:
        plan = self.plan()
        plan.add_strided(self.fd, 0, 100, stride=2 * PAGE, count=32)
        plan.add_strided(self.fd, 63 * PAGE, 100, stride=-2 * PAGE, count=32)
        plan.add_sequential(self.fd, PAGE, offset=PAGE, end=3 * PAGE)
        plan.add_sequential(self.fd, PAGE, offset=len(self.data))  # nothing
        places = [*range(0, 64, 2), *range(63, 0, -2), 1, 2]
        for place in places:
            self.assertEqual(
                plan.read(self.fd, place * PAGE, 100), self.data[place * PAGE : place * PAGE + 100]
            )
        stats = plan.stats()
        self.assertEqual((stats.planned_reads, stats.unplanned_reads), (66, 0))

    def test_a_plan_that_is_all_wrong_reads_no_more_than_its_budget(self) -> None:
        plan = self.plan(budget_bytes=64 << 10)
        plan.add_strided(self.fd, 0, PAGE, stride=PAGE, count=32)
        plan.add_from((self.fd, place % 32 * PAGE, PAGE) for place in range(1000))
        for _ in range(4):
            for place in range(32, 64):
                self.assertEqual(plan.read(self.fd, place * PAGE, PAGE), self.page(place))
        stats = plan.stats()
        self.assertEqual((stats.hit_bytes, stats.unplanned_reads), (0, 128))
        self.assertLessEqual(stats.ahead_bytes, 2 * 64 << 10)

    def test_a_schedule_without_reads_ahead_reads_all_the_same(self) -> None:
        for schedule in ("normal", "pp", "ppis", "weighted", "auto"):
            with self.subTest(schedule), self.plan(schedule=schedule, depth=2) as plan:
                plan.add_sequential(self.fd, PAGE)
                got = [plan.read(self.fd, place * PAGE, PAGE) for place in range(64)]
                self.assertEqual(b"".join(got), self.data)
                stats = plan.stats()
                self.assertEqual(stats.schedule, "ppis" if schedule == "auto" else stats.schedule)
                self.assertEqual(stats.depth, 2)
                if schedule == "normal":
                    self.assertEqual(stats.ahead_bytes, 0)


class Changes(Plans):
    #: What is no larger is left to the page cache, which knows of changes by itself.
    BLOCK = 17 * PAGE

    def setUp(self) -> None:
        super().setUp()
        self.data = random.Random(3).randbytes(16 * self.BLOCK)
        self.make_file(self.path, self.data)

    def block(self, number: int) -> bytes:
        return self.data[number * self.BLOCK : (number + 1) * self.BLOCK]

    def test_own_writes_are_seen_and_spare_the_rest(self) -> None:
        plan = self.plan(sole_writer=True)
        plan.add_sequential(self.fd, self.BLOCK)
        self.wait_ahead(plan, len(self.data))
        self.assertEqual(plan.write(self.fd, 10 * self.BLOCK + 5, np.full(3, 7, np.uint8)), 3)
        changed = bytearray(self.block(10))
        changed[5:8] = b"\7\7\7"
        for place in range(16):
            got = plan.read(self.fd, place * self.BLOCK, self.BLOCK)
            self.assertEqual(got, changed if place == 10 else self.block(place))
        stats = plan.stats()
        # It may be read between drop and write.
        self.assertIn(stats.stale_bytes, (self.BLOCK, 2 * self.BLOCK))
        self.assertGreaterEqual(stats.hit_bytes, 15 * self.BLOCK)

    def test_what_others_write_is_seen(self) -> None:
        plan = self.plan()
        plan.add(self.fd, 0, self.BLOCK)
        self.wait_ahead(plan, self.BLOCK)
        self.path.write_bytes(b"other")
        self.assertEqual(plan.read(self.fd, 0, self.BLOCK), b"other")
        self.assertEqual(plan.stats().stale_bytes, self.BLOCK)

    def test_invalidated_bytes_are_read_anew(self) -> None:
        plan = self.plan()
        plan.add_sequential(self.fd, self.BLOCK, end=2 * self.BLOCK)
        self.wait_ahead(plan, 2 * self.BLOCK)
        plan.invalidate(self.fd, self.BLOCK)
        self.wait_ahead(plan, 3 * self.BLOCK)  # it is planned still
        self.assertEqual(plan.read(self.fd, 0, 2 * self.BLOCK), self.data[: 2 * self.BLOCK])
        self.assertEqual(plan.stats().stale_bytes, self.BLOCK)


class RandomPlans(Plans):
    def test_random_plans_reads_and_writes_agree_with_the_file(self) -> None:
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", file=sys.stderr)
        for schedule in ("auto", "pp", "ppis", "weighted"):
            with self.subTest(schedule, seed=seed):
                self.check_random(random.Random(f"{seed} {schedule}"), schedule)

    def check_random(self, numbers: random.Random, schedule: Any) -> None:
        plan = self.plan(schedule=schedule, budget_bytes=128 << 10, slice_bytes=8 << 10)
        model = bytearray(os.pread(self.fd, 1 << 20, 0))
        planned: list[tuple[int, int]] = []

        def span() -> tuple[int, int]:
            most = 60_000 if numbers.randrange(4) == 0 else 5000
            return numbers.randrange(len(model) + PAGE), numbers.randrange(1, most)

        def some(spans: list[tuple[int, int]]) -> Iterator[tuple[AnyFile, int, int]]:
            yield from ((self.fd, at, nbytes) for at, nbytes in spans)

        for _ in range(600):
            at, nbytes = span()
            choice = numbers.randrange(12)
            if choice < 3:
                plan.add(self.fd, at, nbytes)
                planned.append((at, nbytes))
            elif choice == 3:
                spans = [span() for _ in range(numbers.randrange(40))]
                plan.add_from(some(spans))
                planned += spans
            elif choice == 4:
                at = min(at, len(model) - 1)
                data = numbers.randbytes(min(nbytes, len(model) - at, 3000))
                if numbers.randrange(4) == 0:
                    os.pwrite(self.fd, data, at)
                else:
                    plan.write(self.fd, at, data)
                model[at : at + len(data)] = data
            elif choice == 5:
                if numbers.randrange(10) == 0:
                    plan.forget(self.fd)
                else:
                    plan.invalidate(self.fd, at, numbers.choice([0, nbytes]))
            else:
                if planned and choice > 6:
                    at, nbytes = planned.pop(0 if choice > 7 else numbers.randrange(len(planned)))
                wanted = bytes(model[at : at + nbytes])
                if numbers.randrange(2) == 0:
                    self.assertEqual(plan.read(self.fd, at, nbytes), wanted)
                else:
                    buffer = bytearray(nbytes)
                    got = plan.read_into(self.fd, at, buffer)
                    self.assertEqual(buffer[:got], wanted)


class Files(Plans):
    def test_files_may_be_closed_once_they_are_planned(self) -> None:
        plan = self.plan()
        file = ioweave.open(self.path)
        plan.add_sequential(file, PAGE)
        file.close()
        opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]  # takes its number
        for fd in opened:
            self.addCleanup(os.close, fd)
        self.wait_ahead(plan, len(self.data))
        for place in range(64):
            self.assertEqual(plan.read(self.fd, place * PAGE, PAGE), self.page(place))
        self.assertEqual(plan.stats().hit_bytes, len(self.data))

    def test_a_plan_lets_go_of_its_files(self) -> None:
        plan = self.plan()
        self.assertEqual(self.descriptors_of(self.path), 1)
        with self.path.open("rb") as file:
            plan.add(self.fd, 0, PAGE)
            plan.add(file, PAGE, PAGE)
            plan.add(file, 2 * PAGE, PAGE)
        both = self.descriptors_of(self.path)
        self.assertEqual(both, 3)  # one to read and write, one to read
        plan.forget(self.fd)
        self.assertEqual(self.descriptors_of(self.path), 1)
        self.assertEqual(plan.read(self.fd, 0, PAGE), self.page(0))
        plan.add(self.fd, 0, PAGE)
        self.assertEqual(self.descriptors_of(self.path), 2)
        plan.close()
        self.assertEqual(self.descriptors_of(self.path), 1)

    def test_files_of_which_an_iterable_has_named_reads_are_kept(self) -> None:
        for before in range(20):
            plan = self.plan(budget_bytes=64 << 10)
            plan.add_from((self.fd, place % 64 * PAGE, PAGE) for place in range(200))
            for place in range(200):
                if place == before:
                    plan.forget(self.fd)
                self.assertEqual(plan.read(self.fd, place % 64 * PAGE, PAGE), self.page(place % 64))
            self.assertEqual(plan.stats().failed_slices, 0)
            plan.forget(self.fd)
            self.assertEqual(self.descriptors_of(self.path), 1)

    def test_an_iterable_may_close_each_file_behind_its_read(self) -> None:
        paths = [self.folder / str(i) for i in range(100)]
        for i, path in enumerate(paths):
            path.write_bytes(bytes([i]) * 1000)
        time.sleep(0.025)

        def reads() -> Iterator[tuple[AnyFile, int, int]]:
            for path in paths:
                with ioweave.open(path) as file:
                    yield file, 0, 1000

        plan = self.plan()
        plan.add_from(reads())
        for i, path in enumerate(paths):
            with path.open("rb") as file:
                self.assertEqual(plan.read(file, 0, 1000), bytes([i]) * 1000)
        stats = plan.stats()
        self.assertEqual((stats.unplanned_reads, stats.failed_slices), (0, 0))

    def test_what_is_no_regular_file_is_refused(self) -> None:
        plan = self.plan()
        said = "'/dev/null' is no regular file"
        with Path("/dev/null").open("rb") as null, self.assertRaisesRegex(ValueError, said):
            plan.add(null, 0, 1)
        ends = os.pipe()
        for end in ends:
            self.addCleanup(os.close, end)
        with self.assertRaisesRegex(ValueError, f"^{ends[0]} is no regular file$"):
            plan.add(ends[0], 0, 1)
        with self.assertRaisesRegex(ValueError, "is no regular file"):
            plan.add_from([(ends[0], 0, 1)])

    def test_errors_name_the_file(self) -> None:
        plan = self.plan()
        closed = ioweave.open(self.path)
        closed.close()
        for call in (plan.add, plan.read, plan.invalidate):
            with self.assertRaisesRegex(ValueError, f"'{self.path}' is closed"):
                call(closed, 0, 1)
        with self.assertRaises(OSError) as bad:
            plan.add(987_654, 0, 1)
        self.assertEqual((bad.exception.errno, bad.exception.filename), (errno.EBADF, 987_654))
        for wrong in (-1, "name", None, 1.5):
            with self.assertRaises((TypeError, ValueError)):
                plan.read(wrong, 0, 1)  # type: ignore[arg-type]
        with self.path.open("wb") as writable:
            plan.add(writable, 0, 1)
            with self.assertRaises(OSError) as unreadable:
                plan.read(writable, 0, 1)
        self.assertEqual(unreadable.exception.errno, errno.EBADF)
        self.assertEqual(unreadable.exception.filename, str(self.path))
        with self.path.open("rb") as readable, self.assertRaises(OSError) as read_only:
            plan.write(readable, 0, b"x")
        self.assertEqual(read_only.exception.filename, str(self.path))

    def test_too_many_files_are_an_error_with_a_way_out(self) -> None:
        import resource

        plan = self.plan()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        highest = max(int(link.name) for link in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
        filled = []
        try:
            while True:
                filled.append(os.dup(0))
        except OSError:
            pass
        try:
            with self.assertRaisesRegex(OSError, r"until forget\(\) or close\(\)") as failed:
                plan.add(self.fd, 0, 1)
        finally:
            for fd in filled:
                os.close(fd)
        self.assertEqual(failed.exception.errno, errno.EMFILE)
        plan.add(self.fd, 0, 1)


class Iterables(Plans):
    def test_an_iterable_is_asked_as_late_as_possible(self) -> None:
        asked = 0

        def reads() -> Iterator[tuple[AnyFile, int, int]]:
            nonlocal asked
            for asked in range(5000):
                yield self.fd, asked % 64 * PAGE, PAGE
            asked = -1

        plan = self.plan(budget_bytes=64 << 10)
        plan.add_from(reads())
        self.assertLess(asked, 200)
        for i in range(5000):
            self.assertEqual(plan.read(self.fd, i % 64 * PAGE, PAGE), self.page(i % 64))
        self.assertEqual(asked, -1)
        stats = plan.stats()
        self.assertEqual((stats.planned_reads, stats.unplanned_reads), (5000, 0))

    def test_an_iterable_is_not_asked_where_nothing_is_read_ahead(self) -> None:
        def reads() -> Iterator[tuple[AnyFile, int, int]]:
            self.fail("it was asked")
            yield self.fd, 0, 1

        plan = self.plan(schedule="normal")
        plan.add_from(reads())
        self.assertEqual(plan.read(self.fd, 0, PAGE), self.page(0))

    def test_several_come_one_after_the_other(self) -> None:
        plan = self.plan()
        plan.add_from([(self.fd, 0, 10), (self.fd, 10, 10)])
        plan.add(self.fd, 20, 10)
        plan.add_from(iter([(self.fd, 30, np.int64(10))]))
        plan.add_from(())
        for at in range(0, 40, 10):
            self.assertEqual(plan.read(self.fd, at, 10), self.data[at : at + 10])
        self.assertEqual(plan.stats().unplanned_reads, 0)

    def test_an_exception_reaches_the_program_once(self) -> None:
        def reads() -> Iterator[tuple[AnyFile, int, int]]:
            for place in range(100):
                yield self.fd, place % 64 * PAGE, PAGE
            raise LookupError("no more")

        plan = self.plan(budget_bytes=64 << 10)
        plan.add_from(reads())
        raised = 0
        for place in range(120):
            try:
                got = plan.read(self.fd, place % 64 * PAGE, PAGE)
            except LookupError as error:
                self.assertEqual(str(error), "no more")
                raised += 1
                got = plan.read(self.fd, place % 64 * PAGE, PAGE)
            self.assertEqual(got, self.page(place % 64))
        self.assertEqual(raised, 1)
        self.assertEqual(plan.stats().planned_reads, 100)

    def test_an_exception_at_once_is_raised_by_the_call_that_adds(self) -> None:
        plan = self.plan()
        for wrong, said in (
            ((self.fd, -1, 5), "offset must be 0 or more, not -1"),
            ((self.fd, 0, 0), "nbytes must be 1 or more, not 0"),
            ((self.fd, 2**63 - 5, 4), ""),
            ((self.fd, 2**63 - 5, 5), r"offset \+ nbytes must be below"),
        ):
            with self.subTest(wrong):
                if said:
                    with self.assertRaisesRegex(ValueError, said):
                        plan.add_from([wrong])
                else:
                    plan.add_from([wrong])
        with self.assertRaisesRegex(ValueError, "unpack"):
            plan.add_from([(self.fd, 0)])  # type: ignore[list-item]
        with self.assertRaisesRegex(TypeError, "not iterable"):
            plan.add_from(5)  # type: ignore[arg-type]

    def test_two_that_raise_in_one_call_are_both_told(self) -> None:
        def fail(what: str) -> Iterator[tuple[AnyFile, int, int]]:
            yield from ()
            raise LookupError(what)

        unraisable: list[str] = []
        hook = sys.unraisablehook
        self.addCleanup(setattr, sys, "unraisablehook", hook)
        sys.unraisablehook = lambda args: unraisable.append(str(args.exc_value))

        def many() -> Iterator[tuple[AnyFile, int, int]]:
            yield from ((self.fd, place % 64 * PAGE, PAGE) for place in range(100))
            raise LookupError("first")

        plan = self.plan(budget_bytes=64 << 10)
        plan.add_from(many())
        plan.add_from(fail("second"))
        raised: list[str] = []
        for place in range(100):
            try:
                plan.read(self.fd, place % 64 * PAGE, PAGE)
            except LookupError as error:
                raised.append(str(error))
        self.assertEqual(raised + unraisable, ["first", "second"])

    def test_a_signal_inside_an_iterable_ends_the_call(self) -> None:
        def reads() -> Iterator[tuple[AnyFile, int, int]]:
            yield self.fd, 0, PAGE
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.plan().add_from(reads())

    def test_an_iterable_may_not_call_the_plan(self) -> None:
        calls: tuple[Callable[[ioweave.Plan], object], ...] = (
            lambda plan: plan.read(self.fd, 0, 1),
            lambda plan: plan.add(self.fd, 0, 1),
            lambda plan: plan.forget(self.fd),
            lambda plan: plan.stats(),
            lambda plan: plan.close(),
        )
        for call in calls:

            def reads(plan: ioweave.Plan, call: Callable[[Any], object] = call) -> Iterator[Any]:
                call(plan)
                yield self.fd, 0, 1

            plan = self.plan()
            with self.assertRaisesRegex(RuntimeError, "by an iterator of its own"):
                plan.add_from(reads(plan))
            self.assertEqual(plan.read(self.fd, 0, PAGE), self.page(0))

    def test_closing_ends_an_iterable(self) -> None:
        ended = []

        def reads() -> Iterator[tuple[AnyFile, int, int]]:
            try:
                while True:
                    yield self.fd, 0, PAGE
            finally:
                ended.append(True)

        plan = self.plan(budget_bytes=64 << 10)
        plan.add_from(reads())
        self.assertEqual(ended, [])
        plan.close()
        self.assertEqual(ended, [True])

    def test_a_plan_that_its_iterable_holds_is_collected(self) -> None:
        class Holder:
            pass

        def reads(plan: ioweave.Plan, holder: Holder) -> Iterator[tuple[AnyFile, int, int]]:
            while True:
                yield self.fd, 0, PAGE
            self.assertTrue(plan and holder)

        holder = Holder()
        plan = ioweave.Plan(budget_bytes=64 << 10)
        plan.add_from(reads(plan, holder))
        gone = weakref.ref(holder)
        del plan, holder
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(self.descriptors_of(self.path), 1)


class Leases(Plans):
    def test_leased_bytes_are_those_of_the_file(self) -> None:
        plan = self.plan()
        plan.add_sequential(self.fd, PAGE)
        self.wait_ahead(plan, len(self.data))
        for at, nbytes in ((0, PAGE), (PAGE, PAGE), (2 * PAGE + 5, 100), (60 * PAGE, 8 * PAGE)):
            with plan.lease(self.fd, at, nbytes) as lease:
                self.assertEqual(bytes(lease), self.data[at : at + nbytes])
                self.assertEqual(lease.nbytes, len(self.data[at : at + nbytes]))
        self.assertEqual(plan.stats().own_bytes, 0)
        with plan.lease(self.fd, len(self.data), PAGE) as nothing:
            self.assertEqual((len(nothing), bytes(nothing)), (0, b""))

    def test_leased_memory_is_the_programs(self) -> None:
        plan = self.plan(budget_bytes=64 << 10)
        plan.add_sequential(self.fd, PAGE)
        leases = [plan.lease(self.fd, place * PAGE, PAGE) for place in range(64)]
        arrays = [np.frombuffer(memoryview(lease), np.uint8) for lease in leases]
        for place, array in enumerate(arrays):
            self.assertEqual(array.tobytes(), self.page(place))
            array[:] = place
        for place, array in enumerate(arrays):
            self.assertTrue((array == place).all())
        self.assertEqual(plan.read(self.fd, 0, PAGE), self.page(0))
        with self.assertRaisesRegex(BufferError, "a view of the lease is in use"):
            leases[0].release()
        del array, arrays
        leases[0].release()
        with self.assertRaisesRegex(ValueError, "the lease was released"):
            memoryview(leases[0])

    def test_leases_outlive_the_plan(self) -> None:
        plan = self.plan()
        plan.add_sequential(self.fd, PAGE)
        leases = [plan.lease(self.fd, place * PAGE, PAGE) for place in range(3)]
        plan.close()
        with self.assertRaisesRegex(ValueError, "the plan is closed"):
            plan.lease(self.fd, 0, 1)
        self.assertEqual([bytes(lease) for lease in leases], [self.page(i) for i in range(3)])
        leases[0].release()
        self.assertEqual(self.descriptors_of(self.path), 2)
        del leases, plan
        gc.collect()
        self.assertEqual(self.descriptors_of(self.path), 1)

    def test_errors_of_a_lease_are_raised(self) -> None:
        plan = self.plan()
        with self.assertRaises(OSError) as bad:
            plan.lease(987_654, 0, 1)
        self.assertEqual((bad.exception.errno, bad.exception.filename), (errno.EBADF, 987_654))
        with self.assertRaisesRegex(ValueError, "offset must be 0 or more"):
            plan.lease(self.fd, -1, 1)
        with self.assertRaisesRegex(ValueError, "nbytes must be 0 or more"):
            plan.lease(self.fd, 0, -1)

    def test_an_exception_of_an_iterable_gives_the_lease_back(self) -> None:
        def reads() -> Iterator[tuple[AnyFile, int, int]]:
            yield from ((self.fd, place % 64 * PAGE, PAGE) for place in range(100))
            raise LookupError("no more")

        plan = self.plan(budget_bytes=64 << 10)
        plan.add_from(reads())
        raised = 0
        for place in range(100):
            try:
                lease = plan.lease(self.fd, place % 64 * PAGE, PAGE)
            except LookupError:
                raised += 1
                lease = plan.lease(self.fd, place % 64 * PAGE, PAGE)
            self.assertEqual(bytes(lease), self.page(place % 64))
        self.assertEqual(raised, 1)
        del lease
        plan.close()  # no lease keeps it
        self.assertEqual(self.descriptors_of(self.path), 1)

    def test_a_forked_child_leases_what_it_reads_by_itself(self) -> None:
        plan = self.plan()
        plan.add_sequential(self.fd, PAGE)
        kept = plan.lease(self.fd, 0, PAGE)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                same = bytes(kept) == self.page(0)
                kept.release()
                with plan.lease(self.fd, PAGE, PAGE) as lease:
                    same = same and bytes(lease) == self.page(1)
                plan.close()
                status = 0 if same else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(bytes(kept), self.page(0))


class Refusals(Plans):
    def test_options_out_of_range_are_named(self) -> None:
        wrong: tuple[dict[str, Any], ...] = (
            {"budget_bytes": -1},
            {"budget_bytes": 1000},
            {"slice_bytes": 5000},
            {"depth": 257},
            {"schedule": "fast"},
        )
        for options in wrong:
            (name,) = options
            with self.subTest(name), self.assertRaisesRegex(ValueError, name):
                ioweave.Plan(**options)

    def test_numbers_out_of_range_are_named(self) -> None:
        plan = self.plan()
        for call, said in (
            (partial(plan.add, self.fd, -1, 1), "offset must be 0 or more, not -1"),
            (partial(plan.add, self.fd, 0, 0), "nbytes must be 1 or more, not 0"),
            (partial(plan.add, self.fd, 2**62, 2**62 + 2**61), "below 2"),
            (partial(plan.read, self.fd, -1, 1), "offset must be 0 or more"),
            (partial(plan.read, self.fd, 0, -1), "nbytes must be 0 or more"),
            (partial(plan.write, self.fd, -1, b""), "offset must be 0 or more"),
            (partial(plan.invalidate, self.fd, 0, -1), "nbytes must be 0 or more"),
            (partial(plan.add_sequential, self.fd, 0), "nbytes must be 1 or more"),
            (partial(plan.add_strided, self.fd, 0, 1, stride=1, count=0), "count must be 1"),
            (partial(plan.add_strided, self.fd, 5, 1, stride=-3, count=3), "the last read"),
            (partial(plan.add_strided, self.fd, 5, 1, stride=2**62, count=9), "the last read"),
        ):
            with self.subTest(said), self.assertRaisesRegex(ValueError, said):
                call()
        self.assertEqual(plan.stats().planned_reads, 0)

    def test_what_is_no_buffer_is_refused(self) -> None:
        plan = self.plan()
        with self.assertRaisesRegex(TypeError, r"^read_into\(\): the 'bytes' is read-only"):
            plan.read_into(self.fd, 0, b"12345")
        with self.assertRaisesRegex(TypeError, r"^read_into\(\): the 'ndarray' is not C-cont"):
            plan.read_into(self.fd, 0, np.zeros((4, 4))[:, :2])
        with self.assertRaisesRegex(TypeError, r"^write\(\): the 'str' has no buffer"):
            plan.write(self.fd, 0, "text")  # type: ignore[arg-type]

    def test_a_closed_plan_refuses_every_call_but_close(self) -> None:
        with self.plan() as plan:
            plan.add(self.fd, 0, PAGE)
        self.assertTrue(plan.closed)
        plan.close()
        for call in (
            partial(plan.add, self.fd, 0, 1),
            partial(plan.add_strided, self.fd, 0, 1, stride=1, count=2),
            partial(plan.add_from, ()),
            partial(plan.read, self.fd, 0, 1),
            partial(plan.read_into, self.fd, 0, bytearray(1)),
            partial(plan.write, self.fd, 0, b"x"),
            partial(plan.invalidate, self.fd),
            partial(plan.forget, self.fd),
            plan.stats,
        ):
            with self.assertRaisesRegex(ValueError, "the plan is closed"):
                call()
        self.assertEqual(repr(plan), "<ioweave.Plan closed>")


class Sharing(Plans):
    def test_a_forked_child_reads_and_writes_by_itself(self) -> None:
        plan = self.plan()
        plan.add_sequential(self.fd, PAGE)
        self.wait_ahead(plan, PAGE)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                refused = 0
                for call in (
                    partial(plan.add, self.fd, 0, 1),
                    partial(plan.add_from, [(self.fd, 0, 1)]),
                    partial(plan.invalidate, self.fd),
                    partial(plan.forget, self.fd),
                    plan.stats,
                ):
                    try:
                        call()
                    except OSError as error:
                        refused += error.errno == errno.ECANCELED
                same = plan.read(self.fd, 0, PAGE) == self.page(0)
                written = plan.write(self.fd, PAGE, b"child")
                plan.close()
                status = 0 if (refused, same, written) == (5, True, 5) else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(plan.read(self.fd, 0, 2 * PAGE)[PAGE : PAGE + 5], b"child")

    def test_threads_share_a_plan(self) -> None:
        plan = self.plan(budget_bytes=64 << 10)
        order = random.Random(3).choices(range(64), k=4000)
        plan.add_from((self.fd, place * PAGE, PAGE) for place in order)
        places = iter(order)
        lock = threading.Lock()
        wrong = []

        def read() -> int:
            done = 0
            while True:
                with lock:
                    place = next(places, None)
                if place is None:
                    return done
                if plan.read(self.fd, place * PAGE, PAGE) != self.page(place):
                    wrong.append(place)
                if done % 100 == 0:
                    plan.stats()
                done += 1

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            done = [pool.submit(read) for _ in range(4)]
            self.assertEqual(sum(one.result() for one in done), 4000)
        self.assertEqual(wrong, [])
        self.assertEqual(plan.stats().reads, 4000)

    def test_threads_that_add_and_forget_meet_no_wrong_bytes(self) -> None:
        other = self.folder / "other"
        self.make_file(other, self.data[::-1])
        plan = self.plan(budget_bytes=64 << 10)
        stop = threading.Event()

        def disturb() -> None:
            while not stop.is_set():
                for path in (other, self.path):
                    with path.open("rb") as file:
                        plan.add_sequential(file, PAGE)
                        plan.forget(file)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            disturbing = [pool.submit(disturb) for _ in range(2)]
            with other.open("rb") as file:
                for i in range(3000):
                    at = i % 63 * PAGE + i % 10
                    self.assertEqual(plan.read(self.fd, at, PAGE), self.data[at : at + PAGE])
                    got = plan.read(file, at, PAGE)
                    self.assertEqual(got, self.data[::-1][at : at + PAGE])
            stop.set()
            for one in disturbing:
                one.result()
        self.assertEqual(plan.stats().failed_slices, 0)


class PreExecutions(Plans):
    def test_a_loop_is_run_ahead_of_itself(self) -> None:
        plan = self.plan()
        computed: list[Any] = []

        def loop(io: ioweave.LoopIo) -> None:
            for i in range(64):
                place = i * 37 % 64
                page = io.read(self.fd, place * PAGE, PAGE)
                self.assertEqual(len(page), PAGE)
                io.compute(computed.append, (place, page))

        result = ioweave.pre_execute(plan, loop)
        self.assertEqual(computed, [(i * 37 % 64, self.page(i * 37 % 64)) for i in range(64)])
        self.assertEqual((result.waits, result.stopped), (0, ""))
        self.assertLessEqual(result.planned_reads, 64)
        self.assertEqual(threading.active_count(), 1)

    def test_the_loop_ahead_names_the_reads_of_the_loop(self) -> None:
        plan = self.plan()
        named = threading.Event()

        def loop(io: ioweave.LoopIo) -> int:
            if not io.is_ahead:
                named.wait()
            row = np.zeros(PAGE, np.uint8)
            total = 0
            for place in range(64):
                self.assertEqual(io.read_into(self.fd, place * PAGE, row), PAGE)
                total += io.compute(int, row.sum()) or 0
            self.assertEqual(io.read(self.fd, 0, 0), b"")
            if io.is_ahead:
                self.assertEqual(row.sum(), 0)
                named.set()
            else:
                self.assertEqual(total, sum(self.data))
            return total

        result = ioweave.pre_execute(plan, loop)
        self.assertEqual(result, ioweave.PreExecution(65, 0, ""))
        stats = plan.stats()
        self.assertLessEqual(stats.planned_reads, 64)

    def test_all_reads_are_planned_where_the_loop_waits(self) -> None:
        plan = self.plan()

        def loop(io: ioweave.LoopIo) -> None:
            if not io.is_ahead:
                while plan.stats().planned_reads < 64:
                    time.sleep(0.0001)
            for place in range(64):
                io.read(self.fd, place * PAGE, PAGE)

        self.assertEqual(ioweave.pre_execute(plan, loop).planned_reads, 64)
        self.assertEqual(plan.stats().unplanned_reads, 0)

    def test_the_loop_ahead_is_not_too_far_ahead(self) -> None:
        plan = self.plan()
        named = 0
        most = []

        def loop(io: ioweave.LoopIo) -> None:
            nonlocal named
            for i in range(64):
                if not io.is_ahead:
                    most.append(named - i)
                    time.sleep(0.0005)
                io.read(self.fd, i * PAGE, PAGE)
                named += io.is_ahead

        ioweave.pre_execute(plan, loop, most_ahead=8)
        self.assertLessEqual(max(most), 8)

    def test_reads_of_what_is_yet_to_be_written_wait_for_it(self) -> None:
        plan = self.plan()
        written = 0
        too_early = []

        def loop(io: ioweave.LoopIo) -> None:
            nonlocal written
            page = bytearray(PAGE)
            for i in range(64):
                at = i // 2 * PAGE
                io.read_into(self.fd, at, page)
                if io.is_ahead and i % 2 == 1 and written < i // 2 + 1:
                    too_early.append(i)
                if not io.is_ahead and i % 2 == 1:
                    self.assertEqual(page, bytes([i - 1]) * PAGE)
                io.compute(page.__setitem__, slice(None), bytes([i]) * PAGE)
                if i % 2 == 0:
                    written += not io.is_ahead  # as it begins to write
                    self.assertEqual(io.write(self.fd, at, page), PAGE)

        result = ioweave.pre_execute(plan, loop)
        self.assertEqual((result.stopped, too_early), ("", []))
        self.assertLessEqual(result.waits, 32)

    def test_they_end_the_loop_ahead_where_that_is_wanted(self) -> None:
        plan = self.plan()
        is_over = threading.Event()
        computed: list[Any] = []

        def loop(io: ioweave.LoopIo) -> None:
            try:
                if not io.is_ahead:
                    is_over.wait()
                page = io.read(self.fd, 0, PAGE)
                io.write(self.fd, 0, page)
                io.read(self.fd, PAGE, 100)
                io.read(self.fd, 100, PAGE)
                io.compute(computed.append, 1)
            finally:
                if io.is_ahead:
                    is_over.set()

        result = ioweave.pre_execute(plan, loop, read_after_write="stop")
        said = "read 2 wants bytes at offset 100 that write 0 has not written yet"
        self.assertEqual(result.stopped, said)
        self.assertEqual(computed, [1])

    def test_an_index_is_read_by_the_loop_ahead_too(self) -> None:
        index = np.arange(32) * 7 % 32 + 1
        plan = self.plan()
        plan.write(self.fd, 0, index)
        right: list[bool] = []

        def loop(io: ioweave.LoopIo) -> None:
            if not io.is_ahead:
                while plan.stats().planned_reads < 32:
                    time.sleep(0.0001)
            for place in np.frombuffer(io.read_now(self.fd, 0, 32 * 8), np.int64):
                page = io.read(self.fd, place * PAGE, PAGE)
                io.compute(right.append, page == self.page(place))

        self.assertEqual(ioweave.pre_execute(plan, loop).planned_reads, 32)
        self.assertEqual(right, [True] * 32)
        # Those of the index, by both; by an index that was not read, others would be planned.
        self.assertEqual(plan.stats().unplanned_reads, 2)

    def test_what_the_loop_raises_ends_both(self) -> None:
        def loop(io: ioweave.LoopIo) -> None:
            def check(i: int) -> None:
                if i == 10:
                    raise LookupError("enough")

            for i in range(10**9):
                io.read(self.fd, i % 64 * PAGE, PAGE)
                io.compute(check, i)

        with self.assertRaisesRegex(LookupError, "enough"):
            ioweave.pre_execute(self.plan(), loop)
        self.assertEqual(threading.active_count(), 1)

    def test_what_the_loop_ahead_raises_ends_it_alone(self) -> None:
        is_over = threading.Event()
        computed: list[Any] = []

        def loop(io: ioweave.LoopIo) -> None:
            if io.is_ahead:
                is_over.set()
                raise ZeroDivisionError("this needs the result")
            is_over.wait()
            for i in range(5):
                io.compute(computed.append, io.read(self.fd, i * PAGE, PAGE))

        result = ioweave.pre_execute(self.plan(), loop)
        self.assertEqual(result.stopped, "ZeroDivisionError: this needs the result")
        self.assertEqual(len(computed), 5)

    def test_a_handler_in_the_loop_does_not_keep_the_loop_ahead(self) -> None:
        def loop(io: ioweave.LoopIo) -> None:
            for i in range(64):
                try:
                    io.read(self.fd, i * PAGE, PAGE)
                except Exception as error:
                    self.fail(f"{error}")

        ioweave.pre_execute(self.plan(), loop, most_ahead=1)
        self.assertEqual(threading.active_count(), 1)

    def test_bad_arguments_are_named(self) -> None:
        wrong: tuple[dict[str, Any], ...] = ({"most_ahead": 0}, {"read_after_write": "retry"})
        for options in wrong:
            (name,) = options
            with self.assertRaisesRegex(ValueError, name):
                ioweave.pre_execute(self.plan(), print, **options)

    def test_an_error_of_a_read_is_raised_by_the_loop(self) -> None:
        def loop(io: ioweave.LoopIo) -> None:
            io.read(987_654, 0, PAGE)

        with self.assertRaises(OSError) as bad:
            ioweave.pre_execute(self.plan(), loop)
        self.assertEqual(bad.exception.errno, errno.EBADF)


if __name__ == "__main__":
    unittest.main()
