"""PyCOMPSs programs on a Dask cluster."""

from __future__ import annotations

import sys
import unittest
from unittest import mock

try:
    import distributed  # noqa: F401
except ModuleNotFoundError as missing:
    print(f"SKIP: no Dask: {missing}")
    sys.exit(77)

import ioweave.dask
import test_pycompss
from test_dask_runtime import OnDask


class Programs(OnDask, test_pycompss.Programs):
    pass


class Command(test_pycompss.Runner):
    def test_an_app_runs_on_a_cluster_whose_workers_do_not_have_it(self) -> None:
        app = self.file(
            "app.py",
            """
            from pycompss.api.api import compss_wait_on
            from pycompss.api.parameter import INOUT
            from pycompss.api.task import task

            @task(returns=int)
            def double(n):
                return 2 * n

            @task(returns=int)
            def next_double(n):
                return double(n) + 1

            @task(numbers=INOUT)
            def append(numbers, n):
                numbers.append(n)

            class Total:
                total = 0

                @task()
                def add(self, n):
                    self.total += n

            if __name__ == "__main__":
                numbers, total = [], Total()
                for n in range(3):
                    append(numbers, next_double(n))
                    total.add(double(n))
                print(compss_wait_on(numbers), compss_wait_on(total).total)
            """,
        )
        with ioweave.dask.local_cluster(nodes=2, cores=1) as cluster:
            address = cluster.scheduler_address.replace("tcp://", "dask://")
            ran = self.run_app("--runtime", address, app)
        self.assertEqual((ran.returncode, ran.stdout), (0, "[1, 3, 5] 6\n"), ran.stderr)

    def test_workers_import_modules_beside_the_app_where_they_find_them(self) -> None:
        self.file(
            "beside.py",
            """
            from ioweave.compat.pycompss.api.task import task

            @task(returns=int)
            def double(n):
                return 2 * n
            """,
        )
        app = self.file(
            "app.py",
            """
            from beside import double
            from pycompss.api.api import compss_wait_on

            if __name__ == "__main__":
                print(compss_wait_on([double(n) for n in range(3)]))
            """,
        )
        found = mock.patch.object(sys, "path", [str(self.folder), *sys.path])  # of workers, too
        with found, ioweave.dask.local_cluster(nodes=1, cores=1) as cluster:
            address = cluster.scheduler_address.replace("tcp://", "dask://")
            ran = self.run_app("--runtime", address, app)
        self.assertEqual((ran.returncode, ran.stdout), (0, "[0, 2, 4]\n"), ran.stderr)


if __name__ == "__main__":
    unittest.main()
