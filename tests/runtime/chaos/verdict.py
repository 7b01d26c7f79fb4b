"""What a case showed: who hung, what was wrong, what was left, and whom the survivors' errors named."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.runtime.chaos.blame import blamed
from tests.runtime.chaos.case import DEADLY, Case
from tests.runtime.chaos.rank import Raised, Report


@dataclass(frozen=True)
class Heard:
    """A survivor's error, `after_s` the fault; `named`: whom its text holds responsible."""

    rank: int
    raised: Raised
    after_s: float
    named: frozenset[int]


@dataclass
class Verdict:
    """`hangs`, `wrong` and `left` are sentences, and must be empty. `silent`: survivors that reported no error though
    a call was mismatched. `again_s`: of each survivor that went on, the seconds from the fault to the end
    of its first call in the new group."""

    case: Case
    what: str = ""
    took_s: float = 0.0
    hangs: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)
    again_s: list[float] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return bool(self.hangs or self.wrong or self.left)

    @property
    def misnamed(self) -> list[Heard]:
        """Errors that do not name the culprit; nor, where that stands still, one that died while others waited."""
        return [heard for heard in self.heard if not heard.named & {*self.case.culprits} | self._seconds_in(heard)]

    def _seconds_in(self, heard: Heard) -> set[int]:
        """The rank whose death that error reports, of a case in which a second one dies: those whose time comes later
        than its own hear of the death first."""
        if self.case.second is None or not self.case.stands_still:
            return set()
        rank = self.case.second[0]
        return {rank} if f"rank {rank} died" in heard.raised.text else set()


def judge(case: Case, what: str, happened_s: float, reports: list[Report], most_s: float) -> Verdict:
    """The verdict on what the ranks reported. `most_s`: the latest that an error may come after the fault."""
    verdict = Verdict(case, what)
    for report in sorted(reports, key=lambda report: report.rank):
        culprit = report.rank in case.culprits
        if not (culprit and case.deviates):  # what it called has another result
            verdict.wrong += [f"rank {report.rank}, {wrong}" for wrong in report.wrong]
        verdict.left += [f"rank {report.rank}: {left}" for left in report.left]
        if not happened_s or case.fault == "pause":
            verdict.wrong += [_false_alarm(report.rank, raised) for raised in report.errors]
        elif not culprit:
            if report.again_at_s:
                verdict.again_s.append(report.again_at_s - happened_s)
            _hear(verdict, report, happened_s, most_s)
    return verdict


def _hear(verdict: Verdict, report: Report, happened_s: float, most_s: float) -> None:
    case = verdict.case
    for raised in report.errors:
        after_s = raised.at_s - happened_s
        if after_s > most_s:
            verdict.hangs.append(f"rank {report.rank} heard after {after_s:.1f} s: {_quoted(raised)}")
        if after_s < 0:
            verdict.wrong.append(_false_alarm(report.rank, raised))
        elif not raised.by_itself:
            verdict.heard.append(Heard(report.rank, raised, after_s, frozenset(blamed(raised.text))))
    if report.past_all and case.fault in DEADLY:
        never = f"to which rank {case.culprit} did not come"
        verdict.wrong.append(f"rank {report.rank} got past the last barrier of all, {never}")
    if not report.errors and not report.wrong and case.deviates:
        verdict.silent.append(report.rank)


def _false_alarm(rank: int, raised: Raised) -> str:
    return f"rank {rank} raised without a fault: {_quoted(raised)}"


def _quoted(raised: Raised) -> str:
    return f"{raised.kind}: {raised.text} [thread {raised.thread}, step {raised.step}, {raised.call}]"
