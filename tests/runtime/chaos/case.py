"""A case of the campaign, drawn from its seed alone: the ranks, the script of each thread, and one fault."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.runtime.chaos.deviations import DEVIATIONS
from tests.runtime.soak.script import CALLS, MIXES, Step, steps
from tests.runtime.soak.through_torch import in_torch

MOST_RANKS, MOST_THREADS, MOST_HOSTS = 8, 3, 3
MOST_TORCH_RANKS = 5
NOT_IN_TORCH = ("group",)
"""Faults that only groups of ringtree's own can have."""
OF_A_HOST = ("link down", "host stopped")
"""Faults of the culprit's host: each of its ranks may be named."""
DEADLY = ("kill", "exit", "sys.exit", "exception", "stop", *OF_A_HOST)
"""Faults after which the culprit reaches nobody: no other rank may get past a barrier of all."""
OUTLIVED = tuple(fault for fault in DEADLY if fault != "link down")
"""Those whose survivors may go on: of a link that is down both sides are."""
SHRINKING = 0.5
"""The share of their cases in which the survivors do."""
SECOND, LATEST_SECOND_S = 0.4, 0.1
"""The share of these in which another rank dies, and the latest that it does."""
SHARES = {"kill": 4, "exit": 2, "sys.exit": 1, "exception": 2, "stop": 1, "pause": 2, "close": 2, "abort": 2}
"""How many cases have which fault, beside as many mismatched calls as there are DEVIATIONS."""
AT_ANY_MOMENT = ("kill", "exit", "stop", "pause", "close", "abort")
"""Faults that another thread of the culprit may bring about while a call is under way."""
BEFORE_ALL_HAVE_MET, IN_THE_SETUP = -2, -1
"""Values of `at` before the first step."""
LONGEST_PAUSE_S = 0.8
LONGEST_DELAY_S = 0.004


@dataclass(frozen=True)
class Case:
    """`fault` is a name in SHARES, OF_A_HOST or DEVIATIONS, of rank `culprit`. It happens in the thread `thread`
    before its step `at` (a deviation: at the first step from there that has one), or, with a `delay_s`, that much
    later. `leaves`: a rank of several threads ends at the first error of one of them; else when all of them have ended.
    `pause_s`: how long a paused rank stands still. `layout`: how many ranks each host has; empty on one host, without a
    network. `torch`: ranks call torch.distributed, in one thread. `shrinks`: the survivors go on in a group of their
    own; `second`: a rank that dies as they do, and how many seconds later."""

    seed: int
    ranks: int
    mixes: tuple[str, ...]
    fault: str
    culprit: int
    thread: int
    at: int
    delay_s: float | None
    pause_s: float
    leaves: bool
    layout: tuple[int, ...] = ()
    torch: bool = False
    shrinks: bool = False
    second: tuple[int, float] | None = None

    @property
    def threads(self) -> int:
        return len(self.mixes)

    @property
    def hosts(self) -> list[int]:
        """Each rank's host."""
        return [host for host, ranks in enumerate(self.layout or (self.ranks,)) for _ in range(ranks)]

    @property
    def culprits(self) -> list[int]:
        """The ranks that may be named: the culprit, or all of its host."""
        if self.fault not in OF_A_HOST:
            return [self.culprit]
        return [rank for rank, host in enumerate(self.hosts) if host == self.hosts[self.culprit]]

    @property
    def survivors(self) -> list[int]:
        """The ranks that are left in the end."""
        gone = [*self.culprits, *(self.second or ())[:1]]
        return [rank for rank in range(self.ranks) if rank not in gone]

    @property
    def stands_still(self) -> bool:
        """Whether the culprits never end by themselves."""
        return self.fault in ("stop", "host stopped")

    @property
    def left_out(self) -> list[int]:
        """The ranks that the survivors leave out by name: from where these are, those may as well be no smaller part
        of a network that was cut."""
        lone = len(self.survivors) == 1 and self.hosts[self.culprit] != self.hosts[self.survivors[0]]
        return self.culprits if self.fault == "host stopped" or (self.fault == "stop" and lone) else []

    @property
    def deviates(self) -> bool:
        """Whether the fault is a mismatched call."""
        return self.fault in DEVIATIONS

    def script(self, thread: int) -> list[Step]:
        """The steps of one thread, which are the same on all ranks."""
        script = list(steps(self.seed, thread, self.mixes[thread]))
        return in_torch(script) if self.torch else script

    def __str__(self) -> str:
        where = {BEFORE_ALL_HAVE_MET: "before all have met", IN_THE_SETUP: "in the set-up"}
        moment = where.get(self.at, f"step {self.at}")
        later = "" if self.delay_s is None else f" and {1e3 * self.delay_s:.1f} ms"
        over = f" on hosts {self.layout}" if self.layout else " through torch" if self.torch else ""
        return (
            f"{self.ranks} ranks{over}, {' | '.join(self.mixes)}: {self.fault} of rank {self.culprit}, "
            f"thread {self.thread}, {moment}{later}"
        )


def drawn(seed: int) -> Case:
    """The case of a seed."""
    draw = Random(f"chaos {seed}")
    ranks = draw.randint(2, MOST_RANKS)
    threads = draw.choice((1, 1, 1, 1, 2, MOST_THREADS))
    mixes = tuple(draw.choice(list(MIXES)) for _ in range(threads))
    culprit, thread = draw.randrange(ranks), draw.randrange(threads)
    fault, at = _fault(draw, list(steps(seed, thread, mixes[thread])), ranks, culprit)
    if fault in DEADLY and draw.random() < 0.1:
        at = draw.choice((BEFORE_ALL_HAVE_MET, IN_THE_SETUP))
        if fault == "sys.exit":  # it is the program's, which begins with the set-up
            at = IN_THE_SETUP
    any_moment = fault in AT_ANY_MOMENT and at >= 0 and draw.random() < 0.6
    drawn_case = Case(
        seed,
        ranks,
        mixes,
        fault,
        culprit,
        thread,
        at,
        delay_s=draw.uniform(0, LONGEST_DELAY_S) if any_moment else None,
        pause_s=draw.uniform(0.02, LONGEST_PAUSE_S),
        leaves=draw.random() < 0.5,
        shrinks=fault in OUTLIVED and draw.random() < SHRINKING,
    )
    return _with_second(draw, drawn_case)


def _with_second(draw: Random, case: Case) -> Case:
    """The case, maybe with a second death."""
    others = [rank for rank in range(case.ranks) if rank not in case.culprits]
    dies = case.shrinks and len(others) > 1 and draw.random() < SECOND
    return replace(case, second=(draw.choice(others), draw.uniform(0, LATEST_SECOND_S)) if dies else None)


def _fault(
    draw: Random, script: list[Step], ranks: int, culprit: int, without: tuple[str, ...] = ()
) -> tuple[str, int]:
    """A fault, and the position in the script from which it may happen."""
    shares = {name: 1 if name in DEVIATIONS else SHARES[name] for name in (*SHARES, *DEVIATIONS) if name not in without}
    while True:
        fault = draw.choices(list(shares), list(shares.values()))[0]
        if fault not in DEVIATIONS:
            return fault, draw.randrange(len(script))
        if here := [at for at in range(len(script)) if DEVIATIONS[fault](script, at, ranks, culprit) is not None]:
            return fault, draw.choice(here)


def drawn_through_torch(seed: int) -> Case:
    """The case of a seed whose ranks call torch.distributed."""
    draw = Random(f"chaos through torch {seed}")
    ranks = draw.randint(2, MOST_TORCH_RANKS)
    while len(script := in_torch(list(steps(seed, 0, mix := draw.choice(list(MIXES)))))) < 2:
        continue
    culprit = draw.randrange(ranks)
    fault, at = _fault(draw, script, ranks, culprit, NOT_IN_TORCH)
    delay_s = draw.uniform(0, LONGEST_DELAY_S) if fault in AT_ANY_MOMENT and draw.random() < 0.6 else None
    pause_s = draw.uniform(0.02, LONGEST_PAUSE_S)
    return Case(seed, ranks, (mix,), fault, culprit, 0, at, delay_s, pause_s, leaves=False, torch=True)


def drawn_over_hosts(seed: int) -> Case:
    """The case of a seed on two or three hosts."""
    draw, case = Random(f"chaos over hosts {seed}"), drawn(seed)
    hosts = draw.randint(2, min(MOST_HOSTS, case.ranks))
    ends = sorted(draw.sample(range(1, case.ranks), hosts - 1))
    layout = tuple(end - begin for begin, end in zip([0, *ends], [*ends, case.ranks], strict=True))
    if draw.random() < 0.3:
        fault = draw.choice(OF_A_HOST)
        shrinks = fault in OUTLIVED and draw.random() < SHRINKING
        case = replace(case, fault=fault, at=draw.randrange(CALLS), delay_s=None, shrinks=shrinks)
    return _with_second(draw, replace(case, layout=layout))
