"""How fast devices move bytes, for the policies that measure.

A worker counts what it moved and says so about once a second while it is asked to (`worker.py`);
the scheduler adds up what the workers of a scope said. A disk that several workers of a host see
counts once.
"""

from __future__ import annotations

from .admission import Admission, Device, Operation


class Samples:
    """Makes samples of a device's scope of what its workers say.

    Args:
        admission: told the samples.
        workers: the addresses of each node's workers.
    """

    def __init__(self, admission: Admission, workers: dict[int, set[str]]) -> None:
        self._admission = admission
        self._workers = workers
        self._nodes: dict[Device, set[int]] = {}  # where each device is being measured
        self._rates: dict[tuple[Device, int | None], dict[tuple[int, str], float]] = {}
        self._heard: dict[tuple[Device, int | None], set[str]] = {}

    def begin(self, device: Device, node: int) -> bool:
        """Whether the node's workers have to be asked to measure the device: none was yet."""
        nodes = self._nodes.setdefault(device, set())
        if node in nodes:
            return False
        nodes.add(node)
        return True

    def measured_on(self, node: int) -> list[Device]:
        return [device for device, nodes in self._nodes.items() if node in nodes]

    def forget(self, node: int) -> None:
        """It has no workers any more."""
        for nodes in self._nodes.values():
            nodes.discard(node)

    def end(self, device: Device) -> None:
        """No operation of the device needs samples any more."""
        self._nodes.pop(device, None)
        for sums in (self._rates, self._heard):
            for scope in [scope for scope in sums if scope[0] is device]:
                del sums[scope]

    def heard(
        self, device: Device, node: int, worker: str, counter: str, bytes_per_second: float
    ) -> list[Operation]:
        """A worker has measured. Returns the operations that start if that completes a sample: all
        workers of the scope were heard, or this one a second time."""
        scope = (device, device.scope(node))
        started: list[Operation] = []
        if worker in self._heard.get(scope, ()):
            started = self._tell(scope, node)
        self._heard.setdefault(scope, set()).add(worker)
        self._rates.setdefault(scope, {})[node, counter] = bytes_per_second
        if self._heard[scope] >= self._expected(scope):
            started += self._tell(scope, node)
        return started

    def _expected(self, scope: tuple[Device, int | None]) -> set[str]:
        device, node = scope
        nodes = self._nodes.get(device, set()) if node is None else {node}
        return {worker for node in nodes for worker in self._workers.get(node, ())}

    def _tell(self, scope: tuple[Device, int | None], node: int) -> list[Operation]:
        rate = sum(self._rates.pop(scope).values())
        del self._heard[scope]
        # The samples of a shared device are those of one place, whichever worker was last.
        place = min(self._nodes[scope[0]] | {node}) if scope[1] is None else node
        return self._admission.sample(scope[0], place, rate)
