"""The throughput of devices, for the policies that measure.

While it is asked to, a worker counts the bytes that it moves and reports them now and then
(`worker.py`). The scheduler adds up what the workers of a scope reported. A disk that several
workers of a host see counts once.
"""

from __future__ import annotations

import dataclasses

from .admission import Admission, Device, Operation

_LONGEST_S = 0.9  # a sample waits no longer for workers that do not report


@dataclasses.dataclass(slots=True)
class _Heard:
    """What a worker has measured since the last sample."""

    counter: tuple[int, str]  # the worker's node, and the counter's identity on it
    bytes: float = 0
    seconds: float = 0


class Samples:
    """Makes samples of a device's scope from what its workers report.

    Args:
        admission: receives the samples.
        workers: the addresses of each node's workers.
    """

    def __init__(self, admission: Admission, workers: dict[int, set[str]]) -> None:
        self._admission = admission
        self._workers = workers
        self._nodes: dict[Device, set[int]] = {}  # where each device is being measured
        self._heard: dict[tuple[Device, int | None], dict[str, _Heard]] = {}  # by worker

    def begin(self, device: Device, node: int) -> bool:
        """Begins to measure a device on a node. Returns False if its workers measure it already."""
        nodes = self._nodes.setdefault(device, set())
        if node in nodes:
            return False
        nodes.add(node)
        return True

    def measured_on(self, node: int) -> list[Device]:
        return [device for device, nodes in self._nodes.items() if node in nodes]

    def forget(self, node: int) -> None:
        """Forgets a node, which has no workers any more."""
        for nodes in self._nodes.values():
            nodes.discard(node)

    def end(self, device: Device) -> None:
        """Ends the measurement of a device, since no operation needs samples any more."""
        self._nodes.pop(device, None)
        for scope in [scope for scope in self._heard if scope[0] is device]:
            del self._heard[scope]

    def add_measurement(
        self,
        device: Device,
        node: int,
        worker: str,
        counter: str,
        bytes_per_second: float,
        seconds: float,
    ) -> list[Operation]:
        """Adds what a worker has measured for `seconds`. A sample is complete when all workers of
        the scope have reported, or this one for about a second; returns the operations that start
        then."""
        if device not in self._nodes:  # the report is late: the measurement has ended
            return []
        scope = (device, device.scope(node))
        started: list[Operation] = []
        before = self._heard.get(scope, {}).get(worker)
        if before is not None and before.seconds > _LONGEST_S:
            started = self._send_sample(scope, node)
        heard = self._heard.setdefault(scope, {}).setdefault(worker, _Heard((node, counter)))
        heard.bytes += bytes_per_second * seconds
        heard.seconds += seconds
        if self._heard[scope].keys() >= self._list_expected_workers(scope):
            started += self._send_sample(scope, node)
        return started

    def _list_expected_workers(self, scope: tuple[Device, int | None]) -> set[str]:
        device, node = scope
        nodes = self._nodes.get(device, set()) if node is None else {node}
        return {worker for node in nodes for worker in self._workers.get(node, ())}

    def _send_sample(self, scope: tuple[Device, int | None], node: int) -> list[Operation]:
        heard = self._heard.pop(scope).values()
        rate = sum({of.counter: of.bytes / of.seconds for of in heard}.values())
        seconds = max(of.seconds for of in heard)
        # All samples of a shared device go to one node, whichever worker reported last.
        place = min(self._nodes[scope[0]] | {node}) if scope[1] is None else node
        return self._admission.sample(scope[0], place, rate, seconds)
