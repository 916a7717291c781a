"""bench/demo and bench/run as people start them. No figure is judged here, only that it is there.

Usage: end_to_end_test.py NAME BUILD_FOLDER SCRATCH_FOLDER

NAME is one of `TESTS`.

Exit status 77 with "SKIP: reason" where the machine lacks something.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: The data of the quick demo, four outputs of its size, and room.
DEMO_BYTES = 1792 << 20

DEMO_SAYS = (
    r"^Data: +\S+/installed-\d+M\.tar, \d+ MiB of this machine's installed files, cold each time$",
    r"^On an emulated parallel file system \(bench/slowfs: .*\), key \d+ x \d+$",
    r"^On this machine's own disk, key \d+ x \d+$",
    r"^  the rule: ioweave run --rule '/\S+/\*\.out=behind' -- hill \.\.\.$",
    r"^  plain +\d+\.\d\d s +waits +\d+\.\d\d s for reads and +\d+\.\d\d s for writes$",
    r"^  (ioweave run|with the rule) +\d+\.\d\d s +waits +\d+\.\d\d s for reads and +"
    r"\d+\.\d\d s for writes +\d+\.\d\d times as fast$",
    r"^  hidden +\d+% +of \d+\.\d\d s of reading that can be$",
    r"^  its model +\d+\.\d\d s +observed \d+\.\d\d times that: R \+ C \+ W \+ ",
    r"^  PPIS model +\d+\.\d\d s +observed \d+\.\d\d times that$",
    r"^Every output under `ioweave run` equals the plain one, and decrypts to the input\.$",
    r"^Unmodified, on .*: \d+\.\d s became \d+\.\d s, \d+% of the hideable read time hidden, "
    r"and \d+\.\d s with a rule that hides \d+% of the write time too; output identical\.$",
)

ENVIRONMENT = {
    "date",
    "machine",
    "processor",
    "kernel",
    "file_system",
    "disk",
    "commit",
    "changed_files",
    "build",
    "versions",
    "load_average",
    "proactive_reclaim",
}
ROW = {"benchmark", "metric", "value", "unit", "spread", "spread_kind", "n", "bar", "met"}


def skip(reason: str) -> None:
    """Ends the test."""
    print(f"SKIP: {reason}")
    sys.exit(77)


def expect(condition: bool, complaint: str) -> None:
    """Ends the test unless the condition holds."""
    if not condition:
        sys.exit(f"FAILED: {complaint}")


def output_of(*command: str | Path) -> str:
    """What a command of bench/ printed, without settings of Ioweave that this shell may have."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env={k: v for k, v in os.environ.items() if not k.startswith("IOWEAVE_")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stderr, done.stdout, sep="\n", flush=True)
    expect(done.returncode == 0, f"{command[0]} ended with {done.returncode}")
    return done.stdout


def demo(build: Path, work: Path) -> None:
    """All that make demo promises to print is there, and only the data stays."""
    if not (build / "bench/slowfs/ioweave-slowfs").exists():
        skip("ioweave-slowfs is not built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("no access to /dev/fuse")
    if not (build / "apps/hill/hill").exists():
        skip("apps/hill is not built")
    free = shutil.disk_usage(work).free
    if free < DEMO_BYTES:
        skip(f"{free >> 20} MiB are free in {work.parent}, {DEMO_BYTES >> 20} are needed")
    said = output_of(ROOT / "bench/demo", "--quick", "--dir", work, "--build-dir", build)
    for pattern in DEMO_SAYS:
        expect(re.search(pattern, said, re.MULTILINE) is not None, f"it does not say {pattern}")
    left = [path.name for path in work.iterdir()]
    expect(len(left) == 1 and left[0].startswith("installed-"), f"it leaves {left}")


def measured(build: Path, work: Path, name: str, *options: str) -> list[dict[str, Any]]:
    """The rows of a benchmark in its quick form, whose document is what bench/README.md says."""
    file = work / "result.json"
    data = work / "data"
    output_of(
        *(ROOT / "bench/run", name, "--quick"),
        *options,
        *("--dir", data, "--build-dir", build, "--json", file),
    )
    document = json.loads(file.read_text(encoding="utf-8"))
    expect(document["schema"] == "ioweave-bench/1", f"schema {document['schema']}")
    expect(document["quick"] is True, "quick is not told")
    missing = ENVIRONMENT - document["environment"].keys()
    expect(not missing, f"environment lacks {missing}")
    versions = document["environment"]["versions"]
    expect({"ioweave", "fio", "liburing"} <= versions.keys(), f"versions are {versions}")
    expect(document["benchmarks"].keys() == {name}, f"benchmarks are {document['benchmarks']}")
    told = document["benchmarks"][name]
    expect(told.keys() == {"seconds", "notes", "error"}, f"benchmarks tell {told}")
    expect(told["error"] is None, f"it failed: {told['error']}")
    rows: list[dict[str, Any]] = document["rows"]
    expect(any(row["bar"] is not None for row in rows), "no row has a bar")
    expect(any(row["bar"] is None for row in rows), "every row has a bar")
    metrics = [row["metric"] for row in rows]
    expect(len(metrics) == len(set(metrics)), f"two rows have one name: {metrics}")
    for row in rows:
        expect(row.keys() == ROW, f"a row has {row.keys()}")
        low, high = row["spread"]
        sound = (
            row["benchmark"] == name
            and all(math.isfinite(each) for each in (low, row["value"], high))
            and low <= high
            and row["n"] >= 1
            and (row["met"] is None) == (row["bar"] is None)
        )
        expect(sound, f"this row contradicts itself: {row}")
        if row["spread_kind"] in ("range", "iqr") and "geometric mean" not in row["metric"]:
            sound = low <= row["value"] <= high
            expect(sound, f"the median lies outside of its spread: {row}")
    return rows


def expect_rows(rows: list[dict[str, Any]], *patterns: str) -> None:
    """Each pattern names some of the rows, and each row is named by one."""
    for pattern in patterns:
        found = any(re.match(pattern, row["metric"]) for row in rows)
        expect(found, f"no row is {pattern} of {[row['metric'] for row in rows]}")
    for row in rows:
        found = any(re.match(pattern, row["metric"]) for pattern in patterns)
        expect(found, f"the row {row['metric']} was not foreseen")


def expect_positive(rows: list[dict[str, Any]], *units: str) -> None:
    """Who measures nothing has zeros."""
    for row in rows:
        expect(row["unit"] not in units or row["value"] > 0, f"nothing was measured: {row}")


def interposer(build: Path, work: Path) -> None:
    """The benchmark of calls."""
    if not (build / "bench/drivers/bench_calls").exists():
        skip("bench/drivers is not built")
    for row in measured(build, work, "interposer"):
        kind = "range" if row["n"] < 5 else "iqr"
        expect(row["spread_kind"] == kind, f"this row contradicts itself: {row}")
    expect(not list((work / "data").iterdir()), "it leaves files")


def engine(build: Path, work: Path) -> None:
    """Every comparison, in one round each; that with fio where there is fio."""
    if not (build / "bench/drivers/bench_transfer").exists():
        skip("bench/drivers is not built")
    rows = measured(build, work, "engine", "--pairs", "1")
    patterns = [
        "no-op depth 32: added to a bare liburing loop",
        "no-op depth 32: bare liburing loop",
        "blocking 4 KiB read, (cached|O_DIRECT): (iow_pread over )?pread",
        r"(4|16) threads x (2|4) in flight, callback on the (service's )?thread",
    ]
    if shutil.which("fio") is not None:
        patterns += [
            f"random {operation} {pattern}: (IOPS|CPU per operation)"
            for operation in ("read", "write")
            for pattern in ("4 KiB depth 1", "4 KiB depth 32", "1 MiB depth 8")
        ]
    expect_rows(rows, *patterns)
    expect_positive(
        [row for row in rows if "added" not in row["metric"]], "ratio", "ns", "us", "1/s"
    )
    expect(not list((work / "data").iterdir()), "it leaves files")
    if shutil.which("fio") is None:
        skip("no comparison with fio, which is not installed; the others are there")


def tiom(build: Path, work: Path) -> None:
    """Single calls, reapers, the drop-in, and the grid on the disk as it is, once each."""
    if not (build / "apps/tiom/ioweave-tiom").exists():
        skip("apps/tiom is not built")
    if not (build / "bench/drivers/bench_task_tbb").exists():
        skip("bench/drivers has no task programs: oneTBB is missing")
    rows = measured(build, work, "tiom", "--pairs", "1", "--place", "raw")
    patterns = [
        "oneTBB: blocking 4 KiB read, cached: ",
        "oneTBB: pause and resume, 4 KiB O_DIRECT read: ",
        r"oneTBB: 10000 bound transfers: peak memory",
        "oneTBB: of these, pending at once",
        "oneTBB: an unchanged program, mix, 64 KiB, (0.25|16) ms: speed-up",
        "tiom raw disk (read|write): worst cell, (non)?blocking",
        "tiom raw disk (read|write): best cell, (non)?blocking",
        "tiom raw disk (read|write): geometric mean of mix, ",
        "tiom raw disk (read|write): part of that mean which the bound leaves, (non)?blocking",
    ]
    optional = [
        ("OpenMP: ", (build / "bench/drivers/bench_task_openmp").exists()),
        ("the same, each in a task of its own", False),
        ("ALPI: ", (build / "tests/support/alpi_provider/libalpi_test.so").exists()),
        ("tiom raw disk (read|write): (time over the bound|the same of the cell)", False),
    ]
    rest = [row for row in rows if not any(re.match(each, row["metric"]) for each, _ in optional)]
    expect_rows(rest, *patterns)
    for pattern, wanted in optional:
        found = any(re.match(pattern, row["metric"]) for row in rows)
        expect(found or not wanted, f"no row is {pattern}")
    for operation in ("read", "write"):
        for variant in ("blocking", "nonblocking"):
            name = f"tiom raw disk {operation}: worst cell, {variant} "
            expect(any(row["metric"].startswith(name) for row in rows), f"no row is {name}")
    expect_positive([row for row in rows if "added" not in row["metric"]], "ratio", "us", "MiB")


def advise(build: Path, work: Path) -> None:
    """One program on one device, once."""
    if not (build / "bench/slowfs/ioweave-slowfs").exists():
        skip("ioweave-slowfs is not built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("no access to /dev/fuse")
    options = ("--place", "slowfs", "--only", "sha256sum")
    rows = measured(build, work, "advise", *options)
    cell = "slowfs 400 MB/s, sha256sum"
    expect_rows(
        rows,
        f"{cell}: (predicted over measured|gain predicted|gain measured)$",
        f"{cell}: (as it is|predicted|measured)$",
        "(chosen before|all): error, (median|worst)$",
        "(chosen before|all): wrong on whether it is worth it$",
        "(chosen before|all): worth it, and gained less than 5 %$",
    )
    expect_positive(rows, "s")
    left = [path.name for path in (work / "data").iterdir()]
    expect(all(name.startswith("installed-") for name in left), f"it leaves {left}")


def cube(build: Path, work: Path) -> None:
    """The ladder of each mode on a small profile, once."""
    if not (build / "apps/cube/cube_remap").exists():
        skip("apps/cube is not built")
    if not (build / "bench/slowfs/ioweave-slowfs").exists():
        skip("ioweave-slowfs is not built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("no access to /dev/fuse")
    folder = Path(os.environ.get("CUBE_TEST_PROFILES", "/work/shared/data/cubex"))
    if not (folder / "fastest.p16.size131072.r1.cubex").exists():
        skip(f"{folder} has not the profile that the benchmark takes")
    options = ("--place", "slowfs", "--only", "ladder,computing")
    rows = measured(build, work, "cube", *options)
    who = "(synchronous(, several threads)?|aio, .*|ioweave, .*)"
    cell = (
        r"slowfs 400 MB/s, (ladder-(aio|ioweave)|computing): 16383 threads, C/W 2(, 2 .*threads)?"
    )
    expect_rows(
        rows,
        f"{cell}: C/W$",
        f"{cell}: {who}: time over the model's$",
        f"{cell}: {who}: speed-up over synchronous$",
        f"{cell}: {who}: computing beside writes over alone$",
        f"{cell}: {who}: (time to durable|time to return|computing|peak memory)$",
        f"{cell}: {who}: (memory besides the buffers|peak memory beyond that over the budget)$",
    )
    expect_positive(rows, "ratio", "s", "MiB")
    expect(not list((work / "data").iterdir()), "it leaves files")


def streams(build: Path, work: Path) -> None:
    """One device and two, in one round each, without what comes from PyPI."""
    if not (build / "bench/drivers/bench_streams").exists():
        skip("bench/drivers is not built")
    if not (build / "bench/slowfs/ioweave-slowfs").exists():
        skip("ioweave-slowfs is not built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("no access to /dev/fuse")
    options = ("--pairs", "1", "--place", "slowfs", "--only", "grid,targets")
    rows = measured(build, work, "streams", *options)
    who = (
        "(writing alone|synchronous|glibc AIO|libaio|liburing|one thread|Ioweave|Ioweave's spread)"
    )
    what = "(time to durable|time to return|computing|peak memory)"
    one, two = "slowfs 400 MB/s, 4 MiB, C/W (1|1/2)", "2 x slowfs 100 MB/s, 8 MiB, C/W 1/(2|4)"
    back = "2 x slowfs 100 MB/s, read back, 8 MiB, C/R 1/(2|4)"
    readers = "pread (past|through) the page cache"
    expect_rows(
        rows,
        f"{one}: time over (the model|the best peer|glibc AIO)'s",
        f"{one}: computing while writing over computing alone, {who}$",
        f"{one}: {who}: {what}$",
        f"{two}: time over the (bound of so many|best peer's)",
        f"{two}: the same where the program chooses the files$",
        f"{two}: {who}: {what}$",
        f"{back}: time over the bound of so many$",
        f"{back}: time over that of {readers}$",
        f"{back}: ({readers}|Ioweave's read stream): (time|computing|peak memory)$",
    )
    moved = [row for row in rows if not row["metric"].endswith("writing alone: computing")]
    expect_positive(moved, "ratio", "s", "MiB")
    expect(not list((work / "data").iterdir()), "it leaves files")


def need_mpi_programs(build: Path) -> None:
    """Ends a test of `bench/run ppis` where its programs or the emulated device cannot be had."""
    for program in ("apps/hill/hill_mpi", "bench/slowfs/ioweave-slowfs"):
        if not (build / program).exists():
            skip(f"{program} is not built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("no access to /dev/fuse")


def ppis(build: Path, work: Path) -> None:
    """Random reads, a wrong plan, a loop ahead of itself, and Hill in the paper's modes."""
    need_mpi_programs(build)
    rows = measured(build, work, "ppis", "--only", "random,random-raw,wrong,shadow,chunks")
    reads = "500 random reads of 4 KiB (at 2 ms|on the raw disk)"
    readers = (
        "(pread|plan|plan, depth given|posix_fadvise|readahead by 64 threads|MPI_File_iread_at)"
    )
    loop = "Hill on slowfs, R about C, n = (3|6)"
    expect_rows(
        rows,
        f"{reads}: plan, speed-up over pread$",
        f"{reads}: plan(| with its depth given), time over that of {readers}$",
        f"{reads}: {readers}: (time|processor time)$",
        "a plan of which every read is wrong, (4 KiB at 2 ms|1 MiB at 400 MB/s): ",
        "a loop of 1000 reads of 4 KiB, 1 ms of computing each: (processor time|speed-up)",
        f"{loop}: R over C$",
        f"{loop}: I/O latency removed by (PP|PPIS|auto)$",
        f"{loop}: PPIS, speed-up over normal$",
        f"{loop}: (PPIS|auto), time over (normal|PP|the model)'s$",
        f"{loop}: (normal|PP|PPIS|auto): (time|I/O latency|sustained bandwidth)$",
        f"{loop}: model$",
    )
    expect_positive(rows, "ratio", "s", "MB/s")
    expect(not list((work / "data").iterdir()), "it leaves files")


def ppis_ranks(build: Path, work: Path) -> None:
    """Writes behind Hill, and Hill by ranks, beside a load, too."""
    need_mpi_programs(build)
    rows = measured(build, work, "ppis", "--only", "writes,ranks", "--place", "slowfs")
    behind = "Hill, writes to a second device, n = 64"
    cell = "Hill on slowfs, (light|heavy) I/O, (1|2) ranks"
    expect_rows(
        rows,
        f"{behind}: time over the longest of R, C and W$",
        f"{behind}: speed-up over normal$",
        f"{behind}: (normal: (R|C|W|time)|woven: time)$",
        f"{cell}: I/O latency removed by PPIS$",
        f"{cell}: (PPIS|auto), time over (normal|PP|the model)'s$",
        f"{cell}: (normal|PP|PPIS|auto): (time|I/O latency|sustained bandwidth)$",
        f"{cell}: model$",
    )
    expect(any("heavy" in row["metric"] for row in rows), "nothing ran beside a load")
    expect_positive(rows, "ratio", "s", "MB/s")
    expect(not list((work / "data").iterdir()), "it leaves files")


def ppis_mpiio(build: Path, work: Path) -> None:
    """Unchanged MPI programs with the library and under `ioweave run`, and what calls cost."""
    need_mpi_programs(build)
    rows = measured(build, work, "ppis", "--only", "mpiio")
    hill = "unchanged Hill on (two slowfs|the raw disk), (1|2) ranks"
    who = "(plain|library, (pp|ppis|auto|writes behind)|ioweave run)"
    calls = "MPI_File_read_at of (64 bytes|4 KiB), cached, (sequential|random)"
    expect_rows(
        rows,
        f"{hill}: {who}: time over (plain's|the model's|the longest of R, C and W)$",
        f"{hill}: library, auto: speed-up over plain$",
        f"{hill}: {who}: (time|I/O latency)$",
        f"{hill}: plain: (computing|writing)$",
        f"{hill}: model$",
        "iow_mpiio_plan, 1 MiB at 400 MB/s: every read is (wrong: time|right: speed-up) over ",
        f"{calls}: (plain|library|library, added)$",
        "an MPI program from start to end, one file opened: (plain|library|ioweave run)",
    )
    expect_positive([row for row in rows if "added" not in row["metric"]], "ratio", "s", "ns")
    expect(not list((work / "data").iterdir()), "it leaves files")


def replay(build: Path, work: Path) -> None:
    """Two cells, once."""
    if not (build / "bench/slowfs/ioweave-slowfs").exists():
        skip("ioweave-slowfs is not built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("no access to /dev/fuse")
    measurements = measured(build, work, "replay", "--only", "random-64k,stride")
    cell = r"(random|stride), \d+ pieces of 64 KiB"
    expect_rows(
        measurements,
        f"{cell}: (plain|ioweave run|--record|--replay)$",
        f"{cell}: time of (ioweave run|--record|--replay) over plain$",
        f"{cell}: speed of --replay over plain$",
    )
    expect_positive(measurements, "s", "ratio")
    expect(not list((work / "data").iterdir()), "it leaves files")


def behind(build: Path, work: Path) -> None:
    """Two cells, once."""
    if not (build / "bench/slowfs/ioweave-slowfs").exists():
        skip("ioweave-slowfs is not built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("no access to /dev/fuse")
    only = "slowfs-order-512,raw-order-4k-direct"
    measurements = measured(build, work, "behind", "--only", only)
    cell = r"(slowfs|raw), order, \d+ pieces of (512 B|4 KiB)"
    expect_rows(
        measurements,
        f"{cell}(, O_DIRECT)?: (plain|behind)$",
        f"{cell}(, O_DIRECT)?: speed of behind over plain$",
    )
    expect_positive(measurements, "s", "ratio")
    expect(not list((work / "data").iterdir()), "it leaves files")


def readers(build: Path, work: Path) -> None:
    """Every reader that is built, once."""
    if not (build / "bench/drivers/bench_chunk_reader").exists():
        skip("bench/drivers is not built")
    if not (build / "bench/slowfs/ioweave-slowfs").exists():
        skip("ioweave-slowfs is not built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("no access to /dev/fuse")
    measurements = measured(build, work, "readers")
    ways = ("read", "stdio", "iostream", "mmap", "syscall", "io_uring", "aio")
    cell = rf"slowfs 400 MB/s, ({'|'.join(ways)}|fortran|numpy), chunk 4 MiB"
    expect_rows(
        measurements,
        f"{cell}: read time hidden(, of the hideable| by the kernel alone)$",
        f"{cell}: time over (the model|the plain program)'s$",
        f"{cell}: C over R$",
    )
    timed = [each for each in measurements if "hidden" not in each["metric"]]
    expect_positive(timed, "ratio")
    for way in ways:
        found = any(f", {way}, " in each["metric"] for each in measurements)
        expect(found, f"no row is about {way}")
    expect(not list((work / "data").iterdir()), "it leaves files")


def ior(build: Path, work: Path) -> None:
    """A cell of each pattern, access, place and number of processes, once."""
    if not (build / "bench/drivers/bench_ior_patterns").exists():
        skip("bench/drivers is not built")
    if not (build / "bench/slowfs/ioweave-slowfs").exists():
        skip("ioweave-slowfs is not built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("no access to /dev/fuse")
    only = (
        "raw-write-64k-direct-1p,raw-random-16k-direct-4p,raw-mixed-1m-fsync-1p,"
        "slowfs-read-4k-direct-4p,slowfs-write-1m-buffered-1p"
    )
    measurements = measured(build, work, "ior", "--only", only)
    cell = (
        r"(raw|slowfs), (sequential (write|read)|random write|write and read back), "
        r"\d+ [KM]iB, (buffered( and fsync)?|O_DIRECT), (1 process|4 processes)"
    )
    speed = r"speed of \w+ over (plain|the best of sync and writes)"
    expect_rows(
        measurements,
        rf"{cell}: \w+(, (write|read))?$",
        rf"{cell}: {speed}$",
        rf"worst cell: {speed}$",
        rf"part of the cells (with 0.97 and more|below 0.97 in every round): {speed}$",
        rf"geometric mean: {speed}(, the whole command)?$",
        rf"part of the cells by O_DIRECT or on slowfs with 1.2 and more: {speed}$",
    )
    expect_positive(measurements, "MB/s", "ratio")
    expect(not list((work / "data").iterdir()), "it leaves files")


def rows(build: Path, work: Path) -> None:
    """Rows of one size, once."""
    if not list((build / "python/ioweave").glob("_core.*")):
        skip("the Python package is not built")
    if not (build / "bench/slowfs/ioweave-slowfs").exists():
        skip("ioweave-slowfs is not built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("no access to /dev/fuse")
    measurements = measured(build, work, "rows")
    who = (
        r"(preadv\(2\)|posix_fadvise\(2\) for 64 rows ahead|a plan|the loop run ahead of itself|"
        "computation alone)"
    )
    cell = "200 rows of 64 KiB"
    cached = "16000 rows of 4 KiB, cached"
    expect_rows(
        measurements,
        f"{cell}: {who}$",
        f"{cell}: {who} over preadv",
        f"{cached}: {who} less preadv",
    )
    expect_positive(measurements, "ratio", "s")
    expect(not list((work / "data").iterdir()), "it leaves files")


def tasks(build: Path, work: Path) -> None:
    """The simulation, and short runs of the workload that needs no files."""
    if not list((build / "python/ioweave").glob("_core.*")):
        skip("the Python package is not built")
    rows = measured(build, work, "tasks", "--pairs", "1", "--only", "simulation,short-sleep")
    for pattern in (
        "the paper implies of ",
        "short runs, 2s: .*: climb over the best static limit",
    ):
        found = [row for row in rows if re.match(pattern, row["metric"])]
        expect(bool(found), f"no row is {pattern} of {[row['metric'] for row in rows]}")
        expect(all(row["value"] > 0 for row in found), f"nothing was measured: {found}")


TESTS = {
    "advise": advise,
    "cube": cube,
    "demo": demo,
    "engine": engine,
    "interposer": interposer,
    "ior": ior,
    "ppis": ppis,
    "ppis_mpiio": ppis_mpiio,
    "ppis_ranks": ppis_ranks,
    "readers": readers,
    "replay": replay,
    "behind": behind,
    "rows": rows,
    "streams": streams,
    "tasks": tasks,
    "tiom": tiom,
}


def main() -> None:
    """Runs what the first argument names, in a folder of its own below the third."""
    name, build, scratch = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=scratch) as work:
        TESTS[name](build, Path(work))


if __name__ == "__main__":
    main()
