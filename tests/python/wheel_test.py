"""`pip install .` for every interpreter of this machine: the wheel, the package in it, the command.

For each it builds the wheel as pip does, installs it in a clean virtual environment and runs all
tests there that need nothing else. Interpreters of one version share a wheel. Ends with 77, and
says why, where PyPI cannot be reached for what builds a wheel.

Build trees stay in build/, where ccache finds in them what the presets compiled.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
# Those that need packages (Dask, NumPy, Matplotlib, rich) or the applications.
LEFT_OUT = re.compile("test_(dask.*|file|pictures|plan|progress|spread|stream|workflows)")
TESTS = [path.stem for path in HERE.glob("test_*.py") if not LEFT_OUT.fullmatch(path.stem)]
_NO_NETWORK = re.compile(r"name resolution|[Cc]onnection|Network is unreachable|Max retries")


@dataclass(frozen=True, order=True)
class Interpreter:
    version: tuple[int, int, int]
    path: str
    soabi: str
    has_headers: bool


_FACTS = """
import json, os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
print(json.dumps({"version": sys.version_info[:3], "path": os.path.realpath(sys.executable),
    "soabi": sysconfig.get_config_var("SOABI") or "", "has_headers": os.path.exists(header)}))
"""


def facts_of(python: Path) -> Interpreter | None:
    """Returns None for what does not run (a shim of pyenv), is too old or is no CPython."""
    done = subprocess.run([python, "-c", _FACTS], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    facts = json.loads(done.stdout)
    found = Interpreter(**{**facts, "version": tuple(facts["version"])})
    return found if found.version >= (3, 10) and found.soabi.startswith("cpython") else None


def interpreters() -> list[Interpreter]:
    """Returns the interpreters of PATH and of pyenv, oldest first, each once."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [Path(folder) for folder in os.get_exec_path()] + list(pyenv.glob("versions/*/bin"))
    candidates = [python for folder in folders for python in folder.glob("python3*")]
    named = [python for python in candidates if re.fullmatch(r"python3(\.\d+t?)?", python.name)]
    found = {python.resolve(): python for python in named}
    return sorted({known for python in found.values() if (known := facts_of(python))})


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Returns what a command printed; a failure ends the test and prints all of it."""
    environment = {key: value for key, value in os.environ.items() if key[:6] != "PYTHON"}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"CCACHE_BASEDIR": str(SOURCE), "CCACHE_NOHASHDIR": "1"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}"
        )
    return done.stdout


def builder_of(python: Interpreter) -> Path:
    """Returns the interpreter of an environment with the build requirements of pyproject.toml."""
    text = (SOURCE / "pyproject.toml").read_text("utf-8")
    requires = re.findall(r'"([^"]+)"', re.findall(r"^requires = \[(.*)\]$", text, re.MULTILINE)[0])
    folder = SOURCE / f"build/wheel-{python.soabi}-venv"
    builder = folder / "bin/python"
    if not builder.exists():
        run(python.path, "-m", "venv", folder)
    try:
        run(builder, "-m", "pip", "install", "--quiet", "--retries=1", *requires)
    except SystemExit as failed:
        if not _NO_NETWORK.search(str(failed)):
            raise
        print(f"SKIP: PyPI is not reachable for {', '.join(requires)}")
        raise SystemExit(77) from None
    return builder


def build_wheel(python: Interpreter, builder: Path, wheels: Path) -> Path:
    run(
        *(builder, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        f"--config-settings=build-dir={SOURCE}/build/wheel-{python.soabi}",
        "--config-settings=cmake.define.IOWEAVE_WERROR=ON",
        *("--wheel-dir", wheels, SOURCE),
    )
    (wheel,) = wheels.iterdir()
    return wheel


def check(python: Interpreter, builder: Path, wheel: Path, scratch: Path) -> None:
    """Nothing of the source tree may be needed: the tests run on a copy of themselves, and of the
    guides, whose programs they run."""
    clean = scratch / "venv"
    run(python.path, "-m", "venv", "--without-pip", clean)
    run(builder, "-m", "pip", "--python", clean, "install", "--quiet", wheel)
    tests = shutil.copytree(HERE, scratch / HERE.relative_to(SOURCE))
    shutil.copytree(SOURCE / "docs", scratch / "docs")
    run(clean / "bin/python", "-W", "error", "-m", "unittest", *TESTS, cwd=tests)

    version = run(clean / "bin/python", "-c", "import ioweave; print(ioweave.__version__)").strip()
    assert version in run(clean / "bin/ioweave", "--version"), version
    assert f"-{version}-" in wheel.name, wheel
    assert "ioweave/py.typed" in zipfile.ZipFile(wheel).namelist(), wheel
    preload = Path(run(clean / "bin/ioweave", "path", "--preload").strip())
    assert preload.is_relative_to(clean.resolve()), preload


def main() -> int:
    wheels: dict[str, Path] = {}
    found = interpreters()
    assert found, "not even the one that runs this"
    with tempfile.TemporaryDirectory() as temporary:
        for number, python in enumerate(found):
            name = "{}.{}.{}".format(*python.version) + f" ({python.path})"
            if not python.has_headers:
                print(f"{name}: left out, it has no headers (python3-dev)")
                continue
            scratch = Path(temporary) / str(number)
            builder = builder_of(python)
            if python.soabi not in wheels:
                wheels[python.soabi] = build_wheel(python, builder, scratch / "wheels")
            check(python, builder, wheels[python.soabi], scratch)
            print(f"{name}: {wheels[python.soabi].name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
