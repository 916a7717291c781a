import contextlib
import io
import json
import os
import signal
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from harness import build, cli, environment
from harness.benchmarks import BENCHMARKS
from harness.result import Row, row
from harness.session import Selection, Session


class MainTest(unittest.TestCase):
    """With a benchmark and a build of its own: nothing is compiled or measured."""

    def setUp(self) -> None:
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.seen: list[Session] = []
        stack.enter_context(
            mock.patch.object(build, "locate", lambda _, *, python: build.Build(self.folder))
        )
        stack.enter_context(mock.patch.object(environment, "describe", lambda _tools, _base: {}))

    def run_main(self, measured: str, *words: str) -> int:
        """Runs `bench/run interposer`, which yields a row and then does what is said."""

        def benchmark(session: Session) -> Iterator[Row]:
            self.seen.append(session)
            yield row("m", "s", [1.0])
            if measured == "interrupted":
                os.kill(os.getpid(), signal.SIGTERM)

        loaded = mock.patch.object(type(BENCHMARKS["interposer"]), "load", lambda _: benchmark)
        silent = (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        )
        file = self.folder / "r.json"
        with loaded, silent[0], silent[1]:
            return cli.main(["interposer", "--dir", str(self.folder), "--json", str(file), *words])

    def document(self) -> dict[str, dict[str, dict[str, object]]]:
        """What was written."""
        content: dict[str, dict[str, dict[str, object]]] = json.loads(
            (self.folder / "r.json").read_text("utf-8")
        )
        return content

    def test_what_was_measured_before_an_interrupt_is_written(self) -> None:
        with self.assertRaises(SystemExit) as ended:
            self.run_main("interrupted")
        self.assertEqual(ended.exception.code, 128 + signal.SIGTERM)
        document = self.document()
        self.assertEqual(len(document["rows"]), 1)
        self.assertEqual(document["benchmarks"]["interposer"]["error"], "interrupted")
        self.assertFalse(self.seen[0].folder.exists())

    def test_the_part_that_is_wanted_reaches_the_benchmark(self) -> None:
        words = [
            "--only",
            "grep,dd",
            "--place",
            "slowfs",
            "--cache",
            "cold",
            "--pairs",
            "5",
            "--null",
        ]
        self.assertEqual(self.run_main("all", *words), 0)
        self.assertEqual(
            self.seen[0].selection, Selection(("grep", "dd"), ("slowfs",), ("cold",), 5, null=True)
        )

    def test_no_pairs_at_all_are_refused(self) -> None:
        with self.assertRaises(SystemExit) as ended:
            self.run_main("all", "--pairs", "0")
        self.assertEqual(ended.exception.code, 2)
