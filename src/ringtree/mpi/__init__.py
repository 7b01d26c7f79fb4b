"""The names and calls of mpi4py over ringtree: `from ringtree import mpi as MPI` in place of `from mpi4py import MPI`.

Thin: each method is a few lines over a Communicator, and no MPI is needed. docs/mpi4py.md maps
the calls and lists the differences. A call of MPI's that ringtree lacks raises NotImplementedError, whose text names
the alternative.
"""

from __future__ import annotations

from typing import Any

from ringtree.mpi.comm import COMM_NULL, COMM_SELF, COMM_WORLD, Comm, Intracomm
from ringtree.mpi.constants import (
    ANY_SOURCE,
    ANY_TAG,
    BOTTOM,
    BSEND_OVERHEAD,
    CART,
    COMBINER_CONTIGUOUS,
    COMBINER_DUP,
    COMBINER_F90_COMPLEX,
    COMBINER_F90_INTEGER,
    COMBINER_F90_REAL,
    COMBINER_HINDEXED,
    COMBINER_HINDEXED_BLOCK,
    COMBINER_HVECTOR,
    COMBINER_INDEXED,
    COMBINER_INDEXED_BLOCK,
    COMBINER_NAMED,
    COMBINER_RESIZED,
    COMBINER_STRUCT,
    COMBINER_SUBARRAY,
    COMBINER_VECTOR,
    COMM_TYPE_SHARED,
    CONGRUENT,
    DIST_GRAPH,
    GRAPH,
    IDENT,
    IN_PLACE,
    KEYVAL_INVALID,
    LOCK_EXCLUSIVE,
    LOCK_SHARED,
    MAX_PROCESSOR_NAME,
    MODE_NOCHECK,
    MODE_NOPRECEDE,
    MODE_NOPUT,
    MODE_NOSTORE,
    MODE_NOSUCCEED,
    ORDER_C,
    ORDER_F,
    ORDER_FORTRAN,
    PROC_NULL,
    ROOT,
    SIMILAR,
    THREAD_FUNNELED,
    THREAD_MULTIPLE,
    THREAD_SERIALIZED,
    THREAD_SINGLE,
    UNDEFINED,
    UNEQUAL,
    UNWEIGHTED,
    WEIGHTS_EMPTY,
    WIN_BASE,
    WIN_CREATE_FLAVOR,
    WIN_DISP_UNIT,
    WIN_FLAVOR_ALLOCATE,
    WIN_FLAVOR_CREATE,
    WIN_FLAVOR_DYNAMIC,
    WIN_FLAVOR_SHARED,
    WIN_MODEL,
    WIN_SEPARATE,
    WIN_SIZE,
    WIN_UNIFIED,
)
from ringtree.mpi.errors import (
    ERR_ARG,
    ERR_BUFFER,
    ERR_COMM,
    ERR_COUNT,
    ERR_DISP,
    ERR_GROUP,
    ERR_IN_STATUS,
    ERR_INFO_NOKEY,
    ERR_INTERN,
    ERR_LASTCODE,
    ERR_LOCKTYPE,
    ERR_OP,
    ERR_OTHER,
    ERR_PENDING,
    ERR_PROC_FAILED,
    ERR_RANK,
    ERR_REQUEST,
    ERR_REVOKED,
    ERR_RMA_RANGE,
    ERR_RMA_SYNC,
    ERR_ROOT,
    ERR_TAG,
    ERR_TRUNCATE,
    ERR_TYPE,
    ERR_UNKNOWN,
    ERR_WIN,
    SUCCESS,
    Exception,
)
from ringtree.mpi.groups.group import GROUP_EMPTY, GROUP_NULL, Group
from ringtree.mpi.groups.intercomm import Intercomm
from ringtree.mpi.groups.topologies import Cartcomm, Compute_dims, Distgraphcomm, Graphcomm, Topocomm
from ringtree.mpi.info import INFO_ENV, INFO_NULL, Info
from ringtree.mpi.messages.matched import MESSAGE_NO_PROC, MESSAGE_NULL, Message
from ringtree.mpi.messages.request import REQUEST_NULL, Prequest, Request
from ringtree.mpi.messages.status import Status
from ringtree.mpi.missing import missing_name
from ringtree.mpi.op import (
    BAND,
    BOR,
    BXOR,
    LAND,
    LOR,
    LXOR,
    MAX,
    MAXLOC,
    MIN,
    MINLOC,
    NO_OP,
    OP_NULL,
    PROD,
    REPLACE,
    SUM,
    Op,
)
from ringtree.mpi.process import (
    Alloc_mem,
    Attach_buffer,
    Detach_buffer,
    Finalize,
    Free_mem,
    Get_library_version,
    Get_processor_name,
    Get_version,
    Init,
    Init_thread,
    Is_finalized,
    Is_initialized,
    Is_thread_main,
    Query_thread,
    Wtick,
    Wtime,
    get_vendor,
)
from ringtree.mpi.replacing import replace
from ringtree.mpi.types.datatype import DATATYPE_NULL, TYPES_BY_CODE, Datatype, predefined
from ringtree.mpi.types.memory import address_of as Get_address
from ringtree.mpi.windows.win import WIN_NULL, Win

__all__ = [
    "COMM_NULL", "COMM_SELF", "COMM_WORLD", "Comm", "Intracomm", "ANY_SOURCE", "ANY_TAG", "BSEND_OVERHEAD",
    "COMM_TYPE_SHARED", "CONGRUENT", "IDENT", "IN_PLACE", "MAX_PROCESSOR_NAME", "PROC_NULL", "ROOT", "SIMILAR",
    "THREAD_FUNNELED", "THREAD_MULTIPLE", "THREAD_SERIALIZED", "THREAD_SINGLE", "UNDEFINED", "UNEQUAL",
    "DATATYPE_NULL", "Datatype", "ERR_ARG", "ERR_BUFFER", "ERR_COMM", "ERR_COUNT", "ERR_GROUP", "ERR_IN_STATUS",
    "ERR_INTERN", "ERR_LASTCODE", "ERR_OP", "ERR_OTHER", "ERR_PENDING", "ERR_PROC_FAILED", "ERR_RANK",
    "ERR_REQUEST", "ERR_REVOKED", "ERR_ROOT", "ERR_TAG", "ERR_TRUNCATE", "ERR_TYPE", "ERR_UNKNOWN", "SUCCESS",
    "Exception", "GROUP_EMPTY", "GROUP_NULL", "Group", "BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR", "MAX",
    "MAXLOC", "MIN", "MINLOC", "NO_OP", "OP_NULL", "PROD", "REPLACE",
    "SUM", "Op", "Alloc_mem", "Attach_buffer", "Detach_buffer",
    "Finalize", "Free_mem", "Get_library_version",
    "Get_processor_name", "Get_version", "Init", "Init_thread", "Is_finalized", "Is_initialized", "Is_thread_main",
    "Query_thread", "Wtick", "Wtime", "get_vendor", "REQUEST_NULL", "Prequest", "Request", "Status",
    "replace", "BOTTOM", "CART", "DIST_GRAPH", "GRAPH", "UNWEIGHTED", "WEIGHTS_EMPTY", "MESSAGE_NO_PROC",
    "MESSAGE_NULL", "Message", "Cartcomm", "Compute_dims", "Distgraphcomm", "Graphcomm", "Topocomm",
    "Intercomm", "INFO_ENV", "INFO_NULL", "Info", "ERR_INFO_NOKEY", "ERR_WIN", "ERR_RMA_SYNC", "ERR_RMA_RANGE",
    "ERR_LOCKTYPE", "ERR_DISP", "Get_address", "ORDER_C", "ORDER_FORTRAN", "ORDER_F", "COMBINER_F90_COMPLEX",
    "COMBINER_F90_INTEGER", "COMBINER_F90_REAL", "COMBINER_NAMED", "COMBINER_DUP",
    "COMBINER_CONTIGUOUS",
    "COMBINER_VECTOR", "COMBINER_HVECTOR", "COMBINER_INDEXED", "COMBINER_HINDEXED", "COMBINER_INDEXED_BLOCK",
    "COMBINER_HINDEXED_BLOCK", "COMBINER_STRUCT", "COMBINER_SUBARRAY", "COMBINER_RESIZED",
    "Win", "WIN_NULL", "LOCK_EXCLUSIVE", "LOCK_SHARED", "MODE_NOCHECK", "MODE_NOSTORE", "MODE_NOPUT",
    "MODE_NOPRECEDE", "MODE_NOSUCCEED", "KEYVAL_INVALID", "WIN_BASE", "WIN_SIZE", "WIN_DISP_UNIT",
    "WIN_CREATE_FLAVOR", "WIN_MODEL", "WIN_FLAVOR_CREATE", "WIN_FLAVOR_ALLOCATE", "WIN_FLAVOR_DYNAMIC",
    "WIN_FLAVOR_SHARED", "WIN_SEPARATE", "WIN_UNIFIED",
]  # fmt: skip

_typedict = _typedict_c = TYPES_BY_CODE


def __getattr__(name: str) -> Any:
    datatype = predefined(name)
    if datatype is None:
        raise missing_name(name)
    globals()[name] = datatype
    return datatype
