"""Makes `pycompss` mean ioweave.compat.pycompss where this folder is in sys.path. The runner puts
it there, so its worker processes have it, too."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

_REAL = "ioweave.compat.pycompss"


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `pycompss...` in the package, and raises for modules that the package lacks."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith("pycompss."):
            return None
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        real = _REAL + spec.name.removeprefix("pycompss")
        if importlib.util.find_spec(real) is None:
            raise ImportError(
                f"{spec.name} is not supported by {_REAL}, which has pycompss.api.task, "
                "constraint, IO, parameter and api"
            )
        return importlib.import_module(real)

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module was executed under its own name."""


sys.meta_path.insert(0, _Alias())
sys.modules[__name__] = importlib.import_module(_REAL)
