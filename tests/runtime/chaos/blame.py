"""The ranks that an error's text holds responsible: whom a reader would look at first."""

from __future__ import annotations

import re

RANKS = r"ranks? (\d+(?:, \d+)*)"
"""Those that one name, or a list of them, stands for."""
CAUSES = (r"\bbecause ", r"\bafter ", r"\bthe first cause: ")
"""Words before the cause of what was named first: where it is known, it is what counts."""
WRONG_TAG = (
    r"rank (\d+) (?:waited|waits|did not come: it waits) (?:(?!, rank|, as |;)[^()])*"
    r"\(a message of rank (\d+) with tag"
)
"""A wait beside which a message with another tag lies: it says more than who waits for whom."""
RESPONSIBLE = (
    rf"{RANKS} (?:died|is out of reach|left|aborted|ended|closed|failed|was interrupted)\b",
    rf"waited [\d.e+-]+ s for {RANKS}\b",
    rf"{RANKS} did not come\b",
    r"rank (\d+) called .* while rank (\d+) called ",
    r"rank (\d+) sent .* where rank (\d+) receives ",
    r"rank (\d+) asks for .*, rank (\d+) for ",
    r"rank (\d+) came for .*, rank (\d+) for ",
    r"rank (\d+) expects .*, rank (\d+) expects ",
)


def blamed(text: str) -> set[int]:
    """The ranks; none where the text names nobody."""
    known = [cause.end() for word in CAUSES for cause in re.finditer(word, text)]
    for begin in sorted(known, reverse=True):
        if ranks := _responsible(text[begin:]):
            return ranks
    return _responsible(text)


def _responsible(text: str) -> set[int]:
    """The ranks of the earliest statement in a text."""
    if found := re.search(WRONG_TAG, text):
        return {*map(int, found.groups())}
    statements = [found for pattern in RESPONSIBLE if (found := re.search(pattern, text))]
    if not statements:
        return set()
    first = min(statements, key=lambda found: found.start())
    return {int(number) for named in first.groups() for number in named.split(", ")}
