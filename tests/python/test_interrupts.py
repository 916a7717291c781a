"""Ctrl-C and the end of the program, each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

PROLOGUE = """
    import logging, signal, sys, threading, time
    import ioweave
    logging.basicConfig(format="%(message)s")

    written = []
    begun, go = threading.Event(), threading.Event()

    @ioweave.io(bandwidth=10, device="ssd")
    def write(step):
        begun.set()
        go.wait()
        written.append(step)

    def run(runtime, body):
        try:
            with runtime:
                body()
        except KeyboardInterrupt:
            print("interrupted", end=" ")
        print(sorted(written), runtime.not_written, runtime.stats().pending, flush=True)

    devices = [ioweave.Device("ssd", bandwidth=10)]
"""


class Interrupts(unittest.TestCase):
    def run_program(self, program: str, *, signals: int = 1, status: int = 0) -> tuple[str, str]:
        """Runs a program that gets Ctrl-C whenever it prints `press`; returns output and errors."""
        text = textwrap.dedent(PROLOGUE) + textwrap.dedent(program)
        with subprocess.Popen(
            [sys.executable, "-c", text],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            for _ in range(signals):
                self.assertEqual(process.stdout.readline(), "press\n")
                process.send_signal(signal.SIGINT)
            try:
                output, errors = process.communicate(timeout=50)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        self.assertEqual(process.returncode, status, errors)
        return output, errors

    BODY = """
        def body():
            for step in range(3):
                write(step)
            begun.wait()
            threading.Timer(0.1, go.set).start()
            print("press", flush=True)
            for _ in range(600):  # a signal just before a sleep is seen behind it
                time.sleep(0.1)

        run(ioweave.Runtime(devices=devices, on_interrupt="{choice}"), body)
    """

    def test_drain_runs_what_was_submitted(self) -> None:
        output, errors = self.run_program(self.BODY.format(choice="drain"))
        self.assertEqual((output, errors), ("interrupted [0, 1, 2] [] 0\n", ""))

    def test_drain_in_a_coroutine_too(self) -> None:
        program = """
            import asyncio

            async def main():
                runtime = ioweave.Runtime(devices=devices)
                try:
                    with runtime:
                        for step in range(3):
                            write(step)
                        begun.wait()
                        threading.Timer(0.1, go.set).start()
                        print("press", flush=True)
                        for _ in range(600):
                            await asyncio.sleep(0.1)
                finally:
                    print(sorted(written), runtime.not_written)

            try:
                asyncio.run(main())
            except KeyboardInterrupt:
                print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        """
        output, errors = self.run_program(program)
        self.assertEqual((output, errors), ("[0, 1, 2] []\nTrue\n", ""))

    def test_drain_in_processes_though_the_terminal_interrupts_these_too(self) -> None:
        """The terminal sends the signal to the whole process group."""
        module = """
            import ioweave, pathlib

            @ioweave.task
            def read(fifo):
                return pathlib.Path(fifo).read_text()
        """
        program = """
            import os, reading, signal, threading, ioweave

            if __name__ == "__main__":
                os.mkfifo("fifo")
                try:
                    with ioweave.Runtime(cpus=1, workers="processes"):
                        futures = [reading.read("fifo"), reading.read("rest")]
                        writer = open("fifo", "w")  # the first one is open in its task
                        end = threading.Timer(0.1, lambda: writer.close())
                        end.start()
                        os.killpg(0, signal.SIGINT)
                        end.join()
                except KeyboardInterrupt:
                    print([future.result() for future in futures])
        """
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "rest").write_text("rest")
            for name, text in (("reading.py", module), ("program.py", program)):
                Path(folder, name).write_text(textwrap.dedent(text))
            ended = subprocess.run(
                [sys.executable, "program.py"],
                cwd=folder,
                capture_output=True,
                text=True,
                start_new_session=True,
                check=False,
                timeout=50,
            )
        self.assertEqual((ended.stdout, ended.stderr), ("['', 'rest']\n", ""))

    def test_a_coroutine_that_is_cancelled_by_another_is_no_interrupt(self) -> None:
        program = """
            import asyncio

            async def block(runtime):
                with runtime:
                    for step in range(3):
                        write(step)
                    begun.wait()
                    threading.Timer(0.1, go.set).start()
                    await asyncio.sleep(60)

            async def main():
                runtime = ioweave.Runtime(devices=devices)
                try:
                    await asyncio.wait_for(block(runtime), 0.01)
                except asyncio.TimeoutError:
                    print(sorted(written), runtime.not_written)

            asyncio.run(main())
        """
        output, _ = self.run_program(program, signals=0)
        self.assertEqual(output, "[0] ['write(1)', 'write(2)']\n")

    def test_cancel_runs_what_has_begun_and_says_what_was_not_written(self) -> None:
        output, errors = self.run_program(self.BODY.format(choice="cancel"))
        self.assertEqual(output, "interrupted [0] ['write(1)', 'write(2)'] 0\n")
        self.assertEqual(errors, "interrupted: 2 I/O tasks were not done: write(1), write(2)\n")

    def test_ctrl_c_works_while_the_end_of_the_block_waits(self) -> None:
        program = """
            def body():
                for step in range(3):
                    write(step)
                begun.wait()
                def press():
                    time.sleep(0.05)
                    print("press", flush=True)
                    time.sleep(0.1)
                    go.set()
                threading.Thread(target=press).start()

            run(ioweave.Runtime(devices=devices, on_interrupt="cancel"), body)
        """
        output, _ = self.run_program(program)
        self.assertEqual(output, "interrupted [0] ['write(1)', 'write(2)'] 0\n")

    def test_a_second_ctrl_c_cancels_and_a_third_leaves(self) -> None:
        program = """
            def body():
                write(0), write(1)
                begun.wait()
                def press():
                    for _ in range(3):
                        time.sleep(0.1)
                        print("press", flush=True)
                threading.Thread(target=press).start()

            run(ioweave.Runtime(devices=devices), body)
        """
        output, _ = self.run_program(program, signals=3)
        self.assertEqual(output, "interrupted [] ['write(0)', 'write(1)'] 1\n")

    def test_ctrl_c_leaves_no_submission_half_way(self) -> None:
        program = """
            import random
            go.set()
            logging.getLogger("ioweave").setLevel(logging.ERROR)
            add = ioweave.task(lambda *values: len(values))
            def body():
                value = 0
                while True:
                    value = add(value)
                    write(value)
            for seed in range(20):
                runtime = ioweave.Runtime(devices=devices, on_interrupt="cancel", max_pending=50)
                delay = random.Random(seed).uniform(0.001, 0.02)
                try:
                    with runtime:
                        threading.Timer(
                            delay,
                            signal.pthread_kill,
                            (threading.main_thread().ident, signal.SIGINT),
                        ).start()
                        body()
                except KeyboardInterrupt:
                    stats = runtime.stats()
                    assert stats.submitted == stats.succeeded + stats.cancelled, stats
                    assert (stats.pending, stats.io_waiting, stats.io_running) == (0, 0, 0), stats
                else:
                    raise SystemExit("not interrupted")
            print("all ended")
        """
        output, _ = self.run_program(program, signals=0)
        self.assertEqual(output, "all ended\n")

    def test_a_program_that_does_not_close_its_runtime_loses_nothing(self) -> None:
        program = """
            ioweave.Runtime(devices=devices).start()
            for step in range(3):
                write(step).add_done_callback(lambda _: print("done", flush=True))
            go.set()
        """
        output, _ = self.run_program(program, signals=0)
        self.assertEqual(output.count("done"), 3, output)  # threads may share a line

    def test_tasks_whose_turn_comes_when_the_program_has_ended_find_threads(self) -> None:
        """Python 3.12 starts no threads then."""
        program = """
            @ioweave.task(timeout=60)
            def simulate(*_):
                time.sleep(0.05)

            @ioweave.io
            def checkpoint(*_):
                print("written", flush=True)

            ioweave.Runtime(cpus=1).start()
            first = simulate() if {computes} else checkpoint()
            last = checkpoint(simulate(checkpoint(first)))
        """
        for computes in (False, True):
            with self.subTest(computes=computes):
                output, errors = self.run_program(program.format(computes=computes), signals=0)
                self.assertEqual(output, "written\n" * (3 - computes))
                self.assertNotIn("Traceback", errors)  # it may say that threads are too few

    def test_ctrl_c_after_the_last_thread_has_ended_is_raised(self) -> None:
        program = """
            from ioweave import pool

            def stop(self):
                real(self)
                if not pressed:
                    pressed.append(True)
                    signal.raise_signal(signal.SIGINT)

            real, pool.Pool.stop, pressed = pool.Pool.stop, stop, []
            run(ioweave.Runtime(devices=devices), lambda: None)
        """
        output, errors = self.run_program(program, signals=0)
        self.assertEqual((output, errors), ("interrupted [] [] 0\n", ""))

    def test_a_runtime_closed_by_another_thread_leaves_ctrl_c_to_the_next(self) -> None:
        program = """
            first = ioweave.Runtime(devices=devices).start()
            closing = threading.Thread(target=first.close)
            closing.start(), closing.join()
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                print("raised", end=" ")

            second = ioweave.Runtime(devices=devices)
            enter = second._add_call

            def press(*args):
                enter(*args)
                signal.raise_signal(signal.SIGINT)

            second._add_call = press
            go.set()
            run(second, lambda: write(1))
            print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        """
        output, errors = self.run_program(program, signals=0)
        self.assertEqual((output, errors), ("raised interrupted [1] [] 0\nTrue\n", ""))

    def test_ctrl_c_means_the_same_without_a_block(self) -> None:
        """The runtime is closed while the exception passes, where it is handled, or never."""
        program = """
            runtime = ioweave.Runtime(devices=devices, on_interrupt="cancel").start()
            write(0), write(1)
            write(2).add_done_callback(lambda _: go.set())  # it is cancelled
            begun.wait()
            instead = threading.Timer(10, go.set)
            instead.daemon = True
            instead.start()
            try:
                print("press", flush=True)
                for _ in range(600):
                    time.sleep(0.1)
            {end}
        """
        ends = {
            "finally: runtime.close()": -signal.SIGINT,
            "except KeyboardInterrupt: runtime.close()": 0,
            "finally: pass": -signal.SIGINT,
        }
        for end, status in ends.items():
            with self.subTest(end):
                _, errors = self.run_program(program.format(end=end), status=status)
                self.assertIn("interrupted: 2 I/O tasks were not done: write(1), write(2)", errors)

    def test_an_interrupt_that_was_handled_is_forgotten(self) -> None:
        program = """
            ioweave.Runtime(devices=devices, on_interrupt="cancel").start()
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                pass
            for step in range(3):
                write(step).add_done_callback(lambda _: print("done", flush=True))
            go.set()
        """
        output, errors = self.run_program(program, signals=0)
        self.assertEqual(output.count("done"), 3)
        self.assertNotIn("interrupted", errors)  # from 3.12 on it may say that threads are too few

    def test_ctrl_c_works_in_a_forked_process(self) -> None:
        program = """
            import os, warnings
            warnings.simplefilter("ignore")  # of Python 3.12, which forks no threads gladly

            def press(_):
                signal.raise_signal(signal.SIGINT)
                return 0

            @ioweave.io(bytes=press)
            def save(block):
                pass

            with ioweave.Runtime():
                child = os.fork()
                if child == 0:
                    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
                    run(ioweave.Runtime(), lambda: save(1))
                    os._exit(0)
                os.waitpid(child, 0)
                assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        """
        output, errors = self.run_program(program, signals=0)
        self.assertEqual((output, errors), ("interrupted [] [] 0\n", ""))

    def test_a_handler_of_the_program_is_left_alone(self) -> None:
        program = """
            signal.signal(signal.SIGINT, lambda *_: print("mine", flush=True))
            with ioweave.Runtime():
                signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with ioweave.Runtime():
                assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        """
        output, _ = self.run_program(program, signals=0)
        self.assertEqual(output, "mine\nmine\n")


if __name__ == "__main__":
    unittest.main()
