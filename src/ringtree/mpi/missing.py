"""Names of MPI that ringtree lacks, each with its replacement."""

from __future__ import annotations

_FILES = "files are the program's own: numpy.save and numpy.memmap, each rank its part"
_PROCESSES = "ranks are started by `ringtree run` or ringtree.spawn"
_DARRAY = "an irregular distribution is a type that Create_indexed or Create_subarray makes of each rank's part"
_EXTERNAL = "the bytes of Pack are this machine's; numpy's byteswap gives others"
_INTER = "over two groups the collectives block and reduce to a root or to all; Intercomm.Merge has all of them"
_PERSISTENT = "a repeated call is quick as it is: ringtree remembers the plans of calls that look like earlier ones"
_ATTRIBUTES = "keep what belongs to a communicator in an object beside it"

_INSTEAD = {
    "File": _FILES,
    "Grequest": "a Request is of a call that ringtree makes",
    "Errhandler": "errors are raised, as with ERRORS_RETURN in mpi4py",
    "Session": "ringtree.init() can be called again",
    "Open_port": _PROCESSES, "Lookup_name": _PROCESSES, "Publish_name": _PROCESSES,
    "pickle": "objects travel as Python's pickle module writes them",
}  # fmt: skip

_METHODS = {
    "Spawn": _PROCESSES,
    "Get_attr": _ATTRIBUTES, "Set_attr": _ATTRIBUTES,
    "Accept": _PROCESSES, "Connect": _PROCESSES, "Get_parent": _PROCESSES,
}  # fmt: skip
_ENDINGS = {"_init": _PERSISTENT, "_multiple": _PROCESSES}


class Missing(NotImplementedError, AttributeError):
    """The error for a name of MPI that ringtree.mpi lacks. An AttributeError as well, so that hasattr answers."""


def missing_name(name: str) -> AttributeError:
    """The error for a name that the module lacks."""
    return _error(f"ringtree.mpi.{name}", _INSTEAD.get(name), f"module 'ringtree.mpi' has no attribute {name!r}")


def missing_method(name: str) -> AttributeError:
    """The error for a method that a Comm lacks."""
    found = _METHODS.get(name)
    found = found or next((text for end, text in _ENDINGS.items() if name.endswith(end)), None)
    return _error(f"Comm.{name}", found, f"a Comm of ringtree.mpi has no {name!r}")


def missing_of_type(name: str) -> AttributeError:
    """The error for a method that a Datatype lacks."""
    found = _DARRAY if name == "Create_darray" else _EXTERNAL if "_external" in name else None
    return _error(f"Datatype.{name}", found, f"a Datatype of ringtree.mpi has no {name!r}")


def missing_between_groups(name: str) -> AttributeError:
    """The error for a method that an Intercomm lacks."""
    return Missing(f"Intercomm.{name}: {_INTER}")


def missing_of_window(name: str) -> AttributeError:
    """The error for a method that a Win lacks."""
    found = (
        _INSTEAD["Errhandler"] if "errhandler" in name else _ATTRIBUTES if name.endswith(("attr", "keyval")) else None
    )
    return _error(f"Win.{name}", found, f"a Win of ringtree.mpi has no {name!r}")


def _error(what: str, instead: str | None, unknown: str) -> AttributeError:
    return AttributeError(unknown) if instead is None else Missing(f"{what}: {instead}")
