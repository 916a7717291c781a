#!/usr/bin/env python3
"""One task runtime doing one of two things; `peers.py` starts a process of it for each.

    contender.py NAME rate --tasks N --rounds R
    contender.py NAME checkpoints --folder DIR --slots K ...
    contender.py dask overhead --tasks N --rounds R [--start plain ioweave runtime]

prints a JSON object per round. It knows nothing of the harness, since it runs on the Python that
has the peers. Each peer is set up as its documentation says for work beside I/O: a resource `io` of
Dask and of Ray (where I/O tasks have num_cpus=0), a second executor of Parsl, a second pool. What
they compute and write releases Python's lock, so that threads, which cost least, serve them best;
Dask's are in a process of their own, and once more in one with its client and scheduler.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import gc
import hashlib
import importlib
import itertools
import json
import mmap
import operator
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

PIECE = 1 << 20


# ---- What is run


def nothing(number: int) -> int:
    return number


#: One that Dask pickles by its name, which is cheapest: those of this script go by value.
trivial = operator.index


def compute(number: int, iterations: int) -> bytes:
    """A checksum, without Python's lock."""
    return hashlib.pbkdf2_hmac("sha256", b"ioweave", str(number).encode(), iterations)


def checkpoint(content: bytes, path: str, size: int) -> int:
    """Writes `size` bytes, whole pieces, past the page cache."""
    piece = mmap.mmap(-1, PIECE)
    piece.write(content * (PIECE // len(content)))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o666)
    try:
        for _ in range(size // PIECE):
            os.write(file, piece)
        os.fsync(file)
    finally:
        os.close(file)
        piece.close()
    return size


# ---- The contenders


@dataclass(frozen=True)
class Contender:
    """A runtime that is up.

    Attributes:
        submit: A computation: a function and its arguments; gives a future.
        submit_io: An I/O task; its first argument is the future of a computation.
        wait: Waits for futures, and raises what one of them did.
        submit_many: A computation for each number below n.
        settle: Waits until nothing is left of tasks whose futures are gone.
    """

    submit: Callable[..., Any]
    submit_io: Callable[..., Any]
    wait: Callable[[list[Any]], object]
    submit_many: Callable[[Callable[[int], int], int], list[Any]] | None = None
    settle: Callable[[], object] = lambda: None

    def many(self, function: Callable[[int], int], number: int) -> list[Any]:
        if self.submit_many is not None:
            return self.submit_many(function, number)
        return [self.submit(function, i) for i in range(number)]


@contextlib.contextmanager
def _ioweave(cpus: int, device: Any, **options: Any) -> Iterator[Contender]:
    """With these options of I/O tasks."""
    ioweave = importlib.import_module("ioweave")

    @functools.cache
    def task(function: Callable[..., Any]) -> Any:
        return ioweave.task(function)

    @functools.cache
    def io_task(function: Callable[..., Any]) -> Any:
        return ioweave.io(device=device.name, bytes=_size, **options)(function)

    with ioweave.Runtime(cpus=cpus, devices=[device]):
        yield Contender(
            lambda function, *args: task(function)(*args),
            lambda function, *args: io_task(function)(*args),
            ioweave.wait,
        )


def _size(_content: object, _path: str, size: int) -> int:
    return size


def climb(options: argparse.Namespace) -> AbstractContextManager[Contender]:
    """Slots are not asked for: climb finds them."""
    device = importlib.import_module("ioweave").Device("knee", path=options.folder)
    return _ioweave(options.cpus, device)


def climb_measured(options: argparse.Namespace) -> AbstractContextManager[Contender]:
    """The same where `ioweave measure` has been before: climb begins with what that found."""
    device = importlib.import_module("ioweave").Device(
        "knee", path=options.folder, curve=options.curve
    )
    return _ioweave(options.cpus, device)


def fixed(options: argparse.Namespace) -> AbstractContextManager[Contender]:
    """So many at once, as the others are told."""
    device = importlib.import_module("ioweave").Device(
        "knee", path=options.folder, bandwidth=options.slots
    )
    return _ioweave(options.cpus, device, bandwidth=1)


@contextlib.contextmanager
def pools(options: argparse.Namespace) -> Iterator[Contender]:
    """Two pools of the standard library; a computation hands its value on when it is done."""
    with (
        concurrent.futures.ThreadPoolExecutor(options.cpus) as computing,
        concurrent.futures.ThreadPoolExecutor(options.slots) as writing,
    ):

        def submit_io(function: Callable[..., Any], needed: Any, *args: Any) -> Any:
            written: concurrent.futures.Future[Any] = concurrent.futures.Future()

            def begin(done: Any) -> None:
                try:
                    started = writing.submit(function, done.result(), *args)
                    started.add_done_callback(finish)
                except Exception as error:
                    written.set_exception(error)

            def finish(done: Any) -> None:
                if done.exception() is not None:
                    written.set_exception(done.exception())
                else:
                    written.set_result(done.result())

            needed.add_done_callback(begin)
            return written

        yield Contender(computing.submit, submit_io, _results)


def _results(futures: list[Any]) -> None:
    for future in futures:
        future.result()


@contextlib.contextmanager
def dask(options: argparse.Namespace, *, processes: bool = True) -> Iterator[Contender]:
    """A worker with threads for both, kept apart by the resources cpu and io; in a process of its
    own, as LocalCluster has it by default, or with client and scheduler in one."""
    distributed = importlib.import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=options.cpus + options.slots,
            processes=processes,
            resources={"cpu": options.cpus, "io": options.slots},
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def submit(function: Callable[..., Any], *args: Any) -> Any:
            return client.submit(function, *args, resources={"cpu": 1}, pure=False)

        def submit_io(function: Callable[..., Any], *args: Any) -> Any:
            return client.submit(function, *args, resources={"io": 1}, pure=False)

        def submit_many(function: Callable[[int], int], number: int) -> list[Any]:
            futures: list[Any] = client.map(function, range(number), pure=False)
            return futures

        yield Contender(submit, submit_io, client.gather, submit_many)


@contextlib.contextmanager
def climb_on_dask(options: argparse.Namespace) -> Iterator[Contender]:
    """The same worker; climb has all its slots and finds out how many to use."""
    distributed = importlib.import_module("distributed")
    ioweave_dask = importlib.import_module("ioweave.dask")
    with (
        ioweave_dask.local_cluster(cores=options.cpus, io_slots=options.slots) as cluster,
        distributed.Client(cluster) as client,
    ):
        handle = ioweave_dask.connect(client)
        handle.declare_device("knee", path=options.folder, max_in_flight=options.slots)

        def submit_io(function: Callable[..., Any], *args: Any) -> Any:
            return handle.submit_io(function, *args, device="knee", constraint="climb")

        yield Contender(handle.submit_compute, submit_io, client.gather)


@contextlib.contextmanager
def ray(options: argparse.Namespace) -> Iterator[Contender]:
    """Processes; I/O tasks take no processor, and one of `slots` of the resource io."""
    ray = importlib.import_module("ray")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of a change
    ray.init(
        num_cpus=options.cpus,
        resources={"io": options.slots},
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )

    @functools.cache
    def task(function: Callable[..., Any]) -> Any:
        return ray.remote(num_cpus=1)(function)

    @functools.cache
    def io_task(function: Callable[..., Any]) -> Any:
        return ray.remote(num_cpus=0, resources={"io": 1})(function)

    contender = Contender(
        lambda function, *args: task(function).remote(*args),
        lambda function, *args: io_task(function).remote(*args),
        ray.get,
    )
    try:
        # Worker processes start as they are needed, each for a second: not while time is taken.
        barrier = tempfile.mkdtemp(prefix="ioweave-ray-")
        slots = options.slots
        ray.get([io_task(_meet).remote(barrier, slots) for _ in range(slots)])
        yield contender
    finally:
        ray.shutdown()


def _meet(folder: str, number: int) -> None:
    """Returns when as many are here, or after half a minute."""
    with tempfile.NamedTemporaryFile(dir=folder, delete=False):
        pass
    end = time.monotonic() + 30
    while len(os.listdir(folder)) < number and time.monotonic() < end:  # noqa: PTH208
        time.sleep(0.05)


@contextlib.contextmanager
def parsl(options: argparse.Namespace) -> Iterator[Contender]:
    """Two executors of threads, the second one for I/O."""
    parsl = importlib.import_module("parsl")
    threads = importlib.import_module("parsl.executors").ThreadPoolExecutor
    with tempfile.TemporaryDirectory() as run_dir:
        config = parsl.Config(
            executors=[
                threads(label="compute", max_threads=options.cpus),
                threads(label="io", max_threads=options.slots),
            ],
            run_dir=run_dir,
            strategy="none",
            initialize_logging=False,
        )

        @functools.cache
        def app(function: Callable[..., Any], executor: str) -> Any:
            return parsl.python_app(function, executors=[executor])

        with parsl.load(config):
            yield Contender(
                lambda function, *args: app(function, "compute")(*args),
                lambda function, *args: app(function, "io")(*args),
                _results,
            )


CONTENDERS: dict[str, Callable[[argparse.Namespace], AbstractContextManager[Contender]]] = {
    "ioweave": climb,
    "ioweave-measured": climb_measured,
    "ioweave-fixed": fixed,
    "ioweave-dask": climb_on_dask,
    "dask": dask,
    "dask-threads": functools.partial(dask, processes=False),
    "ray": ray,
    "parsl": parsl,
    "pools": pools,
}


# ---- What is measured


def rate(contender: Contender, tasks: int, rounds: int) -> Iterator[dict[str, float]]:
    """Trivial computations per second, from the first call to the last value."""
    for number in range(rounds + 1):
        began = time.perf_counter()
        contender.wait(contender.many(nothing, tasks))
        seconds = time.perf_counter() - began
        if number > 0:  # the first one warms up
            yield {"tasks_per_s": tasks / seconds}


def checkpoints(contender: Contender, options: argparse.Namespace) -> dict[str, float]:
    """Computations, and a checkpoint of each."""
    contender.wait([contender.submit(compute, i, 1) for i in range(4 * options.cpus)])
    paths = [os.path.join(options.folder, f"{i}") for i in range(options.tasks)]  # noqa: PTH118
    began = time.perf_counter()
    written = []
    for number, path in enumerate(paths):
        content = contender.submit(compute, number, options.iterations)
        written.append(contender.submit_io(checkpoint, content, path, options.pieces * PIECE))
    contender.wait(written)
    seconds = time.perf_counter() - began
    total = sum(os.stat(path).st_size for path in paths)  # noqa: PTH116
    for path in paths:
        os.unlink(path)  # noqa: PTH108
    return {"seconds": seconds, "bytes": total}


#: Of `overhead`.
DASK_CLUSTERS = ("plain", "ioweave", "runtime")


@contextlib.contextmanager
def on_dask(cpus: int, slots: int, *, connected: bool) -> Iterator[Contender]:
    """A worker in a process of its own, with Ioweave and without: all else is the same.

    I/O tasks have no constraint: what they cost more is what Ioweave costs.
    """
    distributed = importlib.import_module("distributed")
    ioweave_dask = importlib.import_module("ioweave.dask")
    with (
        ioweave_dask.local_cluster(cores=cpus, io_slots=slots) as cluster,
        distributed.Client(cluster) as client,
    ):
        settle = functools.partial(_forgotten, cluster)
        if connected:
            handle = ioweave_dask.connect(client)
            yield Contender(handle.submit_compute, handle.submit_io, client.gather, settle=settle)
        else:
            submit = functools.partial(client.submit, pure=False)
            yield Contender(
                functools.partial(submit, resources={"cpu": 1}),
                functools.partial(submit, resources={"io": 1}),
                client.gather,
                settle=settle,
            )


@contextlib.contextmanager
def runtime_on_dask(cpus: int, slots: int) -> Iterator[Contender]:
    """Such a worker again, for calls of tasks, whose values nobody asks for."""
    distributed = importlib.import_module("distributed")
    ioweave = importlib.import_module("ioweave")
    ioweave_dask = importlib.import_module("ioweave.dask")
    task, io_task = ioweave.task(trivial), ioweave.io(policy="none")(trivial)
    with (
        ioweave_dask.local_cluster(cores=cpus, io_slots=slots) as cluster,
        distributed.Client(cluster) as client,
        ioweave.Runtime(client),
    ):

        def wait(futures: list[Any]) -> None:
            ioweave.wait(futures)

        yield Contender(
            lambda _, number: task(number),
            lambda _, number: io_task(number),
            wait,
            settle=functools.partial(_forgotten, cluster),
        )


def _forgotten(cluster: Any) -> None:
    """The schedulers of all contenders are in this process: what one has still to do would count
    for the next."""
    while cluster.scheduler.tasks:
        time.sleep(0.001)
    time.sleep(0.01)  # its worker hears of it


def dask_overhead(options: argparse.Namespace) -> Iterator[dict[str, float]]:
    """Trivial tasks per second on plain Dask, by our handle and by our runtime, in turn. The
    clusters start in the order of their names in `options.start`: the first one is faster."""
    cpus = options.cpus
    clusters = {
        "plain": functools.partial(on_dask, cpus, cpus, connected=False),
        "ioweave": functools.partial(on_dask, cpus, cpus, connected=True),
        "runtime": functools.partial(runtime_on_dask, cpus, cpus),
    }
    with contextlib.ExitStack() as stack:
        contenders = {name: stack.enter_context(clusters[name]()) for name in options.start}
        orders = list(itertools.permutations(sorted(contenders)))
        for number in range(-2, options.rounds):
            found = {}
            for kind in ("compute", "io"):
                for name in orders[number % len(orders)]:
                    found[f"{name}_{kind}"] = _rate(contenders[name], kind, options.tasks)
            if number >= 0:  # the first ones warm up
                yield found
            else:
                gc.freeze()  # or a collection would take as long as a batch


def _rate(contender: Contender, kind: str, tasks: int) -> float:
    submit = contender.submit if kind == "compute" else contender.submit_io
    gc.collect()
    began = time.perf_counter()
    contender.wait([submit(trivial, i) for i in range(tasks)])
    seconds = time.perf_counter() - began
    contender.settle()
    return tasks / seconds


def measure(options: argparse.Namespace) -> Iterator[dict[str, float]]:
    """What was asked for, once per round."""
    if options.what == "overhead":
        yield from dask_overhead(options)
        return
    with CONTENDERS[options.name](options) as contender:
        if options.what == "rate":
            yield from rate(contender, options.tasks, options.rounds)
        else:
            yield checkpoints(contender, options)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("what", choices=("rate", "checkpoints", "overhead"))
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cpus", type=int, default=os.cpu_count())
    parser.add_argument("--slots", type=int, default=4, help="I/O tasks at once")
    parser.add_argument(
        "--start",
        nargs="+",
        default=DASK_CLUSTERS,
        choices=DASK_CLUSTERS,
        help="the order in which the clusters of `overhead` start",
    )
    parser.add_argument("--folder", default="", help="where checkpoints are written")
    parser.add_argument(
        "--curve", type=json.loads, default=[], help="what it moves: [[streams, MB/s], ...]"
    )
    parser.add_argument("--iterations", type=int, default=1, help="of a computation")
    parser.add_argument("--pieces", type=int, default=1, help="MiB of a checkpoint")
    options = parser.parse_args()
    # What a peer says on standard output is not a result.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as results:
        os.dup2(2, 1)
        for found in measure(options):
            print(json.dumps(found), file=results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
