"""Runs a PyCOMPSs program as it is: `python -m ioweave.compat.pycompss [options] app.py ...`."""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import ioweave

from .resources import read_resources, this_node

_HERE = "ioweave.compat.pycompss"


class _Pycompss(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `pycompss...` in this package, and says so where a module of it is not there."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "pycompss" and not name.startswith("pycompss."):
            return None
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        here = _HERE + spec.name.removeprefix("pycompss")
        if importlib.util.find_spec(here) is None:
            raise ImportError(
                f"{spec.name} is not supported by {_HERE}, which has pycompss.api.task, "
                "constraint, IO, parameter and api"
            )
        return importlib.import_module(here)

    def exec_module(self, module: ModuleType) -> None:
        """It was executed under its own name."""


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m {_HERE}",
        description="Runs a PyCOMPSs program on Ioweave, on this machine.",
        epilog="Options of runcompss that are not listed here are not supported.",
    )
    parser.add_argument(
        "--resources", type=Path, metavar="FILE", help="COMPSs' resources XML: cores, bandwidth"
    )
    parser.add_argument(
        "--io_executors", type=int, metavar="N", help="I/O tasks that may run at once"
    )
    parser.add_argument("--cpus", type=int, metavar="N", help="cores, instead of those of the file")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write the policy's event log")
    parser.add_argument("app", type=Path, help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser.parse_args(given)


def _runtime_options(arguments: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, Any] = {"log": arguments.log}
    if arguments.resources is not None:
        node = this_node(read_resources(arguments.resources))
        if node.computing_units is not None:
            options["cpus"] = node.computing_units
        if node.storage_mb_per_s is not None:
            options["devices"] = [ioweave.Device("default", bandwidth=node.storage_mb_per_s)]
    if arguments.cpus is not None:
        options["cpus"] = arguments.cpus
    if arguments.io_executors is not None:
        options["io_threads"] = arguments.io_executors
    return options


def main(given: list[str] | None = None) -> int:
    """The exit status: that of the program, or 2 for what cannot be run."""
    arguments = _arguments(given)
    if not arguments.app.is_file():
        print(f"{_HERE}: no such program: {arguments.app}", file=sys.stderr)
        return 2
    try:
        runtime = ioweave.Runtime(**_runtime_options(arguments))
    except (OSError, ValueError) as error:
        print(f"{_HERE}: {error}", file=sys.stderr)
        return 2
    sys.meta_path.insert(0, _Pycompss())
    sys.argv = [str(arguments.app), *arguments.arguments]
    sys.path.insert(0, str(arguments.app.resolve().parent))
    with runtime:
        runpy.run_path(str(arguments.app), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
