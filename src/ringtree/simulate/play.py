"""Plays schedules, programs, or several of them at once over a topology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.host_clocks import hosts_fact
from ringtree.ir.lower import lower
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.ir.trace import Event, Trace
from ringtree.ir.units import check_byte_count
from ringtree.simulate import levels
from ringtree.simulate.code import Code, of_job
from ringtree.simulate.conditions import Conditions
from ringtree.simulate.events import Player, why
from ringtree.simulate.lane_routes import LaneRoutes
from ringtree.simulate.network import SimulatedNetwork
from ringtree.simulate.reading import read
from ringtree.simulate.simulation import Job, Simulation, StuckError
from ringtree.simulate.steps import ASK, COPY, NONE, REDUCE, SIGNAL, WAIT, Ints, StepTable, busy_s, join, of_code
from ringtree.topology import Topology
from ringtree.topology.graph import LONGEST_S

ALL_IS_WELL = Conditions()
EVENTS = (COPY, REDUCE, SIGNAL, WAIT, ASK)
"""The steps that a trace shows; the first four have the numbers of their events."""


def play(
    what: Schedule | Sequence[Program] | Sequence[Job],
    topology: Topology,
    nbytes: int | None = None,
    *,
    conditions: Conditions = ALL_IS_WELL,
    slots: int | None = None,
) -> Simulation:
    """Returns the simulated events with their times, by the rules of docs/simulate.md.

    `what`: a schedule, or every rank's program in order of ranks, on a whole vector of `nbytes`; or jobs, which have
    their own `nbytes`. `slots`: number of staging slots of a rank (of a lane, where ranks have several threads), None
    for any number.

    The same arguments give the same result, bit for bit. StuckError: if the programs deadlock. ValueError: if the
    topology lacks ranks or conditions, or `slots` is below 1.
    """
    jobs = _jobs(what, nbytes)
    conditions.check(topology)
    if slots is not None and slots < 1:
        raise ValueError(f"slots is {slots}; expected at least 1, or None for any number")
    for job in jobs:
        check(job, topology)
    codes = [of_job(job) if slots is None else None for job in jobs]
    if len(jobs) == 1 and codes[0] is not None:
        found = levels.play(jobs[0], codes[0], topology, conditions)
        if found is not None:
            return found
    return play_events(jobs, codes, topology, conditions, slots)


def play_events(
    jobs: Sequence[Job],
    codes: Sequence[Code | None],
    topology: Topology,
    conditions: Conditions = ALL_IS_WELL,
    slots: int | None = None,
) -> Simulation:
    """The simulation of `play`, event by event, for messages that meet. Jobs without code are read from their
    programs."""
    actual = conditions.applied(topology)
    steps = join([_read(job, slots) if code is None else of_code(code) for job, code in zip(jobs, codes, strict=True)])
    calls = [job.called for job in jobs]
    network = _network(steps, actual, conditions)
    begin_s = [jobs[t.job].start_s + conditions.delay_s.get(t.rank, 0.0) for t in steps.threads]
    player = Player(steps, network, busy_s(steps, topology, conditions), begin_s, slots)
    if not player.play():
        raise StuckError(why(player, actual, calls))
    trace = trace_of(player, topology, calls)
    end_s = max(float(trace.end_s.max(initial=0.0)), *player.now)
    return Simulation(
        trace,
        topology,
        network.busy_s(topology.links),
        network.carried_nbytes(topology.links),
        end_s - min(job.start_s for job in jobs),
    )


def _jobs(what: Schedule | Sequence[Program] | Sequence[Job], nbytes: int | None) -> list[Job]:
    if not isinstance(what, Schedule) and what and isinstance(what[0], Job):
        if nbytes is not None:
            raise ValueError("jobs have their own nbytes; expected none here")
        jobs = [cast(Job, job) for job in what]
    elif nbytes is None:
        raise ValueError("expected nbytes, the size of the whole vector")
    else:
        jobs = [Job(cast("Schedule | Sequence[Program]", what), nbytes)]
    for number, job in enumerate(jobs):
        try:
            check_byte_count(job.nbytes)
        except (TypeError, ValueError) as error:
            raise type(error)(f"job {number}: {error}") from None
        if not 0 <= job.start_s <= LONGEST_S:
            raise ValueError(f"job {number} starts at {job.start_s} s; expected at least 0, at most {LONGEST_S:g}")
    return jobs


def check(job: Job, topology: Topology) -> None:
    """Checks a job. ValueError: if programs are missing, or the topology lacks ranks."""
    what = job.what
    if not isinstance(what, Schedule) and [p.rank for p in what] != list(range(what[0].ranks if what else 1)):
        given = f"{len(what)} programs of ranks {[p.rank for p in what][:8]}"
        raise ValueError(f"{given}; expected every rank's, in order")
    head = job.head
    if head.ranks > topology.ranks:
        raise ValueError(
            f"{head.name} is for {head.ranks} ranks; expected at most the {topology.ranks} of {topology.name}"
        )


def _read(job: Job, slots: int | None) -> StepTable:
    programs = lower(job.what) if isinstance(job.what, Schedule) else job.what
    return read(programs, job.chunk_nbytes, slots is not None)


def _network(steps: StepTable, topology: Topology, conditions: Conditions) -> SimulatedNetwork:
    """The network, with a port for each rank, job and first link."""
    routes, lane = lane_routes(steps, topology, steps.job)
    return SimulatedNetwork(routes, lane, steps.nbytes, stretches(steps, conditions))


def lane_routes(steps: StepTable, topology: Topology, apart: Ints) -> tuple[LaneRoutes, Ints]:
    """The routes of all lanes, one for each source, target and value of `apart` [rows] that has messages, and each
    row's lane. Messages of another value leave by another port."""
    messages = steps.messages
    ends = np.stack([column[messages] for column in (steps.rank, steps.peer, apart)], axis=1)
    lanes, which = np.unique(ends, axis=0, return_inverse=True)
    lane = np.full(len(steps.kind), NONE)
    lane[messages] = which.reshape(-1)
    source, target, values = lanes.T
    return LaneRoutes(topology, source, target, values), lane


def stretches(steps: StepTable, conditions: Conditions) -> NDArray[np.float64]:
    """The factor on the latency of each row's message, [rows]."""
    factors = np.ones(len(steps.kind))
    factors[steps.messages] = conditions.stretches(len(steps.messages))
    return factors


def trace_of(player: Player, topology: Topology, calls: list[str]) -> Trace:
    """The events of a finished player, with its stalls."""
    steps = player.steps
    shown = np.flatnonzero(np.isin(steps.kind, EVENTS))
    trace = Trace.of(
        topology.ranks,
        steps.rank[shown],
        np.where(steps.kind == ASK, Event.SEND, steps.kind)[shown],
        np.frombuffer(player.start_s)[shown],
        np.frombuffer(player.end_s)[shown],
        nbytes=steps.nbytes[shown],
        peer=steps.peer[shown],
        chunk=steps.chunk[shown],
        channel=steps.channel[shown],
        call=steps.job[shown],
        calls=calls,
        facts={"source": "simulated", "name": "; ".join(calls), "topology": topology.name}
        | hosts_fact(topology.hosts.tolist()),
    )
    if not player.stalls:
        return trace
    first = [int(steps.channel[steps.job == job].min()) for job in range(len(calls))]
    rank, start_s, end_s, peer, job = zip(*player.stalls, strict=True)
    kinds, channel = [Event.STALL] * len(rank), [first[j] for j in job]
    stalls = Trace.of(topology.ranks, rank, kinds, start_s, end_s, peer=peer, channel=channel, calls=calls, call=job)
    joined = Trace.concatenate([trace, stalls])
    return replace(joined, calls=trace.calls, call=joined.call % len(calls))
