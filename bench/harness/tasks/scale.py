"""Large clusters: what a simulation of so many nodes gives, and what it takes.

As a program it runs one cluster and prints a line of JSON, so that the peak memory is its own:
`python -m harness.tasks.scale NODES DEVICE MODE`, with `ioweave` on PYTHONPATH.
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
#: An SSD for each node, as the paper's and as one that suffers from congestion (curves.py); and one
#: parallel file system for all.
DEVICES = {"ssd": "an SSD each", "congested": "a congested SSD each", "shared": "one file system"}
MODES = ("climb", "auto", "none")


@dataclass(frozen=True)
class Cluster:
    """One run.

    Attributes:
        device: of DEVICES.
        mode: the policy, of MODES.
    """

    nodes: int
    device: str
    mode: str = "climb"

    @property
    def waves(self) -> int:
        """Times that all cores compute. Two waves of 10,000 nodes are a million computing tasks."""
        return 2 if self.nodes > 5000 else PHASES


def run(cluster: Cluster) -> dict[str, Any]:
    """Simulates it in this process."""
    import ioweave
    from ioweave.simulated import SimulatedRuntime

    from harness.tasks import curves, measures, paper
    from harness.tasks.workloads import CLIMB, DEVICE, auto, unconstrained

    tasks = cluster.nodes * CORES * cluster.waves
    shared = cluster.device == "shared"
    curve = {"ssd": curves.SSD, "congested": curves.CONGESTED, "shared": curves.PIXSTOR}[
        cluster.device
    ]
    # A wave's I/O takes as long as its computation.
    wave_bytes = cluster.nodes * CORES * BYTES
    mb_per_s = curves.peak(curve) * (1 if shared else cluster.nodes)
    compute_s = wave_bytes / 1e6 / mb_per_s
    compute = ioweave.task(name="compute")(_nothing)
    modes = {"climb": CLIMB, "auto": auto(), "none": unconstrained(paper.EXECUTORS)}
    save = modes[cluster.mode].io("save", BYTES)
    device = ioweave.Device(
        DEVICE,
        bandwidth=curves.peak(curve) if shared else paper.BUDGET,
        scope="shared" if shared else "node",
    )
    begin = time.monotonic()
    with SimulatedRuntime(
        f"sim://{cluster.nodes}x{CORES}",
        costs={"compute": compute_s},
        curves={DEVICE: curve},
        devices=[device],
        io_threads=10_000 if shared else paper.EXECUTORS,
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
    words = [str(cluster.nodes), cluster.device, cluster.mode]
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
