# ruff: noqa
# mypy: ignore-errors
"""The paper's first listing, with its imports and numbers. Its `__NAME__` is mended, and its `d`,
which it calls `inputs` a line before. An int cannot be updated: the result is 0, as in PyCOMPSs."""

from pycompss.api.api import compss_wait_on
from pycompss.api.constraint import constraint
from pycompss.api.parameter import INOUT
from pycompss.api.task import task


@task(returns=int)
def scale(c):
    return c * 10


@constraint(computingUnits=2)
@task(value1=INOUT)
def accumulate(value1, value2):
    value1 += value2


if __name__ == "__main__":
    inputs = [1, 2, 3, 4]
    result = 0
    for num in inputs:
        scaled = scale(num)
        accumulate(result, scaled)
    result = compss_wait_on(result)
