"""The compiled module: conversions over the C++ core, no logic of its own."""

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

from typing_extensions import Buffer

def this_machine() -> dict[str, str | int]:
    """What a result means nothing without: host, kernel, architecture, processor, cpus,
    cpus_allowed (by affinity), memory_bytes."""

def version() -> str:
    """Returns the version of the library in use, such as "0.1.0"."""

class DiskCounter:
    """Counts the bytes that a block device moved. Partitions and device-mapper volumes have
    counters of their own."""

    def __init__(self, major: int, minor: int, diskstats: str = "/proc/diskstats") -> None: ...
    @staticmethod
    def of_path(path: str | PathLike[str]) -> DiskCounter | None:
        """Returns the counter of the device below a path that exists. Returns None if the kernel
        has no counter for it: tmpfs, NFS, FUSE, overlayfs, a file system on several disks.

        Raises:
            OSError: There is no such path.
        """

    @staticmethod
    def of_device(
        number: int,
        diskstats: str = "/proc/diskstats",
        mountinfo: str = "/proc/self/mountinfo",
    ) -> DiskCounter | None:
        """Returns the counter of the device that holds the files of this st_dev, or None."""

    @property
    def identity(self) -> str:
        """Unique on a machine."""

    def read(self) -> int:
        """Returns the bytes moved so far, reads and writes together."""

def is_rotational(
    path: str | PathLike[str],
    *,
    mountinfo: str = "/proc/self/mountinfo",
    sys: str = "/sys/dev/block",
) -> bool:
    """Returns whether the disk below a path that exists says that it rotates. A partition counts as
    its disk. Returns False if this is not known. Paravirtual disks (virtio, Xen) are not asked:
    they report the default of their driver, whatever is behind them.

    Raises:
        OSError: There is no such path.
    """

def mounts() -> list[tuple[int, str, str, str]]:
    """Returns the mounts of this process: st_dev of their files, path, type, source."""

def mount_of(
    path: str | PathLike[str], mountinfo: str = "/proc/self/mountinfo"
) -> tuple[str, str, bool]:
    """Returns the mount point and the file system type of an absolute path without links, and
    whether several nodes use file systems of this type at once."""

def read_learned(path: str | PathLike[str]) -> dict[tuple[str, str], str]:
    """Returns the learned texts by (task, device); none for a file that does not exist yet.

    Raises:
        OSError: The file cannot be read, or its folder does not exist.
        ValueError: The file is not one of learned texts; the message says why.
    """

def write_learned(path: str | PathLike[str], learned: dict[tuple[str, str], str]) -> None:
    """Replaces the file as a whole, so that a reader finds the old values or the new ones.

    Raises:
        OSError: The file cannot be written.
    """

def check_device(settings: dict[str, Any]) -> None:
    """Checks the settings of an ioweave.Device, by name. A setting that is not given has its
    default.

    Raises:
        ValueError: A setting is wrong; the message names the device and the setting.
    """

def check_node(settings: dict[str, Any]) -> None:
    """Checks the settings of an ioweave.Node in the same way."""

def read_description(
    file: str | None, shown: str = ""
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Returns the settings of the devices and nodes that ioweave.toml describes, and the warnings.

    Args:
        file: its absolute path; None: the usual files.
        shown: the name of the file in messages.

    Raises:
        OSError: `file` cannot be read.
        ValueError: A file is no TOML, or describes something wrongly; the message names the place.
    """

def is_one_of(node: str, globs: Sequence[str]) -> bool:
    """Returns whether one of the patterns matches a node's name, with or without its domain."""

def nearest_name(name: str, known: Sequence[str]) -> str:
    """Returns the name of `known` that is closest in edit distance; empty if no name is near."""

def learned_from_curve(curve: Sequence[tuple[float, float]]) -> str:
    """Returns what `climb` would have learned of a device with this curve, for the argument
    `learned` of Policy.add_flow(). Points are (operations at once, MB/s of all together),
    ascending. Empty without a point."""

def sample_part(samples: int) -> float:
    """Returns the part of the sample period until the next sample, after `samples` samples."""

class Start:
    """The decision to start this operation now, on this node."""

    __match_args__ = ("operation", "node")
    def __init__(self, operation: int, node: int) -> None: ...
    @property
    def operation(self) -> int: ...
    @property
    def node(self) -> int: ...

class SetLimit:
    """The decision that from now on at most `limit` operations of the flow run at once on a node;
    0: any number.

    For information: `Start` already respects it.
    """

    __match_args__ = ("flow", "limit")
    def __init__(self, flow: int, limit: int) -> None: ...
    @property
    def flow(self) -> int: ...
    @property
    def limit(self) -> int: ...

class Policy:
    """Decides which operation uses a storage device next: pure logic without I/O, clock, thread or
    lock.

    Not thread-safe: the caller holds a lock around every call; overlapping calls raise
    RuntimeError. Times are nanoseconds that never decrease. Node 0 is up from the beginning.
    src/policy/policy.hpp holds the rules, event.hpp the events.

    Each event returns the decisions that follow from it. An impossible event (an unknown flow, an
    operation told twice, an end before its start was decided, a node without the device) raises
    ValueError and changes nothing.
    """

    def __init__(self, log: Callable[[str], object] | None = None) -> None:
        """`log` is called with every line of the event log, without a line end.

        It must not call the policy. An exception in it goes to sys.unraisablehook, so the caller
        still gets the decisions.
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
        """Adds a device; returns its id: 0, 1, 2, ... Texts are those of the event log.

        Every node has the device, unless `everywhere` is False: then the nodes of device_up() do.
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
        """Adds a flow; returns its id. `constraint` is a text of the event log, such as "none",
        "fixed:20", "auto:225", "auto:2,256,2" or "climb"; `learned` comes from learned() of an
        earlier run.

        Raises:
            ValueError: A setting is out of range, or the device unknown; the text names it.
        """

    def ready(
        self, operation: int, flow: int, node: int | None, bytes: int, now_ns: int
    ) -> list[Start | SetLimit]:
        """An operation is ready to start; `node` None lets the policy choose the node."""

    def finished(
        self, operation: int, seconds: float, bytes: int, now_ns: int
    ) -> list[Start | SetLimit]:
        """The operation succeeded and has left the device."""

    def failed(self, operation: int, now_ns: int) -> list[Start | SetLimit]:
        """The operation ended with an error and has left the device."""

    def cancelled(self, operation: int, now_ns: int) -> list[Start | SetLimit]:
        """The operation, waiting or running, is to be forgotten."""

    def sample(
        self,
        device: int,
        node: int,
        bytes_per_second: float,
        now_ns: int,
        seconds: float = 1.0,
    ) -> list[Start | SetLimit]:
        """The throughput of a device was measured: about once a second, at first more often
        (sample_part). `seconds`: since the last sample of the node.
        """

    def node_up(self, node: int, now_ns: int) -> list[Start | SetLimit]: ...
    def node_down(self, node: int, now_ns: int) -> list[Start | SetLimit]:
        """The node is down. Operations that wait for it or run on it are forgotten."""

    def device_up(self, device: int, node: int, now_ns: int) -> list[Start | SetLimit]:
        """The node, which is up, has this device, which not every node has, until it goes down."""

    def has(self, node: int, device: int) -> bool:
        """Returns whether the node is up and has the device.

        Raises:
            ValueError: There is no such device.
        """

    def flow_counts(self, flow: int) -> tuple[int, int]:
        """Returns how many operations of a flow wait, and how many run.

        Raises:
            ValueError: There is no such flow.
        """

    def running_on(self, node: int) -> int:
        """Returns how many operations run on a node.

        Raises:
            ValueError: The node is not up.
        """

    def needs_samples(self, device: int) -> bool:
        """Returns whether operations of flows with `climb` wait or run on a device.

        Raises:
            ValueError: There is no such device.
        """

    def explain(self, flow: int) -> str:
        """Says why the flow's constraint is what it is, as a JSON object
        (src/policy/explanation.hpp).

        Raises:
            ValueError: There is no such flow.
        """

    def learned(self, flow: int) -> str:
        """Returns what a learning constraint has learned so far; empty if nothing.

        Raises:
            ValueError: There is no such flow.
        """

    @property
    def devices(self) -> int: ...
    @property
    def flows(self) -> int: ...
    @property
    def waiting(self) -> int:
        """The operations of all flows that are ready and not started."""

    @property
    def running(self) -> int:
        """The operations of all flows that have started and not ended."""

class Gate:
    """Decides when operations that Python carries out may start. They take their turn beside the
    requests of files that are opened with `service` on a flow of the same gate. The devices are
    those of this machine; their throughput is measured from outside: see sample().

    Any thread may use it. Each event returns the decisions since the last call, whoever made room.
    """

    def __init__(self, log: Callable[[str], object] | None = None) -> None:
        """`log`: as for Policy, but it is called within the next call of the gate.

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
        """Adds a device and returns its id, as Policy.add_device(). Lower classes yield
        strictly."""

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
        """Adds a flow and returns its id, as Policy.add_flow(). `constraint` is as users write it:
        "none", "20", "auto" (which needs max_in_flight), "auto(2,256,2)", "climb"."""

    def ready(self, operation: int, flow: int, bytes: int) -> list[Start | SetLimit]:
        """An operation exists and may start when there is room.

        Raises:
            ValueError: Another operation has this number, or the flow does not exist.
        """

    def finished(self, operation: int, bytes: int) -> list[Start | SetLimit]:
        """The operation moved these bytes and has left the device."""

    def failed(self, operation: int) -> list[Start | SetLimit]:
        """The operation failed and has left the device."""

    def cancelled(self, operation: int) -> list[Start | SetLimit]:
        """Forgets an operation, waiting or running."""

    def sample(
        self, device: int, bytes_per_second: float, seconds: float
    ) -> list[Start | SetLimit]:
        """Takes a sample: the device's throughput since the last sample, `seconds` ago."""

    def take(self) -> list[Start | SetLimit]:
        """Returns the decisions since the last call."""

    def wait(self) -> bool:
        """Sleeps until an operation may start. Returns False after stop()."""

    def stop(self) -> None: ...
    def flow_counts(self, flow: int) -> tuple[int, int]:
        """Returns how many operations of a flow wait, and how many run."""

    def moved_bytes(self, flow: int) -> int:
        """Returns what the flow's operations that ended have moved."""

    def needs_samples(self, device: int) -> bool:
        """Returns whether operations of flows with `climb` wait or run on a device."""

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
    """Adds a device, as Gate.add_device(). If it is not measured, `climb` uses the bytes that
    operations report."""

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

class Admitted:
    """An operation that may run. It ends with its last reference at the latest."""

    def finish(self, result: int) -> None:
        """Reports the end: the bytes moved, or -errno. Does nothing the second time."""

def admit(service: Service, flow: int, bytes: int) -> Admitted:
    """Sleeps, without the GIL, until an operation of the flow may start.

    Raises:
        ValueError: There is no such flow.
        OSError: This is a forked child.
        KeyboardInterrupt: Or whatever else a signal handler raises; the operation is forgotten.
    """

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
    """Counts of the transfers of a flow; `bytes` is the sum of those that ended."""

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
    1, 2, ... in the order of submission. A task is ready once the tasks in `after` have ended.
    `beside` is one of those: the task runs on its node if that node has the device and the cores. A
    task that could never run raises ValueError.
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
        """The policy must have had no event yet; its devices and flows may be added later.
        `cores_of` gives the cores of each node, instead of `nodes` and `cores`."""

    def device_up(self, device: int, node: int) -> None:
        """Gives a node a device that not every node has.

        Raises:
            ValueError: Every node has the device, this node has it already, or there is no such
                node or device.
        """

    def set_curve(
        self, device: int, points: Sequence[tuple[float, float]], *, at_s: float | None = None
    ) -> None:
        """Sets the throughput of a device, from `at_s` on: points (streams, MB/s), ascending."""

    def compute(
        self, seconds: float, *, cpus: int = 1, after: Sequence[int] = (), beside: int | None = None
    ) -> int:
        """Adds a task that takes cores of one node; returns its number."""

    def io(
        self, flow: int, bytes: int, *, after: Sequence[int] = (), beside: int | None = None
    ) -> int:
        """Adds a transfer without a core, which starts when the policy says; returns its number."""

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
        """Adds a task that computes, then keeps its cores during a transfer past the policy."""

    def run(
        self, until: int | None = None, *, steps: int | None = None
    ) -> Literal["ended", "watched", "stuck", "going on"]:
        """Advances virtual time. Returns why it stopped: "ended": the task, or all tasks, have
        ended; "watched": a watched task has; "going on": `steps` events have happened; "stuck": the
        policy holds something back for ever."""

    def watch(self, task: int) -> None:
        """Makes run() stop when this task ends. Does nothing if it has ended."""

    def record(self, task: int) -> Record: ...
    def counts_of(self, flow: int) -> FlowCounts: ...
    @property
    def now_s(self) -> float: ...
    @property
    def free_cores(self) -> int:
        """The free cores of all nodes."""

    @property
    def unfinished(self) -> int: ...
    @property
    def tasks(self) -> int: ...

class Items:
    """How long a program takes that reads each of `count` equal items, computes on it and writes
    the result. Each method is one way to weave these. All times are seconds; the arguments are the
    times of one item. src/model/overlap.hpp has the formulas, and says which are exact.
    """

    def __init__(
        self, count: int, *, read_s: float = 0, compute_s: float = 0, write_s: float = 0
    ) -> None:
        """
        Raises:
            ValueError: A time is negative. The methods raise it for 0 buffers, devices or cores.
        """

    @property
    def count(self) -> int: ...
    @property
    def read_s(self) -> float: ...
    @property
    def compute_s(self) -> float: ...
    @property
    def write_s(self) -> float: ...
    def synchronous_s(self) -> float:
        """The time if nothing overlaps."""

    def prefetch_s(self) -> float:
        """The time if the next item is read during the computation; writes are synchronous."""

    def hideable_read_s(self) -> float:
        """The part of the read time that computation can cover."""

    def write_behind_s(self, buffers: int, devices: int = 1) -> float:
        """The time if results are written to the devices in turn, while buffers are filled."""

    def write_behind_period_s(self, buffers: int, devices: int = 1) -> float:
        """The time between the ends of two items with write-behind, in the long run."""

    def one_device_bound_s(self) -> float:
        """The most that prefetching and write-behind on one device take."""

    def separate_channels_s(self) -> float:
        """The time of prefetching and write-behind, each on a channel of its own."""

    def processor_bound_s(self, io_cpu_s: float, cores: int) -> float:
        """The least time if the I/O of an item takes `io_cpu_s` of processor time."""

class Replayed:
    """The result of a replay."""

    @property
    def same(self) -> bool:
        """Whether the whole log was read and each decision was made again."""

    @property
    def line(self) -> int:
        """The line where it stopped, from 1; the last line if all is the same."""

    @property
    def reason(self) -> str:
        """Why it stopped; empty if all is the same."""

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
    """Moves the bytes of files by an engine of the core (io_uring, aio or threads).

    Any number of threads may use one service. It ends with the last file that was opened with it.
    """

    def __init__(
        self,
        *,
        engine: Literal["auto", "io_uring", "aio", "threads"] = "auto",
        required: bool = False,
        queue_depth: int = 0,
        threads: int = 0,
    ) -> None:
        """
        Args:
            engine: "auto" is the best engine that works here; `fallback_reason` says why an engine
                was passed over.
            required: Raise instead of falling back to another engine.
            queue_depth: Most operations in flight in a queue, 1 to 4096; 0: 256.
            threads: Most worker threads of the engine "threads", 1 to 256; 0: 4.

        Raises:
            ValueError: An option is out of range; the text names it.
            OSError: The engine is required and does not work, or memory ran out.
        """

    @property
    def engine(self) -> str:
        """The engine in use: "io_uring", "aio" or "threads"."""

    @property
    def fallback_reason(self) -> str:
        """Which engines were passed over, and who can change that; "" if none was."""

class Descriptor:
    """An open file, which `ioweave.File` wraps. Owns `fd`, and closes it when it is dropped."""

    def __init__(
        self, fd: int, service: Service, path: str | bytes, direct: bool, flow: int = 0
    ) -> None:
        """`flow`: the flow of the service whose operations the transfers in flight are."""

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

class Awaited:
    """What threads and event loops can wait for."""

class Transfer(Awaited):
    """A transfer in flight, from Descriptor.apread() and its like."""

    def done(self) -> bool: ...
    def result(self, timeout: float | None = None) -> bytes | int | None:
        """Sleeps until the end. Raises OSError, ECANCELED included, or TimeoutError."""

    def cancel(self) -> bool: ...

class Arrivals:
    """An inbox of one event loop or thread: the futures, or any objects, given to expect() arrive
    here when their transfers end."""

    def __init__(self) -> None: ...
    def fileno(self) -> int:
        """Returns an eventfd that is readable while something may have arrived."""

    def take(self) -> list[Any]:
        """Returns the futures that arrived since the last call, in order."""

    def expect(self, transfer: Awaited, future: Any) -> bool:
        """Lets the future arrive when the transfer, or the wait for a lease, ends. Returns False if
        it will not arrive, because result() would not sleep."""

class WriteStream:
    """A write stream, which `ioweave.WriteStream` wraps."""

    def __init__(
        self,
        service: Service,
        *,
        buffer_bytes: int = 0,
        budget_bytes: int = 0,
        depth: int = 0,
        overflow: str = "block",
        path: str = "auto",
        flow: int = 0,
    ) -> None: ...
    def create(
        self, path: str | bytes, encoded: bytes, keep: bool, exclusive: bool, expected_bytes: int
    ) -> StreamFile: ...
    def flush(self) -> None: ...
    def sync(self) -> None: ...
    def close(self, durable: bool) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    @property
    def closed(self) -> bool: ...

class LeaseTaker:
    """What takes leases of a write stream."""

    def lease(self, timeout: float | None = None) -> Lease: ...
    def alease(self) -> LeaseAsk: ...

class StreamFile(LeaseTaker):
    """A file of a write stream, which `ioweave.WriteStreamFile` wraps."""

    def write(self, data: BufferLike, offset: int) -> None: ...
    def append(self, data: BufferLike) -> None: ...
    def flush(self) -> None: ...
    def sync(self) -> None: ...
    def end(self, durable: bool) -> None: ...
    @property
    def ended(self) -> bool: ...

class Spread(LeaseTaker):
    """Items of a write stream on several targets, which `ioweave.Spread` wraps."""

    def __init__(
        self,
        stream: WriteStream,
        manifest: str | bytes,
        encoded: bytes,
        targets: list[bytes],
        placement: str,
        on_failure: str,
        exclusive: bool,
        expected_bytes: int,
    ) -> None: ...
    def append(self, data: BufferLike) -> int: ...
    def end(self, durable: bool) -> None: ...
    def abandon(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    @property
    def ended(self) -> bool: ...

class ReadStream:
    """A read stream, which `ioweave.ReadStream` wraps."""

    def __init__(
        self,
        service: Service,
        shown: str | bytes | None,
        paths: list[bytes],
        files: bool,
        *,
        buffer_bytes: int = 0,
        budget_bytes: int = 0,
        path: str = "auto",
        flow: int = 0,
        relative_only: bool = False,
    ) -> None: ...
    def next(self, timeout: float | None = None) -> ReadLease | None: ...
    def close(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    @property
    def closed(self) -> bool: ...

class ReadLease:
    """What a read stream has read: a buffer of bytes, for numpy.frombuffer(), memoryview() and all
    that takes buffers. Its bytes may be changed.

    release() gives the memory back, so that the next item is read into it, as does the end of a
    `with` block, and of the object. Afterwards it is no buffer any more. release() raises
    BufferError while a view of it is in use. It may outlive its stream.
    """

    @property
    def item(self) -> int:
        """The number of the item, from 0."""

    @property
    def offset(self) -> int:
        """Where it begins within the item; not 0: a later piece of an item larger than a buffer."""

    @property
    def item_nbytes(self) -> int:
        """Bytes of the whole item."""

    @property
    def nbytes(self) -> int:
        """Bytes of this lease; 0 after it was released."""

    def release(self) -> None: ...
    def release_unless_viewed(self) -> None:
        """As release(), but does nothing while a view of it is in use."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> ReadLease: ...
    def __exit__(self, *exception: object) -> None: ...

class Plan:
    """A plan of reads to come, which `ioweave.Plan` wraps. A file is a Descriptor, a number, or an
    object with fileno()."""

    def __init__(
        self,
        service: Service,
        *,
        budget_bytes: int = 0,
        slice_bytes: int = 0,
        depth: int = 0,
        schedule: str = "auto",
        sole_writer: bool = False,
    ) -> None: ...
    def add(self, file: Any, offset: int, nbytes: int, stride: int = 0, count: int = 1) -> None: ...
    def add_all(self, reads: list[tuple[Any, int, int]]) -> None:
        """Adds reads of (file, offset, nbytes). Gives the GIL up once for all of them."""

    def add_from(self, iterator: Iterator[tuple[int, int, int]]) -> None:
        """Adds the reads that an iterator yields, as named() returned them."""

    def named(self, file: Any, offset: int, nbytes: int) -> tuple[int, int, int]:
        """Checks a read, and names the file by a descriptor of the plan's own."""

    def read(self, file: Any, offset: int, nbytes: int) -> bytes: ...
    def lease(self, file: Any, offset: int, nbytes: int) -> PlanLease: ...
    def read_into(self, file: Any, offset: int, buffer: BufferLike) -> int: ...
    def write(self, file: Any, offset: int, data: BufferLike) -> int: ...
    def invalidate(self, file: Any, offset: int, nbytes: int) -> None: ...
    def forget(self, file: Any) -> None: ...
    def close(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    @property
    def closed(self) -> bool: ...

class PlanLease:
    """What a plan has read: a buffer of bytes, for numpy.frombuffer(), memoryview() and all that
    takes buffers. Its bytes may be changed.

    release() gives the memory back, as does the end of a `with` block, and of the object.
    Afterwards it is no buffer any more. release() raises BufferError while a view of it is in use.
    It may outlive its plan.
    """

    @property
    def nbytes(self) -> int:
        """Bytes that were read; 0 after it was released."""

    def release(self) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> PlanLease: ...
    def __exit__(self, *exception: object) -> None: ...

class LeaseAsk(Awaited):
    """A wait for a lease, from StreamFile.alease(). If it is dropped it gives the lease up."""

    def done(self) -> bool: ...
    def result(self, timeout: float | None = None) -> Lease:
        """Sleeps until there is a lease. Raises OSError, ECANCELED included, or TimeoutError."""

    def cancel(self) -> bool: ...

class Lease:
    """Memory of a write stream to fill: a writable buffer of bytes, for numpy.frombuffer(),
    memoryview() and all that takes buffers. It begins at a multiple of 4096.

    append() or write() hand it over to the file that it was leased from, and release() gives it
    back unwritten, as does the end of a `with` block. Afterwards it is no buffer any more. They
    raise BufferError while a view of it is in use, and it stays leased then. A lease that is
    dropped is given back.

    It may outlive its stream, but then no longer be written.
    """

    def append(self, nbytes: int) -> int | None:
        """Writes its first `nbytes` bytes behind everything that was appended before. A lease of a
        spread makes them the next item, and returns its number.

        Raises:
            BufferError: A view of it, such as a memoryview or a numpy array, is in use.
            ValueError: It was handed over or released, or `nbytes` is not 0 to its size; it stays
                leased then. Or file or stream have ended.
            OSError: An earlier write to the file failed. The lease has ended.
        """

    def write(self, offset: int, nbytes: int) -> None:
        """As append(), but writes at an offset in bytes. ValueError: it is of a spread."""

    def release(self) -> None:
        """Gives it back. Does nothing if it was handed over or released.

        Raises:
            BufferError: A view of it is in use.
        """

    @property
    def nbytes(self) -> int:
        """Its size in bytes, that of a buffer of the stream; 0 after its end."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> Lease: ...
    def __exit__(self, *exception: object) -> None: ...
