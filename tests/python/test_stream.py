"""Write streams: what reaches the files, when errors are raised, and who owns the memory."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import gc
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ioweave
import numpy as np
from ioweave import _core

PAGE = 4096


def array_of(lease: ioweave.Lease, dtype: type[np.generic] = np.uint8) -> np.ndarray:
    """Returns an array on the memory of a lease. The stubs of numpy do not list such buffers."""
    return np.frombuffer(lease, dtype=dtype)  # type: ignore[call-overload, no-any-return]


class Streams(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "file"

    def stream(self, buffers: int = 2, **options: Any) -> ioweave.WriteStream:
        """Returns a stream with buffers of a page."""
        stream = ioweave.WriteStream(
            buffer_bytes=PAGE,
            budget_bytes=buffers * PAGE,
            **options,
        )
        self.addCleanup(stream.close, durable=False)
        return stream

    def fill(self, file: ioweave.WriteStreamFile, byte: int, nbytes: int = PAGE) -> None:
        with file.lease() as lease:
            with memoryview(lease) as view:
                view[:nbytes] = bytes([byte]) * nbytes
            lease.append(nbytes)


class Contents(Streams):
    def test_appended_bytes_arrive_in_order(self) -> None:
        data = random.Random(1).randbytes(200_000)
        for path in ("auto", "buffered"):
            with self.subTest(path):
                stream = ioweave.WriteStream(buffer_bytes=PAGE, path=path)
                with stream:
                    file = stream.create(self.path)
                    at = 0
                    for size in [0, 1, 5000, 100, 60_000, 4096] * 2:
                        file.append(data[at : at + size])
                        at += size
                self.assertEqual(self.path.read_bytes(), data[:at])

    def test_writes_at_offsets_land_there(self) -> None:
        with self.stream() as stream:
            file = stream.create(self.path)
            file.write(b"world", 5000)
            file.write(bytearray(b"hello"), 200)
            self.fill(file, 7, 100)
            with file.lease() as lease:
                memoryview(lease)[:3] = b"end"
                lease.write(10_000, 3)
        content = self.path.read_bytes()
        self.assertEqual(content[:100], bytes([7]) * 100)  # appended: at the beginning
        self.assertEqual(content[200:205], b"hello")
        self.assertEqual((content[5000:5005], content[10_000:]), (b"world", b"end"))

    def test_several_files_share_one_stream(self) -> None:
        with self.stream() as stream:
            files = [stream.create(self.folder / str(i)) for i in range(10)]
            for _ in range(5):
                for i, file in enumerate(files):
                    self.fill(file, i)
            self.assertLessEqual(stream.stats().most_in_use, 2)
        for i in range(10):
            self.assertEqual((self.folder / str(i)).read_bytes(), bytes([i]) * (5 * PAGE))

    def test_options_of_create_keep_or_refuse_what_exists(self) -> None:
        self.path.write_bytes(b"before")
        with self.stream() as stream:
            with self.assertRaises(FileExistsError) as exists:
                stream.create(self.path, exclusive=True)
            self.assertEqual(exists.exception.filename, str(self.path))
            with stream.create(self.path, keep=True, expected_bytes=100_000) as file:
                file.append(b" and after")
            self.assertEqual(self.path.read_bytes(), b"before and after")
            with stream.create(os.fsencode(self.path)) as file:
                self.assertEqual(file.name, os.fsencode(self.path))
        self.assertEqual(self.path.read_bytes(), b"")

    def test_flush_and_sync_make_what_was_written_visible(self) -> None:
        with self.stream() as stream:
            file = stream.create(self.path)
            for wait in (file.flush, stream.flush, file.sync, stream.sync):
                file.append(b"x")
                wait()
            self.assertEqual(self.path.stat().st_size, 4)
            self.assertGreaterEqual(stream.stats().syncs, 2)
            self.assertEqual(stream.stats().written_bytes, 4)

    def test_a_flow_carries_the_writes(self) -> None:
        flow = ioweave.Flow("results", priority="write_behind", max_in_flight=1)
        with ioweave.WriteStream(flow=flow, buffer_bytes=PAGE) as stream:
            file = stream.create(self.path)
            with flow.admitted():
                self.fill(file, 1)
                self.assertEqual(_core.flow_counts(*flow.place()), (1, 1))  # it waits for its turn
            file.append(bytes(100_000))
        self.assertEqual(self.path.stat().st_size, PAGE + 100_000)
        with self.assertRaisesRegex(ValueError, "leave service out"):
            ioweave.WriteStream(ioweave.Service(), flow=flow)


class Durability(Streams):
    """A file of /proc is written, but cannot be synced: who tries has an error."""

    UNSYNCED = "/proc/self/comm"

    def written(self, stream: ioweave.WriteStream) -> ioweave.WriteStreamFile:
        """Returns a file to which the name of this thread was written, as it is."""
        file = stream.create(self.UNSYNCED)
        file.append(Path(self.UNSYNCED).read_bytes().rstrip())
        return file

    def expect_sync(self, end: Callable[[], None]) -> None:
        with self.assertRaisesRegex(OSError, "cannot bring to the device") as failed:
            end()
        self.assertEqual(failed.exception.errno, errno.EINVAL)
        self.assertEqual(failed.exception.filename, self.UNSYNCED)

    def test_a_file_is_synced_by_its_end(self) -> None:
        stream = self.stream()
        self.expect_sync(self.written(stream).end)
        self.expect_sync(partial(self.written(stream).end, True))
        self.written(stream).end(durable=False)

    def test_a_file_is_synced_by_the_end_of_its_block(self) -> None:
        def block() -> None:
            with self.written(stream):
                pass

        stream = self.stream()
        self.expect_sync(block)

    def test_a_file_is_synced_by_the_end_of_its_stream(self) -> None:
        def block() -> None:
            with self.stream() as stream:
                self.written(stream)

        self.expect_sync(block)
        for arguments in ((), (True,)):
            stream = self.stream()
            self.written(stream)
            self.expect_sync(partial(stream.close, *arguments))
        stream = self.stream()
        self.written(stream)
        stream.close(durable=False)

    def test_one_sync_is_counted_for_an_end(self) -> None:
        with self.stream() as stream:
            for durable in (False, True):
                file = stream.create(self.path)
                file.append(b"x")
                file.end(durable)
                self.assertEqual(stream.stats().syncs, int(durable))


class Arrays(Streams):
    def test_arrays_computed_in_leases_round_trip(self) -> None:
        there = np.random.default_rng(1).random((16, 512))
        with self.stream() as stream:
            file = stream.create(self.path)
            for row in there:
                with file.lease() as lease:
                    np.multiply(row, 1.0, out=array_of(lease, np.float64))
                    lease.append(row.nbytes)
        np.testing.assert_array_equal(np.fromfile(self.path).reshape(16, 512), there)

    def test_arrays_are_copied_and_may_change_at_once(self) -> None:
        array = np.zeros(1000)
        with self.stream() as stream:
            file = stream.create(self.path)
            for step in range(20):
                array[:] = step
                file.append(array)
        self.assertEqual(np.fromfile(self.path).tolist(), np.repeat(np.arange(20.0), 1000).tolist())

    def test_what_is_no_contiguous_buffer_is_refused(self) -> None:
        file = self.stream().create(self.path)
        with self.assertRaisesRegex(TypeError, r"^append\(\): the 'ndarray' is not C-contiguous"):
            file.append(np.zeros((4, 4))[:, :2])
        with self.assertRaisesRegex(TypeError, r"^write\(\): the 'str' has no buffer"):
            file.write("text", 0)  # type: ignore[arg-type]


class Leases(Streams):
    def test_a_lease_is_writable_memory_at_a_page(self) -> None:
        with self.stream().create(self.path).lease() as lease:
            array = array_of(lease)
            self.assertEqual((len(lease), lease.nbytes, array.nbytes), (PAGE, PAGE, PAGE))
            self.assertEqual(array.ctypes.data % PAGE, 0)
            self.assertTrue(array.flags.writeable)
            del array

    def test_a_lease_with_a_view_in_use_is_not_handed_over(self) -> None:
        with self.stream() as stream:
            file = stream.create(self.path)
            lease = file.lease()
            array = array_of(lease)
            array[:] = 1
            for give in (partial(lease.append, 8), partial(lease.write, 0, 8), lease.release):
                with self.assertRaisesRegex(BufferError, "a view of the lease is in use"):
                    give()
            array[:] = 2  # it still is the program's
            del array
            lease.append(8)
        self.assertEqual(self.path.read_bytes(), b"\2" * 8)

    def test_memory_is_out_of_reach_after_the_end_of_its_lease(self) -> None:
        file = self.stream().create(self.path)
        for is_written in (True, False):
            lease = file.lease()
            if is_written:
                lease.append(1)
            else:
                lease.release()
            self.assertEqual(lease.nbytes, 0)
            with self.assertRaisesRegex(ValueError, "handed over or released"):
                memoryview(lease)
            with self.assertRaisesRegex(ValueError, "handed over or released"):
                lease.append(1)
            lease.release()

    def test_wrong_numbers_leave_the_lease_as_it_is(self) -> None:
        with self.stream() as stream:
            lease = stream.create(self.path).lease()
            for nbytes in (-1, PAGE + 1):
                with self.assertRaisesRegex(ValueError, "nbytes must be 0 to 4096"):
                    lease.append(nbytes)
            with self.assertRaisesRegex(ValueError, "offset must be 0 or more"):
                lease.write(-1, 1)
            memoryview(lease)[:1] = b"x"
            lease.append(1)
        self.assertEqual(self.path.read_bytes(), b"x")

    def test_dropped_and_released_leases_are_given_back_unwritten(self) -> None:
        with self.stream(buffers=1, overflow="fail") as stream:
            file = stream.create(self.path)
            file.lease().release()
            file.lease()
            gc.collect()
            with file.lease(), self.assertRaises(BlockingIOError):
                file.lease()
            file.lease().release()
        self.assertEqual(self.path.read_bytes(), b"")

    def test_an_exception_gives_the_lease_back_and_wins(self) -> None:
        def fail() -> None:
            with self.stream(buffers=1, overflow="fail") as stream:
                streams.append(stream)
                files.append(stream.create(self.path))
                with files[0].lease() as lease:
                    array = array_of(lease)
                    array[:] = 1
                    raise LookupError("mine")

        streams: list[ioweave.WriteStream] = []
        files: list[ioweave.WriteStreamFile] = []
        with self.assertRaisesRegex(LookupError, "mine"):
            fail()
        self.assertTrue(streams[0].closed and files[0].ended)
        self.assertEqual(self.path.read_bytes(), b"")

    def test_a_lease_outlives_its_stream_but_is_not_written(self) -> None:
        stream = self.stream()
        lease = stream.create(self.path).lease()
        view = memoryview(lease)
        stream.close()
        view[:] = bytes(PAGE)
        view.release()
        with self.assertRaisesRegex(ValueError, "closed"):
            lease.append(PAGE)
        self.assertEqual(lease.nbytes, 0)
        self.assertEqual(self.path.read_bytes(), b"")


class Waiting(Streams):
    def test_a_lease_waits_at_most_its_timeout(self) -> None:
        file = self.stream(buffers=1).create(self.path)
        with file.lease():
            for timeout in (0, -1, 0.001):
                with self.assertRaisesRegex(TimeoutError, "no buffer"):
                    file.lease(timeout)
        file.lease(0).release()

    def test_a_signal_ends_the_wait_for_a_lease(self) -> None:
        file = self.stream(buffers=1).create(self.path)
        main = threading.get_ident()
        with file.lease(), self.assertRaises(KeyboardInterrupt):
            threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGINT)).start()
            file.lease()
        file.lease(0).release()  # nobody else is in line

    def test_a_signal_is_raised_behind_all_other_waits(self) -> None:
        flow = ioweave.Flow("held", max_in_flight=1)
        main = threading.get_ident()

        def interrupt(waiting: int, held: threading.Event) -> None:
            with flow.admitted():
                held.set()
                while _core.flow_counts(*flow.place()) != (waiting, 1):
                    os.sched_yield()  # until the call has begun what it waits for
                signal.pthread_kill(main, signal.SIGINT)
                has_ended.wait(0.02)  # as it must not
                may_end.set()

        stream = ioweave.WriteStream(flow=flow, buffer_bytes=PAGE, budget_bytes=2 * PAGE)
        file = stream.create(self.path)
        for wait, gathered, waiting in (
            (stream.flush, 1, 1),
            (file.flush, 1, 1),
            (stream.sync, 1, 1),
            (file.sync, 1, 1),
            (partial(file.append, bytes(5 * PAGE)), 0, 2),
            (partial(file.write, bytes(5 * PAGE), 0), 0, 2),
        ):
            with self.subTest(wait):
                file.append(bytes(gathered))
                held, has_ended, may_end = (threading.Event() for _ in range(3))
                other = threading.Thread(target=interrupt, args=(waiting, held))
                other.start()
                held.wait()
                with self.assertRaises(KeyboardInterrupt):
                    wait()
                was_held = not may_end.is_set()
                has_ended.set()
                other.join()
                self.assertFalse(was_held)
        stream.close()
        self.assertEqual(self.path.stat().st_size, 4 + 5 * PAGE)

    def test_a_copy_is_refused_as_a_whole_instead_of_waiting(self) -> None:
        with self.stream(buffers=2, overflow="fail") as stream:
            file = stream.create(self.path)
            for write in (file.append, partial(file.write, offset=0)):
                with file.lease(), self.assertRaises(BlockingIOError) as busy:
                    write(bytes(2 * PAGE))
                self.assertEqual(busy.exception.errno, errno.EAGAIN)
                with self.assertRaises(OSError) as too_much:
                    write(bytes(2 * PAGE + 1))
                self.assertEqual(too_much.exception.errno, errno.ENOBUFS)
                self.assertNotIsInstance(too_much.exception, BlockingIOError)
            stream.flush()
            self.assertEqual((stream.stats().writes, self.path.stat().st_size), (0, 0))
            file.append(bytes(2 * PAGE))
        self.assertEqual(self.path.stat().st_size, 2 * PAGE)

    def test_leases_can_be_awaited(self) -> None:
        stream = self.stream(buffers=1)
        file = stream.create(self.path)

        async def program() -> None:
            first = await file.alease()
            waiting = asyncio.ensure_future(file.alease())
            await asyncio.sleep(0)
            self.assertFalse(waiting.done())
            first.append(PAGE)
            (await waiting).append(PAGE)
            file.sync()
            self.assertEqual(stream.stats().lease_waits, 1)
            self.assertGreater(stream.stats().lease_wait_ns, 0)

        asyncio.run(program())
        self.assertEqual(self.path.stat().st_size, 2 * PAGE)

    def test_a_wait_that_is_given_up_keeps_no_buffer(self) -> None:
        file = self.stream(buffers=1).create(self.path)

        async def wait() -> None:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(file.alease(), 0.001)

        with file.lease():
            asyncio.run(wait())
            file.alease()  # dropped
            cancelled = file.alease()
            self.assertTrue(cancelled.cancel())
            with self.assertRaises(concurrent.futures.CancelledError):
                cancelled.result()
        file.alease()  # there is one at once, which nobody takes
        request = file.alease()
        self.assertTrue(request.done())
        self.assertFalse(request.cancel())
        self.assertIs(request.result(), request.result())

    def test_closing_ends_the_wait_for_a_lease(self) -> None:
        stream = self.stream(buffers=1)
        file = stream.create(self.path)
        lease = file.lease()
        request = file.alease()
        stream.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            request.result()
        lease.release()

    def test_many_threads_write_to_one_file(self) -> None:
        with self.stream(buffers=3) as stream:
            file = stream.create(self.path)

            def write(index: int) -> None:
                for at in range(index, 160, 8):
                    if at % 2:
                        file.write(bytes([at]) * PAGE, at * PAGE)
                    else:
                        with file.lease() as lease:
                            memoryview(lease)[:] = bytes([at]) * PAGE
                            lease.write(at * PAGE, PAGE)

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(write, range(8)))
        expected = b"".join(bytes([at]) * PAGE for at in range(160))
        self.assertEqual(self.path.read_bytes(), expected)

    def test_synchronous_overflow_waits_for_its_buffer_too(self) -> None:
        file = self.stream(buffers=2, overflow="synchronous").create(self.path)
        main = threading.get_ident()
        with file.lease():
            spare = file.lease()
            with self.assertRaisesRegex(TimeoutError, "no buffer"):
                file.lease(0.001)
            with self.assertRaises(KeyboardInterrupt):
                threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGINT)).start()
                file.lease()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(file.lease)
                spare.release()
                waiting.result().release()

    def test_synchronous_overflow_goes_on_with_a_buffer_of_its_own(self) -> None:
        with self.stream(buffers=2, overflow="synchronous") as stream:
            file = stream.create(self.path)
            with file.lease():
                for i in range(5):
                    self.fill(file, i)
        self.assertEqual(self.path.stat().st_size, 5 * PAGE)


class Closed(Streams):
    def test_a_closed_stream_refuses_every_call_but_close(self) -> None:
        with self.stream() as stream:
            file = stream.create(self.path)
        self.assertTrue(stream.closed and file.ended)
        stream.close()
        file.end()
        for call in (
            lambda: stream.create(self.path),
            stream.flush,
            stream.sync,
            stream.stats,
            lambda: file.append(b"x"),
            lambda: file.write(b"x", 0),
            file.lease,
            file.alease,
            file.flush,
            file.sync,
        ):
            with self.assertRaisesRegex(ValueError, "the write stream is closed"):
                call()
        self.assertEqual(repr(stream), "<ioweave.WriteStream closed>")

    def test_an_ended_file_refuses_every_call_but_end(self) -> None:
        stream = self.stream()
        with stream.create(self.path) as file:
            left = file.lease()
        other = stream.create(self.folder / "other")  # may have the number of the first
        file.end()
        for call in (lambda: file.append(b"x"), file.lease, file.flush, lambda: left.append(1)):
            with self.assertRaisesRegex(ValueError, f"'{self.path}' has ended"):
                call()
        other.end()
        self.assertEqual((self.folder / "other").read_bytes(), b"")
        self.assertEqual(repr(file), f"<ioweave.WriteStreamFile '{self.path}' ended>")

    def test_a_dropped_stream_writes_what_it_has(self) -> None:
        stream = ioweave.WriteStream()
        stream.create(self.path).append(bytes(1000))
        del stream
        gc.collect()
        self.assertEqual(self.path.stat().st_size, 1000)

    def test_a_forked_child_cannot_use_the_stream(self) -> None:
        stream = self.stream()
        file = stream.create(self.path)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                file.append(b"x")
            except OSError as error:
                status = 0 if error.errno == errno.ECANCELED else 2
            os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        file.append(b"parent")
        stream.close()
        self.assertEqual(self.path.read_bytes(), b"parent")

    def test_a_forked_child_opens_a_stream_of_its_own(self) -> None:
        program = """
            import os, sys
            import ioweave

            parent = ioweave.WriteStream()
            file = parent.create(sys.argv[1] + ".parent")
            file.append(bytes(1000))
            child = os.fork()
            if child == 0:
                with ioweave.WriteStream() as stream:
                    stream.create(sys.argv[1]).append(b"child" * 10_000)
                os._exit(3)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            parent.close()
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), str(self.path)],
            capture_output=True,
            text=True,
        )
        self.assertEqual((done.stdout, done.stderr), ("3\n", ""))
        self.assertEqual(self.path.read_bytes(), b"child" * 10_000)
        self.assertEqual((self.folder / "file.parent").read_bytes(), bytes(1000))


class BadOptions(Streams):
    def test_options_out_of_range_are_named(self) -> None:
        wrong: tuple[dict[str, Any], ...] = (
            {"buffer_bytes": -1},
            {"buffer_bytes": 1},
            {"budget_bytes": 5},
            {"overflow": "wait"},
            {"path": "fast"},
        )
        for options in wrong:
            (name,) = options
            with self.subTest(name), self.assertRaisesRegex(ValueError, name):
                ioweave.WriteStream(**options)

    def test_direct_refuses_a_file_that_cannot_be_written_so(self) -> None:
        stream = self.stream(path="direct")
        with self.assertRaisesRegex(OSError, "cannot be written past the page cache") as refused:
            stream.create("/proc/self/comm")
        self.assertEqual(refused.exception.errno, errno.EINVAL)
        self.assertEqual(refused.exception.filename, "/proc/self/comm")

    def test_bad_paths_are_refused(self) -> None:
        stream = self.stream()
        with self.assertRaises(FileNotFoundError) as missing:
            stream.create(self.folder / "no" / "file")
        self.assertEqual(missing.exception.filename, str(self.folder / "no" / "file"))
        with self.assertRaisesRegex(OSError, "not a regular file"):
            stream.create("/dev/null")
        with self.assertRaisesRegex(ValueError, "null byte"):
            stream.create("a\0b")
        with self.assertRaisesRegex(ValueError, "expected_bytes"):
            stream.create(self.path, expected_bytes=-1)


class Failures(Streams):
    """On a file system with room for 16 pages."""

    def setUp(self) -> None:
        super().setUp()
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "ioweave-test", str(self.folder)]
        mounted = subprocess.run(mount, capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(self.folder)], check=True)

    def stream(self, buffers: int = 2, **options: Any) -> ioweave.WriteStream:
        """Returns a stream with buffers that do not fit."""
        stream = ioweave.WriteStream(buffer_bytes=30 * PAGE, budget_bytes=buffers * 30 * PAGE)
        self.addCleanup(stream.close, durable=False)
        return stream

    def overfill(self, file: ioweave.WriteStreamFile) -> None:
        """In one write, so that no later call meets its error before the test asks for it."""
        file.lease().append(30 * PAGE)

    def check(self, error: OSError, path: Path) -> None:
        self.assertEqual((error.errno, error.filename), (errno.ENOSPC, str(path)))
        self.assertIn("No space left on device", str(error))

    def expect_refusal(self, call: Callable[[], None]) -> None:
        with self.assertRaises(OSError) as refused:
            call()
        self.assertEqual(refused.exception.errno, errno.ECANCELED)
        self.assertEqual(refused.exception.filename, str(self.path))

    def test_a_full_device_is_reported_once_at_the_end_of_the_block(self) -> None:
        with self.assertRaises(OSError) as failed, self.stream() as stream:
            stream.create(self.folder / "good").append(b"good")
            file = stream.create(self.path)
            stream.flush()
            self.overfill(file)
        self.check(failed.exception, self.path)
        self.assertIn("offset", str(failed.exception))
        self.assertEqual((self.folder / "good").read_bytes(), b"good")
        stream.close()

    def test_an_error_is_raised_once_and_later_writes_are_refused(self) -> None:
        for wait in ("flush", "sync", "stream.flush", "stream.sync", "end"):
            with self.subTest(wait), self.stream() as stream:
                file, other = stream.create(self.path), stream.create(self.folder / "other")
                owner = stream if wait.startswith("stream.") else file
                self.overfill(file)
                with self.assertRaises(OSError) as failed:
                    getattr(owner, wait.rpartition(".")[2])()
                self.check(failed.exception, self.path)
                if not file.ended:
                    self.expect_refusal(partial(file.append, bytes(PAGE)))
                    self.expect_refusal(file.flush)
                    self.expect_refusal(stream.flush)
                os.truncate(self.path, 0)
                other.append(b"others go on")
                other.sync()
                self.assertEqual((self.folder / "other").read_bytes(), b"others go on")

    def test_the_exception_of_the_block_wins_over_the_error_of_a_write(self) -> None:
        with self.assertRaises(LookupError), self.stream() as stream:
            file = stream.create(self.path)
            self.overfill(file)
            raise LookupError
        self.assertTrue(stream.closed)

    def test_too_little_room_is_found_out_when_the_file_is_created(self) -> None:
        with self.stream() as stream, self.assertRaises(OSError) as failed:
            stream.create(self.path, expected_bytes=10**6)
        self.check(failed.exception, self.path)


class Limits(Streams):
    def test_a_limit_of_file_sizes_is_reported_once(self) -> None:
        program = """
            import errno, resource, signal, sys
            import ioweave

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
            with ioweave.WriteStream(path="buffered") as stream:
                file = stream.create(sys.argv[1])
                file.append(bytes(50_000))
                try:
                    file.flush()
                except OSError as error:
                    print(errno.errorcode[error.errno], error.filename == sys.argv[1])
            print("closed")
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), str(self.path)],
            capture_output=True,
            text=True,
        )
        self.assertEqual((done.stdout, done.stderr), ("EFBIG True\nclosed\n", ""))
        self.assertEqual(self.path.read_bytes(), bytes(10_000))


if __name__ == "__main__":
    unittest.main()
