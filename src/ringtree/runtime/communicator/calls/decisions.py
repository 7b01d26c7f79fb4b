"""The algorithm of a call and its cut: computed by one rank of the host, and read by the others.

Every rank would decide alike, and each decision costs milliseconds at the first call of a kind. Where ranks share
cores, each that decides for itself keeps the others waiting.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from ringtree import plan
from ringtree.algorithms.groups import written
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.digest import sha256
from ringtree.plan.tuning import CallTuning
from ringtree.price.devices import Devices
from ringtree.price.memory.parameters import SharedMemory, sums_are_written
from ringtree.runtime.communicator.calls.binding import slots_needed_by
from ringtree.runtime.communicator.calls.plans import KEPT

if TYPE_CHECKING:
    from ringtree.price.hosts import Hosts
    from ringtree.runtime.engines.engine import GroupParameters
    from ringtree.runtime.engines.protocols import SharedMemo

POLL_S, LONGEST_POLL_S = 2e-4, 2e-2
"""Between polls, at first and at most: hundreds of ranks that poll would keep the one that decides from its core."""
CHECK_S = 0.05
"""Seconds between two checks of a waiting rank whether the others live."""


class Decision(NamedTuple):
    """An algorithm, how it is cut for the size, and in words why. `other`: the cut that the first calls of the kind try
    as well (trials.py); None where they try none."""

    algorithm: str
    steps: CallTuning
    why: str
    other: CallTuning | None = None


_decided: dict[tuple[object, ...], Decision] = {}
"""The last KEPT decisions of this process, over all groups."""


class Decisions:
    """The decisions of a group, shared by its ranks. Each method takes the group's parameters of the moment."""

    def __init__(self, endpoint: SharedMemo) -> None:
        self.endpoint = endpoint
        self._by_outputs: dict[tuple[object, ...], Decision] = {}

    def decide(
        self,
        group: GroupParameters,
        collective: str,
        root: int,
        nbytes: int,
        where: SharedMemory | Hosts | Devices,
        rank_order: bool = False,
        balance: bool = False,
        symmetric: bool = False,
    ) -> Decision:
        """The decision for a whole vector of `nbytes` (root -1: none). `rank_order` and `balance` as in plan.choose.
        `symmetric`: whether this rank's output is in memory that all ranks reach, which ranks need not have in common:
        the one that decides takes its own for all of theirs, where sums may be written there."""
        ranks, at = group.ranks, root if root >= 0 else None

        def make(all_symmetric: bool = False) -> Decision:
            if isinstance(where, Devices):
                on = plan.choose_on_devices(collective, where, at, nbytes, rank_order, balance)
                return Decision(on.algorithm, on.steps, on.why)
            if not isinstance(where, SharedMemory):
                found = plan.choose_over_hosts(collective, where, at, nbytes, rank_order, balance)
                return Decision(found.algorithm, found.steps, found.why)
            choice = plan.choose(collective, ranks, nbytes, rank_order, where, balance)
            if all_symmetric:
                theirs = plan.choose(collective, ranks, nbytes, rank_order, replace(where, symmetric=True), balance)
                if {choice.algorithm, theirs.algorithm} <= set(plan.at_once(collective)):
                    choice = theirs  # sums have the same bits, so it does not matter which rank is the first
            steps = plan.steps_for(choice.algorithm, collective, ranks, at, nbytes, where, choice.options, balance)
            # The costs of `ringtree tune` know both ways to move bytes; all_reduce stages nothing in symmetric memory.
            settled = all_symmetric if COLLECTIVES[collective].reduces else group.cost is not None
            other = None if settled else plan.other_way(steps, choice.algorithm, collective, ranks, at, nbytes, where)
            return Decision(choice.algorithm, steps, choice.why, other)

        named = "any algorithm" + " in rank order" * rank_order + " in a balanced tree" * balance
        question = named, *kind_of(collective, root, nbytes), ranks, where
        if isinstance(where, Devices):
            return self._once(group, question, make)
        if not isinstance(where, SharedMemory):
            return self._once(group, question, make, written(where.host_of))
        if ranks > 1 and sums_are_written(collective, ranks, nbytes):
            return self._by_output(group, question, make, symmetric, written(where.node_of))
        return self._once(group, question, make, written(where.node_of))

    def cut(
        self,
        group: GroupParameters,
        algorithm: str,
        collective: str,
        root: int,
        nbytes: int,
        memory: SharedMemory | Devices,
        balance: bool = False,
    ) -> Decision:
        """The decision for an algorithm that the caller names; `steps.slots` is how many staging slots it needs, cut or
        not. `balance` as in plan.steps_for."""
        ranks, at = group.ranks, root if root >= 0 else None

        def make() -> Decision:
            if isinstance(memory, Devices):
                steps = CallTuning(balanced=balance)
            else:
                steps = plan.steps_for(algorithm, collective, ranks, at, nbytes, memory, balanced=balance)
            needed = steps.slots or slots_needed_by(algorithm, collective, ranks, root)
            return Decision(algorithm, replace(steps, slots=needed), "")

        return self._once(group, (algorithm, balance, *kind_of(collective, root, nbytes), ranks, memory), make)

    def settle(
        self, group: GroupParameters, kind: tuple[object, ...], outcome: Decision, predicted: Decision
    ) -> Decision:
        """The outcome of a trial of that kind of call: for all, the one of the first rank that asks. Where each rank
        decides for itself it is the prediction."""
        question = repr(("the outcome of a trial", kind))
        return self._shared(group, question, lambda decides: outcome if decides else predicted, differs=True)

    def report(self, kind: tuple[object, ...], least_s: tuple[float, float]) -> None:
        """Publishes this rank's times of a trial for the one that decides, unless that has asked before."""
        key = _key(_times_of(kind))
        if self.endpoint.known(key) is True:
            self.endpoint.publish(key, json.dumps(least_s).encode())

    def reported(self, kind: tuple[object, ...]) -> tuple[float, float]:
        """The times of a trial that another rank has published, infinite where none has; nobody waits for them."""
        key = _key(_times_of(kind))
        known = self.endpoint.known(key)
        if known is True:
            self.endpoint.publish(key, b"")
        if not isinstance(known, bytes) or not known:
            return inf, inf
        predicted_s, other_s = json.loads(known)
        return predicted_s, other_s

    def _once(
        self, group: GroupParameters, question: tuple[object, ...], make: Callable[[], Decision], hosts: str = ""
    ) -> Decision:
        found = _decided.get(question)
        if found is None:
            found = self._shared(group, repr(question), lambda decides: make(), hosts)
            for oldest in tuple(_decided)[: max(len(_decided) - KEPT + 1, 0)]:  # ranks may be threads
                _decided.pop(oldest, None)
            _decided[question] = found
        return found

    def _by_output(
        self,
        group: GroupParameters,
        question: tuple[object, ...],
        make: Callable[[bool], Decision],
        symmetric: bool,
        hosts: str,
    ) -> Decision:
        """The decision by where the output of the rank that makes it lies: `symmetric`, of this one. Where each rank
        decides for itself, outputs are taken for private. The memo of a group forgets nothing, so ranks decide alike
        again when one has forgotten a plan."""
        found = self._by_outputs.get(question)
        if found is None:
            asked = repr(("sums may be written", question))
            found = self._shared(group, asked, lambda decides: make(decides and symmetric), hosts, differs=True)
            while len(self._by_outputs) >= KEPT:
                self._by_outputs.pop(next(iter(self._by_outputs)), None)
            self._by_outputs[question] = found
        return found

    def _shared(
        self,
        group: GroupParameters,
        question: str,
        make: Callable[[bool], Decision],
        hosts: str = "",
        differs: bool = False,
    ) -> Decision:
        """The published decision, or the one that `make` returns, which takes whether this rank decides for all; that
        `differs` by the rank that decides, or does not. Where it does, a rank that waited in vain publishes an empty
        one, so that all decide for themselves, the late one included."""
        key = _key(question)
        known = self.endpoint.known(key)
        if known is False:
            known = self._awaited(group, key)
        if known is False and differs and not self.endpoint.publish(key, b""):  # it has come after all
            known = self.endpoint.known(key)
        if isinstance(known, bytes) and known:
            return _decoded(known, hosts)
        decides, is_read, value = known is True, False, b""
        try:
            decision = make(decides)
            value = _encoded(decision, hosts)
        finally:
            if decides:  # an empty one, should this rank fail, so that the others need not wait
                is_read = self.endpoint.publish(key, value)
        return make(False) if decides and differs and not is_read else decision

    def _awaited(self, group: GroupParameters, key: int) -> bytes | bool | None:
        """The value that the rank which claimed the key publishes; False where it has not within the group's time
        limit, for that rank may have been stopped. Raises PeerDied where a member has died, or that one has left."""
        began_s = checked_s = time.monotonic()
        poll_s = POLL_S
        while (known := self.endpoint.known(key)) is False:
            now_s = time.monotonic()
            if now_s > began_s + group.timeout_s:
                break
            if now_s > checked_s + CHECK_S:
                missing = self.endpoint.missing_claimant(key)
                everyone, absent = list(range(group.ranks)), [missing] if missing >= 0 else []
                self.endpoint.check_liveness("the choice of an algorithm", everyone, absent)
                checked_s = now_s
            time.sleep(poll_s)
            poll_s = min(1.5 * poll_s, LONGEST_POLL_S)
        return known


def kind_of(collective: str, root: int, nbytes: int) -> tuple[str, int, int]:
    """The kind of a call: its collective, its root, and a number that sizes up to the next power of two have in
    common."""
    return collective, root, (nbytes - 1).bit_length() if nbytes else -1


def _key(question: str) -> int:
    """The place of a question in the memo."""
    return int.from_bytes(sha256(question.encode()).digest()[:8], "little") or 1


def _times_of(kind: tuple[object, ...]) -> str:
    return repr(("the times of a trial", kind))


THE_HOSTS = "hosts"
"""In place of an option that is the host, or the NUMA node, of each rank: every rank knows that, and an entry of the
memo is short."""


def _encoded(decision: Decision, hosts: str) -> bytes:
    other = None if decision.other is None else _fields(decision.other, hosts)
    fields = {"algorithm": decision.algorithm, "steps": _fields(decision.steps, hosts), "why": decision.why}
    return json.dumps(fields | {"other": other}, separators=(",", ":")).encode()


def _decoded(value: bytes, hosts: str) -> Decision:
    found = json.loads(value)
    other = None if found["other"] is None else _tuning(found["other"], hosts)
    return Decision(found["algorithm"], _tuning(found["steps"], hosts), found["why"], other)


def _fields(steps: CallTuning, hosts: str) -> dict[str, Any]:
    """The fields that differ from those of a schedule that is not cut: an entry of the memo is short."""
    short = tuple((name, THE_HOSTS if hosts and value == hosts else value) for name, value in steps.options)
    fields, uncut = asdict(replace(steps, options=short)), asdict(CallTuning())
    return {name: value for name, value in fields.items() if value != uncut[name]}


def _tuning(fields: dict[str, Any], hosts: str) -> CallTuning:
    options = tuple((name, hosts if at == THE_HOSTS else at) for name, at in fields.pop("options", ()))
    return CallTuning(options, **fields)
