"""Names of MPI that ringtree lacks, each with its replacement."""

from __future__ import annotations

from typing import Any

_FILES = "files are the program's own: numpy.save and numpy.memmap, each rank its part"
_PROCESSES = "ranks are started by `ringtree run` or ringtree.spawn"
_DARRAY = "an irregular distribution is a type that Create_indexed or Create_subarray makes of each rank's part"
_EXTERNAL = "the bytes of Pack are this machine's; numpy's byteswap gives others"
_BY_SIZE = "types by their size are INT32_T, REAL8, COMPLEX16 and their like"
_INTER = "over two groups the collectives block and reduce to a root or to all; Intercomm.Merge has all of them"
_PARTS = "a part of a message is a message: a Send_init for each, with a tag of its own"
_ATTRIBUTES = "keep what belongs to an object in a dictionary beside it"
_ERRORS = "errors are raised, as with ERRORS_RETURN in mpi4py"
_SESSIONS = "ringtree.init() can be called again"
_PICKLE = "objects travel as Python's pickle module writes them"
_BSENDS = "Bsend keeps a copy by itself until it is sent"
_DEATHS = "a dead rank is named in the error; shrink of ringtree's Communicator makes a group of the survivors"
_IDUP = "Dup returns when all ranks have called it"
_HANDLES = "what is here are Python's objects, without a handle in C or Fortran"
_LOCKS = "mpi4py's own table of locks; threads of a rank call one communicator as they like"
_C = "there is no library in C behind the names"

_NAMES = {
    _FILES: "File FILE_NULL MODE_RDONLY MODE_WRONLY MODE_RDWR MODE_CREATE MODE_EXCL MODE_DELETE_ON_CLOSE "
    "MODE_UNIQUE_OPEN MODE_SEQUENTIAL MODE_APPEND SEEK_SET SEEK_CUR SEEK_END DISPLACEMENT_CURRENT DISP_CUR "
    "Register_datarep",
    _PROCESSES: "Open_port Close_port Publish_name Unpublish_name Lookup_name Spawn Spawn_multiple Accept Connect Join",
    _DARRAY: "Create_darray DISTRIBUTE_NONE DISTRIBUTE_BLOCK DISTRIBUTE_CYCLIC DISTRIBUTE_DFLT_DARG",
    _EXTERNAL: "Pack_external Unpack_external Pack_external_size",
    _BY_SIZE: "Create_f90_integer Create_f90_real Create_f90_complex Match_size TYPECLASS_LOGICAL TYPECLASS_INTEGER "
    "TYPECLASS_REAL TYPECLASS_COMPLEX",
    _PARTS: "Psend_init Precv_init Pready Pready_range Pready_list Parrived",
    _ATTRIBUTES: "Get_attr Set_attr Delete_attr Create_keyval Free_keyval",
    _ERRORS: "Create_errhandler Call_errhandler Add_error_class Remove_error_class Add_error_code Remove_error_code "
    "Add_error_string Remove_error_string",
    _SESSIONS: "Session SESSION_NULL Create_from_session_pset",
    _PICKLE: "pickle Pickle",
    _BSENDS: "Attach_buffer Detach_buffer Flush_buffer Iflush_buffer",
    _DEATHS: "Revoke Is_revoked Get_failed Ack_failed Agree Iagree Shrink Ishrink",
    _IDUP: "Idup Idup_with_info",
    _HANDLES: "handle tohandle fromhandle toint fromint py2f f2py tomemory F_SOURCE F_TAG F_ERROR F_STATUS_SIZE "
    "_typedict_f _sizeof _addressof _handleof",
    _LOCKS: "_comm_lock _comm_lock_table _commctx_intra _commctx_inter",
    _C: "Get_abi_version Get_abi_info Get_abi_fortran_info __pyx_capi__ _set_abort_status _typecode _typealign "
    "_datatype_create _datatype_decode",
    "a Request is of a call that ringtree makes": "Grequest",
    "Split_type has COMM_TYPE_SHARED; ringtree's mesh and split have the other groups": "COMM_TYPE_HW_GUIDED "
    "COMM_TYPE_HW_UNGUIDED COMM_TYPE_RESOURCE_GUIDED Get_hw_resource_info",
}
_INSTEAD = {name: text for text, names in _NAMES.items() for name in names.split()}


class Missing(NotImplementedError, AttributeError):
    """The error for a name of MPI that ringtree.mpi lacks. An AttributeError as well, so that hasattr answers."""


def missing_name(name: str) -> AttributeError:
    """The error for a name that the module lacks."""
    return _error(f"ringtree.mpi.{name}", name, f"module 'ringtree.mpi' has no attribute {name!r}")


def missing_of(kind: type, name: str) -> AttributeError:
    """The error for a method or an attribute that a class, or an object of it, lacks."""
    public = next(base.__name__ for base in kind.__mro__ if base.__name__[0] != "_")
    public = "Datatype" if public == "Derived" else public
    return _error(f"{public}.{name}", name, f"a {public} of ringtree.mpi has no {name!r}")


def missing_between_groups(name: str) -> AttributeError:
    """The error for a method that an Intercomm lacks."""
    return Missing(f"Intercomm.{name}: {_INTER}")


def _error(what: str, name: str, unknown: str) -> AttributeError:
    return Missing(f"{what}: {_INSTEAD[name]}") if name in _INSTEAD else AttributeError(unknown)


class _Kind(type):
    """A class of which a missing name gets its replacement, too: `MPI.Comm.Join`."""

    def __getattr__(cls, name: str) -> Any:
        raise missing_of(cls, name)


class MpiObject(metaclass=_Kind):
    """An object of MPI's, of which a missing name gets its replacement."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise missing_of(type(self), name)
