"""What a task does with its parameters: the names of `pycompss.api.parameter`.

They are used in `@task(name=FILE_IN)`, or as the `Type` of a dictionary, `{Type: FILE_IN}`. Ioweave
runs CONCURRENT and COMMUTATIVE in the order of submission, as INOUT, which is one of the orders
that they allow. Names that Ioweave does not support exist for `import *`, and raise an error when
they are used.
"""

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "COLLECTION",
    "COLLECTION_FILE",
    "COLLECTION_FILE_IN",
    "COLLECTION_IN",
    "COLLECTION_IN_DELETE",
    "COMMUTATIVE",
    "CONCURRENT",
    "DICTIONARY",
    "DICTIONARY_IN",
    "DICTIONARY_IN_DELETE",
    "DIRECTORY",
    "DIRECTORY_IN",
    "DIRECTORY_INOUT",
    "DIRECTORY_OUT",
    "FILE",
    "FILE_COMMUTATIVE",
    "FILE_CONCURRENT",
    "FILE_IN",
    "FILE_INOUT",
    "FILE_OUT",
    "IN",
    "INOUT",
    "IN_DELETE",
    "OUT",
    "Cache",
    "Depth",
    "Direction",
    "Keep_rename",
    "Parameter",
    "Type",
    "Weight",
]

_NOT_THERE = (
    *("COLLECTION_INOUT", "COLLECTION_OUT", "COLLECTION_FILE_INOUT", "COLLECTION_FILE_OUT"),
    *("DICTIONARY_INOUT", "DICTIONARY_OUT", "STREAM_IN", "STREAM_OUT"),
    *("STDIN", "STDOUT", "STDERR", "StdIOStream", "Prefix"),
    *(
        f"FILE{direction}_{stream}"
        for direction in ("", "_IN", "_OUT", "_INOUT", "_CONCURRENT", "_COMMUTATIVE")
        for stream in ("STDIN", "STDOUT", "STDERR")
    ),
)


class Use(Enum):
    """What a task does with a value or a file."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


@dataclass(frozen=True)
class Parameter:
    """How a task uses a parameter: the object itself, or the file (or directory) that it names."""

    use: Use
    is_file: bool = False
    is_collection: bool = False  # of files: a list of names, maybe nested


@dataclass(frozen=True)
class NotThere:
    """A name of PyCOMPSs that Ioweave does not support."""

    name: str


class Key(Enum):
    """The keys of a parameter's dictionary."""

    TYPE = "Type"
    DIRECTION = "Direction"
    DEPTH = "Depth"
    WEIGHT = "Weight"
    KEEP_RENAME = "Keep_rename"
    CACHE = "Cache"


Type = Key.TYPE
Direction = Key.DIRECTION
Depth = Key.DEPTH
Weight = Key.WEIGHT
Keep_rename = Key.KEEP_RENAME
Cache = Key.CACHE

IN = Parameter(Use.IN)
IN_DELETE = IN
OUT = Parameter(Use.OUT)
INOUT = Parameter(Use.INOUT)
CONCURRENT = INOUT
COMMUTATIVE = INOUT

FILE = Parameter(Use.IN, is_file=True)
FILE_IN = FILE
FILE_OUT = Parameter(Use.OUT, is_file=True)
FILE_INOUT = Parameter(Use.INOUT, is_file=True)
FILE_CONCURRENT = FILE_INOUT
FILE_COMMUTATIVE = FILE_INOUT

DIRECTORY = FILE
DIRECTORY_IN = FILE_IN
DIRECTORY_OUT = FILE_OUT
DIRECTORY_INOUT = FILE_INOUT

# Futures are found in lists and dictionaries of any depth.
COLLECTION = IN
COLLECTION_IN = IN
COLLECTION_IN_DELETE = IN
DICTIONARY = IN
DICTIONARY_IN = IN
DICTIONARY_IN_DELETE = IN
COLLECTION_FILE = Parameter(Use.IN, is_file=True, is_collection=True)
COLLECTION_FILE_IN = COLLECTION_FILE


_THERE = ", ".join(name for name in __all__ if name.isupper())
__all__ += _NOT_THERE
globals().update({name: NotThere(name) for name in _NOT_THERE})


def _describe_lack(name: str) -> str:
    return f"ioweave.compat.pycompss does not support the parameter {name}. It has {_THERE}."


def __getattr__(name: str) -> Parameter:
    if name.isupper():
        raise ImportError(_describe_lack(name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def parameter_of(name: str, given: object) -> Parameter:
    """Returns the parameter that `@task(name=given)` means.

    Raises:
        TypeError: `given` is not a parameter.
        NotImplementedError: Ioweave does not support it; the text names it.
    """
    if isinstance(given, Parameter):
        return given
    for part in (*given, *given.values()) if isinstance(given, dict) else (given,):
        if isinstance(part, NotThere):
            raise NotImplementedError(f"task parameter {name!r}: {_describe_lack(part.name)}")
    if isinstance(given, dict) and all(isinstance(key, Key) for key in given):
        kind = given.get(Type, IN)
        use = given.get(Direction)
        if isinstance(kind, Parameter) and (use is None or isinstance(use, Parameter)):
            return kind if use is None else Parameter(use.use, kind.is_file, kind.is_collection)
    raise TypeError(
        f"task parameter {name!r}: {given!r} is not one of pycompss.api.parameter, as IN or "
        "FILE_OUT, nor a dictionary as {Type: FILE_IN}"
    )
