"""PyCOMPSs programs on Ioweave.

Change the import, or leave the source as it is:

    from ioweave.compat.pycompss.api.task import task        # instead of pycompss.api.task
    $ python -m ioweave.compat.pycompss app.py ARGUMENTS...  # pycompss is this package, inside

What is there: `task`, `constraint` (`computing_units`, `storageBW`), `IO`, `parameter` and `api`,
with the names and the meaning they have in PyCOMPSs. What is not says so when it is imported or
used. Outside a runtime a task is a plain call, as in PyCOMPSs.
"""
