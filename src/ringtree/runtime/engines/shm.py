"""Joins a group of the shared-memory engine: ranks bootstrap, exchange their cores, and make their native endpoints."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import ringtree.errors  # noqa: F401  # gives the native errors their message
from ringtree.machines import host
from ringtree.runtime import engines, observing, tuned
from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup, NetworkParameters, native_module
from ringtree.runtime.linux import on_a_mesh

if TYPE_CHECKING:
    from ringtree.price import CostParameters
    from ringtree.runtime.engines.network import NetworkEnd

STAGING_BYTES = 1 << 20
"""Bytes of a rank's slots together: staging that fits a core's own cache runs at the cache's speed."""
LEAST_SINGLE_COPY_BYTES = 1 << 12
"""The least length of a message that its receiver reads in the sender's memory; `plan` decides for which calls."""
MOST_STAGING_BYTES = 1 << 24
FEWEST_SLOTS, MOST_SLOTS = 8, 4096
WARN_SHARE, LEAST_WARN_S = 0.5, 10.0
"""The share of its time limit after which a wait warns, and the least seconds."""
THIS = "/"
SLOW_CORES, FULL_CAPACITY = "sys/devices/cpu_atom", "1024"
BETWEEN_HOSTS_BYTES = 1 << 15
"""The least bytes of a slot over hosts, as far as MOST_STAGING_BYTES allow: a chunk of several slots pays the latency
of each. 64 ranks on 8 hosts of 200 Mbit/s all_reduce 1 MiB in 0.76 of the time that they took with 16 KiB."""
UNDER_WAY_BPS = 5e9
"""Staging holds the bytes that move in one latency between hosts at this rate, four times a 10 Gbit/s link's: half of
it is for a rank that is a call ahead, and half of the rest on its way back, as credits."""


def join(parameters: GroupParameters) -> JoinedGroup:
    """Makes this rank's native endpoint; returns when all members have come."""
    if os.environ.get("RINGTREE_STACK_SIGNAL") and not (parameters.inherited or parameters.threads):
        observing.answer_signal()
    return _join(parameters)


def _join(parameters: GroupParameters) -> JoinedGroup:
    native = native_module()
    group = parameters.bootstrap_group(native.BUILD)
    hosts = parameters.bootstrap.hosts(group)
    listening = engines.NetworkEnd(parameters) if len(set(hosts)) > 1 else None
    slots, slot_bytes = staging(parameters.ranks, parameters.slots, listening.latency_s if listening else 0.0)
    sizes = parameters.ranks, slots, slot_bytes
    reads_Bps = native.reads_Bps() if single_copies(os.environ) and not parameters.threads else 0.0
    lazily = parameters.inherited is not None or listening is not None
    needed, at_first = (native.reserved_bytes(*sizes, lazily=each) for each in (lazily, True))
    with ExitStack() as taken:
        if listening:
            taken.callback(listening.close)
        compares = parameters.check or checks(os.environ)
        offer = [*_offer(parameters, listening, reads_Bps), native.process_identity(), compares]
        memory = native.segment_bytes(*sizes), offer, at_first, needed  # each rank reserves its own slots, on its node
        fd, offers = parameters.bootstrap.share(group, *memory)
        taken.callback(os.close, fd)
        network = listening and listening.network(hosts, [o[3] for o in offers])
        taken.pop_all()
    machines = listening.machines if listening else hosts
    cores = {m: _union([o[0] for o, other in zip(offers, machines, strict=True) if other == m]) for m in machines}
    here, nodes = machines[parameters.rank], [o[5][0] for o in offers]
    oversubscribed = machines.count(here) > cores[here]
    keeps_core = oversubscribed and not parameters.threads and not parameters.inherited
    endpoint = native.Group(
        fd,
        parameters.rank,
        parameters.ranks,
        slots=slots,
        slot_bytes=slot_bytes,
        timeout_s=parameters.timeout_s,
        oversubscribed=oversubscribed,
        threads=parameters.threads,
        names=list(parameters.names),
        single_copy_bytes=LEAST_SINGLE_COPY_BYTES if reads_Bps else 0,
        inherited=parameters.inherited,
        network=network,
        nodes=_numbered(hosts, nodes),
        **warning_of(os.environ),
        cores=_home_cores(parameters.rank, machines, [o[0] for o in offers]) if keeps_core else [],
        processes=_processes(parameters, hosts, [o[8] for o in offers]),
        confirms=any(o[9] for o in offers),  # who compares waits for all
        takes_turns=parameters.takes_turns,
    )
    turns = max(machines.count(m) / c for m, c in cores.items())
    return JoinedGroup(
        endpoint,
        slots,
        slot_bytes,
        min(cores.values()),
        *_costs(parameters, offers[0], tuple(hosts), turns, listening),
        *_single_copies(native, sizes, [o[6] for o in offers], listening),
        nodes=() if listening else _several(nodes),
        **_cores(offers, turns),
        timed=endpoint,
    )


def _cores(offers: Sequence[list[Any]], turns: float) -> dict[str, Any]:
    """The speed of the slowest core, whether a mesh joins rank 0's, and whether ranks share them."""
    return {"speed": min(o[5][1] for o in offers), "on_a_mesh": offers[0][7], "cores_are_shared": turns > 1}


def _single_copies(
    native: Any, sizes: tuple[int, int, int], reads_Bps: list[float], listening: NetworkEnd | None
) -> tuple[int, float]:
    """The longest message that may be read in its sender's memory, 0 where a member may not read, and rank 0's rate."""
    allowed = listening is None and all(reads_Bps)
    return (native.overflow_bytes(*sizes) if allowed else 0), reads_Bps[0]


def _costs(
    parameters: GroupParameters, offer: list[Any], hosts: tuple[int, ...], turns: float, listening: NetworkEnd | None
) -> tuple[CostParameters | None, tuple[int, ...], NetworkParameters | None]:
    """The costs that rank 0 offers, or that a group which is made from another has already; the hosts, and the costs of
    the network between them."""
    cost, source = offer[1:3]
    agreed = tuned.parameters_from(cost, source) if cost else parameters.cost if parameters.inherited else None
    measured = parameters.network if parameters.inherited else offer[4] and tuned.network_from(*offer[4])
    return agreed, hosts, NetworkParameters(listening.latency_s, turns, measured) if listening else None


def _offer(parameters: GroupParameters, listening: NetworkEnd | None, reads_Bps: float) -> list[Any]:
    """The facts that the others need of this rank: its usable cores, a world's cost parameters and their source, an
    address, a world's network, the cores' NUMA node and speed, the rate at which it may read peers' memory, and, of
    rank 0, whether a mesh joins its cores."""
    cores = os.sched_getaffinity(0)
    mask = sum(1 << core for core in cores)
    of_world = not parameters.inherited and not parameters.rank
    cost, network = (parameters.cost, parameters.network) if of_world else (None, None)
    return [
        f"{mask:x}",
        tuned.as_json(cost) if cost else None,
        cost.source if cost else None,
        listening.address if listening else None,
        [tuned.network_as_json(network), network.source] if network else None,
        _node_and_speed(cores),
        reads_Bps,
        not parameters.rank and on_a_mesh(),
    ]


def staging(ranks: int, needed: int = 0, latency_s: float = 0.0) -> tuple[int, int]:
    """(slots, bytes of a slot) of a rank. In a round with a message of its own for every peer each needs a slot.
    `latency_s`: from host to host."""
    slots = max(FEWEST_SLOTS, ranks, needed)
    if slots > MOST_SLOTS:
        raise ValueError(f"{slots} staging slots a rank: the engine has at most {MOST_SLOTS}")
    nbytes, wanted = STAGING_BYTES, latency_s and max(latency_s * UNDER_WAY_BPS, slots * BETWEEN_HOSTS_BYTES)
    while nbytes < min(wanted, MOST_STAGING_BYTES):
        nbytes *= 2
    return slots, max(nbytes // slots // 4096 * 4096, 4096)


def nodes_and_speed(cores_of: Sequence[Collection[int]]) -> tuple[tuple[int, ...], float]:
    """The NUMA node of each rank, () where not all are known or none differ, and the speed of the slowest core, of
    ranks that may each run on these cores of this machine: what a group of them would exchange."""
    known = {cores: _node_and_speed(cores) for cores in map(frozenset, cores_of)}
    return _several([known[frozenset(cores)][0] for cores in cores_of]), min(speed for _, speed in known.values())


def single_copies_here(ranks: int) -> tuple[int, float]:
    """The most bytes of a message that its receiver reads in the sender's memory, in a group on this machine, and
    the rate at which the kernel does so; zeros where it or RINGTREE_SINGLE_COPY allows none, and where the engine is
    not installed."""
    try:
        native = native_module()
    except ImportError:
        return 0, 0.0
    reads_Bps = native.reads_Bps() if single_copies(os.environ) else 0.0
    return (int(native.overflow_bytes(ranks, *staging(ranks))), reads_Bps) if reads_Bps else (0, 0.0)


def warning_of(env: Mapping[str, str]) -> dict[str, float]:
    """The time after which a wait warns of the rank that it waits for: a share of its time limit, RINGTREE_WARN_SHARE,
    and the least seconds. ValueError: for a share that is none."""
    given = env.get("RINGTREE_WARN_SHARE")
    if not given:
        return {"warn_share": WARN_SHARE, "warn_least_s": LEAST_WARN_S}
    try:
        share = float(given)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"RINGTREE_WARN_SHARE is {given!r}; expected a share of the timeout from 0 (never) to 1")
    return {"warn_share": share, "warn_least_s": 0.0}


def single_copies(env: Mapping[str, str]) -> bool:
    """Whether messages may be read in their senders' memory: RINGTREE_SINGLE_COPY, 1 by default."""
    given = env.get("RINGTREE_SINGLE_COPY") or "1"
    if given not in ("0", "1"):
        raise ValueError(f"RINGTREE_SINGLE_COPY is {given!r}: expected 1, or 0 to stage all messages")
    return given == "1"


def _processes(parameters: GroupParameters, hosts: Sequence[int], identities: list[list[int]]) -> list[list[int]]:
    """The members' processes as the engine takes them, of this host's; a group made from another has its world's."""
    if parameters.inherited:
        return []
    return [i if host == hosts[parameters.rank] else [0, 0, 0] for i, host in zip(identities, hosts, strict=True)]


def checks(env: Mapping[str, str]) -> bool:
    """Whether ranks compare each call before they begin it: RINGTREE_CHECK, 0 by default."""
    given = env.get("RINGTREE_CHECK") or "0"
    if given not in ("0", "1"):
        raise ValueError(f"RINGTREE_CHECK is {given!r}: expected 0, or 1 to compare each call on all ranks beforehand")
    return given == "1"


def _home_cores(rank: int, machines: Sequence[int], masks: Sequence[str]) -> list[int]:
    """The core that each rank of this rank's host keeps to where ranks share cores: as many to each, neighbours on one,
    as trees join them first. -1 for ranks of other hosts; none where some are pinned apart."""
    here = [each for each, machine in enumerate(machines) if machine == machines[rank]]
    if len({masks[each] for each in here}) > 1:
        return []
    mask = int(masks[rank], 16)
    cores = [core for core in range(mask.bit_length()) if mask >> core & 1]
    homes = [-1] * len(machines)
    for k, each in enumerate(here):
        homes[each] = cores[k * len(cores) // len(here)]
    return homes


def _union(masks: list[str]) -> int:
    """The number of cores in the union of these masks."""
    total = 0
    for mask in masks:
        total |= int(mask, 16)
    return total.bit_count()


def _node_and_speed(cores: Collection[int]) -> tuple[int | None, float]:
    """The NUMA node and the speed of these cores, as of machines.host.cores: what reads them is loaded where there are
    several nodes, or kinds of cores (a hybrid processor's fastest have the first numbers, and its slowest the last)."""
    ends = (_line(f"sys/devices/system/cpu/cpu{core}/cpu_capacity") for core in (min(cores), max(cores)))
    alike = all(capacity in ("", FULL_CAPACITY) for capacity in ends) and not os.path.exists(f"{THIS}/{SLOW_CORES}")
    if alike and _line("sys/devices/system/node/online") in ("", "0"):
        return None, 1.0
    node, speed = host.cores_below(THIS, cores)
    return node, speed  # not their named tuple, which the bootstrap does not carry


def _line(path: str) -> str:
    """The text of a file below THIS; "" where it cannot be read."""
    try:
        with open(f"{THIS}/{path}", encoding="utf-8", errors="replace") as file:
            return file.read(1 << 12).strip()
    except OSError:
        return ""


def _several(nodes: Sequence[int | None]) -> tuple[int, ...]:
    """The NUMA node of each member where all are known and several are different, else ()."""
    known = tuple(node for node in nodes if node is not None and node >= 0)
    return known if len(known) == len(nodes) and len(set(known)) > 1 else ()


def _numbered(hosts: Sequence[int], nodes: Sequence[int | None]) -> list[int]:
    """The members' NUMA nodes as the engine takes them, those of each host by other numbers."""
    if len(set(hosts)) == 1:
        return [] if set(nodes) == {None} else [-1 if node is None else node for node in nodes]
    places = list(zip(hosts, nodes, strict=True))
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
    return [numbers[place] for place in places]
