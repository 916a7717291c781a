"""bench/demo and bench/run as people start them. No figure is judged here, only that it is there.

Usage: end_to_end_test.py demo|interposer BUILD_FOLDER SCRATCH_FOLDER

Exit status 77 with "SKIP: reason" where the machine lacks something.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The data of the quick demo, three outputs of its size, and room.
DEMO_BYTES = 1536 << 20

DEMO_SAYS = (
    r"^Data: +\S+/installed-\d+M\.tar, \d+ MiB of this machine's installed files, cold each time$",
    r"^On an emulated parallel file system \(bench/slowfs: .*\), key \d+ x \d+$",
    r"^On this machine's own disk, key \d+ x \d+$",
    r"^  plain +\d+\.\d\d s +waits +\d+\.\d\d s for reads$",
    r"^  ioweave run +\d+\.\d\d s +waits +\d+\.\d\d s for reads +\d+\.\d\d times as fast$",
    r"^  hidden +\d+% +of \d+\.\d\d s of reading that can be$",
    r"^  PPIS model +\d+\.\d\d s +observed \d+\.\d\d times that$",
    r"^Every output under `ioweave run` equals the plain one, and decrypts to the input\.$",
    r"^Unmodified, on .*: \d+\.\d s became \d+\.\d s, \d+% of the hideable read time hidden, "
    r"output identical\.$",
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


def interposer(build: Path, work: Path) -> None:
    """The JSON document is what bench/README.md says."""
    if not (build / "bench/drivers/bench_calls").exists():
        skip("bench/drivers is not built")
    file = work / "result.json"
    data = work / "data"
    output_of(
        *(ROOT / "bench/run", "interposer", "--quick"),
        *("--dir", data, "--build-dir", build, "--json", file),
    )
    document = json.loads(file.read_text(encoding="utf-8"))
    expect(document["schema"] == "ioweave-bench/1", f"schema {document['schema']}")
    expect(document["quick"] is True, "quick is not told")
    missing = ENVIRONMENT - document["environment"].keys()
    expect(not missing, f"environment lacks {missing}")
    versions = document["environment"]["versions"]
    expect({"ioweave", "fio", "liburing"} <= versions.keys(), f"versions are {versions}")
    told = document["benchmarks"]["interposer"]
    expect(told.keys() == {"seconds", "notes", "error"}, f"benchmarks tell {told}")
    expect(told["error"] is None, f"it failed: {told['error']}")
    rows = document["rows"]
    expect(any(row["bar"] is not None for row in rows), "no row has a bar")
    expect(any(row["bar"] is None for row in rows), "every row has a bar")
    for row in rows:
        expect(row.keys() == ROW, f"a row has {row.keys()}")
        low, high = row["spread"]
        sound = (
            row["benchmark"] == "interposer"
            and low <= row["value"] <= high
            and row["spread_kind"] == ("range" if row["n"] < 5 else "iqr")
            and (row["met"] is None) == (row["bar"] is None)
        )
        expect(sound, f"this row contradicts itself: {row}")
    expect(not list(data.iterdir()), "it leaves files")


def main() -> None:
    """Runs what the first argument names, in a folder of its own below the third."""
    name, build, scratch = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=scratch) as work:
        {"demo": demo, "interposer": interposer}[name](build, Path(work))


if __name__ == "__main__":
    main()
