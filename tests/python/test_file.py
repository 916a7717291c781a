"""ioweave.File against os.pread and os.pwrite, and what it refuses."""

import errno
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import ioweave
import numpy as np
from in_flight import Gate


class Files(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "file"

    def file_of(self, content: bytes, mode: str = "r+") -> ioweave.File:
        self.path.write_bytes(content)
        file = ioweave.open(self.path, mode)
        self.addCleanup(file.close)
        return file


class RoundTrips(Files):
    def test_file_calls_agree_with_the_system_calls(self) -> None:
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        file = self.file_of(b"")
        twin = os.open(self.folder / "twin", os.O_RDWR | os.O_CREAT)
        self.addCleanup(os.close, twin)
        for _ in range(400):
            n, offset = chance.choice([0, 1, 511, 4096, 70_000]), chance.randrange(200_000)
            data = chance.randbytes(n)
            step = chance.randrange(8)
            with self.subTest(seed=seed, step=step, n=n, offset=offset):
                if step == 0:
                    self.assertEqual(file.pwrite(data, offset), os.pwrite(twin, data, offset))
                elif step == 1:
                    wrote = file.apwrite(memoryview(data), offset)
                    self.assertEqual(wrote.result(), os.pwrite(twin, data, offset))
                elif step == 2:
                    self.assertEqual(file.pread(n, offset), os.pread(twin, n, offset))
                elif step == 3:
                    self.assertEqual(file.apread(n, offset).result(), os.pread(twin, n, offset))
                elif step in (4, 5):
                    mine, its = bytearray(data), bytearray(data)
                    read = (
                        file.pread_into(mine, offset)
                        if step == 4
                        else file.apread_into(mine, offset).result()
                    )
                    self.assertEqual(read, os.preadv(twin, [its], offset))
                    self.assertEqual(mine, its)
                elif step == 6:
                    self.assertEqual(file.size(), os.fstat(twin).st_size)
                elif chance.random() < 0.2:
                    file.truncate(offset)
                    os.truncate(twin, offset)
        self.assertEqual(self.path.read_bytes(), (self.folder / "twin").read_bytes())

    def test_files_round_trip_on_every_engine(self) -> None:
        for engine in ("auto", "io_uring", "aio", "threads"):
            service = ioweave.Service(engine=engine)
            with self.subTest(engine), ioweave.open(self.path, "w+", service=service) as file:
                self.assertEqual(file.apwrite(engine.encode(), 1).result(), len(engine))
                file.afsync().result()
                self.assertEqual(file.apread(100, 0).result(), b"\0" + engine.encode())
                file.fsync(data_only=True)

    def test_files_round_trip_with_o_direct(self) -> None:
        block = mmap.mmap(-1, 8192)
        try:
            file = ioweave.open(self.path, "w+", direct=True)
        except OSError as error:
            self.skipTest(f"no O_DIRECT in {self.folder}: {error}")
        with file:
            block[:] = os.urandom(8192)
            self.assertEqual(file.apwrite(block, 4096).result(), 8192)
            again = mmap.mmap(-1, 16384)
            self.assertEqual(file.pread_into(again, 0), 12288)
            self.assertEqual(again[4096:12288], block[:])
            try:
                file.pread_into(memoryview(block)[1:], 0)  # some file systems take it
            except OSError as error:
                self.assertIn("multiples of the device's block", str(error))

    def test_many_threads_use_one_file(self) -> None:
        file = self.file_of(bytes(64 * 1024))

        def write(index: int) -> None:
            for at in range(64):
                offset = at * 1024 + index * 128
                (file.pwrite if at % 2 else file.apwrite)(bytes([index]) * 128, offset)

        threads = [threading.Thread(target=write, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        file.close()
        expected = b"".join(bytes([index]) * 128 for index in range(8)) * 64
        self.assertEqual(self.path.read_bytes(), expected)


class Ends(Files):
    def test_reads_at_the_end_of_a_file_are_short(self) -> None:
        file = self.file_of(b"0123456789")
        buffer = bytearray(b"." * 6)
        self.assertEqual(file.pread(6, 8), b"89")
        self.assertEqual(file.apread(6, 8).result(), b"89")
        self.assertEqual(file.pread_into(buffer, 8), 2)
        self.assertEqual(buffer, b"89....")
        self.assertEqual(file.apread_into(buffer, 10).result(), 0)
        self.assertEqual((file.pread(1, 10), file.apread(1, 99).result()), (b"", b""))
        self.assertEqual((file.pread(0, 0), file.apread(0, 0).result()), (b"", b""))


class NumpyArrays(Files):
    def test_arrays_are_read_and_written_in_place(self) -> None:
        there = np.random.default_rng(1).random((16, 32))
        file = self.file_of(b"")
        self.assertEqual(file.pwrite(there, 0), there.nbytes)
        here = np.zeros((16, 32))
        address = here.ctypes.data
        rows = [file.apread_into(row, i * row.nbytes) for i, row in enumerate(here)]
        self.assertEqual([row.result() for row in rows], [256] * 16)
        self.assertEqual(here.ctypes.data, address)
        np.testing.assert_array_equal(here, there)
        here[:] = 0
        self.assertEqual(file.pread_into(here, 0), there.nbytes)
        np.testing.assert_array_equal(here, there)

    def test_arrays_of_any_element_type_are_accepted(self) -> None:
        days = np.arange("2026-01", "2026-02", dtype="datetime64[D]")
        self.file_of(b"").pwrite(days, 0)
        np.testing.assert_array_equal(np.fromfile(self.path, dtype=days.dtype), days)

    def test_arrays_that_are_not_contiguous_are_refused(self) -> None:
        square = np.zeros((4, 4))
        file = self.file_of(bytes(1000))
        for name, array in {"columns": square[:, :2], "transposed": square.T}.items():
            with self.subTest(name):
                for call in (file.pread_into, file.apread_into, file.pwrite, file.apwrite):
                    with self.assertRaisesRegex(
                        TypeError, rf"^{call.__name__}\(\): the 'ndarray' is not C-contiguous"
                    ):
                        call(array, 0)

    def test_read_only_arrays_can_be_written_but_not_read_into(self) -> None:
        array = np.arange(10)
        array.flags.writeable = False
        file = self.file_of(b"")
        self.assertEqual(file.pwrite(array, 0), 80)
        for call in (file.pread_into, file.apread_into):
            with self.assertRaisesRegex(TypeError, "'ndarray' is read-only"):
                call(array, 0)


class BadInput(Files):
    def test_bad_buffers_are_refused(self) -> None:
        file = self.file_of(b"content")
        for call in (file.pread_into, file.apread_into):
            with self.assertRaisesRegex(TypeError, rf"^{call.__name__}\(\): the 'bytes' is read-"):
                call(b"abc", 0)
        for write in (file.pwrite, file.apwrite):
            with self.assertRaisesRegex(TypeError, rf"^{write.__name__}\(\): the 'str' has no buf"):
                write("text", 0)  # type: ignore[arg-type]
        self.assertEqual(self.path.read_bytes(), b"content")

    def test_negative_numbers_are_refused(self) -> None:
        file = self.file_of(b"content")
        buffer = bytearray(2)
        with self.assertRaisesRegex(ValueError, "n must be 0 or more, not -1"):
            file.pread(-1, 0)
        with self.assertRaisesRegex(ValueError, "n must be 0 or more, not -1"):
            file.apread(-1, 0)
        for call in (file.pread_into, file.apread_into, file.pwrite, file.apwrite):
            with self.assertRaisesRegex(ValueError, "offset must be 0 or more, not -1"):
                call(buffer, -1)
        for read in (file.pread, file.apread):
            with self.assertRaisesRegex(ValueError, "offset must be 0 or more, not -5"):
                read(1, -5)
        with self.assertRaises(OSError) as refused:
            file.truncate(-1)
        self.assertEqual(refused.exception.errno, errno.EINVAL)
        buffer.append(1)  # nobody holds it

    def test_unknown_modes_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "'r', 'r\\+', .* not 'a'; to append, write at"):
            ioweave.open(self.path, "a")
        with self.assertRaisesRegex(ValueError, "not 'rb'"):
            ioweave.open(self.path, "rb")
        self.assertFalse(self.path.exists())

    def test_bad_paths_are_refused(self) -> None:
        with self.assertRaises(FileNotFoundError) as missing:
            ioweave.open(self.path)
        self.assertEqual(missing.exception.filename, str(self.path))
        with self.assertRaises(IsADirectoryError) as folder:
            ioweave.open(self.folder)
        self.assertEqual(folder.exception.filename, str(self.folder))
        os.mkfifo(self.path)
        with self.assertRaises(OSError) as pipe:
            ioweave.open(self.path, "r+")
        self.assertEqual(pipe.exception.errno, errno.ESPIPE)
        self.assertEqual(pipe.exception.filename, str(self.path))

    def test_bad_service_options_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "engine must be 'auto', .* not 'fast'"):
            ioweave.Service(engine="fast")  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "queue_depth"):
            ioweave.Service(queue_depth=5000)


class Failures(Files):
    def check(self, number: int, file: ioweave.File, name: str, *arguments: object) -> None:
        """Checks that the blocking call and the request fail alike, and name the file."""
        for call in (getattr(file, name), lambda *a: getattr(file, "a" + name)(*a).result()):
            with self.assertRaises(OSError) as failed:
                call(*arguments)
            error = failed.exception
            self.assertEqual((error.errno, error.filename), (number, file.name))

    def test_a_call_against_the_mode_raises(self) -> None:
        write_only = self.file_of(b"", "w")
        self.check(errno.EBADF, write_only, "pread", 10, 0)
        self.check(errno.EBADF, write_only, "pread_into", bytearray(10), 0)
        with ioweave.open(self.path) as read_only:
            self.check(errno.EBADF, read_only, "pwrite", b"data", 0)

    def test_a_descriptor_closed_by_others_raises(self) -> None:
        file = self.file_of(b"content")
        other = os.open("/dev/null", os.O_RDONLY)
        os.close(file.fileno())
        self.check(errno.EBADF, file, "pread", 1, 0)
        self.check(errno.EBADF, file, "fsync")
        os.dup2(other, file.fileno())  # for close()
        os.close(other)

    def test_a_full_device_raises(self) -> None:
        with ioweave.open("/dev/full", "r+") as full:
            self.check(errno.ENOSPC, full, "pwrite", b"data", 0)

    def test_a_write_that_fits_in_part_raises(self) -> None:
        file = self.file_of(b"")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, before)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        self.check(errno.EFBIG, file, "pwrite", bytes(150_000), 0)
        self.assertEqual(file.size(), 100_000)

    def test_a_read_too_large_for_memory_raises(self) -> None:
        file = self.file_of(b"content")
        for read in (file.pread, file.apread):
            with self.assertRaises(MemoryError):
                read(1 << 60, 0)


class Closing(Files):
    def test_a_closed_file_refuses_every_call_but_close(self) -> None:
        file = self.file_of(b"content")
        with file as same:
            self.assertIs(same, file)
        self.assertTrue(file.closed)
        file.close()
        buffer = bytearray(1)
        for call in (
            lambda: file.pread(1, 0),
            lambda: file.pread_into(buffer, 0),
            lambda: file.pwrite(buffer, 0),
            lambda: file.fsync(),
            lambda: file.apread(1, 0),
            lambda: file.apread_into(buffer, 0),
            lambda: file.apwrite(buffer, 0),
            lambda: file.afsync(),
            lambda: file.size(),
            lambda: file.truncate(0),
            lambda: file.fileno(),
        ):
            with self.assertRaisesRegex(ValueError, f"'{self.path}' is closed"):
                call()
        buffer.append(1)  # nobody holds it
        self.assertEqual(repr(file), f"<ioweave.File '{self.path}' mode='r+' closed>")

    def test_close_waits_for_requests_in_flight(self) -> None:
        file = self.file_of(b"")
        requests = [file.apwrite(bytes([i]) * 65536, i * 65536) for i in range(64)]
        file.close()
        self.assertTrue(all(request.done() for request in requests))
        self.assertEqual(self.path.stat().st_size, 64 * 65536)

    def test_close_can_be_interrupted_and_repeated(self) -> None:
        gate = Gate(self)
        request = gate.read(bytearray(1))
        main = threading.get_ident()
        with self.assertRaises(KeyboardInterrupt):
            threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGINT)).start()
            gate.file.close()
        self.assertFalse(gate.file.closed)
        gate.open()
        self.assertEqual(request.result(), 0)
        gate.file.close()
        self.assertTrue(gate.file.closed)

    def test_a_dropped_file_is_closed(self) -> None:
        self.path.write_bytes(b"content")
        file = ioweave.open(self.path)
        number = file.fileno()
        request = file.apread(7, 0)
        del file
        self.assertEqual(request.result(), b"content")
        with self.assertRaises(OSError):
            os.fstat(number)


class Packages(unittest.TestCase):
    def test_importing_the_package_imports_nothing_slow(self) -> None:
        """A program that awaits nothing does not import asyncio."""
        script = (
            "import sys, ioweave; print(*{'asyncio', 'multiprocessing', 'numpy'} & {*sys.modules})"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        self.assertEqual(done.stdout.strip(), "")

    def test_the_package_has_its_version(self) -> None:
        self.assertRegex(ioweave.__version__, r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
