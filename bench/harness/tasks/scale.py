"""Large clusters: what a simulation of so many nodes gives, and what it takes.

As a program it runs one cluster and prints a line of JSON, so that the peak memory is its own:
`python -m harness.tasks.scale NODES node|shared MODE`, with `ioweave` on PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORES = 48
BYTES = 290_000_000
PHASES = 4


@dataclass(frozen=True)
class Cluster:
    """One run.

    Attributes:
        scope: "node": an SSD for each node; "shared": one parallel file system for all.
    """

    nodes: int
    scope: str
    mode: str = "climb"

    @property
    def waves(self) -> int:
        """Times that all cores are busy. Half a million computing tasks on 10,000 nodes."""
        return 1 if self.nodes > 5000 else PHASES


def run(cluster: Cluster) -> dict[str, Any]:
    """Simulates it in this process."""
    import ioweave
    from ioweave.simulated import SimulatedRuntime

    from harness.tasks import curves, measures
    from harness.tasks.workloads import DEVICE, Mode

    tasks = cluster.nodes * CORES * cluster.waves
    shared = cluster.scope == "shared"
    curve = curves.PIXSTOR if shared else curves.SSD
    # A wave's I/O takes as long as its computation.
    wave_bytes = cluster.nodes * CORES * BYTES
    mb_per_s = curves.peak(curve) * (1 if shared else cluster.nodes)
    compute_s = wave_bytes / 1e6 / mb_per_s
    compute = ioweave.task(name="compute")(_nothing)
    save = Mode(cluster.mode, cluster.mode).io("save", BYTES)
    begin = time.monotonic()
    with SimulatedRuntime(
        f"sim://{cluster.nodes}x{CORES}",
        costs={"compute": compute_s},
        curves={DEVICE: curve},
        devices=[ioweave.Device(DEVICE, scope="shared" if shared else "node")],
        io_threads=225 if not shared else 10_000,
        sample_period_s=1.0,
    ) as runtime:
        for _ in range(tasks):
            save(compute())
    wall_s = time.monotonic() - begin
    bound_s = measures.overlap_bound_s(
        waves=cluster.waves, compute_s=compute_s, wave_bytes=wave_bytes, mb_per_s=mb_per_s
    )
    return {
        "tasks": 2 * tasks,
        "total_s": runtime.now_s,
        "bound_s": bound_s,
        "wall_s": wall_s,
        "peak_mib": _peak_mib(),
        "limit": runtime.explain(save)["limit"],
    }


def _peak_mib() -> float:
    """Since exec: ru_maxrss would begin with what the process that started this one had."""
    for text in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if text.startswith("VmHWM:"):
            return int(text.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def _nothing(*needs: object) -> None:
    """Stands for a function, which is not run."""


def in_process(cluster: Cluster, package: Path) -> dict[str, Any]:
    """Simulates it in a process of its own.

    Raises:
        RuntimeError: it failed; the text has what it said.
    """
    bench = Path(__file__).resolve().parents[2]
    words = [str(cluster.nodes), cluster.scope, cluster.mode]
    done = subprocess.run(
        [sys.executable, "-m", "harness.tasks.scale", *words],
        env={**os.environ, "PYTHONPATH": f"{bench}{os.pathsep}{package}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"simulation of {' '.join(words)} failed: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    print(json.dumps(run(Cluster(int(sys.argv[1]), sys.argv[2], sys.argv[3]))))
