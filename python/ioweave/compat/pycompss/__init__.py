"""PyCOMPSs programs on Ioweave.

Change the import, or leave the source as it is:

    from ioweave.compat.pycompss.api.task import task        # instead of pycompss.api.task
    $ python -m ioweave.compat.pycompss app.py ARGUMENTS...  # pycompss is this package, inside

The package has `task`, `constraint` (`computing_units`, `storageBW`), `IO`, `parameter` and `api`,
with the names and the meaning they have in PyCOMPSs. Names that it does not support raise an error
when they are imported or used. Outside a runtime a task is a plain call, as in PyCOMPSs.
"""
