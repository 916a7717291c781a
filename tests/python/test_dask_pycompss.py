"""PyCOMPSs programs on a Dask cluster."""

from __future__ import annotations

import sys
import unittest

try:
    import distributed  # noqa: F401
except ModuleNotFoundError as missing:
    print(f"SKIP: no Dask: {missing}")
    sys.exit(77)

import test_pycompss
from test_dask_runtime import OnDask


class Programs(OnDask, test_pycompss.Programs):
    pass


if __name__ == "__main__":
    unittest.main()
