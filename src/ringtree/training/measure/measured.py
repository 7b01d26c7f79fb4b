"""The record of a run of training: losses, times, bytes, and a step's trace."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from ringtree.draw.step_picture import DrawnCall, step_picture
from ringtree.ir.trace import Trace
from ringtree.training.core.memory import Held
from ringtree.training.core.plan import TrainingPlan, finite
from ringtree.training.measure.between_hosts import BetweenHosts, between_hosts
from ringtree.training.measure.shares import Sent, Share, compare, held_up, shares
from ringtree.training.strategies.data import data_parallel
from ringtree.training.strategies.registry import record, traffic
from ringtree.training.strategies.strategy import Traffic, known

if TYPE_CHECKING:
    from ringtree.training.core.experts import Load


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """`losses`, `step_s` (rank 0's, its loss known) and `received_nbytes` (by the engine's counters, all ranks
    together), one a step from step `first` on; `trace`: of the last step, which took `traced_s` on the average over the
    ranks, and `calls`, what each rank called in it, where that was remembered. `paces_s`: every rank's median step;
    `held`: its memory after the last. `staleness`: the number of reads by their staleness; empty where training is
    synchronous. Of the last step, by all ranks together: `routed`, the bytes that layers of experts sent, by what they
    are in formulas, and their `load`. `hosts`: the number of each rank's host; () where that is one."""

    plan: TrainingPlan
    first: int
    losses: list[float]
    step_s: list[float]
    received_nbytes: list[int]
    trace: Trace
    calls: list[list[DrawnCall]]
    traced_s: float
    paces_s: list[float]
    held: list[Held]
    staleness: dict[int, int]
    routed: dict[str, int]
    load: Load | None
    hosts: tuple[int, ...] = ()

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """The formulas, with measured bytes where these depend on the data."""
        return known(traffic(self.plan), self.routed)

    @property
    def tokens(self) -> int:
        """The tokens of a step: its bytes of text."""
        return self.plan.settings.batch * self.plan.shape.context

    @property
    def median_s(self) -> float:
        """The median of a step's seconds; without the first, in which much is done once, where there are others."""
        return median(self.step_s[1:] or self.step_s)

    @property
    def tokens_per_s(self) -> float:
        """Tokens in a second of all ranks, each by its own steps: asynchronous ranks take unequally many."""
        return self.tokens * sum(1 / pace_s for pace_s in self.paces_s) / len(self.paces_s)

    @property
    def formula_nbytes(self) -> int:
        """Bytes that all ranks together receive in a step by the strategies' formulas."""
        return sum(t.wire_nbytes for t in self.traffic)

    @property
    def counted_nbytes(self) -> int:
        """Bytes that all ranks together received in the last step."""
        return self.received_nbytes[-1]

    @property
    def shares(self) -> list[Share]:
        """The division of each rank's time into computing, transfers and waits."""
        trace = self.trace if self.plan.layout.staleness is None else held_up(self.trace)
        return shares(trace, self.plan.layout, self.traffic)

    @property
    def sent(self) -> list[Sent]:
        """Bytes by formula beside bytes by the engine's counters, one entry per collective and axis."""
        once = (
            {"broadcast": data_parallel.SECOND_STEP} if len(self.losses) == 2 and data_parallel.used(self.plan) else {}
        )
        return compare(self.traffic, self.shares, self.plan.layout, once)

    @property
    def between_hosts(self) -> list[BetweenHosts]:
        """Bytes that left hosts in the last step, beside the fewest that could; empty where all ranks are on one."""
        if len(set(self.hosts)) < 2:
            return []
        return between_hosts(self.trace, self.plan.layout, self.traffic, self.hosts)

    @property
    def remembered(self) -> bool:
        """Whether the calls and their order are known: torch can be configured to remember fewer, and asynchronous
        ranks have no common order."""
        return self.plan.layout.staleness is None and (any(self.calls) or not self.counted_nbytes)

    @property
    def picture(self) -> str:
        """The picture of the last step's calls, as SVG. ValueError: if the calls are not known."""
        if not self.remembered:
            raise ValueError(
                "the calls of a step are not remembered; expected TORCH_FR_BUFFER_SIZE of a few thousand, or nothing"
            )
        return step_picture(self.calls)

    def record(self) -> dict[str, Any]:
        """The record but the trace, as JSON."""
        return {
            **record(self.plan),
            "steps": [
                {"step": k, "loss": finite(loss), "seconds": s, "received_nbytes": n}
                for k, (loss, s, n) in enumerate(
                    zip(self.losses, self.step_s, self.received_nbytes, strict=True), self.first
                )
            ],
            "median_s": self.median_s,
            "tokens": self.tokens,
            "tokens_per_s": self.tokens_per_s,
            "traced_s": self.traced_s,
            "paces_s": self.paces_s,
            "held": [asdict(held) for held in self.held],
            "staleness": dict(sorted(self.staleness.items())),
            "shares": [asdict(share) for share in self.shares],
            "sent": [asdict(sent) for sent in self.sent],
            "formula_nbytes": self.formula_nbytes,
            "counted_nbytes": self.counted_nbytes,
            "experts": self.load and self.load.record() | {"imbalance": finite(self.load.mean_imbalance)},
        }
