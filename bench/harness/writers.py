"""The programs of `bench/run harmless` that write: some sync what they write, others never do.

None of them knows anything of Ioweave. Each is given an empty folder.
"""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

from harness.build import BuildFailed
from harness.programs import MIB, Catalogue, Program, command, has_module, venv_python
from harness.session import Session

#: Files, MiB of each, KiB of a chunk, passes over it, and how: see drivers/checkpoint_writer.c.
_OWN = {
    "write-sync": (8, 160, 1024, 1, "sync"),
    "write-sync-64k": (8, 160, 64, 1, "sync"),
    "write-sync-8m": (8, 160, 8192, 1, "sync"),
    "write-sync-more": (6, 160, 1024, 4, "sync"),
    "write-rename": (8, 160, 1024, 1, "rename"),
    "write-grow": (8, 160, 1024, 1, "grow"),
    "write-append": (8, 80, 1024, 1, "append"),
    "write-plain": (8, 160, 1024, 1, "plain"),
    "write-again": (8, 160, 1024, 1, "again"),
    "write-remove": (8, 160, 1024, 1, "remove"),
}
#: Those that are to be quicker with Ioweave on the raw disk.
_GAIN = ("write-sync", "write-sync-64k", "write-sync-8m", "write-rename", "write-grow")

_SQLITE = """\
import sqlite3, sys
base = sqlite3.connect(sys.argv[1] + "/base")
base.execute("create table lines (number integer primary key, text text)")
for part in range(8):
    base.executemany(
        "insert into lines (text) values (?)",
        ((f"{part}-{number}-" + 180 * chr(97 + number % 26),) for number in range(60000)),
    )
    base.commit()
base.execute("delete from lines where number % 3 = 0")
base.commit()
base.execute("vacuum")
print(base.execute("select count(*), sum(length(text)) from lines").fetchone())
"""

_NUMPY = """\
import os, sys
import numpy
field = numpy.random.default_rng(1).random((4096, 4096))
for step in range(6):
    field = numpy.sin(field) + 0.5
    with open(f"{sys.argv[1]}/{step % 2}.npy", "wb") as file:
        numpy.save(file, field)
        file.flush()
        os.fsync(file.fileno())
print(field.sum())
"""

_H5PY = """\
import os, sys
import h5py, numpy
field = numpy.random.default_rng(1).random((1024, 4096))
with h5py.File(sys.argv[1] + "/steps.h5", "w") as file:
    data = file.create_dataset("field", (16, 1024, 4096), "f8")
    for step in range(16):
        field = numpy.sin(field) + 0.5
        data[step] = field
        file.flush()
print(field.sum())
"""


def _dd(how: str) -> str:
    return f'exec dd if=/dev/zero of="$0/zeros" bs=1M count=640 status=none {how}'


#: Its temporary files are removed when they have been merged.
_SORT = 'seq 6000000 | rev | LC_ALL=C sort -S 16M -T "$0" -o "$0/sorted"'
#: An archive, unpacked and synced.
_TAR = """\
cd "$0" && mkdir in out && for i in 1 2 3 4 5 6; do seq 4000000 >in/$i; done &&
tar --mtime=@1 -cf all.tar in && tar -xf all.tar -C out && sync -f all.tar
"""
_GIT = """\
cd "$0" && for i in 1 2 3 4; do seq ${i}000000 ${i}900000 >$i; done &&
export GIT_AUTHOR_DATE='@1 +0000' GIT_COMMITTER_DATE='@1 +0000' GIT_CONFIG_GLOBAL=/dev/null &&
git init -q -b main . && git -c core.fsync=all -c core.fsyncMethod=fsync add . &&
git -c user.name=a -c user.email=a -c gc.auto=0 commit -q -m a && git rev-parse HEAD &&
git -c pack.threads=1 repack -a -d -q && rm .git/index .git/logs -r
"""

#: A project of a thousand small files, built from nothing.
_MAKE = r"""cd "$0" && seq 1000 | awk '{
  file = "f" $1 ".c"
  print "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>" >file
  for (i = 0; i < 5; i++)
    print "int g" $1 "_" i "(int a, char *s) { for (int i = 0; i < a; i++) s[i % 7] += i;" \
          " printf(\"%s %d\\n\", s, a); return (int)strlen(s) + " $1 "; }" >file
  close(file)
}' && echo 'int main(void) { return 0; }' >main.c &&
printf 'prog: %s\n\tgcc -o $@ $^\n%%.o: %%.c\n\tgcc -O1 -c -o $@ $<\n' \
  "$(ls *.c | sed 's/c$/o/' | tr '\n' ' ')" >Makefile && exec make -s -j2
"""
#: An editor that saves a file eight times.
_VIM = """\
cd "$0" && seq 2000000 >text && export HOME="$0" && for i in 1 2 3 4 5 6 7 8; do
  vim -u NONE -i NONE -es -c '$s/$/ '"$i/" -c 'set fsync' -c wq text || exit 1
done
"""


def digest_of(folder: Path) -> str:
    """What is in a folder: each file's name, size and check sum."""
    lines = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        check = 0
        with path.open("rb") as file:
            while block := file.read(MIB):
                check = zlib.crc32(block, check)
        lines.append(f"{path.relative_to(folder)} {path.stat().st_size} {check:08x}")
    return "\n".join(lines)


def add_to(session: Session, catalogue: Catalogue) -> None:
    """Adds all writers that this machine can run."""

    def add(name: str, *words: str) -> None:
        catalogue.programs.append(Program(name, command(*words), writes=True, files=0))

    try:
        own = str(session.program("bench_checkpoint_writer"))
        for name, (files, mib, chunk, passes, how) in _OWN.items():
            tail = [str(files), str(mib), str(chunk), str(passes), how]
            words = command(own, tail=tail)
            catalogue.programs.append(
                Program(name, words, gains=name in _GAIN, writes=True, files=0)
            )
    except BuildFailed as error:
        catalogue.missing.append(f"write-*: {error}")
    add("write-dd", "/bin/sh", "-c", _dd("conv=fsync"))
    add("write-dd-plain", "/bin/sh", "-c", _dd("conv=notrunc"))
    add("write-sort", "/bin/sh", "-c", _SORT)
    add("write-tar", "/bin/sh", "-c", _TAR)
    for needed, text in (("git", _GIT), ("make", _MAKE), ("vim", _VIM)):
        if shutil.which(needed):
            add(f"write-{needed}", "/bin/sh", "-c", text)
        else:
            catalogue.missing.append(f"write-{needed}: no {needed} in PATH")
    python = venv_python()
    add("write-sqlite", str(python), "-c", _SQLITE)
    for name, module, text in (("numpy", "numpy", _NUMPY), ("h5py", "h5py", _H5PY)):
        if has_module(python, module):
            add(f"write-{name}", str(python), "-c", text)
        else:
            catalogue.missing.append(f"write-{name}: {python} cannot import {module}")
