"""The choice of a call's program: a schedule that the caller gives, an algorithm that the caller or the environment
names, or what the group decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import plan, price, verify
from ringtree.ir.schedule import Schedule
from ringtree.plan.tuning import CallTuning
from ringtree.price.memory.parameters import SharedMemory, built_in
from ringtree.runtime.communicator.calls.binding import RankProgram, built, order_of, part_of, slots_needed
from ringtree.runtime.communicator.calls.codes import BALANCED, RANK_ORDER
from ringtree.runtime.communicator.calls.decisions import Decisions, kind_of
from ringtree.runtime.communicator.calls.defaults import Defaults
from ringtree.runtime.communicator.calls.plans import Given
from ringtree.runtime.communicator.calls.trials import Trials

if TYPE_CHECKING:
    from ringtree.price.devices import Devices
    from ringtree.price.hosts import Hosts
    from ringtree.runtime.communicator.calls.request import CallRequest
    from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup
    from ringtree.runtime.engines.protocols import Endpoint


class Selection:
    """The programs of one rank's calls; every rank of the group chooses alike."""

    def __init__(self, joined: JoinedGroup, parameters: GroupParameters) -> None:
        self._joined, self._parameters = joined, parameters
        self.room = (joined.slots, joined.slot_bytes)  # what calls are cut for, also where a roomier group makes them
        self.defaults = Defaults(parameters.reductions)
        self._decisions = Decisions(joined.endpoint)
        self.trials = Trials(self._decisions, parameters, joined.cores, joined.timed)
        self._parts = Given[RankProgram]()
        self._proved = Given[int]()  # the slots they need
        self._vouched = Given[bool]()  # unproved ones that a caller asked for all the same

    def part(
        self,
        collective: str,
        root: int,
        nbytes: int,
        algorithm: str | Schedule | None,
        whole: bool = False,
        symmetric: bool = False,
    ) -> tuple[RankProgram, str]:
        """The program of a call on a whole vector of `nbytes`, and why it is that one. `whole`: cut for no size.
        `symmetric`: as of Decisions.decide."""
        if isinstance(algorithm, Schedule):
            part = self._parts.find(algorithm) or self._parts.keep(algorithm, part_of(algorithm, self._parameters.rank))
            return part, "the caller gave this schedule"
        if algorithm not in (None, RANK_ORDER, BALANCED):
            assert algorithm is not None
            return self._cut(algorithm, collective, root, nbytes, "the caller asked for it", whole)
        forced = None if algorithm or whole else self.defaults.forced.get(collective)
        if forced:
            return self._cut(forced, collective, root, nbytes, "RINGTREE_ALGORITHM asks for it")
        named = self.defaults.named
        suffix = "" if named is None else f" (RINGTREE_ALGORITHM, {named}, does not serve here)"
        promised, ranks = (algorithm == RANK_ORDER, algorithm == BALANCED), self._parameters.ranks
        if whole:
            choice = plan.choose_whole(collective, ranks, *promised)
            name = BALANCED * promised[1] + choice.algorithm
            return self._cut(name, collective, root, nbytes, choice.why + suffix, whole)
        found = self._decisions.decide(self._parameters, collective, root, nbytes, self.where(), *promised, symmetric)
        if found.other is not None and not any(promised):  # such calls are not counted
            found = self.trials.begin(kind_of(collective, root, nbytes), found).decision
        return self._built(found.algorithm, collective, root, found.steps, found.why + suffix)

    def _cut(
        self, algorithm: str, collective: str, root: int, nbytes: int, why: str, whole: bool = False
    ) -> tuple[RankProgram, str]:
        """A registered algorithm's program, cut for the size unless it must be `whole`."""
        name, balance = algorithm.removeprefix(BALANCED), algorithm.startswith(BALANCED)
        steps = CallTuning() if whole and not balance else self.steps(algorithm, collective, root, nbytes)
        return self._built(name, collective, root, CallTuning(balanced=steps.balanced) if whole else steps, why)

    def _built(
        self, algorithm: str, collective: str, root: int, steps: CallTuning, why: str
    ) -> tuple[RankProgram, str]:
        me, suffix = self._parameters, f"; for its size: {steps}" if steps else ""
        return built(algorithm, collective, me.ranks, root, me.rank, steps or None), why + suffix

    def steps(self, algorithm: str, collective: str, root: int, nbytes: int) -> CallTuning:
        """The cut of the algorithm for a whole vector of `nbytes`; the same on all ranks."""
        name, balance = algorithm.removeprefix(BALANCED), algorithm.startswith(BALANCED)
        place = self._joined.devices or self._memory()
        return self._decisions.cut(self._parameters, name, collective, root, nbytes, place, balance).steps

    def in_rank_order(self, part: RankProgram, algorithm: str | Schedule | None) -> bool:
        """Whether a reduction joins only neighbouring runs of ranks, the lower on the left."""
        if isinstance(algorithm, Schedule):
            return verify.rank_order(algorithm) >= verify.ReductionOrder.ASSOCIATIVE
        p = part.program
        order = order_of(p.name, p.collective, p.ranks, -1 if p.root is None else p.root)
        return order >= verify.ReductionOrder.ASSOCIATIVE

    def where(self) -> SharedMemory | Hosts | Devices:
        """The memory, the devices, or the hosts with their network, that calls are planned for; equal on all ranks."""
        if self._joined.devices is not None:
            return self._joined.devices
        hosts, network = self._joined.hosts, self._joined.network
        if network is None:
            return self._memory()
        known = network.measured or price.NetworkCost(network.latency_s or price.LATENCY_S, price.BANDWIDTH_BPS)
        between = known.latency_s, known.bandwidth_Bps
        return price.Hosts(hosts, self._memory(), *between, max(network.turns, 1.0), known.source, known.message_s)

    def _memory(self) -> SharedMemory:
        """The memory and costs that calls are planned for; equal on all ranks."""
        joined = self._joined
        cost = self._parameters.cost or built_in(joined.reads_Bps, joined.on_a_mesh, joined.cores_are_shared)
        return SharedMemory(
            joined.cores, *self.room, cost, joined.single_copy_bytes, node_of=joined.nodes, speed=joined.speed
        )

    def admit(self, schedule: Schedule, unproved_ok: bool = False) -> None:
        """Refuses a schedule for another number of ranks, and one that cannot be proved; proves each one once."""
        if not isinstance(schedule, Schedule):
            raise TypeError(f"got {type(schedule).__name__} as a schedule; expected a ringtree.ir.schedule.Schedule")
        if schedule.ranks != self._parameters.ranks:
            raise ValueError(f"{schedule.name} is for {schedule.ranks} ranks; this group has {self._parameters.ranks}")
        if self._proved.find(schedule) is not None:
            return
        try:
            verify.prove(schedule)
            self._proved.keep(schedule, slots_needed(schedule))
        except verify.ProofError:
            if not unproved_ok:
                raise
            self._vouched.keep(schedule, True)

    def slots_for(self, algorithm: str | Schedule, request: CallRequest) -> int:
        """The staging slots that the algorithm needs to end; 0 where that is unknown, for it was not proved."""
        if not isinstance(algorithm, Schedule):
            collective, root, nbytes = request.collective, request.root, request.count * request.dtype.itemsize
            return self.steps(algorithm, collective, root, nbytes).slots
        root = -1 if algorithm.root is None else algorithm.root
        if (algorithm.collective, root) != (request.collective, request.root):
            where = f" with root {request.root}" if request.root >= 0 else ""
            its = f" with root {root}" if root >= 0 else ""
            raise ValueError(
                f"{algorithm.name} is for {algorithm.collective}{its}, not for {request.collective}{where}"
            )
        if self._vouched.find(algorithm):
            return 0
        self.admit(algorithm)
        return self._proved.find(algorithm) or 0

    def replace_endpoint(self, other: Endpoint) -> None:
        """As Calls.replace_endpoint."""
        self._decisions.endpoint = other
        self.trials.end()
        self._joined = self._joined.without_engine(other)
