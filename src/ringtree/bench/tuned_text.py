"""The text of the file that `ringtree tune` writes: a topology for simulations, and the measured costs beside it."""

from __future__ import annotations

from math import inf

from ringtree import __version__
from ringtree.price import CostParameters, Hosts, NetworkCost, SharedMemory, over_hosts
from ringtree.runtime import tuned
from ringtree.runtime.processor import cores
from ringtree.topology import Topology, direct
from ringtree.topology.text import dumps

TYPICAL_NBYTES = 2 << 20
"""The bytes in arrays at which the topology's own costs, which know one size only, are those of the parameters."""
ONE_SLOT = 1, 1 << 17
"""Staging of which no topology knows."""


def text(
    parameters: CostParameters,
    ranks: tuple[int, ...],
    date: str,
    network: NetworkCost | None = None,
    host_of: tuple[int, ...] = (),
) -> str:
    """The file's text for these parameters, measured over `ranks` ranks on `date`, and a network measured between
    hosts by ranks on `host_of`: with it the topology is that of those hosts."""
    contents = {
        "version": tuned.VERSION,
        "ringtree": __version__,
        "date": date,
        "machine": tuned.this_machine(),
        "ranks": list(ranks),
        "figures": tuned.as_json(parameters),
    }
    if network is not None:
        contents["network"] = tuned.network_as_json(network) | {"source": network.source, "hosts": list(host_of)}
    if network is None or not host_of:
        return dumps(topology(parameters, max(ranks)), contents)
    memory = SharedMemory(cores(), *ONE_SLOT, parameters)
    between = network.latency_s + network.message_s, network.bandwidth_Bps
    return dumps(over_hosts.topology(Hosts(host_of, memory, *between), TYPICAL_NBYTES // 2), contents)


def topology(parameters: CostParameters, ranks: int) -> Topology:
    """The machine as a simulation takes it: ranks that move the bytes themselves, over links that only take time."""
    copy_s, fetch_s, reduce_s, _ = parameters.seconds_a_byte(TYPICAL_NBYTES)
    return direct(
        ranks,
        latency_s=parameters.latency_s,
        bandwidth_Bps=inf,
        message_s=parameters.message_s,
        step_s=parameters.step_s,
        copy_Bps=2 / (copy_s + fetch_s),
        reduce_Bps=1 / (copy_s + fetch_s + reduce_s),
    )
