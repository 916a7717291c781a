import json
import unittest
from pathlib import Path

from harness.process import ProgramFailed
from harness.transfers import Pattern, fio_command, parse_fio


def fio_output(error: int = 0, total_ios: int = 1000) -> str:
    side = {"iops": 50_000.0, "total_ios": total_ios}
    job = {
        "error": error,
        "usr_cpu": 10.0,
        "sys_cpu": 15.0,
        "read": side,
        "write": {"total_ios": 0},
    }
    return "fio: a remark before the document\n" + json.dumps({"jobs": [job]})


class PatternTest(unittest.TestCase):
    def test_says_what_it_is(self) -> None:
        self.assertEqual(str(Pattern("read", 4096, 32)), "random read 4 KiB depth 32")
        self.assertEqual(str(Pattern("write", 1 << 20, 8)), "random write 1 MiB depth 8")

    def test_a_fraction_of_a_second_reaches_fio(self) -> None:
        self.assertIn("--runtime=300ms", fio_command(Pattern("read", 4096, 1), Path("/d"), 0.3))

    def test_both_contenders_get_the_same_batches(self) -> None:
        command = fio_command(Pattern("read", 4096, 32), Path("/data"), 1.0)
        self.assertIn("--iodepth_batch_submit=8", command)
        self.assertIn("--iodepth_batch_complete_min=8", command)
        self.assertEqual(Pattern("read", 4096, 1).batch, 1)


class ParseFioTest(unittest.TestCase):
    def test_cpu_is_per_operation(self) -> None:
        rate = parse_fio(fio_output(), "read")
        self.assertEqual(rate.operations_per_s, 50_000)
        self.assertAlmostEqual(rate.cpu_us, 5.0)

    def test_an_error_is_not_a_result(self) -> None:
        with self.assertRaises(ProgramFailed):
            parse_fio(fio_output(error=5), "read")
        with self.assertRaises(ProgramFailed):
            parse_fio(fio_output(total_ios=0), "read")
