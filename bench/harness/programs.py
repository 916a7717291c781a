"""The programs of `bench/run harmless`: of many kinds, which read a file from beginning to end.

None of them knows anything of Ioweave, and only some can be followed from inside: others are linked
statically, make their system calls themselves, read by stdio or from standard input.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.build import VENV, BuildFailed
from harness.session import Session

KIB, MIB = 1 << 10, 1 << 20

#: At the end of every file, for programs that search: they read it all to find this.
MARK = b"\nthe end of the file\n"

#: Passes of the own reader over what it read (`drivers/cold_reader.c`), in names of programs.
PASSES = {"": 0, "little": 1, "more": 8}

# ---- One program


@dataclass(frozen=True)
class Program:
    """One that reads `files` files, or writes into a folder.

    Attributes:
        name: For the command line and people.
        words: Its command for the paths of the files, or of the folder.
        light: It takes hardly longer than its reads: its files are larger.
        slow: It computes for ten times as long as it reads, or longer.
        gains: A plain cold reader, or a writer that computes and syncs, which is to be quicker with
            Ioweave on the raw disk.
        stdin: It reads its first file from standard input.
        files: How many it reads at once.
        suffix: Of its file: that of random bytes, or a file made for it.
        writes: It writes into an empty folder, and reads no file that was there.
    """

    name: str
    words: Callable[[Sequence[str]], list[str]]
    light: bool = True
    slow: bool = False
    gains: bool = False
    stdin: bool = False
    files: int = 1
    suffix: str = ".bin"
    writes: bool = False


def selected(names: Iterable[str], words: Sequence[str]) -> list[str]:
    """The names that one of the words stands for, in their order; all if there are no words.

    A word stands for the name that equals it, else for those that begin with it and a hyphen.

    >>> selected(["dd-4m", "dd-64k", "go"], ["dd"]), selected(["go"], [])
    (['dd-4m', 'dd-64k'], ['go'])
    >>> selected(["reader-1m", "reader-1m-more"], ["reader-1m"])
    ['reader-1m']
    """
    names = list(names)
    exact = {word for word in words if word in names}
    return [
        name
        for name in names
        if not words
        or name in exact
        or any(name.startswith(f"{word}-") for word in words if word not in exact)
    ]


def command(*head: str, tail: Sequence[str] = ()) -> Callable[[Sequence[str]], list[str]]:
    """For `Program.words`: the paths stand between the two.

    >>> command("dd", "-x", tail=["y"])(["file"])
    ['dd', '-x', 'file', 'y']
    """
    return lambda paths: [*head, *paths, *tail]


# ---- All of them


PYTHON_READER = """\
import sys
total, block = 0, bytearray(8 << 20)
with open(sys.argv[1], "rb", buffering=0) as file:
    while count := file.readinto(block):
        total += count
print(total)
"""

NUMPY_READER = """\
import sys
import numpy
total = 0
with open(sys.argv[1], "rb", buffering=0) as file:
    while (block := numpy.fromfile(file, numpy.uint8, 8 << 20)).size:
        total += int(block.sum(dtype=numpy.uint64))
print(total)
"""

H5PY_WRITER = """\
import sys
import h5py, numpy
rows = int(sys.argv[2]) >> 20
with h5py.File(sys.argv[1], "w") as file:
    data = file.create_dataset("data", (rows, 1 << 20), "u1")
    random = numpy.random.default_rng(1)
    for row in range(rows):
        data[row] = random.integers(0, 256, 1 << 20, "u1")
"""

H5PY_READER = """\
import sys
import h5py
total = 0
with h5py.File(sys.argv[1], "r") as file:
    data = file["data"]
    for row in range(0, data.shape[0], 8):
        total += int(data[row : row + 8].sum(dtype="u8"))
print(total)
"""

NODE_READER = """\
let total = 0;
require("fs").createReadStream(process.argv[1])
  .on("data", (block) => { total += block.length; })
  .on("end", () => { console.log(total); });
"""

PERL_READER = """\
open(my $file, "<:raw", $ARGV[0]) or die "$ARGV[0]: $!\\n";
my ($total, $block) = (0, "");
while (my $count = sysread($file, $block, 1 << 20)) { $total += $count; }
print "$total\\n";
"""


@dataclass
class Catalogue:
    """What of the programs this machine has, and why the others are left out."""

    programs: list[Program] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def installed(self, name: str, words: Sequence[str], *, light: bool = True) -> None:
        """Adds a program of the system, called by the first word; the file comes last."""
        found = shutil.which(words[0])
        if found is None:
            self.missing.append(f"{name}: no {words[0]} in PATH")
            return
        self.programs.append(Program(name, command(found, *words[1:]), light=light))


def _own_readers(session: Session, catalogue: Catalogue) -> None:
    linked = {"reader": "bench_cold_reader", "static": "bench_cold_reader_static"}
    kinds = (
        ("reader", MIB, ""),
        ("reader", 64 * KIB, "little"),
        ("reader", 512 * KIB, "little"),
        ("reader", MIB, "little"),
        ("reader", 4 * MIB, "little"),
        ("reader", MIB, "more"),
        ("reader", 16 * MIB, "more"),
        ("static", MIB, ""),
        ("static", MIB, "more"),
    )
    for link, chunk, computing in kinds:
        size = f"{chunk // MIB}m" if chunk >= MIB else f"{chunk // KIB}k"
        name = "-".join(filter(None, (link, size, computing)))
        try:
            program = str(session.program(linked[link]))
        except BuildFailed as error:
            catalogue.missing.append(f"{name}: {error} (it takes libc.a)")
            continue
        catalogue.programs.append(
            Program(
                name,
                command(program, tail=[str(chunk), str(PASSES[computing])]),
                light=computing != "more",
                gains=link == "reader",
            )
        )
    reader = str(session.program("bench_cold_reader"))
    both = f'"$0" "$1" {MIB} 0 >/dev/null & "$0" "$2" {MIB} 0 >/dev/null && wait $!'
    catalogue.programs.append(
        Program("two-readers", command("/bin/sh", "-c", both, reader), files=2)
    )


def _dd(block: str) -> Callable[[Sequence[str]], list[str]]:
    return lambda paths: ["dd", f"if={paths[0]}", "of=/dev/null", f"bs={block}", "status=none"]


def _of_the_system(catalogue: Catalogue) -> None:
    add = catalogue.installed
    catalogue.programs += [Program("dd-4m", _dd("4M")), Program("dd-64k", _dd("64k"))]
    add("grep", ["grep", "-a", "-c", MARK.decode().strip()])
    add("cksum", ["cksum"])
    add("perl", ["perl", "-e", PERL_READER])
    add("sha256sum", ["sha256sum"], light=False)
    add("md5sum", ["md5sum"], light=False)
    # Into a pipe: GNU tar does not read files whose archive goes to /dev/null.
    archive = 'tar -cPf - "$0" | cat >/dev/null'
    catalogue.programs.append(Program("tar", command("/bin/sh", "-c", archive)))
    add("node", ["node", "-e", NODE_READER])
    # The shell hands its standard input on: its own parameters name the file too, unused.
    compress = "exec gzip -1 -c >/dev/null"
    catalogue.programs.append(
        Program("gzip", command("/bin/sh", "-c", compress), light=False, stdin=True)
    )


def has_module(python: Path, module: str) -> bool:
    """Whether an interpreter can import a module."""
    done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    return done.returncode == 0


def venv_python() -> Path:
    """The interpreter with the packages of the benchmarks, or the one that runs this."""
    ours = VENV / "bin/python3"
    return ours if ours.exists() else Path(sys.executable)


def _of_languages(session: Session, catalogue: Catalogue) -> None:
    python = venv_python()
    catalogue.programs.append(Program("python", command(str(python), "-S", "-c", PYTHON_READER)))
    for name, module, text, suffix in (
        ("numpy", "numpy", NUMPY_READER, ".bin"),
        ("h5py", "h5py", H5PY_READER, ".h5"),
    ):
        if not has_module(python, module):
            catalogue.missing.append(f"{name}: {python} cannot import {module}")
            continue
        catalogue.programs.append(
            Program(name, command(str(python), "-c", text), light=False, suffix=suffix)
        )
    try:
        go = str(session.program("bench_cold_reader_go"))
    except BuildFailed as error:
        catalogue.missing.append(f"go: {error} (it takes a Go compiler)")
        return
    catalogue.programs.append(Program("go", command(go, tail=[str(MIB)])))


def readers_of(session: Session) -> Catalogue:
    """All programs that read and that this machine can run."""
    catalogue = Catalogue()
    _own_readers(session, catalogue)
    _of_the_system(catalogue)
    _of_languages(session, catalogue)
    return catalogue
