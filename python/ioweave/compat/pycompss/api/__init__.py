"""The modules of `pycompss.api` that Ioweave has: task, constraint, IO, parameter, api."""
