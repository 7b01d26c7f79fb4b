"""A campaign in figures: what failed, the time from a fault to the errors, and who was named in the culprit's place."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tests.runtime.chaos.verdict import Heard, Verdict

MOST_TEXT = 150
PHRASES = ("closed its group", "left the group", "did not come", "died", "is out of reach", "waited", "ended while")
"""What a text may report of the rank that it names; the first that it has counts."""


@dataclass
class Figures:
    """Of the cases of one fault."""

    cases: int = 0
    times_s: list[float] = field(default_factory=list)
    misnamed: int = 0
    silent: int = 0
    failed: int = 0
    again_s: list[float] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """For tables and records."""
        times = sorted(self.times_s)
        return {
            "cases": self.cases, "errors": len(times), "median_s": round(median(times), 4) if times else None,
            "worst_s": round(times[-1], 3) if times else None, "misnamed": self.misnamed, "silent": self.silent,
            "failed": self.failed, "went_on": len(self.again_s),
            "again_s": round(median(self.again_s), 3) if self.again_s else None,
            "worst_again": round(max(self.again_s), 3) if self.again_s else None,
        }  # fmt: skip


class Summary:
    """Adds up verdicts."""

    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []
        self._by_fault: defaultdict[str, Figures] = defaultdict(Figures)

    def add(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        figures = self._by_fault[verdict.case.fault if verdict.what else "no fault"]
        figures.cases += 1
        figures.times_s += [heard.after_s for heard in verdict.heard]
        figures.misnamed += len(verdict.misnamed)
        figures.silent += len(verdict.silent)
        figures.failed += verdict.failed
        figures.again_s += verdict.again_s

    @property
    def errors(self) -> int:
        return sum(len(verdict.heard) for verdict in self.verdicts)

    @property
    def misnamed(self) -> list[tuple[Verdict, Heard]]:
        return [(verdict, heard) for verdict in self.verdicts for heard in verdict.misnamed]

    @property
    def misnamed_share(self) -> float:
        return len(self.misnamed) / max(self.errors, 1)

    def rows(self) -> dict[str, dict[str, Any]]:
        """By fault, and of all together."""
        whole = Figures()
        for figures in self._by_fault.values():
            whole = Figures(
                whole.cases + figures.cases,
                whole.times_s + figures.times_s,
                whole.misnamed + figures.misnamed,
                whole.silent + figures.silent,
                whole.failed + figures.failed,
                whole.again_s + figures.again_s,
            )
        return {fault: self._by_fault[fault].row() for fault in sorted(self._by_fault)} | {"all": whole.row()}

    def table(self) -> str:
        """The rows as text."""
        columns = (
            "cases",
            "errors",
            "median_s",
            "worst_s",
            "misnamed",
            "silent",
            "failed",
            "went_on",
            "again_s",
            "worst_again",
        )
        lines = ["fault         " + "".join(f"{column:>12}" for column in columns)]
        for fault, row in self.rows().items():
            lines.append(f"{fault:14}" + "".join(f"{'-' if row[c] is None else row[c]:>12}" for c in columns))
        return "\n".join(lines)

    def phrases(self) -> str:
        """How many misnaming errors report what of the rank that they name."""
        counts = Counter(phrase(heard.raised.text) for _, heard in self.misnamed)
        return "\n".join(f"{number:5} misnamed a rank that {what}" for what, number in counts.most_common())

    def brief(self) -> str:
        """How many errors named another rank than the culprit."""
        return f"{len(self.misnamed)} of {self.errors} errors misnamed ({self.misnamed_share:.1%})"

    def failures(self) -> str:
        """What no case may show, with the command that repeats it."""
        return "\n".join(text for verdict in self.verdicts if (text := failure(verdict)))

    def misnamings(self) -> str:
        """A line for each error that did not name the culprit."""
        return "\n".join(misnaming(verdict, heard) for verdict, heard in self.misnamed)


def failure(verdict: Verdict) -> str:
    """What is wrong with a case, line by line; "" where nothing is."""
    found = [("HANG", verdict.hangs), ("WRONG", verdict.wrong), ("LEFT", verdict.left)]
    lines = [f"  {kind}: {text}" for kind, texts in found for text in texts]
    if not lines:
        return ""
    return "\n".join([f"seed {verdict.case.seed}: {verdict.case}", f"  fault: {verdict.what}", *lines, again(verdict)])


def phrase(text: str) -> str:
    """What an error's text reports, in two or three words."""
    return next((phrase for phrase in PHRASES if phrase in text), "did something else")


def again(verdict: Verdict) -> str:
    hosts = " --hosts" if verdict.case.layout else " --torch" if verdict.case.torch else ""
    return f'  again: make chaos ARGS="--seed {verdict.case.seed} --count 1{hosts}"'


def misnaming(verdict: Verdict, heard: Heard) -> str:
    """An error that did not name the culprit, as a line."""
    named = ", ".join(map(str, sorted(heard.named))) or "nobody"
    return (
        f"seed {verdict.case.seed}: {verdict.case.fault} of rank {verdict.case.culprit}; to rank {heard.rank} "
        f"(thread {heard.raised.thread}, {heard.after_s:.2f} s) it was {named}: {heard.raised.text[:MOST_TEXT]}"
    )
