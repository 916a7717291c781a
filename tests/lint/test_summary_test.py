"""tools/test_summary.py counts each outcome as what it is, on the XML that ctest 3.25 writes."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import test_summary

PASSED = '<testcase name="A.Ok" status="run"><system-out>[  PASSED  ]</system-out></testcase>'
FAILED = """<testcase name="A.Bad" status="fail"><failure message=""/>
  <system-out>a.cpp:7: 1 is not 2
Aborted
</system-out></testcase>"""
SKIPPED = """<testcase name="A.Uring" status="notrun">
  <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
  <system-out>[ RUN      ] A.Uring
/src/a_test.cpp:5: Skipped
no io_uring here: EPERM
[  SKIPPED ] A.Uring (0 ms)
</system-out></testcase>"""
SKIPPED_SCRIPT = """<testcase name="fsx" status="notrun">
  <skipped message="SKIP_RETURN_CODE=77"/><system-out>SKIP: no cargo
</system-out></testcase>"""
DISABLED = '<testcase name="A.Later" status="disabled"><system-out>Disabled</system-out></testcase>'
NOT_FOUND = """<testcase name="gone" status="notrun">
  <skipped message="Unable to find executable"/></testcase>"""


class TestSummary(unittest.TestCase):
    def summary_of(self, *cases: str) -> tuple[int, list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tests.xml"
            path.write_text(f"<testsuite>{''.join(cases)}</testsuite>", "utf-8")
            return self.run_on(path)

    def run_on(self, *paths: Path) -> tuple[int, list[str]]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = test_summary.main([str(path) for path in paths])
        return status, output.getvalue().splitlines()

    def test_counts_what_passed(self) -> None:
        self.assertEqual(self.summary_of(PASSED), (0, ["1 passed, 0 failed, 0 skipped"]))

    def test_a_failure_fails(self) -> None:
        status, lines = self.summary_of(PASSED, FAILED)
        self.assertEqual(status, 1)
        self.assertEqual(lines[-1], "1 passed, 1 failed, 0 skipped")

    def test_a_failure_is_shown_with_the_end_of_its_output(self) -> None:
        _, lines = self.summary_of(PASSED, FAILED)
        self.assertEqual(lines[:3], ["failed A.Bad", "    a.cpp:7: 1 is not 2", "    Aborted"])

    def test_a_skip_is_shown_with_its_reason(self) -> None:
        status, lines = self.summary_of(PASSED, SKIPPED, SKIPPED_SCRIPT, DISABLED)
        self.assertEqual(status, 0)
        self.assertEqual(
            lines,
            [
                "skipped A.Later: disabled",
                "skipped A.Uring: no io_uring here: EPERM",
                "skipped fsx: no cargo",
                "1 passed, 0 failed, 3 skipped",
            ],
        )

    def test_what_could_not_start_has_failed(self) -> None:
        status, lines = self.summary_of(PASSED, NOT_FOUND)
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_run_in_which_nothing_passed_fails(self) -> None:
        self.assertEqual(self.summary_of(SKIPPED)[0], 1)

    def test_a_suite_that_did_not_run_has_failed(self) -> None:
        status, lines = self.run_on(Path("/nonexistent/tests.xml"))
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
