"""The compiled module: conversions over the C++ core, no logic of its own."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

from typing_extensions import Buffer

def version() -> str:
    """The version of the library that runs, such as "0.1.0"."""

class DiskCounter:
    """What a block device moved, partitions and device-mapper volumes as themselves."""

    def __init__(self, major: int, minor: int, diskstats: str = "/proc/diskstats") -> None: ...
    @staticmethod
    def of_path(path: str | PathLike[str]) -> DiskCounter | None:
        """The counter of the device below a path that exists; None if the kernel has none for it:
        tmpfs, NFS, FUSE, overlayfs, a file system on several disks.

        Raises:
            OSError: There is no such path.
        """

    @staticmethod
    def of_device(
        number: int,
        diskstats: str = "/proc/diskstats",
        mountinfo: str = "/proc/self/mountinfo",
    ) -> DiskCounter | None:
        """The same for files of an st_dev."""

    @property
    def identity(self) -> str:
        """Unique on a machine."""

    def read(self) -> int:
        """Bytes moved so far, reads and writes together."""

def is_rotational(
    path: str | PathLike[str],
    *,
    mountinfo: str = "/proc/self/mountinfo",
    sys: str = "/sys/dev/block",
) -> bool:
    """Whether the disk below a path that exists says that it turns: a partition as its disk. Where
    that cannot be told, it does not. Paravirtual disks (virtio, Xen) say what their drivers begin
    with, whatever is behind them, and are not asked.

    Raises:
        OSError: There is no such path.
    """

def mounts() -> list[tuple[int, str, str, str]]:
    """The mounts of this process: st_dev of their files, path, type, source."""

def mount_of(
    path: str | PathLike[str], mountinfo: str = "/proc/self/mountinfo"
) -> tuple[str, str, bool]:
    """Mount point and file system type of an absolute path without links, and whether several nodes
    use file systems of that type at once."""

def read_learned(path: str | PathLike[str]) -> dict[tuple[str, str], str]:
    """Learned texts by (task, device); none of a file that does not exist yet.

    Raises:
        OSError: It cannot be read, or its folder is not there.
        ValueError: It is not such a file; the text says why.
    """

def write_learned(path: str | PathLike[str], learned: dict[tuple[str, str], str]) -> None:
    """Replaces the file as a whole, so that a reader finds the old values or the new ones.

    Raises:
        OSError: It cannot be written.
    """

def check_device(settings: dict[str, Any]) -> None:
    """Checks the settings of an ioweave.Device, by name; what is not given has its default.

    Raises:
        ValueError: One is wrong; the text names device and setting.
    """

def check_node(settings: dict[str, Any]) -> None:
    """The same for an ioweave.Node."""

def read_description(
    file: str | None, shown: str = ""
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """The settings of the devices and nodes that ioweave.toml describes, and what to warn of.

    Args:
        file: its absolute path; None: the usual files.
        shown: what messages call it.

    Raises:
        OSError: `file` cannot be read.
        ValueError: A file is no TOML, or describes something wrongly; the text names the place.
    """

def is_one_of(node: str, globs: Sequence[str]) -> bool:
    """Whether a node is meant by one of them, with or without its domain."""

def nearest_name(name: str, known: Sequence[str]) -> str:
    """The name of `known` that is closest in edit distance; empty where none is near."""

def learned_from_curve(curve: Sequence[tuple[float, float]]) -> str:
    """What `climb` would have learned of a device with this curve, for Policy.add_flow(learned=):
    (operations at once, MB/s of all together), ascending. Empty where there is no point."""

def sample_part(samples: int) -> float:
    """The part of the period of samples that passes until the next one, when there have been so
    many."""

class Start:
    """Start this operation now, on this node."""

    __match_args__ = ("operation", "node")
    def __init__(self, operation: int, node: int) -> None: ...
    @property
    def operation(self) -> int: ...
    @property
    def node(self) -> int: ...

class SetLimit:
    """From now on at most `limit` operations of the flow run at once on a node; 0: unlimited.

    For information: `Start` already respects it.
    """

    __match_args__ = ("flow", "limit")
    def __init__(self, flow: int, limit: int) -> None: ...
    @property
    def flow(self) -> int: ...
    @property
    def limit(self) -> int: ...

class Policy:
    """Who may use a storage device next: pure logic without I/O, clock, thread or lock.

    Not thread-safe: the caller holds a lock around every call; overlapping calls raise
    RuntimeError. Times are nanoseconds that never decrease. Node 0 is up from the beginning.
    src/policy/policy.hpp holds the rules, event.hpp the events.

    Each event returns the decisions that follow from it. One that cannot be (an unknown flow, an
    operation told twice, an end before its start was decided, a node that does not have the
    device) raises ValueError and changes nothing.
    """

    def __init__(self, log: Callable[[str], object] | None = None) -> None:
        """`log` is called with every line of the event log, without a line end.

        It must not call the policy. An exception in it goes to sys.unraisablehook: the caller
        still learns what was decided.
        """

    def add_device(
        self,
        name: str,
        *,
        scope: str = "node",
        budget_mb_per_s: float = 0,
        max_in_flight: int = 0,
        scheduling: str = "none",
        weights: tuple[int, int, int] = (16, 4, 1),
        everywhere: bool = True,
        begins_at: int = 0,
    ) -> int:
        """The id of the new device: 0, 1, 2, ... Words are those of the event log.

        Every node has it, unless `everywhere` is False: then those that device_up() names.
        `climb` begins with `begins_at` operations at once; 0: one.

        Raises:
            ValueError: A setting is out of range; the text names it and its bounds.
        """

    def add_flow(
        self,
        name: str,
        device: int,
        *,
        priority: str = "foreground",
        constraint: str = "none",
        max_in_flight: int = 0,
        learned: str = "",
    ) -> int:
        """The id of the new flow. `constraint` as in the event log, such as "none", "fixed:20",
        "auto:225", "auto:2,256,2", "climb"; `learned` from learned() of an earlier run.

        Raises:
            ValueError: A setting is out of range, or the device unknown; the text names it.
        """

    def ready(
        self, operation: int, flow: int, node: int | None, bytes: int, now_ns: int
    ) -> list[Start | SetLimit]:
        """An operation exists; `node` None lets the policy place it."""

    def finished(
        self, operation: int, seconds: float, bytes: int, now_ns: int
    ) -> list[Start | SetLimit]:
        """It ended well and has left the device."""

    def failed(self, operation: int, now_ns: int) -> list[Start | SetLimit]:
        """It ended with an error and has left the device."""

    def cancelled(self, operation: int, now_ns: int) -> list[Start | SetLimit]:
        """Forget it, waiting or running."""

    def sample(
        self,
        device: int,
        node: int,
        bytes_per_second: float,
        now_ns: int,
        seconds: float = 1.0,
    ) -> list[Start | SetLimit]:
        """Throughput of a device, measured about once a second, at first more often (sample_part).

        `seconds`: since the last sample of the node.
        """

    def node_up(self, node: int, now_ns: int) -> list[Start | SetLimit]: ...
    def node_down(self, node: int, now_ns: int) -> list[Start | SetLimit]:
        """Its operations, waiting for it or running on it, are gone and forgotten."""

    def device_up(self, device: int, node: int, now_ns: int) -> list[Start | SetLimit]:
        """The node, which is up, has this device, which is not everywhere, until it goes down."""

    def has(self, node: int, device: int) -> bool:
        """Whether the node is up and has the device.

        Raises:
            ValueError: There is no such device.
        """

    def flow_counts(self, flow: int) -> tuple[int, int]:
        """How many operations of a flow wait, and how many run.

        Raises:
            ValueError: There is no such flow.
        """

    def running_on(self, node: int) -> int:
        """How many operations run on a node.

        Raises:
            ValueError: The node is not up.
        """

    def needs_samples(self, device: int) -> bool:
        """Whether operations of flows with `climb` wait or run on a device.

        Raises:
            ValueError: There is no such device.
        """

    def explain(self, flow: int) -> str:
        """Why the flow's constraint is what it is, as a JSON object (src/policy/explanation.hpp).

        Raises:
            ValueError: There is no such flow.
        """

    def learned(self, flow: int) -> str:
        """What a constraint that learns has learned so far; empty if nothing.

        Raises:
            ValueError: There is no such flow.
        """

    @property
    def devices(self) -> int: ...
    @property
    def flows(self) -> int: ...
    @property
    def waiting(self) -> int:
        """Operations that are ready and not started, of all flows."""

    @property
    def running(self) -> int:
        """Operations started and not ended, of all flows."""

class Gate:
    """Where operations that Python carries out take their turn, beside the requests of files that
    are opened with `service` on a flow of the same gate. The devices are of this machine, and are
    measured from outside: see sample().

    Any thread may use it. Each event returns the decisions since the last call, whoever made room.
    """

    def __init__(self, log: Callable[[str], object] | None = None) -> None:
        """`log` as of Policy: it is called within the next call of the gate.

        Raises:
            OSError: The process has 256 gates and services, or memory is out.
        """

    @property
    def service(self) -> Service: ...
    def add_device(
        self,
        name: str,
        *,
        budget_mb_per_s: float = 0,
        max_in_flight: int = 0,
        begins_at: int = 0,
    ) -> int:
        """The id of the new device; as Policy.add_device(). Lower classes yield strictly."""

    def add_flow(
        self,
        name: str,
        device: int,
        *,
        priority: str = "foreground",
        constraint: str = "none",
        max_in_flight: int = 0,
        learned: str = "",
    ) -> int:
        """As Policy.add_flow(), with the constraint in the words for people: "none", "20", "auto"
        (which needs max_in_flight), "auto(2,256,2)", "climb"."""

    def ready(self, operation: int, flow: int, bytes: int) -> list[Start | SetLimit]:
        """An operation exists.

        Raises:
            ValueError: Its number is that of another one, or the flow does not exist.
        """

    def finished(self, operation: int, bytes: int) -> list[Start | SetLimit]:
        """It has moved these bytes and left the device."""

    def failed(self, operation: int) -> list[Start | SetLimit]:
        """It ended with an error and has left the device."""

    def cancelled(self, operation: int) -> list[Start | SetLimit]:
        """Forgets it, waiting or running."""

    def sample(
        self, device: int, bytes_per_second: float, seconds: float
    ) -> list[Start | SetLimit]:
        """What the device moved since the last sample."""

    def take(self) -> list[Start | SetLimit]:
        """What was decided since the last call."""

    def wait(self) -> bool:
        """Sleeps until something may start; False after stop()."""

    def stop(self) -> None: ...
    def flow_counts(self, flow: int) -> tuple[int, int]:
        """How many operations of a flow wait, and how many run."""

    def needs_samples(self, device: int) -> bool:
        """Whether operations of flows with `climb` wait or run on a device."""

    def explain(self, flow: int) -> str:
        """As Policy.explain()."""

    def learned(self, flow: int) -> str:
        """As Policy.learned()."""

def create_device(
    service: Service,
    name: str,
    *,
    budget_mb_per_s: float = 0,
    max_in_flight: int = 0,
    begins_at: int = 0,
    is_measured: bool = False,
) -> int:
    """As Gate.add_device(). Where it is not measured, `climb` goes by the bytes that operations
    say they moved."""

def create_flow(
    service: Service,
    name: str,
    device: int,
    *,
    priority: str = "foreground",
    constraint: str = "none",
    max_in_flight: int = 0,
    learned: str = "",
) -> int:
    """As Gate.add_flow()."""

def flow_counts(service: Service, flow: int) -> tuple[int, int]:
    """As Gate.flow_counts()."""

def admit(service: Service, flow: int, bytes: int) -> int:
    """Sleeps, without the GIL, until an operation of the flow may start. Its number, for finish().

    Raises:
        ValueError: There is no such flow.
        OSError: This is a forked child.
        KeyboardInterrupt: Or whatever a signal handler raises: the operation is forgotten.
    """

def finish(service: Service, operation: int, result: int) -> None:
    """The operation has moved `result` bytes, or failed with -errno."""

class Record:
    """When and where a simulated task ran, in seconds of virtual time."""

    @property
    def state(self) -> str:
        """ "waiting", "running" or "ended"."""

    @property
    def node(self) -> int: ...
    @property
    def ready_s(self) -> float: ...
    @property
    def start_s(self) -> float: ...
    @property
    def end_s(self) -> float: ...

class FlowCounts:
    """The transfers of a flow; `bytes` of those that ended."""

    @property
    def waiting(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def ended(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class Simulation:
    """A cluster in virtual time under `policy`; src/simulator/simulation.hpp has the model.

    Not thread-safe: one lock goes around every call of it and of its policy. Tasks are numbered 0,
    1, 2, ... in the order of submission; one is ready once those in `after` have ended, and runs on
    the node of `beside`, one of them, if given and if that node has the device and the cores. What
    could never run raises ValueError.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        nodes: int = 1,
        cores: int = 1,
        sample_period_s: float = 1.0,
        cores_of: Sequence[int] = (),
    ) -> None:
        """The policy has heard nothing yet; its devices and flows may be added later. `cores_of`
        says the cores of each node, instead of `nodes` and `cores`."""

    def device_up(self, device: int, node: int) -> None:
        """From now on the node has this device, which is not everywhere.

        Raises:
            ValueError: It is, or the node has it already, or one of them does not exist.
        """

    def set_curve(
        self, device: int, points: Sequence[tuple[float, float]], *, at_s: float | None = None
    ) -> None:
        """The device moves what these points, (streams, MB/s) ascending, say; from `at_s` on."""

    def compute(
        self, seconds: float, *, cpus: int = 1, after: Sequence[int] = (), beside: int | None = None
    ) -> int:
        """A task that takes cores of one node."""

    def io(
        self, flow: int, bytes: int, *, after: Sequence[int] = (), beside: int | None = None
    ) -> int:
        """A transfer that takes no core, when the policy says."""

    def blocking_io(
        self,
        device: int,
        bytes: int,
        *,
        seconds: float = 0,
        cpus: int = 1,
        after: Sequence[int] = (),
        beside: int | None = None,
    ) -> int:
        """A task that computes and then keeps its cores while it transfers, past the policy."""

    def run(
        self, until: int | None = None, *, steps: int | None = None
    ) -> Literal["ended", "watched", "stuck", "going on"]:
        """Goes on until the task, or all, have "ended", or until one that is "watched" has, or so
        many things have happened; "stuck" if the policy holds something back for ever."""

    def watch(self, task: int) -> None:
        """run() is to stop when this task ends; nothing if it has."""

    def record(self, task: int) -> Record: ...
    def counts_of(self, flow: int) -> FlowCounts: ...
    @property
    def now_s(self) -> float: ...
    @property
    def free_cores(self) -> int:
        """Of all nodes."""

    @property
    def unfinished(self) -> int: ...
    @property
    def tasks(self) -> int: ...

class Items:
    """How long a program takes that reads each of `count` equal items, computes on it and writes
    the result: one method for each way to weave these. All times are seconds, those given of one
    item. src/model/overlap.hpp has the formulas, and says which are exact.
    """

    def __init__(
        self, count: int, *, read_s: float = 0, compute_s: float = 0, write_s: float = 0
    ) -> None:
        """Raises ValueError for a negative time, and the methods for no buffer, device or core."""

    @property
    def count(self) -> int: ...
    @property
    def read_s(self) -> float: ...
    @property
    def compute_s(self) -> float: ...
    @property
    def write_s(self) -> float: ...
    def synchronous_s(self) -> float:
        """Nothing overlaps."""

    def prefetch_s(self) -> float:
        """The next item is read during the computation; writes are synchronous."""

    def hideable_read_s(self) -> float:
        """The part of the read time that computation can cover."""

    def write_behind_s(self, buffers: int, devices: int = 1) -> float:
        """Results are written to the devices in turn, while the next buffers are filled."""

    def write_behind_period_s(self, buffers: int, devices: int = 1) -> float:
        """How far apart items end in the long run with write-behind."""

    def one_device_bound_s(self) -> float:
        """Prefetching and write-behind on one device take at most that."""

    def separate_channels_s(self) -> float:
        """Prefetching and write-behind, each on a channel of its own."""

    def processor_bound_s(self, io_cpu_s: float, cores: int) -> float:
        """At least that, where the I/O of an item takes `io_cpu_s` of processor time."""

class Replayed:
    """What became of a replay."""

    @property
    def same(self) -> bool:
        """The whole log was read and each decision was made again."""

    @property
    def line(self) -> int:
        """Where it stopped, from 1; the last line where all is the same."""

    @property
    def reason(self) -> str:
        """Why it stopped; empty where all is the same."""

    @property
    def events(self) -> int: ...
    @property
    def decisions(self) -> int: ...

def replay(path: str | PathLike[str]) -> Replayed:
    """Rebuilds the policy from a log file and tells it the events again.

    Raises:
        OSError: The file cannot be read.
    """

class _Array(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

# By the stubs of numpy, its arrays have the buffer protocol from Python 3.12 on only.
BufferLike: TypeAlias = Buffer | _Array

class Service:
    """What moves the bytes of files: an engine of the core (io_uring, aio or threads).

    Any number of threads may use one. It ends with the last file that was opened with it.
    """

    def __init__(
        self,
        *,
        engine: Literal["auto", "io_uring", "aio", "threads"] = "auto",
        required: bool = False,
        queue_depth: int = 0,
        threads: int = 0,
    ) -> None:
        """`engine` "auto" is the best that works here; of others, see `fallback_reason`.

        Args:
            required: Raise instead of falling back to another engine.
            queue_depth: Most operations in flight in a queue, 1 to 4096; 0: 256.
            threads: Most worker threads of the engine "threads", 1 to 256; 0: 4.

        Raises:
            ValueError: An option is out of range; the text names it.
            OSError: The engine is required and does not work, or memory is out.
        """

    @property
    def engine(self) -> str:
        """In use: "io_uring", "aio" or "threads"."""

    @property
    def fallback_reason(self) -> str:
        """What was passed over, and who can mend it; "" if nothing was."""

class Descriptor:
    """An open file; `ioweave.File` is its face. Owns `fd`, and closes it when it is dropped."""

    def __init__(
        self, fd: int, service: Service, path: str | bytes, direct: bool, flow: int = 0
    ) -> None:
        """Its transfers in flight are operations of that flow of the service."""

    def pread(self, n: int, offset: int) -> bytes: ...
    def pread_into(self, buffer: BufferLike, offset: int) -> int: ...
    def pwrite(self, buffer: BufferLike, offset: int) -> int: ...
    def fsync(self, data_only: bool) -> None: ...
    def apread(self, n: int, offset: int) -> Transfer: ...
    def apread_into(self, buffer: BufferLike, offset: int) -> Transfer: ...
    def apwrite(self, buffer: BufferLike, offset: int) -> Transfer: ...
    def afsync(self, data_only: bool) -> Transfer: ...
    def size(self) -> int: ...
    def truncate(self, n: int) -> None: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...

class Transfer:
    """In flight, from Descriptor.apread() and its like."""

    def done(self) -> bool: ...
    def result(self, timeout: float | None = None) -> bytes | int | None:
        """Sleeps until the end; OSError, ECANCELED included, or TimeoutError."""

    def cancel(self) -> bool: ...

class Arrivals:
    """Where the futures of one event loop, or whatever, arrive as the transfers end that they wait
    for."""

    def __init__(self) -> None: ...
    def fileno(self) -> int:
        """An eventfd, readable while something may have arrived."""

    def take(self) -> list[Any]:
        """The futures that arrived since the last call, in order."""

    def expect(self, transfer: Transfer, future: Any) -> bool:
        """False where the future will not arrive, because result() does not sleep."""
