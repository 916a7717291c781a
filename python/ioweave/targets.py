"""Where a runtime runs its tasks, by the `target` that it is given.

None is this process and this machine (`runtime.py`). Every other target is a text with a scheme,
such as "dask://host:8786", or an object, such as a distributed.Client. The class that was
registered for the scheme, or for the scheme of the object's package, runs the tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runtime import Runtime

_classes: dict[str, Callable[[], type[Runtime]]] = {}  # by scheme
_PACKAGES = {"distributed": "dask"}  # the schemes of objects


def register(scheme: str, load: Callable[[], type[Runtime]]) -> None:
    """Makes `Runtime("scheme://...")` an instance of the class that `load()` returns."""
    _classes[scheme] = load


def class_of(target: Any) -> type[Runtime]:
    """Returns the class of the runtime for a target.

    Raises:
        ValueError: no class is registered for its scheme.
    """
    if isinstance(target, str):
        scheme, separator, _ = target.partition("://")
    else:
        packages = {kind.__module__.partition(".")[0] for kind in type(target).__mro__}
        schemes = [_PACKAGES[package] for package in packages if package in _PACKAGES]
        scheme, separator = (schemes or [""])[0], "object"
    if not separator or scheme not in _classes:
        known = ", ".join(f"{name}://" for name in sorted(_classes)) or "none"
        raise ValueError(
            f"target {target!r} is not known to this version of Ioweave (known: {known}): "
            "leave it out to run the tasks in this process"
        )
    return _classes[scheme]()
