import mmap
import tempfile
import unittest
from pathlib import Path

from harness import page_cache
from harness.page_cache import StillCached, cached_bytes, drop, warm


class PageCacheTest(unittest.TestCase):
    size = 4 << 20

    def setUp(self) -> None:
        # Beside this file: a checkout lies on a disk, /tmp may be memory.
        folder = tempfile.TemporaryDirectory(dir=Path(__file__).parent)
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "data")
        self.path.write_bytes(b"x" * self.size)

    @staticmethod
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    def drop_or_skip(self) -> None:
        try:
            drop(self.path, attempts=3)
        except StillCached as error:
            self.skipTest(f"this file system keeps its files in memory: {error}")

    def test_memory_that_is_backed_is_given_back(self) -> None:
        page_cache.back_memory(0)
        before = self.resident_bytes()
        page_cache.back_memory(64 << 20)
        self.assertLess(self.resident_bytes() - before, 32 << 20)

    def test_a_file_just_written_is_cached(self) -> None:
        self.assertEqual(cached_bytes(self.path), self.size)

    def test_a_dropped_file_is_cold_and_reading_warms_it(self) -> None:
        self.drop_or_skip()
        self.assertEqual(cached_bytes(self.path), 0)
        warm(self.path)
        self.assertEqual(cached_bytes(self.path), self.size)

    def test_a_file_can_be_half_warm_in_stretches(self) -> None:
        self.drop_or_skip()
        page_cache.half_warm(self.path, stretch_bytes=1 << 20)
        self.assertEqual(cached_bytes(self.path), self.size // 2)

    def test_both_ways_to_count_agree(self) -> None:
        self.drop_or_skip()
        with self.path.open("rb") as file:
            file.read(64 << 10)
            by_mapping = page_cache._pages_by_mincore(file.fileno(), self.size)
        self.assertEqual(by_mapping * mmap.PAGESIZE, cached_bytes(self.path))

    def test_an_empty_file_is_cold(self) -> None:
        self.path.write_bytes(b"")
        self.assertEqual(cached_bytes(self.path), 0)
        drop(self.path)

    def test_a_file_held_in_memory_is_refused_not_measured_as_cold(self) -> None:
        memory = Path("/dev/shm")
        if not memory.is_dir():
            self.skipTest("no /dev/shm here")
        with tempfile.NamedTemporaryFile(dir=memory) as file:
            file.write(b"x" * self.size)
            file.flush()
            with self.assertRaisesRegex(StillCached, file.name):
                drop(Path(file.name), attempts=2)
