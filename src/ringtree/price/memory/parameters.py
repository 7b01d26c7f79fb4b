"""Memory that ranks share, as a place that schedules are priced in, and its cost parameters."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import log2

from ringtree.price.memory.corrections import NONE, Corrections

CALL_COSTS = ("call_s", "latency_s", "message_s", "step_s", "turn_s", "switch_s")
RATES = ("copy_Bps", "fetch_Bps", "reduce_Bps", "attach_Bps", "oversubscribed_fetch_Bps")
COPY, FETCH, REDUCE, ATTACH, OVERSUBSCRIBED_FETCH = range(len(RATES))
NODE_COSTS = ("across_s", "across_Bps", "link_Bps")
MEMORY_NBYTES = (1 << 16, 1 << 19, 1 << 22, 1 << 25, 1 << 27)
"""Bytes of the arrays of a core's ranks: input and output of the measured sizes. They are within a core's first caches,
its second, the last one, at its end, and beyond."""
CACHE_LINE_NBYTES = 64
FASTEST_BPS = 1e12
"""A faster rate costs nothing measurable."""
ACROSS_S, ACROSS_BPS, LINK_BPS = 0.15e-6, 30e9, 45e9
"""Published measurements of machines with two sockets; ringtree has measured none. A cache line of the other socket
takes 57 to 90 ns longer than one of the own (core-to-core-latency by N. Viennot: 108 and 51 ns on a Xeon 8375C, 134 and
47 on an 8275CL, 197 and 107 on an EPYC 7R13), and a message moves one there and back. A line takes twice as long, and
a core, which waits for as many at once, reads at half the rate: ACROSS_BPS is amid the built-in fetch_Bps. All cores of
a socket read 34 GB/s from the other over two UPI links (Cascade Lake) and 56 over three (Ice Lake; Intel's Memory
Latency Checker, in info/ of gjbex/Code-optimization)."""


@dataclass(frozen=True, slots=True)
class CostParameters:
    """Seconds: `call_s` a call, `latency_s` from handing over a message until it can be seen, `message_s` to hand over
    or take one, `step_s` a copy or a reduction, beside their bytes. Where ranks share a core: `turn_s` for each rank of
    a core until all had a turn, once a fragment, and `switch_s` for each at every further synchronization.

    Bytes a second, one for each of `memory_nbytes`, the bytes that the ranks of a core have in arrays: `copy_Bps`
    of one's own bytes, `fetch_Bps` of bytes that a peer wrote into a slot, `reduce_Bps` of reduced bytes, on top of
    both, `attach_Bps` of bytes that the kernel reads in a peer's own memory. `oversubscribed_fetch_Bps` takes the place
    of `fetch_Bps` where ranks share a core, whose caches then hold the slots of many. Between two of `memory_nbytes`
    the seconds a byte follow the logarithm. `source`: where the parameters are from, in words.

    Where ranks are on several NUMA nodes: `across_s` a message from another node, on top of its latency; `across_Bps`
    of bytes that a rank there wrote, on top of `fetch_Bps`; `link_Bps` of all bytes into a node or out of it.

    `corrections`: of the predicted times of calls whose algorithms were measured against each other.
    """

    call_s: float
    latency_s: float
    message_s: float
    step_s: float
    turn_s: float
    switch_s: float
    copy_Bps: tuple[float, ...]
    fetch_Bps: tuple[float, ...]
    reduce_Bps: tuple[float, ...]
    attach_Bps: tuple[float, ...]
    oversubscribed_fetch_Bps: tuple[float, ...]
    memory_nbytes: tuple[int, ...] = MEMORY_NBYTES
    source: str = field(default="", compare=False)
    across_s: float = ACROSS_S
    across_Bps: float = ACROSS_BPS
    link_Bps: float = LINK_BPS
    corrections: Corrections = NONE

    def __post_init__(self) -> None:
        for name in (*CALL_COSTS, "across_s"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected 0 to 1 second")
        sizes = self.memory_nbytes
        if not sizes or any(nbytes < 1 for nbytes in sizes) or list(sizes) != sorted(set(sizes)):
            raise ValueError(f"memory_nbytes is {sizes!r}; expected numbers of bytes, the least first")
        for name in RATES:
            rates = getattr(self, name)
            if len(rates) != len(sizes) or not all(1 <= rate <= FASTEST_BPS for rate in rates):
                raise ValueError(
                    f"{name} is {rates!r}; expected {len(sizes)} numbers, each 1 to {FASTEST_BPS:g} bytes a second"
                )

        for name in NODE_COSTS[1:]:
            if not 1 <= getattr(self, name) <= FASTEST_BPS:
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected 1 to {FASTEST_BPS:g} bytes a second")

    def seconds_a_byte(self, nbytes: float, oversubscribed: bool = False) -> tuple[float, ...]:
        """Returns seconds per byte copied, fetched, reduced and attached, for the bytes in arrays of the ranks of a
        core."""
        shares = weights(self.memory_nbytes, nbytes)
        return tuple(sum(w / getattr(self, RATES[r])[k] for k, w in shares) for r in rates_of(oversubscribed))

    @property
    def message_nbytes(self) -> float:
        """The bytes that move in the time of a message, from handing it over until it can be seen: of a shorter payload
        most of the time is latency. They are copied and read in a staging slot, so at the rates of a core's first
        caches. A cache line at least."""
        copy_s, fetch_s, *_ = self.seconds_a_byte(0)
        return max((self.message_s + self.latency_s) / (copy_s + fetch_s), CACHE_LINE_NBYTES)


def rates_of(oversubscribed: bool) -> tuple[int, ...]:
    """The positions in RATES of what is paid for bytes copied, fetched, reduced and attached."""
    return COPY, OVERSUBSCRIBED_FETCH if oversubscribed else FETCH, REDUCE, ATTACH


def weights(sizes: tuple[int, ...], nbytes: float) -> list[tuple[int, float]]:
    """The positions in `sizes` around `nbytes`, each with its weight."""
    high = bisect_right(sizes, nbytes)
    if high in (0, len(sizes)):
        return [(min(high, len(sizes) - 1), 1.0)]
    share = log2(nbytes / sizes[high - 1]) / log2(sizes[high] / sizes[high - 1])
    return [(high - 1, 1 - share), (high, share)]


BUILT_IN = CostParameters(
    call_s=0.6e-6,
    latency_s=0.25e-6,
    message_s=15e-9,
    step_s=10e-9,
    turn_s=6e-6,
    switch_s=1e-6,
    copy_Bps=(190e9, 100e9, 50e9, 30e9, 12e9),
    fetch_Bps=(22e9, 28e9, 45e9, 50e9, 45e9),
    reduce_Bps=(400e9, 500e9, 500e9, 500e9, 500e9),
    attach_Bps=(35e9, 30e9, 40e9, 25e9, 12e9),
    oversubscribed_fetch_Bps=(22e9, 25e9, 27e9, 22e9, 19e9),
    source="built-in cost parameters",
)
"""Measured by `ringtree tune` on 2 cores of an AMD EPYC with slow cache lines from the other core; `attach_Bps` is
between what that machine and 2 cores of an Intel Xeon take for process_vm_readv, less the writing, where the kernel
reads small pages at READS_BPS;
`oversubscribed_fetch_Bps` is between an estimate from what reduce of 1 and 16 MiB over 4 and 8 ranks takes on that
Xeon, and what gather and all_to_all of those sizes take on another EPYC."""
READS_BPS = 25e9
"""The rate that native.reads_Bps() would find on that Xeon, by its single copies of 32 and 512 KiB; another EPYC has
12 to 16e9, and takes longer for them than to stage."""
MEMORY_READS_BPS = 12e9, 10e9
"""`attach_Bps` of 32 and 128 MiB in arrays, of which part comes from memory and then all, where the kernel is slower:
estimates from all_to_all, scatter and gather of 4 to 64 MiB on 2 cores of that EPYC and of a third one."""


ON_A_MESH = replace(
    BUILT_IN,
    copy_Bps=(93e9, 39e9, 14e9, 10e9, 4.8e9),
    fetch_Bps=(20e9, 20e9, 20e9, 20e9, 10e9),
    attach_Bps=(10e9, 12e9, 10e9, 8e9, 6e9),
    source="built-in cost parameters of a Xeon",
)
"""Measured on 2 cores of an Intel Xeon (family 6, model 207) of bytes that the other core had just written: its lines
come over the mesh from the other's caches, one way at 10 to 16 GB/s however they are read, and a copy past the second
cache is a third as fast as on that EPYC. fetch_Bps and attach_Bps are less the writing, and estimates at 128 MiB."""
SHARED_ON_A_MESH = replace(
    BUILT_IN,
    copy_Bps=(190e9, 50e9, 10e9, 14e9, 8e9),
    attach_Bps=(6e9, 3.5e9, 4e9, 7.4e9, 5.5e9),
    oversubscribed_fetch_Bps=(22e9, 9e9, 8e9, 7e9, 7e9),
    source="built-in cost parameters of a Xeon whose cores ranks share",
)
"""Costs of ranks that share the cores of that Xeon: estimates from calls of 4 and 8 ranks on 2 of them, by which single
copies and algorithms are chosen about where they took less time (decision 0084)."""
MESH_READS_BPS = 12e9
"""The kernel of that Xeon reads small pages at 14 to 21e9; below this one it is slower for another reason."""


@lru_cache(maxsize=4)
def built_in(reads_Bps: float, on_a_mesh: bool = False, cores_are_shared: bool = False) -> CostParameters:
    """The built-in parameters where the kernel reads a peer's memory at that rate, as native.reads_Bps() finds it: in
    this core's caches, so that bytes from another's take the time of that in addition. Bytes from memory take the
    time of memory, unless the kernel is much slower (decision 0090). `on_a_mesh`: of cores of a processor as ON_A_MESH;
    `cores_are_shared`: by several ranks each."""
    if on_a_mesh:
        known = SHARED_ON_A_MESH if cores_are_shared else ON_A_MESH
        share = min(reads_Bps / MESH_READS_BPS, 1.0) if reads_Bps else 1.0
        return known if share == 1 else replace(known, attach_Bps=tuple(a * share for a in known.attach_Bps))
    if not 0 < reads_Bps < READS_BPS:
        return BUILT_IN
    share = reads_Bps / READS_BPS
    pairs = zip(BUILT_IN.attach_Bps, BUILT_IN.fetch_Bps, strict=True)
    *in_caches, long, last = (min(a * share, 1 / (1 / reads_Bps + 1 / f)) for a, f in pairs)
    from_memory = (max(r, min(2 * reads_Bps, least)) for r, least in zip((long, last), MEMORY_READS_BPS, strict=True))
    return replace(BUILT_IN, attach_Bps=(*in_caches, *from_memory))


WRITTEN_BYTES = 4096
"""The least bytes of a chunk whose sum a rank writes into the arrays of others (csrc/interpreter/placing.cc)."""


def sums_are_written(collective: str, chunks: int, nbytes: int) -> bool:
    """Whether ranks whose arrays are symmetric may write a chunk's sum where it is wanted (decision 0085), of a vector
    of `nbytes` in so many chunks."""
    return collective == "all_reduce" and nbytes >= chunks * WRITTEN_BYTES


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """One machine's memory for a group's ranks: the cores that they share, the number of each rank's staging slots, the
    bytes of a slot, and the cost parameters. `single_copy_bytes`: the longest message that may be read where it lies in
    its sender's memory; 0: all are staged. `node_of`: the NUMA node of each rank, where all are known and several are
    different, else (). `speed`: of the slowest core that they run on, as a share of the machine's fastest.
    `symmetric`: the arrays of a call are in memory that all ranks reach, and a sum is written where it is wanted."""

    cores: int
    slots: int
    slot_bytes: int
    parameters: CostParameters = BUILT_IN
    single_copy_bytes: int = 0
    node_of: tuple[int, ...] = ()
    speed: float = 1.0
    symmetric: bool = False
