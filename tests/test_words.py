"""The project speaks the field's words, in sentences that begin with their subject: no word that docs/glossary.md
replaced comes back in its old sense."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {
    "src": ("*.py", "*.pyi"),
    "csrc": ("*.h", "*.cc"),
    "docs": ("*.md",),
    "tests": ("*.py", "*.cc", "*.h", "*.pml", "*.mjs"),
    "benchmarks": ("*.py", "*.md"),
    "examples": ("*.py",),
}
OLD = {
    r"\bseats?\b|\bSeat\b|_seat\b": "endpoint; of GPUs: GPU slots",
    r"\bcouriers?\b": "progress thread",
    r"\bKin\b|\bkin\b": "inherited liveness",
    r"\bloans?\b|\blent\b|\blends?\b": "zero-copy send, its completion",
    r"\bparcels?\b|\bMail\b|\bLetter\b": "send descriptor, matching table, unexpected message",
    r"\bTurns::|\bclass Turns\b": "ticket lock",
    r"\bParty\b|\bTerms\(": "bootstrap group, group parameters",
    r"\b(short|long) way\b": "fast path, slow path",
    r"\bfrugal\b|\bcrowded\b": "lazily committed, oversubscribed",
    r"\broads?\b|\btours?\b": "routes, ring orders",
    r"\bhas it that\b": "computes, reports, returns (name who does it)",
    r'(?<!")\bsaid\b|\bSaid\b|\btold\b': "computed, decided, reported, returned: name who does it",
}
"""Old words, as patterns, and their replacements. The key "said" of `ringtree explain --json` stays."""
FRAGMENTS = re.compile(r'^ *r?"""(What|How|Of|Which|Where|When|Whose|Those|That|By|For|To|It|They)\b.*', re.MULTILINE)
"""Beginnings of a docstring whose subject the reader must find elsewhere."""
OF_OTHERS = {"Op", "Message", "Mismatch", "PeerDied", "Poisoned", "TimedOut"}
"""Class names that ringtree has twice: beside ours MPI's, or the same error as torch's programs catch it."""
RECORDS = ("docs/decisions/", "docs/torch_suite.md", "docs/glossary.md", "tests/test_words.py")
"""Pages of what was, and of words."""


def texts() -> list[tuple[str, str]]:
    found = [
        (str(p.relative_to(ROOT)), p)
        for folder, kinds in FOLDERS.items()
        for k in kinds
        for p in (ROOT / folder).rglob(k)
    ]
    return [(name, path.read_text(encoding="utf-8")) for name, path in found if not name.startswith(RECORDS)]


@pytest.fixture(scope="module")
def sources() -> list[tuple[str, str]]:
    return [*texts(), ("README.md", (ROOT / "README.md").read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def lowered(sources: list[tuple[str, str]]) -> list[str]:
    return [text.lower() for _, text in sources]


def stems(pattern: str) -> list[str]:
    """Texts of which a match has at least one, in lower case: to look for them first is quicker."""
    return re.findall(r"[a-z ]{3,}", re.sub(r"\\b|.\?", "", pattern).lower())


@pytest.mark.parametrize(("old", "now"), OLD.items())
def test_no_old_word_comes_back(sources: list[tuple[str, str]], lowered: list[str], old: str, now: str) -> None:
    some = stems(old)
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for (name, text), low in zip(sources, lowered, strict=True)
        if any(stem in low for stem in some)
        for match in re.finditer(old, text, re.IGNORECASE if old.islower() else 0)
    ]
    assert not found, f"expected {now}"


def test_docstrings_begin_with_their_subject(sources: list[tuple[str, str]]) -> None:
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}"
        for name, text in sources
        if name.startswith("src/")
        for match in FRAGMENTS.finditer(text)
    ]
    assert not found, "expected a noun or a verb first, as in: Returns the number of …, The size of …"


def test_a_class_name_has_one_meaning(sources: list[tuple[str, str]]) -> None:
    homes: dict[str, list[str]] = {}
    for file, text in sources:
        if file.startswith("src/") and file.endswith(".py"):
            for name in re.findall(r"^class ([A-Z]\w*)", text, re.MULTILINE):
                homes.setdefault(name, []).append(file)
    twice = {name: files for name, files in homes.items() if len(files) > 1 and name not in OF_OTHERS}
    assert not twice, "expected a name that says what of"
