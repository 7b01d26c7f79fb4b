"""Programs of thread blocks, played on devices: events and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ringtree.ir.program import Program
from ringtree.simulate.conditions import Conditions
from ringtree.simulate.device.constants import DeviceConstants
from ringtree.simulate.device.steps import DeviceSteps, device_steps
from ringtree.simulate.events import Player, why
from ringtree.simulate.lane_routes import Ints, LaneRoutes
from ringtree.simulate.network import SimulatedNetwork
from ringtree.simulate.play import ALL_IS_WELL, check, lane_routes, stretches, trace_of
from ringtree.simulate.simulation import Job, Simulation, StuckError
from ringtree.topology import Topology

FINEST_NBYTES = 128
"""The least slice: shorter pieces have fewer slices."""
PLAYED = 8
"""The most pieces that `seconds` plays. Further ones take as long as those of the second half."""


@dataclass(frozen=True, slots=True)
class PieceCut:
    """Programs with the bytes of so many pieces, as steps: what does not change with times and rates."""

    job: Job
    pieces: int
    slices: int
    steps: DeviceSteps
    routes: dict[Topology, tuple[LaneRoutes, Ints]] = field(default_factory=dict)
    """The lanes of its messages, by topology, as they were found before."""

    @staticmethod
    def of(programs: Sequence[Program], nbytes: int, pieces: int, slices: int) -> PieceCut:
        """The programs on a whole vector of `nbytes`, in so many pieces, each in at most so many slices."""
        job = Job(programs, nbytes)
        sizes = job.chunk_nbytes
        fewest = max(1, min(slices, int(sizes.max(initial=0)) // (pieces * FINEST_NBYTES)))
        return PieceCut(job, pieces, fewest, device_steps(programs, sizes, pieces, fewest))


def pieces_of(programs: Sequence[Program], nbytes: int, piece_nbytes: int) -> int:
    """The number of pieces of a chunk."""
    longest = int(Job(programs, nbytes).chunk_nbytes.max(initial=0))
    return max(1, -(-longest // piece_nbytes))


def play(
    programs: Sequence[Program],
    topology: Topology,
    nbytes: int,
    constants: DeviceConstants,
    *,
    conditions: Conditions = ALL_IS_WELL,
) -> Simulation:
    """Returns the simulated events of every rank's program, in order of ranks, on a whole vector of `nbytes`, with
    their times. `time_s` is from the call, `launch_s` before the first step.

    StuckError: if the programs deadlock. ValueError: if the topology lacks ranks or conditions.
    """
    conditions.check(topology)
    cut = PieceCut.of(programs, nbytes, pieces_of(programs, nbytes, constants.piece_nbytes), constants.slices)
    check(cut.job, topology)
    player, network = _played(cut, conditions.applied(topology), constants, conditions)
    trace = trace_of(player, topology, [cut.job.called])
    end_s = max(float(trace.end_s.max(initial=0.0)), *player.now)
    return Simulation(trace, topology, network.busy_s(topology.links), network.carried_nbytes(topology.links), end_s)


def seconds(
    programs: Sequence[Program],
    topology: Topology,
    nbytes: int,
    constants: DeviceConstants,
    known: PlayedCuts | None = None,
) -> float:
    """The time that `play` takes for the programs, from `PLAYED` pieces at most: where there are more, each further one
    takes as long as the mean of the second half. `known`: cuts made before, which are looked up and added to."""
    known = PlayedCuts(programs) if known is None else known
    pieces = pieces_of(programs, nbytes, constants.piece_nbytes)
    if pieces <= PLAYED:
        return known.seconds((nbytes, pieces, constants.slices), topology, constants)
    part = nbytes // pieces
    whole_s, half_s = (
        known.seconds((part * n, n, constants.slices), topology, constants) for n in (PLAYED, PLAYED // 2)
    )
    return whole_s + (pieces - PLAYED) * (whole_s - half_s) / (PLAYED - PLAYED // 2)


class PlayedCuts:
    """Cuts of programs that were made before, by bytes, pieces and slices, and their times by the latest constants."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = programs
        self._made: dict[tuple[int, int, int], PieceCut] = {}
        self._by: tuple[Topology, DeviceConstants] | None = None
        self._seconds: dict[tuple[int, int, int], float] = {}

    def seconds(self, key: tuple[int, int, int], topology: Topology, constants: DeviceConstants) -> float:
        """The time of the cut, by the constants."""
        if self._by is None or self._by[0] is not topology or self._by[1] != constants:
            self._by, self._seconds = (topology, constants), {}
        if key not in self._seconds:
            if key not in self._made:
                self._made[key] = PieceCut.of(self.programs, *key)
            player, _ = _played(self._made[key], topology, constants, ALL_IS_WELL)
            self._seconds[key] = max(player.now)
        return self._seconds[key]


def _played(
    cut: PieceCut, topology: Topology, constants: DeviceConstants, conditions: Conditions
) -> tuple[Player, SimulatedNetwork]:
    """The finished player. `topology`: under the conditions."""
    table = cut.steps.table
    if topology not in cut.routes:
        cut.routes[topology] = lane_routes(table, topology, table.channel)  # thread blocks do not wait for each other
    routes, lane = cut.routes[topology]
    network = SimulatedNetwork(
        routes.scaled(constants.link_share), lane, table.nbytes, stretches(table, conditions), constants.block_Bps
    )
    busy_s = cut.steps.busy_s(constants)
    for rank, factor in conditions.slowdown.items():
        busy_s[table.rank == rank] *= factor
    begin_s = [constants.launch_s + conditions.delay_s.get(t.rank, 0.0) for t in table.threads]
    player = Player(table, network, busy_s, begin_s, constants.slots * cut.slices)
    if not player.play():
        raise StuckError(why(player, topology, [cut.job.called]))
    return player, network
