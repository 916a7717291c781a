# ruff: noqa
# mypy: ignore-errors
"""The paper's I/O tasks as it prints them, with a body, as checkpoints of figure 6's application.

Listings 4 and 5 have a task of the same name.
"""

import os
import sys
import tempfile

from pycompss.api.api import compss_barrier, compss_wait_on
from pycompss.api.constraint import constraint
from pycompss.api.IO import IO
from pycompss.api.task import task

BLOCK = 64 * 1024


def write(data):
    with tempfile.NamedTemporaryFile(dir=sys.argv[1], delete=False) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@IO()
@task()
def io_task(data):
    # perform I/O operations on data
    write(data)


@constraint(storageBW=20)
@IO()
@task()
def constrained_write(data):
    write(data)


@constraint(storageBW="auto(10,50,4)")
@IO()
@task()
def constrained_io_task(data):
    write(data)


bounded = constrained_io_task


@constraint(storageBW="auto")
@IO()
@task()
def constrained_io_task(data):
    write(data)


@task(returns=bytes)
def generate_block(i):
    return bytes([i]) * BLOCK


@task(returns=int)
def scale(block):
    return 10 * block[0]


if __name__ == "__main__":
    kinds = [io_task, constrained_write, bounded, constrained_io_task]
    results = []
    for i in range(40):
        block = generate_block(i)
        checkpoint = kinds[i % len(kinds)]
        checkpoint(block)
        results.append(scale(block))
    compss_barrier()
    results = compss_wait_on(results)
    print("scaled", sum(results))
    sizes = [os.path.getsize(os.path.join(sys.argv[1], name)) for name in os.listdir(sys.argv[1])]
    print("written", sizes == 40 * [BLOCK])
