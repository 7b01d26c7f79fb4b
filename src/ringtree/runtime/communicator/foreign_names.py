"""The names here of what mpi4py, torch.distributed and NCCL call otherwise, for whoever tries their names first."""

from __future__ import annotations

OTHERWISE_NAMED = {
    "bcast": "broadcast", "alltoallv": "all_to_all_v", "allgatherv": "all_gather_v", "gatherv": "gather_v",
    "scatterv": "scatter_v", "reducescatterblock": "reduce_scatter", "allgatherintotensor": "all_gather",
    "reducescattertensor": "reduce_scatter", "alltoallsingle": "all_to_all", "getrank": "rank", "getsize": "size",
    "getworldsize": "size", "worldsize": "size", "nranks": "size", "dup": "duplicate", "clone": "duplicate",
    "free": "close", "destroy": "close", "disconnect": "close", "destroyprocessgroup": "close", "create": "group",
    "creategroup": "group", "newgroup": "group", "createcart": "mesh", "ssend": "send", "bsend": "send",
    "rsend": "send", "ibsend": "isend", "irsend": "isend", "sendrecvreplace": "sendrecv", "batchisendirecv": "batch",
    "broadcastobjectlist": "broadcast_object", "scatterobjectlist": "scatter_object", "monitoredbarrier": "barrier",
}  # fmt: skip
"""Names here by those of others, without underscores and in small letters."""


def hint(name: str, known: list[str]) -> str:
    """The name among the `known` for a call that other libraries call `name`, in words; nothing where there is none."""
    plain = name.replace("_", "").lower()
    names = OTHERWISE_NAMED | {other.replace("_", ""): other for other in known if not other.startswith("_")}
    started = plain.startswith("i") and plain not in names
    here = names.get(plain[1:] if started else plain)
    if here is None:
        return ""
    of_objects = f"{here}_object"
    return f"; it is {here}{' with async_op=True' if started else ''} here" + (
        f", or {of_objects} for objects that are no arrays" if of_objects in known else ""
    )
