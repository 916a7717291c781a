"""Finds the programs to measure, and builds them first unless told where they are."""

from __future__ import annotations

import importlib
import os
import site
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRESET = "release"
TARGET = "benchmarks"
#: Python packages of the benchmarks (NumPy, Dask, matplotlib) and of the build (nanobind).
VENV = ROOT / "build/venv"

#: Where each program lies in a build folder.
PROGRAMS = {
    "ioweave": "src/cli/ioweave",
    "hill": "apps/hill/hill",
    "hill_mpi": "apps/hill/hill_mpi",
    "matrix_search": "apps/matrix_search/matrix_search",
    "tiom": "apps/tiom/ioweave-tiom",
    "cube_remap": "apps/cube/cube_remap",
    "slowfs": "bench/slowfs/ioweave-slowfs",
    "mpiio_openmpi": "src/calls/mpiio/libioweave_mpiio_openmpi.so",
    "mpiio_mpich": "src/calls/mpiio/libioweave_mpiio_mpich.so",
    **{
        f"bench_{name}": f"bench/drivers/bench_{name}"
        for name in (
            "transfer",
            "nop",
            "threads",
            "blocking",
            "calls",
            "checkpoint_writer",
            "chunk_reader",
            "chunk_reader_fortran",
            "cold_read",
            "cold_reader",
            "cold_reader_static",
            "cold_reader_go",
            "model",
            "plans",
            "disk_load",
            "ior_patterns",
            "mpi_reads",
            "read_back",
            "scattered_reader",
            "small_writer",
            "streams",
            "task_tbb",
            "task_openmp",
        )
    },
}


class BuildFailed(RuntimeError):
    """The programs could not be built, or are not where they should be."""


@dataclass(frozen=True)
class Build:
    """A build folder with everything in it."""

    folder: Path

    def program(self, name: str) -> Path:
        """The path of a program of `PROGRAMS`.

        Raises:
            BuildFailed: It is not there.
        """
        path = self.folder / PROGRAMS[name]
        if not path.exists():
            raise BuildFailed(f"{path} is missing: build the target '{TARGET}' in {self.folder}")
        return path

    def settings(self) -> dict[str, str]:
        """What of CMake's cache tells how the programs were compiled."""
        wanted = ("CMAKE_BUILD_TYPE", "CMAKE_CXX_COMPILER", "CMAKE_CXX_FLAGS", "IOWEAVE_SANITIZE")
        found = {}
        for line in (self.folder / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            name = key.partition(":")[0]
            if name in wanted:
                found[name] = value
        return found


def use_python_package(build: Build) -> None:
    """From now on `import ioweave` gives the package of this build, and what its pictures need is
    found in build/venv, if that is there (`locate` makes it).

    Raises:
        BuildFailed: It is not there, or was built for another Python.
    """
    folder = build.folder / "python"
    try:
        if not any((folder / "ioweave").glob("_core.*")):  # else another one may be imported
            raise ImportError("there is none")
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
            places = {"base": str(VENV)}
            site.addsitedir(sysconfig.get_path("purelib", "posix_prefix", places))
        importlib.import_module("ioweave._core")
    except ImportError as error:
        raise BuildFailed(
            f"{folder} has no module of Ioweave for {sys.executable} ({error}): build the target "
            f"'ioweave_python' in {build.folder}, which takes nanobind (`make "
            "build/venv/installed` installs it), or start bench/run with the Python that it was "
            "built for"
        ) from error


def _run(command: list[str]) -> None:
    # A first build takes minutes: somebody who watches sees it go on, a log sees only failures.
    watched = sys.stderr.isatty()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            text=True,
            stdout=sys.stderr if watched else subprocess.PIPE,
            stderr=None if watched else subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise BuildFailed(
            f"cannot run {command[0]}: {error.strerror} (`make develop` installs what a build "
            "takes, or prints the command that does)"
        ) from error
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed\n{done.stdout or ''}".rstrip())


def _install_venv() -> None:
    """Makes build/venv by the rule of the Makefile.

    Raises:
        BuildFailed: With the words of the installers, and which benchmarks go without.
    """
    print("installing Python packages (build/venv) ...", file=sys.stderr, flush=True)
    try:
        _run(["make", "build/venv/installed"])
    except BuildFailed as error:
        raise BuildFailed(
            f"{error}\n\nThis benchmark needs Python packages in build/venv (nanobind to build "
            "that of Ioweave, NumPy, ...), for which pip must reach PyPI or a mirror of it. "
            "engine, interposer, tiom, streams, cube and demo need none of them."
        ) from error


def locate(folder: Path | None, *, python: bool = False) -> Build:
    """The given build folder as it is, or the release build, brought up to date.

    With `python` the release build has the Python package too: what that takes is installed into
    build/venv if it is not there.

    Raises:
        BuildFailed: The compiler's words are in the text, or the installer's.
    """
    if folder is not None:
        if not (folder / "CMakeCache.txt").exists():
            raise BuildFailed(f"{folder} is not a build folder of CMake")
        return Build(folder.resolve())
    release = ROOT / "build" / PRESET
    install = python and not (VENV / "installed").exists()
    if install:
        _install_venv()
    print("building (build/release) ...", file=sys.stderr, flush=True)
    # Only a new configuration sees that nanobind came.
    if install or not (release / "CMakeCache.txt").exists():
        _run(["cmake", "--preset", PRESET])
    _run(["cmake", "--build", "--preset", PRESET, "--target", TARGET, f"-j{os.cpu_count() or 1}"])
    return Build(release)
