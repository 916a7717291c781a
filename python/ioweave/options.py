"""The options of `ioweave.Runtime`: one list for every target.

Each target accepts each option, so that a program changes nothing but its target. A target checks
options that it does not use, and otherwise ignores them (docs/python.md says which target uses
which option).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from .config import did_you_mean, load_devices
from .devices import Device, Node, devices_by_name
from .numeric import real, whole

if TYPE_CHECKING:
    from .simulated import Cost, Curve

P = ParamSpec("P")
S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of a Runtime, whose docstring describes them.

    Raises:
        TypeError, ValueError: an argument is wrong; the text names it.
    """

    target: Any = field(default=None, kw_only=False)
    cpus: int | None = None
    workers: str = "threads"
    arguments: str = "snapshot"
    io_threads: int = 225
    devices: Iterable[Device] = ()
    config: str | os.PathLike[str] | None = None
    max_pending: int = 100_000
    max_pending_bytes: int | None = None
    log: str | os.PathLike[str] | None = None
    on_interrupt: str = "drain"
    learned: str | os.PathLike[str] | None = None
    run_file: str | os.PathLike[str] | None = None
    records: bool = False
    progress: bool = False
    shared_directory: bool = False
    costs: Mapping[str, Cost] | None = None
    curves: Mapping[str, Curve] | None = None
    nodes: Iterable[Node] = ()
    sample_period_s: float = 1.0

    def __post_init__(self) -> None:
        for name in ("cpus", "io_threads", "max_pending", "max_pending_bytes"):
            value = getattr(self, name)
            if value is None and name in ("cpus", "max_pending_bytes"):
                continue
            number = whole(value)
            if number is None or number < 1:
                raise _make_error(name, value, "a whole number above 0")
            object.__setattr__(self, name, number)  # one of Python's own
        if self.workers not in ("threads", "processes"):
            raise _make_error("workers", self.workers, "'threads' or 'processes'")
        if self.arguments not in ("snapshot", "freeze", "share"):
            raise _make_error("arguments", self.arguments, "'snapshot', 'freeze' or 'share'")
        if self.on_interrupt not in ("drain", "cancel"):
            raise _make_error("on_interrupt", self.on_interrupt, "'drain' or 'cancel'")
        for name in ("config", "log", "learned", "run_file"):
            path = getattr(self, name)
            if path is not None and not isinstance(path, (str, os.PathLike)):
                raise _make_error(name, path, "the path of a file, or None")
        for name in ("records", "progress", "shared_directory"):
            if not isinstance(getattr(self, name), bool):
                raise _make_error(name, getattr(self, name), "True or False")
        for name in ("costs", "curves"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise _make_error(name, value, "a dict by name")
        for name, curve in (self.curves or {}).items():
            Device(name, curve=curve)  # raises if the curve is wrong
        period = real(self.sample_period_s)
        if period is None or not period > 0:
            raise _make_error("sample_period_s", self.sample_period_s, "seconds above 0")
        object.__setattr__(self, "sample_period_s", period)
        nodes = [self.nodes] if isinstance(self.nodes, Node) else [*self.nodes]
        if isinstance(self.nodes, Node) or not all(isinstance(node, Node) for node in nodes):
            raise TypeError(f"nodes must be a list of ioweave.Node(...), not {self.nodes!r}")
        object.__setattr__(self, "nodes", nodes)  # an iterator is used up

    def known_devices(self) -> dict[str, Device]:
        """Returns the devices by name: those of the configuration and those given. A given device
        replaces one of the configuration.

        Raises:
            OSError: `config` cannot be read.
            TypeError, ValueError: the description of a device is wrong.
        """
        return load_devices(self.config) | devices_by_name(self.devices)


_NAMES = [option.name for option in dataclasses.fields(Options)]


def _make_error(name: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"Runtime: {name} must be {wanted}, not {value!r}")


def _make_decorator(
    options: Callable[P, Options],
) -> Callable[[Callable[[S, Options], None]], Callable[Concatenate[S, P], None]]:
    def decorate(init: Callable[[S, Options], None]) -> Callable[Concatenate[S, P], None]:
        def __init__(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
            for name in kwargs.keys() - set(_NAMES):
                raise TypeError(
                    f"Runtime has no option {name!r}{did_you_mean(name, _NAMES)}; "
                    f"the options are {', '.join(_NAMES[1:])}"
                )
            init(self, options(*args, **kwargs))

        functools.update_wrapper(__init__, init)
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [own, *inspect.signature(options).parameters.values()]
        __init__.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return __init__

    return decorate


# A decorator for the __init__ of a runtime, which then receives one Options. Type checkers, help()
# and callers see the arguments of Options instead.
takes_options = _make_decorator(Options)
