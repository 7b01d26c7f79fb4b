"""Why nothing can go on, in one line."""

from __future__ import annotations

from collections.abc import Sequence

from ringtree.simulate.events import Player
from ringtree.simulate.steps import FILL, LAND, WAIT
from ringtree.topology import Topology


def why(player: Player, topology: Topology, calls: Sequence[str]) -> str:
    """Which rank waits for whose message in what, and which link failed. `topology`: with its links as they were
    played. Ranks whose message got lost, then those without a slot, come before those that wait for them in turn."""
    steps = player.steps
    stuck = [t for t, at in enumerate(player.at) if at < steps.threads[t].stop]
    lost = set(player.network.lost)
    waits = {t: player.number[player.at[t]] for t in stuck if player.kind[player.at[t]] in (WAIT, LAND)}
    slotless = [t for t in stuck if player.kind[player.at[t]] == FILL]
    thread = [*(t for t in stuck if waits.get(t) in lost), *slotless, *stuck][0]
    rank, at = steps.threads[thread].rank, player.at[thread]
    call, many = calls[steps.threads[thread].job], len({steps.threads[t].rank for t in stuck})
    others = f"; {many - 1} other rank{'s' * (many > 2)} cannot go on either" if many > 1 else ""
    where = f"stuck at {player.now[thread] * 1e6:.6g} us: rank {rank} waits for "
    if player.kind[at] in (WAIT, LAND):
        message = player.number[at]
        source, target = (steps.peer[at], rank) if message < 0 else (steps.rank[message], steps.peer[message])
        whose = f"rank {source}'s message" if source != rank else f"its message to rank {target}"
        reason = _no_route(topology, source, target) if message in lost else _not_sent(message, source)
        return f"{where}{whose} in {call}: {reason}{others}"
    if player.kind[at] == FILL:
        count = f"{player.slots} slot{'s' * (player.slots != 1)}"
        return f"{where}a slot in {call}: none is given back of the {count} it has{others}"
    return f"{where}another of its threads in {call}, which cannot go on{others}"


def _not_sent(message: int, source: int) -> str:
    return "it sends none" if message < 0 else f"rank {source} waits itself"


def _no_route(topology: Topology, source: int, target: int) -> str:
    failed = [link for link in range(topology.links) if not topology.bandwidth_Bps[link]]
    names = ", ".join(topology.link_name(link) for link in failed[:3]) + (", …" if len(failed) > 3 else "")
    ends = f"{topology.nodes[source]} to {topology.nodes[target]}"
    if not failed:
        return f"{topology.name} has no route from {ends}"
    return f"link{'s' * (len(failed) > 1)} {names} failed, and there is no other route from {ends}"
