"""Programs of Debian packages that read a file: what `ioweave run` does for programs as they are.

They are measured by `bench/run harmless --only real`, as far as they are installed. Their files are
made here: random bytes, text, reads of a sequencer, sound, a picture, a data base.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import struct
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.programs import MIB, Catalogue, Program, command

# ---- Their files


def _repeat(path: Path, size: int, block: str) -> None:
    """Writes a text again and again, until there are so many bytes."""
    text = block.encode()
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(text)


def _make_text(path: Path, size: int) -> None:
    """Lines of numbers and words, as of a measurement."""
    source = random.Random(1)
    block = "".join(
        f"{number},{source.random():.6f},{source.choice(('red', 'green', 'blue'))},"
        f"{source.getrandbits(64):x}\n"
        for number in range(20_000)
    )
    _repeat(path, size, block)


def _make_json_lines(path: Path, size: int) -> None:
    source = random.Random(1)
    block = "".join(
        f'{{"number": {number}, "value": {source.random():.6f}, "name": "{number * 7919:x}"}}\n'
        for number in range(20_000)
    )
    _repeat(path, size, block)


def _make_reads(path: Path, size: int) -> None:
    """FASTQ: 150 bases a read."""
    source = random.Random(1)
    block = "".join(
        f"@read{number}\n{''.join(source.choices('ACGT', k=150))}\n+\n{'I' * 150}\n"
        for number in range(2_000)
    )
    _repeat(path, size, block)


def _make_sound(path: Path, size: int) -> None:
    source = random.Random(1)
    second = struct.pack("<88200h", *(int(source.gauss(0, 3000)) % 20_000 for _ in range(88_200)))
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(2)
        sound.setsampwidth(2)
        sound.setframerate(44_100)
        for _ in range(size // len(second)):
            sound.writeframesraw(second)


def _make_picture(path: Path, size: int) -> None:
    width = 15_000
    height = size // (3 * width)
    row = random.Random(1).randbytes(3 * width)
    with path.open("wb") as file:
        file.write(b"P6 %d %d 255\n" % (width, height))
        for number in range(height):
            file.write(row[number % width :] + row[: number % width])


def _make_video(path: Path, size: int) -> None:
    """Raw frames of 720p, in a YUV4MPEG2 file."""
    width, height = 1280, 720
    frame = random.Random(1).randbytes(width * height * 3 // 2)
    with path.open("wb") as file:
        file.write(b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\n" % (width, height))
        for number in range(size // len(frame)):
            file.write(b"FRAME\n" + frame[number:] + frame[:number])


def _make_base(path: Path, size: int) -> None:
    base = sqlite3.connect(path)
    base.execute("create table lines (number integer primary key, value real, text text)")
    source = random.Random(1)
    rows = ((source.random(), f"{source.getrandbits(64):x}" * 20) for _ in range(size // 350))
    base.executemany("insert into lines (value, text) values (?, ?)", rows)
    base.commit()
    base.close()


#: By the suffix of the file.
MAKERS: dict[str, Callable[[Path, int], None]] = {
    ".csv": _make_text,
    ".jsonl": _make_json_lines,
    ".fastq": _make_reads,
    ".wav": _make_sound,
    ".ppm": _make_picture,
    ".y4m": _make_video,
    ".db": _make_base,
}

# ---- The programs


@dataclass(frozen=True)
class _Real:
    """A program: its words, those behind the file, and the suffix of the file.

    Attributes:
        slow: It computes for ten times as long as it reads, or longer.
    """

    name: str
    head: Sequence[str]
    tail: Sequence[str] = ()
    suffix: str = ".bin"
    light: bool = False
    slow: bool = False


def _shell(text: str) -> list[str]:
    """For programs that write to standard output: that goes nowhere. The file is "$0"."""
    return ["/bin/sh", "-c", f"exec {text} >/dev/null"]


#: Debian's policy of ImageMagick allows less than such a picture takes.
_IMAGEMAGICK_LIMITS = ("-limit", "memory", "4GiB", "-limit", "map", "4GiB", "-limit", "area", "4GP")
_PYTHON_CSV = "import csv, sys; print(sum(float(r[1]) for r in csv.reader(open(sys.argv[1]))))"

_REAL = (
    _Real("b2sum", ["b2sum"]),
    _Real("sha512sum", ["sha512sum"]),
    _Real("openssl", ["openssl", "dgst", "-sha256"], light=True),
    _Real("rhash", ["rhash", "--sha3-256"]),
    _Real("wc", ["wc", "-lw"], suffix=".csv"),
    _Real("cut", _shell('cut -d, -f3 "$0"'), suffix=".csv"),
    _Real("sed", _shell('sed -n s/red/blue/p "$0"'), suffix=".csv"),
    _Real("mawk", ["mawk", "-F,", "{ sum += $2 } END { print sum }"], suffix=".csv"),
    _Real("sort", _shell('sort -t, -k2 -S 1G "$0"'), suffix=".csv"),
    _Real("jq", ["jq", "-n", "[inputs.value] | add"], suffix=".jsonl", slow=True),
    _Real("gzip-9", _shell('gzip -9 -c "$0"'), suffix=".csv", slow=True),
    _Real("pigz", _shell('pigz -1 -c "$0"')),
    _Real("bzip2", _shell('bzip2 -1 -c "$0"'), slow=True),
    _Real("xz", _shell('xz -0 -c "$0"'), slow=True),
    _Real("zstd", _shell('zstd -q -3 -c "$0"'), light=True),
    _Real("lz4", _shell('lz4 -q -c "$0"'), light=True),
    _Real("7z", _shell('7z a -mx1 -so -an -txz -si <"$0"'), slow=True),
    _Real("bsdtar", _shell('bsdtar -cPf - "$0"'), light=True),
    _Real("rsync", ["/bin/sh", "-c", 'exec rsync --checksum --dry-run -i "$0" /usr/lib']),
    _Real("seqtk", _shell('seqtk fqchk "$0"'), suffix=".fastq"),
    _Real("samtools", _shell('samtools import -0 "$0" -u'), suffix=".fastq", slow=True),
    _Real("flac", _shell('flac -s -0 -c "$0"'), suffix=".wav"),
    _Real("sox", ["/bin/sh", "-c", 'exec sox "$0" -n stat 2>&1'], suffix=".wav"),
    _Real("ffmpeg", _shell('ffmpeg -v error -i "$0" -f md5 -'), suffix=".wav", light=True),
    _Real("ffmpeg-video", _shell('ffmpeg -v error -i "$0" -f md5 -'), suffix=".y4m"),
    _Real(
        "imagemagick",
        ["convert", *_IMAGEMAGICK_LIMITS],
        ["-format", "%[mean]", "info:"],
        suffix=".ppm",
        slow=True,
    ),
    _Real("sqlite3", ["sqlite3"], ["select sum(value), sum(length(text)) from lines"], ".db"),
    _Real("ripgrep", _shell('rg -c blue "$0"'), suffix=".csv", light=True),
    _Real("lbzip2", _shell('lbzip2 -n 2 -1 -c "$0"'), slow=True),
    _Real("git", ["git", "hash-object"]),
    _Real("python-csv", ["python3", "-c", _PYTHON_CSV], suffix=".csv", slow=True),
    _Real(
        "r", ["Rscript", "-e", "length(readLines(commandArgs(TRUE)[1]))"], suffix=".csv", slow=True
    ),
)


def _program_of(real: _Real) -> str:
    """The program that must be installed.

    >>> _program_of(_REAL[0]), _program_of(_Real("x", _shell('xz -0 "$0"')))
    ('b2sum', 'xz')
    """
    is_script = real.head[0] == "/bin/sh"
    return real.head[2].split()[1] if is_script else real.head[0]


def add_to(catalogue: Catalogue) -> None:
    """Adds those that this machine has."""
    for real in _REAL:
        name = f"real-{real.name}"
        program = _program_of(real)
        if shutil.which(program) is None:
            catalogue.missing.append(f"{name}: no {program} in PATH")
            continue
        catalogue.programs.append(
            Program(
                name,
                command(*real.head, tail=real.tail),
                light=real.light,
                slow=real.slow,
                suffix=real.suffix,
            )
        )


def make_file(path: Path, size: int) -> None:
    """Makes a file of about so many bytes, of the kind that its suffix says."""
    MAKERS[path.suffix](path, min(size, 512 * MIB))
