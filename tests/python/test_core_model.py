"""The Python binding ioweave._core.Items; tests/model tests its formulas."""

import math
import unittest

from ioweave._core import Items


class ItemsTest(unittest.TestCase):
    def test_each_way_to_weave_has_its_formula(self) -> None:
        items = Items(4, read_s=2, compute_s=3, write_s=4)
        self.assertEqual(
            (items.count, items.read_s, items.compute_s, items.write_s), (4, 2.0, 3.0, 4.0)
        )
        self.assertEqual(items.synchronous_s(), 36)
        self.assertEqual(items.prefetch_s(), 30)
        self.assertEqual(items.hideable_read_s(), 6)
        self.assertEqual(items.one_device_bound_s(), 27)
        self.assertEqual(items.separate_channels_s(), 21)
        self.assertEqual(items.processor_bound_s(0.5, 2), 7)
        self.assertEqual(items.processor_bound_s(io_cpu_s=0.5, cores=1), 14)

    def test_write_behind_takes_buffers_and_devices(self) -> None:
        items = Items(6, compute_s=1, write_s=4)
        self.assertEqual(items.write_behind_s(2), 25)
        self.assertEqual(items.write_behind_s(3, 2), 14)
        self.assertEqual(items.write_behind_s(buffers=3, devices=2), 14)
        self.assertEqual(items.write_behind_period_s(2), 4)
        self.assertEqual(items.write_behind_period_s(buffers=3, devices=2), 2)

    def test_impossible_values_are_refused(self) -> None:
        for name in ("read_s", "compute_s", "write_s"):
            for value in (-1.0, math.nan):
                with self.assertRaisesRegex(ValueError, name):
                    Items(1, **{name: value})
        items = Items(1)
        with self.assertRaisesRegex(ValueError, "buffers"):
            items.write_behind_s(0)
        with self.assertRaisesRegex(ValueError, "devices"):
            items.write_behind_period_s(1, 0)
        with self.assertRaisesRegex(ValueError, "cores"):
            items.processor_bound_s(0, 0)


if __name__ == "__main__":
    unittest.main()
