"""What a task does with its parameters: the names of `pycompss.api.parameter`.

Each is given in `@task(name=FILE_IN)`, or as the `Type` of a dictionary, `{Type: FILE_IN}`. Ioweave
keeps CONCURRENT and COMMUTATIVE in the order of submission, as INOUT: it is one of the orders that
they allow.
"""

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "COLLECTION",
    "COLLECTION_FILE",
    "COLLECTION_FILE_IN",
    "COLLECTION_IN",
    "COMMUTATIVE",
    "CONCURRENT",
    "DICTIONARY",
    "DICTIONARY_IN",
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


class Use(Enum):
    """What a task does with a value or a file."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


@dataclass(frozen=True)
class Parameter:
    """A parameter's use; of the object itself, or of the file (or directory) that it names."""

    use: Use
    is_file: bool = False
    is_collection: bool = False  # of files: a list of names, maybe nested


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
DICTIONARY = IN
DICTIONARY_IN = IN
COLLECTION_FILE = Parameter(Use.IN, is_file=True, is_collection=True)
COLLECTION_FILE_IN = COLLECTION_FILE


def __getattr__(name: str) -> Parameter:
    if name.isupper():
        raise ImportError(
            f"ioweave.compat.pycompss does not support the parameter {name}. It has "
            f"{', '.join(n for n in __all__ if n.isupper())}."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def parameter_of(name: str, given: object) -> Parameter:
    """What `@task(name=given)` says; TypeError where it says nothing."""
    if isinstance(given, Parameter):
        return given
    if isinstance(given, dict) and all(isinstance(key, Key) for key in given):
        kind = given.get(Type, IN)
        use = given.get(Direction)
        if isinstance(kind, Parameter) and (use is None or isinstance(use, Parameter)):
            return kind if use is None else Parameter(use.use, kind.is_file, kind.is_collection)
    raise TypeError(
        f"task parameter {name!r}: {given!r} is not one of pycompss.api.parameter, as IN or "
        "FILE_OUT, nor a dictionary as {Type: FILE_IN}"
    )
