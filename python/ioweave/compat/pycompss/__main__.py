"""Runs a PyCOMPSs program as it is: `python -m ioweave.compat.pycompss [options] app.py ...`."""

import argparse
import contextlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import ioweave
from ioweave.simulated import SimulatedRuntime

from .resources import Node, read_resources, this_node

_HERE = "ioweave.compat.pycompss"
_SHOWN = 6  # nodes in a message


def _parse_arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m {_HERE}",
        description="Runs a PyCOMPSs program on Ioweave.",
        epilog="Options of runcompss that are not listed here are not supported.",
    )
    parser.add_argument(
        "--runtime",
        metavar="TARGET",
        help="where to run: dask://HOST:PORT, or sim://NODESxCORES to simulate (default: here)",
    )
    parser.add_argument(
        "--cost",
        action="append",
        type=_parse_cost,
        metavar="TASK=NUMBER",
        help="in simulation: the seconds that a task takes, or the bytes of a task with @IO",
    )
    parser.add_argument(
        "--workers",
        choices=("threads", "processes"),
        default="threads",
        help="run computations on this machine in threads (the default) or in processes",
    )
    parser.add_argument(
        "--resources",
        type=Path,
        metavar="FILE",
        help="take cores and bandwidth from this resources file of COMPSs (XML)",
    )
    parser.add_argument(
        "--io_executors", type=int, metavar="N", help="the most I/O tasks that run at once"
    )
    parser.add_argument(
        "--cpus", type=int, metavar="N", help="the number of cores, instead of that of the file"
    )
    parser.add_argument(
        "--log", type=Path, metavar="FILE", help="write the policy's event log to this file"
    )
    parser.add_argument("app", type=Path, help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the program")
    return parser.parse_args(given)


def _parse_cost(given: str) -> tuple[str, float]:
    task, _, number = given.rpartition("=")
    try:
        return task, float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{given!r} is not TASK=NUMBER") from None


def _choose_node(resources: Path) -> Node:
    """Returns the node of the file that stands for this machine; prints which one of several."""
    nodes = read_resources(resources)
    here = this_node(nodes)
    node = here or nodes[0]
    others = [other.name for other in nodes if other is not node]
    if here is None or others:
        is_here = "" if here else ", though none of its nodes has the name of this machine"
        shown = ", ".join(others[:_SHOWN]) + (", ..." if others[_SHOWN:] else "")
        print(
            f"{_HERE}: {resources}: node {node.name!r} is taken{is_here}: "
            f"{node.computing_units or 'unknown'} cores, "
            f"{node.storage_mb_per_s or 'unknown'} MB/s of storage; not used: {shown or 'none'}",
            file=sys.stderr,
        )
    return node


def _make_options(arguments: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, Any] = {
        "target": arguments.runtime,
        "workers": arguments.workers,
        "log": arguments.log,
        "costs": dict(arguments.cost or ()),
    }
    if arguments.resources is not None:
        node = _choose_node(arguments.resources)
        if node.computing_units is not None:
            options["cpus"] = node.computing_units
        if node.storage_mb_per_s is not None:
            options["devices"] = [ioweave.Device("default", bandwidth=node.storage_mb_per_s)]
    if arguments.cpus is not None:
        options["cpus"] = arguments.cpus
    if arguments.io_executors is not None:
        options["io_threads"] = arguments.io_executors
    return options


def _tell_time(runtime: SimulatedRuntime) -> None:
    print(f"{_HERE}: {runtime.now_s:g} s on {runtime.nodes} simulated nodes", file=sys.stderr)


def main(given: list[str] | None = None) -> int:
    """Runs the command; returns 0 if the program has ended, or 2 if it cannot be run."""
    arguments = _parse_arguments(given)
    if not arguments.app.is_file():
        print(f"{_HERE}: no such program: {arguments.app}", file=sys.stderr)
        return 2
    try:
        runtime = ioweave.Runtime(**_make_options(arguments)).start()
    except (ImportError, OSError, ValueError) as error:
        print(f"{_HERE}: {error}", file=sys.stderr)
        return 2
    sys.argv = [str(arguments.app), *arguments.arguments]
    sys.path.insert(0, str(arguments.app.resolve().parent))
    sys.path.insert(0, str(Path(__file__).with_name("alias")))
    program = ModuleType("__main__")
    program.__file__ = str(arguments.app)
    # It stays there until all tasks have ended, since worker processes find tasks in it.
    sys.modules["__main__"] = program
    with contextlib.ExitStack() as ending:
        if isinstance(runtime, SimulatedRuntime):
            ending.callback(_tell_time, runtime)
        ending.push(runtime)
        exec(compile(arguments.app.read_bytes(), program.__file__, "exec"), vars(program))
    return 0


if __name__ == "__main__":
    sys.exit(main())
