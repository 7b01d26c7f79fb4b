"""MPI's numbers and names, for programs that compare with them."""

from __future__ import annotations

from typing import Final

ANY_SOURCE: Final = -1
ANY_TAG: Final = -1
PROC_NULL: Final = -2
ROOT: Final = -3
UNDEFINED: Final = -32766

IDENT, CONGRUENT, SIMILAR, UNEQUAL = range(4)
THREAD_SINGLE, THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_MULTIPLE = range(4)

COMM_TYPE_SHARED: Final = 0
TAG_UB_VALUE: Final = (1 << 31) - 1
MAX_PROCESSOR_NAME: Final = 256
MAX_ERROR_STRING: Final = 512
MAX_OBJECT_NAME: Final = 128
MAX_INFO_KEY: Final = 255
MAX_INFO_VAL: Final = 1024
MAX_PORT_NAME: Final = 1024
MAX_DATAREP_STRING: Final = 128
MAX_LIBRARY_VERSION_STRING: Final = 8192
MAX_PSET_NAME_LEN: Final = 256
MAX_STRINGTAG_LEN: Final = 256
BSEND_OVERHEAD: Final = 0
VERSION, SUBVERSION = 3, 1


ORDER_C, ORDER_FORTRAN = 0, 1
ORDER_F = ORDER_FORTRAN
(
    COMBINER_NAMED, COMBINER_DUP, COMBINER_CONTIGUOUS, COMBINER_VECTOR, COMBINER_HVECTOR, COMBINER_INDEXED,
    COMBINER_HINDEXED, COMBINER_INDEXED_BLOCK, COMBINER_HINDEXED_BLOCK, COMBINER_STRUCT, COMBINER_SUBARRAY,
    COMBINER_RESIZED, COMBINER_F90_INTEGER, COMBINER_F90_REAL, COMBINER_F90_COMPLEX, COMBINER_DARRAY,
    COMBINER_VALUE_INDEX,
) = range(17)  # fmt: skip
COMBINERS: Final = (
    "NAMED", "DUP", "CONTIGUOUS", "VECTOR", "HVECTOR", "INDEXED", "HINDEXED", "INDEXED_BLOCK", "HINDEXED_BLOCK",
    "STRUCT", "SUBARRAY", "RESIZED",
)  # fmt: skip
"""The ways to make a datatype; a combiner's number is its place here."""

LOCK_EXCLUSIVE, LOCK_SHARED = 1, 2
MODE_NOCHECK, MODE_NOSTORE, MODE_NOPUT, MODE_NOPRECEDE, MODE_NOSUCCEED = 1, 2, 4, 8, 16
KEYVAL_INVALID, WIN_BASE, WIN_SIZE, WIN_DISP_UNIT, WIN_CREATE_FLAVOR, WIN_MODEL = range(6)
WIN_FLAVOR = WIN_CREATE_FLAVOR
TAG_UB, IO, WTIME_IS_GLOBAL, UNIVERSE_SIZE, APPNUM, LASTUSEDCODE = range(6, 12)
WIN_FLAVOR_CREATE, WIN_FLAVOR_ALLOCATE, WIN_FLAVOR_DYNAMIC, WIN_FLAVOR_SHARED = range(1, 5)
WIN_SEPARATE, WIN_UNIFIED = 1, 2

GRAPH, CART, DIST_GRAPH = 1, 2, 3  # a communicator's topology


class InPlace:
    """The one value IN_PLACE: this rank's input lies where its output goes."""

    def __repr__(self) -> str:
        return "MPI.IN_PLACE"

    def __reduce__(self) -> str:
        return "IN_PLACE"


IN_PLACE: Final = InPlace()


class Named:
    """A value that only its name tells from others."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"MPI.{self._name}"

    def __reduce__(self) -> str:
        return self._name


BOTTOM: Final = Named("BOTTOM")
UNWEIGHTED: Final = Named("UNWEIGHTED")
WEIGHTS_EMPTY: Final = Named("WEIGHTS_EMPTY")
BUFFER_AUTOMATIC: Final = Named("BUFFER_AUTOMATIC")


def in_place(spec: object) -> bool:
    """Whether a buffer argument is IN_PLACE; None means it too, where the other argument is given."""
    return spec is None or spec is IN_PLACE
