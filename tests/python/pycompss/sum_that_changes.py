# ruff: noqa
# mypy: ignore-errors
"""The paper's first listing with a sum that can change in place, so that the numbers are added up."""

from pycompss.api.api import compss_wait_on
from pycompss.api.constraint import constraint
from pycompss.api.parameter import INOUT
from pycompss.api.task import task


class Sum:
    def __init__(self) -> None:
        self.value = 0


@task(returns=int)
def scale(c):
    return c * 10


@constraint(computingUnits=2)
@task(value1=INOUT)
def accumulate(value1, value2):
    value1.value += value2


if __name__ == "__main__":
    inputs = [1, 2, 3, 4]
    result = Sum()
    for num in inputs:
        scaled = scale(num)
        accumulate(result, scaled)
    result = compss_wait_on(result)
    print("sum", result.value)
