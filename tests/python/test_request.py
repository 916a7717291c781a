"""Requests in flight: awaited, waited for, cancelled, dropped, forked, left at the exit."""

import asyncio
import concurrent.futures
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path

import ioweave
from in_flight import Gate, is_lent


class Requests(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "file"
        self.path.write_bytes(bytes(range(256)) * 16)
        self.file = ioweave.open(self.path, "r+")
        self.addCleanup(self.file.close)

    def wait_until_given_back(self, buffer: bytearray) -> None:
        """Makes requests until `buffer` is free; ctest's timeout is the limit."""
        while is_lent(buffer):
            self.file.apread(1, 0).result()


class Awaited(Requests):
    def test_a_thousand_requests_can_be_awaited_at_once(self) -> None:
        async def read_all() -> list[bytes]:
            return await asyncio.gather(*(self.file.apread(4, i) for i in range(1000)))

        content = self.path.read_bytes()
        self.assertEqual(asyncio.run(read_all()), [content[i : i + 4] for i in range(1000)])

    def test_await_returns_what_the_blocking_calls_return(self) -> None:
        async def program() -> None:
            buffer = bytearray(4)
            self.assertEqual(await self.file.apread_into(buffer, 4), 4)
            self.assertEqual(buffer, b"\4\5\6\7")
            self.assertEqual(await self.file.apwrite(b"xyz", 0), 3)
            await self.file.afsync()
            request = self.file.apread(3, 0)
            self.assertEqual([await request, await request, request.result()], [b"xyz"] * 3)

        asyncio.run(program())

    def test_await_raises_what_the_blocking_calls_raise(self) -> None:
        async def program() -> None:
            with ioweave.open(self.path) as read_only:
                with self.assertRaisesRegex(OSError, "Bad file descriptor"):
                    await read_only.apwrite(b"x", 0)
                many = (read_only.apwrite(b"x", i) for i in range(10))
                failed = await asyncio.gather(*many, return_exceptions=True)
                self.assertEqual([type(error) for error in failed], [OSError] * 10)

        asyncio.run(program())

    def test_awaiting_does_not_block_the_loop(self) -> None:
        gate = Gate(self)

        async def program() -> int:
            waiting = asyncio.ensure_future(gate.read(bytearray(5)))
            await asyncio.sleep(0)
            self.assertFalse(waiting.done())
            gate.open(b"hello")
            return await waiting

        self.assertEqual(asyncio.run(program()), 5)

    def test_several_tasks_loops_and_threads_await_one_request(self) -> None:
        gate = Gate(self)
        request = gate.read(bytearray(5))

        async def one() -> int:
            return await request

        async def two() -> tuple[int, int]:
            first, second = await asyncio.gather(one(), one())
            return first, second

        with concurrent.futures.ThreadPoolExecutor() as pool:
            loops = [pool.submit(asyncio.run, two()) for _ in range(2)]
            threads = [pool.submit(request.result) for _ in range(2)]
            self.assertFalse(request.done())
            gate.open(b"hello")
            self.assertEqual([loop.result() for loop in loops], [(5, 5)] * 2)
            self.assertEqual([thread.result() for thread in threads], [5] * 2)

    def test_awaiting_in_many_loops_leaks_no_descriptor(self) -> None:
        async def read() -> bytes:
            return await self.file.apread(2, 2)

        def descriptors() -> int:
            return len(list(Path("/proc/self/fd").iterdir()))

        before = descriptors()
        for _ in range(20):
            self.assertEqual(asyncio.run(read()), b"\2\3")
        self.assertLessEqual(descriptors(), before + 4)

    def test_awaiting_outside_a_loop_is_refused(self) -> None:
        gate = Gate(self)
        with self.assertRaisesRegex(RuntimeError, "no running event loop"):
            next(gate.read(bytearray(1)).__await__())


class WaitedFor(Requests):
    def test_result_waits_at_most_its_timeout(self) -> None:
        gate = Gate(self)
        buffer = bytearray(5)
        request = gate.read(buffer)
        for timeout in (0, -1, 0.001):
            with self.assertRaisesRegex(TimeoutError, "stays in flight"):
                request.result(timeout)
        self.assertFalse(request.done())
        gate.open(b"hello")
        self.assertEqual(request.result(1e300), 5)
        self.assertEqual(buffer, b"hello")
        self.assertTrue(request.done())

    def test_a_signal_ends_the_wait_for_a_result(self) -> None:
        gate = Gate(self)
        request = gate.read(bytearray(1))
        main = threading.get_ident()
        with self.assertRaises(KeyboardInterrupt):
            threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGINT)).start()
            request.result()
        gate.open()
        self.assertEqual(request.result(), 0)


class Cancelled(Requests):
    def test_a_cancelled_request_ends_as_cancelled_or_normally(self) -> None:
        gate = Gate(self)
        buffer = bytearray(1)
        request = gate.read(buffer)
        self.assertTrue(request.cancel())
        with self.assertRaises(concurrent.futures.CancelledError):
            request.result()
        self.assertFalse(is_lent(buffer))
        self.assertFalse(request.cancel())

        ended = self.file.apread(1, 0)
        ended.result()
        self.assertFalse(ended.cancel())
        self.assertEqual(ended.result(), b"\0")

    def test_cancelling_the_awaiting_task_cancels_the_request(self) -> None:
        gate = Gate(self)
        buffer = bytearray(1)
        request = gate.read(buffer)

        async def program() -> None:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(request, 0.001)
            with self.assertRaises(concurrent.futures.CancelledError):
                await request

        asyncio.run(program())
        self.assertFalse(is_lent(buffer))

    def test_requests_can_be_cancelled_in_any_state(self) -> None:
        requests = [self.file.apwrite(bytes(4096), 4096 * i) for i in range(300)]
        for request in requests[::2]:
            request.cancel()
        ends = {4096: 0, "cancelled": 0}
        for request in requests:
            try:
                ends[request.result()] += 1
            except concurrent.futures.CancelledError:
                ends["cancelled"] += 1
        self.assertGreaterEqual(ends[4096], 150)
        self.assertEqual(sum(ends.values()), 300)


class Dropped(Requests):
    def test_dropped_requests_keep_their_buffer_until_they_end(self) -> None:
        gate = Gate(self)
        buffer = bytearray(5)
        gate.read(buffer)
        self.assertTrue(is_lent(buffer))
        gate.open(b"hello")
        self.wait_until_given_back(buffer)
        self.assertEqual(buffer, b"hello")

    def test_a_dropped_request_completes_its_write(self) -> None:
        for i in range(100):
            self.file.apwrite(bytes([i]) * 1000, i * 1000)
        self.file.close()
        expected = b"".join(bytes([i]) * 1000 for i in range(100))
        self.assertEqual(self.path.read_bytes(), expected)

    def test_a_transfer_outlives_the_loop_that_awaits_it(self) -> None:
        gate = Gate(self)
        buffer = bytearray(5)
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(self.awaiting(gate.read(buffer)))
        loop.run_until_complete(asyncio.sleep(0))
        # What asyncio says of a task that its loop leaves behind is not the point here.
        loop.set_exception_handler(lambda *_: None)
        loop.close()
        del loop, waiting
        self.assertTrue(is_lent(buffer))
        gate.open(b"hello")
        self.wait_until_given_back(buffer)
        self.assertEqual(buffer, b"hello")

    async def awaiting(self, request: ioweave.Request[int]) -> int:
        return await request


class Forked(Requests):
    def in_child(self, check: Callable[[], None]) -> None:
        """Runs `check` in a forked child; fails if the child fails."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads, from 3.12
            child = os.fork()
        if child == 0:
            try:
                check()
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)

    def test_a_forked_child_uses_inherited_and_its_own_files(self) -> None:
        def check() -> None:
            assert self.file.pread(2, 2) == b"\2\3"
            assert self.file.apread(2, 4).result() == b"\4\5"

            async def read(file: ioweave.File) -> bytes:
                return await file.apread(3, 7)

            assert asyncio.run(read(self.file)) == b"\7\10\11"
            with ioweave.open(self.path, "r+") as own:
                requests = [own.apwrite(bytes(10), i * 10) for i in range(100)]
                assert [request.result() for request in requests] == [10] * 100
                assert asyncio.run(read(own)) == bytes(3)
            self.file.close()

        self.file.apread(1, 0).result()  # its threads exist
        self.in_child(check)
        self.assertEqual(self.file.apread(1, 0).result(), b"\0")

    def test_requests_of_the_parent_are_cancelled_in_a_forked_child(self) -> None:
        gate = Gate(self)
        request = gate.read(bytearray(5))

        def check() -> None:
            with self.assertRaises(concurrent.futures.CancelledError):
                request.result()
            with self.assertRaises(concurrent.futures.CancelledError):
                asyncio.run(asyncio.wait_for(request, None))
            assert not request.cancel()
            gate.file.close()  # and does not wait for them

        self.in_child(check)
        gate.open(b"hello")
        self.assertEqual(request.result(), 5)

    def test_forking_works_while_many_requests_are_in_flight(self) -> None:
        for _ in range(10):
            requests = [self.file.apread(16, i) for i in range(100)]
            self.in_child(lambda: self.assertEqual(len(self.file.pread(16, 0)), 16))
            self.assertEqual({len(request.result()) for request in requests}, {16})


class LeftAtExit(Requests):
    def run_script(self, script: str) -> None:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script, str(self.path)],
            env=os.environ | {"PYTHONMALLOC": "debug", "PYTHONFAULTHANDLER": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_requests_complete_before_the_interpreter_ends(self) -> None:
        self.run_script(
            "import ioweave, sys\n"
            "file = ioweave.open(sys.argv[1], 'w')\n"
            "requests = [file.apwrite(bytes([i % 251]) * 100_000, i * 100_000) for i in "
            "range(500)]\n"
            "del requests[::2]\n"
        )
        expected = b"".join(bytes([i % 251]) * 100_000 for i in range(500))
        self.assertEqual(self.path.read_bytes(), expected)

    def test_requests_complete_at_exit_with_running_threads(self) -> None:
        self.run_script(
            "import ioweave, sys, threading\n"
            "file = ioweave.open(sys.argv[1], 'r+')\n"
            "started = threading.Event()\n"
            "def read():\n"
            "    while True:\n"
            "        try:\n"
            "            [file.apread(16, i) for i in range(100)][-1].result()\n"
            "        except RuntimeError:\n"
            "            return\n"
            "        started.set()\n"
            "threading.Thread(target=read, daemon=True).start()\n"
            "started.wait()\n"
        )

    def test_requests_complete_at_exit_with_a_loop_that_awaits_them(self) -> None:
        self.run_script(
            "import asyncio, ioweave, sys\n"
            "file = ioweave.open(sys.argv[1], 'r+')\n"
            "async def read():\n"
            "    tasks = [asyncio.ensure_future(file.apread(16, i)) for i in range(1000)]\n"
            "    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)\n"
            "asyncio.run(read())\n"
        )

    def test_requests_submitted_after_the_end_are_refused(self) -> None:
        self.run_script(
            "import atexit\n"
            "def late():\n"
            "    try:\n"
            "        file.apread(1, 0)\n"
            "    except RuntimeError as error:\n"
            "        assert 'the interpreter is ending' in str(error)\n"
            "        return\n"
            "    raise AssertionError('submitted')\n"
            "atexit.register(late)\n"
            "import ioweave, sys\n"
            "file = ioweave.open(sys.argv[1])\n"
        )


if __name__ == "__main__":
    unittest.main()
