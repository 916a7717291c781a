# ruff: noqa
# mypy: ignore-errors
"""The paper's I/O tasks: unconstrained, with a static constraint, bounded and unbounded auto."""

import os
import sys

from pycompss.api.api import compss_barrier, compss_wait_on, compss_wait_on_file
from pycompss.api.constraint import constraint
from pycompss.api.IO import IO
from pycompss.api.parameter import *
from pycompss.api.task import task

BLOCK = 64 * 1024


@task(returns=bytes)
def generate_block(i):
    return bytes([i]) * BLOCK


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@IO()
@task(path=FILE_OUT)
def io_task(path, data):
    write(path, data)


@constraint(storageBW=20)
@IO()
@task(path=FILE_OUT)
def constrained_write(path, data):
    write(path, data)


@constraint(storageBW="auto(10,50,4)")
@IO()
@task(path=FILE_OUT)
def bounded(path, data):
    write(path, data)


@constraint(storageBW="auto")
@IO()
@task(path={Type: FILE_OUT})
def unbounded(path, data):
    write(path, data)


@task(path=FILE_IN, returns=1)
def size(path):
    return os.path.getsize(path)


if __name__ == "__main__":
    folder = sys.argv[1]
    kinds = [io_task, constrained_write, bounded, unbounded]
    if sys.argv[2:] == ["plain"]:
        kinds = kinds[:2]
    sizes = []
    for i in range(40):
        block = generate_block(i)
        path = os.path.join(folder, f"block{i}")
        kinds[i % len(kinds)](path, block)
        sizes.append(size(path))
    print("bytes", sum(compss_wait_on(sizes)))
    compss_wait_on_file(os.path.join(folder, "block0"))
    compss_barrier()
    print("files", len(os.listdir(folder)))
