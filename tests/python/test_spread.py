"""Spreads and read streams: what comes back, in which order, and who owns the memory."""

from __future__ import annotations

import errno
import gc
import os
import random
import resource
import signal
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path

import ioweave
import numpy as np
from ioweave import _core

PAGE = 4096


class Spreads(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.manifest = self.folder / "run.manifest"
        self.targets = [self.folder / name for name in ("one", "two", "three")]
        for target in self.targets:
            target.mkdir()

    def write(self, items: list[bytes], buffer_bytes: int = 4 * PAGE) -> None:
        with (
            ioweave.WriteStream(buffer_bytes=buffer_bytes) as stream,
            stream.spread(self.manifest, self.targets) as spread,
        ):
            for number, item in enumerate(items):
                self.assertEqual(spread.append(item), number)


def items_of(seed: int, count: int, most: int = 4 * PAGE) -> list[bytes]:
    numbers = random.Random(seed)
    return [
        numbers.randbytes(numbers.choice([0, PAGE, numbers.randrange(most)])) for _ in range(count)
    ]


class Durability(Spreads):
    """One target is a file of /proc, which is written, but cannot be synced."""

    UNSYNCED = "/proc/self/comm"

    def open_spread(self, stream: ioweave.WriteStream) -> ioweave.Spread:
        """Returns a spread whose item is the name of this thread, as it is."""
        spread = stream.spread(self.manifest, [self.UNSYNCED])
        spread.append(Path(self.UNSYNCED).read_bytes().rstrip())
        return spread

    def expect_sync(self, end: Callable[[], None]) -> None:
        with self.assertRaisesRegex(OSError, "cannot bring to the device"):
            end()
        self.assertFalse(self.manifest.exists())

    def test_the_end_of_a_spread_syncs(self) -> None:
        with ioweave.WriteStream() as stream:
            self.expect_sync(self.open_spread(stream).end)
            self.open_spread(stream).end(durable=False)
            self.assertTrue(self.manifest.exists())

    def test_the_end_of_its_block_syncs(self) -> None:
        def block() -> None:
            with self.open_spread(stream):
                pass

        with ioweave.WriteStream() as stream:
            self.expect_sync(block)

    def test_the_end_of_its_stream_syncs(self) -> None:
        def block() -> None:
            with ioweave.WriteStream() as stream:
                self.open_spread(stream)

        self.expect_sync(block)
        stream = ioweave.WriteStream()
        self.open_spread(stream)
        stream.close(durable=False)
        self.assertTrue(self.manifest.exists())


class RoundTrips(Spreads):
    def test_items_come_back_in_order(self) -> None:
        items = items_of(1, 100)
        for buffer_bytes in (4 * PAGE, 64 * PAGE):
            self.write(items, buffer_bytes)
            with ioweave.ReadStream(self.manifest, budget_bytes=8 * 4 * PAGE) as stream:
                found = [(lease.item, bytes(lease)) for lease in stream]
                self.assertEqual(found, list(enumerate(items)))
                stats = stream.stats()
            self.assertEqual((stats.items, stats.lost_items), (100, 0))
            self.assertEqual(stats.read_bytes, sum(map(len, items)))

    def test_options_reach_the_spread(self) -> None:
        items = items_of(2, 50)
        with ioweave.WriteStream(buffer_bytes=4 * PAGE) as stream:
            spread = stream.spread(
                self.manifest,
                self.targets,
                placement="load",
                on_failure="move",
                expected_bytes=sum(map(len, items)),
            )
            for item in items:
                spread.append(item)
            stats = spread.stats()
            self.assertEqual((stats.targets, stats.items), (3, 50))
            self.assertEqual(stats.nbytes, sum(map(len, items)))
        # The end of the stream has ended the spread.
        self.assertTrue(spread.ended)
        self.assertEqual([bytes(item) for item in ioweave.ReadStream(self.manifest)], items)

    def test_items_larger_than_a_buffer_come_in_pieces(self) -> None:
        item = random.Random(3).randbytes(3 * PAGE + 100)
        self.write([b"first", item, b"last"])
        pieces = []
        with ioweave.ReadStream(self.manifest, buffer_bytes=PAGE) as stream:
            for lease in stream:
                pieces.append((lease.item, lease.offset, lease.item_nbytes, len(lease)))
        self.assertEqual(
            pieces,
            [
                (0, 0, 5, 5),
                *[(1, i * PAGE, len(item), min(PAGE, len(item) - i * PAGE)) for i in range(4)],
                (2, 0, 4, 4),
            ],
        )

    def test_arrays_are_computed_and_read_in_place(self) -> None:
        there = np.random.default_rng(1).random((20, 512))
        with ioweave.WriteStream(buffer_bytes=PAGE) as stream:
            spread = stream.spread(os.fsencode(self.manifest), self.targets[:2])
            for number, row in enumerate(there):
                with spread.lease() as lease:
                    np.copyto(np.frombuffer(memoryview(lease), dtype=float), row)
                    self.assertEqual(lease.append(row.nbytes), number)
            with spread.lease() as lease, self.assertRaisesRegex(ValueError, "use append"):
                lease.write(0, 10)
            spread.end()
        with ioweave.ReadStream(self.manifest) as results:
            for item in results:
                row = np.frombuffer(memoryview(item), dtype=float)
                row *= 2  # the memory is the program's meanwhile
                np.testing.assert_array_equal(row, there[item.item] * 2)
                del row

    def test_plain_files_come_block_by_block(self) -> None:
        data = random.Random(4).randbytes(100_000)
        paths = [self.folder / "a", self.folder / "b"]
        paths[0].write_bytes(data)
        paths[1].write_bytes(b"short")
        with ioweave.ReadStream.files(paths, buffer_bytes=2 * PAGE) as stream:
            found = {0: b"", 1: b""}
            for block in stream:
                self.assertEqual(block.offset, len(found[block.item]))
                self.assertLessEqual(block.nbytes, 2 * PAGE)
                found[block.item] += bytes(block)
        self.assertEqual(found, {0: data, 1: b"short"})
        with self.assertRaises(FileNotFoundError) as error:
            ioweave.ReadStream.files([self.folder / "missing"])
        self.assertEqual(error.exception.filename, str(self.folder / "missing"))
        with self.assertRaisesRegex(ValueError, "regular"):
            ioweave.ReadStream.files([self.folder])

    def test_a_flow_carries_the_reads(self) -> None:
        self.write([b"x" * 100] * 5)
        flow = ioweave.Flow("results", priority="prefetch", max_in_flight=1)
        with flow.admitted():
            stream = ioweave.ReadStream(self.manifest, flow=flow)
            self.assertEqual(_core.flow_counts(*flow.place()), (5, 1))  # they wait for their turn
        with stream:
            self.assertEqual(sum(len(item) for item in stream), 500)
        with self.assertRaisesRegex(ValueError, "leave service out"):
            ioweave.ReadStream(self.manifest, ioweave.Service(), flow=flow)


class Memory(Spreads):
    def test_a_loop_releases_what_nobody_views(self) -> None:
        self.write([bytes([i]) * 100 for i in range(20)])
        # One buffer: the loop could not go on otherwise.
        with ioweave.ReadStream(self.manifest, buffer_bytes=PAGE, budget_bytes=PAGE) as stream:
            kept = list(stream)
        self.assertEqual([len(lease) for lease in kept], [0] * 20)
        with self.assertRaisesRegex(ValueError, "released"):
            memoryview(kept[3])

    def test_a_view_keeps_its_lease(self) -> None:
        self.write([bytes([i]) * 100 for i in range(6)])
        with ioweave.ReadStream(self.manifest, budget_bytes=8 * PAGE, buffer_bytes=PAGE) as stream:
            views = [memoryview(lease) for lease in stream]
        self.assertEqual([bytes(view) for view in views], [bytes([i]) * 100 for i in range(6)])
        with ioweave.ReadStream(self.manifest) as stream:
            lease = stream.next()
            assert lease is not None
            with memoryview(lease), self.assertRaises(BufferError):
                lease.release()
            lease.release()
            lease.release()

    def test_leases_outlive_their_stream(self) -> None:
        self.write([b"a" * 100])
        with ioweave.ReadStream(self.manifest) as stream:
            lease = stream.next()
        assert lease is not None
        self.assertEqual(bytes(lease), b"a" * 100)
        del stream
        gc.collect()
        self.assertEqual(bytes(lease), b"a" * 100)

    def test_ctrl_c_ends_a_wait_and_nothing_is_skipped(self) -> None:
        self.write([b"a", b"b", b"c"])
        with ioweave.ReadStream(self.manifest, buffer_bytes=PAGE, budget_bytes=PAGE) as stream:
            first = stream.next()
            with self.assertRaises(TimeoutError):
                stream.next(timeout=0)
            with self.assertRaises(TimeoutError):
                stream.next(timeout=0.01)
            main = threading.main_thread().ident
            assert main is not None
            timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                stream.next()
            timer.join()
            del first
            self.assertEqual([bytes(lease) for lease in stream], [b"b", b"c"])


class Errors(Spreads):
    def test_what_is_gone_is_told_at_its_item(self) -> None:
        self.write([bytes([i]) * 100 for i in range(9)])
        (self.targets[1] / "run.manifest.1").unlink()
        with ioweave.ReadStream(self.manifest) as stream:
            found: list[bytes | str] = []
            while True:
                try:
                    lease = stream.next()
                except FileNotFoundError as error:
                    found.append(str(error))
                    continue
                if lease is None:
                    break
                found.append(bytes(lease))
        for number, what in enumerate(found):
            if number % 3 == 1:
                self.assertIn(f"item {number}", str(what))
                self.assertIn("two/run.manifest.1", str(what))
            else:
                self.assertEqual(what, bytes([number]) * 100)
        self.assertEqual(len(found), 9)

    def test_a_failed_write_is_raised_once_and_its_items_are_lost(self) -> None:
        # The limit on the size of files: the second target's second item goes beyond it.
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGXFSZ, before)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limit)
        errors = []
        with ioweave.WriteStream(buffer_bytes=16 * PAGE, path="buffered") as stream:
            spread = stream.spread(self.manifest, self.targets)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4 * PAGE, limit[1]))
            for number, size in enumerate([100, 100, 100, 100, 10 * PAGE, 100]):
                self.assertEqual(spread.append(bytes([number]) * size), number)
            for call in (stream.flush, spread.end):
                try:
                    call()
                except OSError as error:
                    errors.append(error)
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        self.assertEqual([error.errno for error in errors], [errno.EFBIG])
        self.assertIn("two/run.manifest.1", str(errors[0]))
        with ioweave.ReadStream(self.manifest) as results:
            self.assertEqual(results.stats().lost_items, 1)
            read = [bytes(item) for _ in range(4) if (item := results.next())]
            self.assertEqual(read, [bytes([i]) * 100 for i in range(4)])
            with self.assertRaisesRegex(OSError, "item 4 was lost") as lost:
                results.next()
            self.assertEqual(lost.exception.errno, errno.ENODATA)
            self.assertEqual([bytes(item) for item in results], [bytes([5]) * 100])

    def test_bad_arguments_say_what_is_wrong(self) -> None:
        with ioweave.WriteStream(buffer_bytes=PAGE) as stream:
            for options, words in (
                ({"placement": "chance"}, "placement must be one of 'round_robin', 'load'"),
                ({"on_failure": "cry"}, "on_failure must be one of 'stop', 'move'"),
                ({"expected_bytes": -1}, "expected_bytes must be 0 or more"),
            ):
                with self.assertRaisesRegex(ValueError, words):
                    stream.spread(self.manifest, self.targets, **options)
            with self.assertRaisesRegex(ValueError, "1..1024 targets"):
                stream.spread(self.manifest, [])
            with self.assertRaisesRegex(ValueError, "two files"):
                stream.spread(self.manifest, [self.manifest])
            with self.assertRaisesRegex(ValueError, "null byte"):
                stream.spread(self.manifest, ["a\0b"])
            with self.assertRaises(FileNotFoundError):
                stream.spread(self.folder / "missing" / "manifest", self.targets)
            spread = stream.spread(self.manifest, self.targets)
            with self.assertRaises(OSError) as busy:
                stream.spread(self.manifest, self.targets)
            self.assertEqual(busy.exception.errno, errno.EBUSY)
            with self.assertRaises(OSError) as large:
                spread.append(bytes(PAGE + 1))
            self.assertEqual(large.exception.errno, errno.EINVAL)
            spread.end()
            spread.end()
            with self.assertRaisesRegex(ValueError, "has ended"):
                spread.append(b"")
            with self.assertRaises(FileExistsError):
                stream.spread(self.manifest, self.targets, exclusive=True)
        self.manifest.write_text("hello\n")
        with self.assertRaisesRegex(ValueError, "line 1"):
            ioweave.ReadStream(self.manifest)
        with self.assertRaises(FileNotFoundError):
            ioweave.ReadStream(self.folder / "missing")
        self.write([b"x"])
        for name, value in (("buffer_bytes", 1), ("budget_bytes", 1), ("buffer_bytes", -1)):
            with self.assertRaisesRegex(ValueError, name):
                ioweave.ReadStream(self.manifest, **{name: value})  # type: ignore[arg-type]
        reader = ioweave.ReadStream(self.manifest)
        reader.close()
        reader.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            reader.next()

    def test_an_exception_or_a_dropped_spread_leaves_no_manifest(self) -> None:
        with ioweave.WriteStream(buffer_bytes=PAGE) as stream:
            with (
                self.assertRaises(ZeroDivisionError),
                stream.spread(self.manifest, self.targets) as spread,
            ):
                spread.append(b"x")
                raise ZeroDivisionError
            self.assertFalse(self.manifest.exists())
            self.assertTrue(spread.ended)
            spread = stream.spread(self.manifest, self.targets)
            spread.abandon()
        self.assertEqual(list(self.folder.glob("run.manifest*")), [])

    def test_an_exception_in_the_block_of_the_stream_leaves_no_manifest_either(self) -> None:
        with self.assertRaises(ZeroDivisionError), ioweave.WriteStream() as stream:
            stream.spread(self.manifest, self.targets).append(b"x")
            raise ZeroDivisionError
        self.assertFalse(self.manifest.exists())

    def test_the_end_of_the_stream_ends_every_spread(self) -> None:
        gone = self.folder / "gone"
        gone.mkdir()
        stream = ioweave.WriteStream()
        stream.spread(gone / "manifest", self.targets[:1]).append(b"first")
        stream.spread(self.manifest, self.targets[1:]).append(b"second")
        (gone / "manifest.part").unlink()
        gone.rmdir()
        with self.assertRaisesRegex(FileNotFoundError, "cannot write the manifest"):
            stream.close()
        self.assertTrue(stream.closed)
        self.assertEqual([bytes(item) for item in ioweave.ReadStream(self.manifest)], [b"second"])

    def test_absolute_paths_can_be_refused(self) -> None:
        with tempfile.TemporaryDirectory() as far:
            with ioweave.WriteStream() as stream:
                stream.spread(self.manifest, [far])
            ioweave.ReadStream(self.manifest).close()
            with self.assertRaisesRegex(ValueError, "relative_only"):
                ioweave.ReadStream(self.manifest, relative_only=True)


if __name__ == "__main__":
    unittest.main()
