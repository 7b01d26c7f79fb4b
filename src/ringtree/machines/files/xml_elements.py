"""XML as a tree of elements that know their lines, from untrusted files.

Expat is driven directly: an entity is refused where it is declared, elements are counted as they start, so a hostile
file costs no more than its length. A document type declaration alone, as hwloc writes one, is let pass; a file it names
is never fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

MOST_BYTES = 2**24
MOST_ELEMENTS = 200_000
DEEPEST = 100
MOST_ATTRIBUTES = 100


@dataclass(slots=True)
class Element:
    """`file` and `line` are where it starts; `content` is the text in it."""

    tag: str
    attributes: dict[str, str]
    line: int
    file: str
    children: list[Element] = field(default_factory=list)
    content: str = ""

    def inside(self, *tags: str) -> list[Element]:
        """The children with one of those tags."""
        return [c for c in self.children if c.tag in tags]

    def below(self) -> Iterator[Element]:
        """The element and all below it, as they stand in the file."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting += reversed(element.children)

    @property
    def where(self) -> str:
        """`topo.xml: line 12, <pci busid="0000:a1:00.0">`."""
        names = ("busid", "numaid", "dev", "target", "name", "type")
        label = next((f' {n}="{short(self.attributes[n])}"' for n in names if n in self.attributes), "")
        return f"{self.file}: line {self.line}, <{self.tag}{label}>"

    def refuse(self, problem: str) -> NoReturn:
        """Raises ValueError: the element's position, then the problem."""
        raise ValueError(f"{self.where}: {problem}")

    def text(self, name: str) -> str:
        """An attribute that must be there (else ValueError)."""
        if name not in self.attributes:
            self.refuse(f"lacks the attribute {name}")
        return self.attributes[name]

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An attribute as a whole number of low..high, decimal or 0x…; without a default it must be there."""
        if default is not None and name not in self.attributes:
            return default
        text = self.text(name).strip()
        found = re.fullmatch(r"([+-]?)(?:0[xX]([0-9a-fA-F]{1,16})|([0-9]{1,20}))", text)
        number = 0 if found is None else int(found[2], 16) if found[2] else int(found[3])
        number = -number if found is not None and found[1] == "-" else number
        if found is None or not low <= number <= high:
            self.refuse(f'{name}="{short(text)}"; expected a whole number of {low}..{high}')
        return number

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """An attribute as a number of low..high; without a default it must be there."""
        if default is not None and name not in self.attributes:
            return default
        text = self.text(name).strip()
        plain = re.fullmatch(r"[+-]?(\d{1,20}\.?\d{0,20}|\.\d{1,20})([eE][+-]?\d{1,3})?", text, re.ASCII)
        if plain is None or not low <= float(text) <= high:
            self.refuse(f'{name}="{short(text)}"; expected a number of {low:g}..{high:g}')
        return float(text)


def elements(data: bytes, file: str) -> Element:
    """The root element. ValueError, in one line with file and line: if it is no XML or beyond the bounds above."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"{file}: {len(data):,} bytes; expected at most {MOST_BYTES:,}")
    reader = _Reader(file)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"{file}: line {error.lineno}: not well-formed XML: {expat.ErrorString(error.code)}") from None
    except (LookupError, ValueError) as error:  # an encoding that Python does not have, or not a byte a character
        if str(error).startswith(file):
            raise
        raise ValueError(f"{file}: line 1: an encoding that is not known; expected UTF-8") from None
    return reader.open[0].children[0]


def short(text: str) -> str:
    """The printable characters of a text, 40 at most."""
    shown = "".join(c if c.isprintable() else "?" for c in text[:41])
    return shown if len(text) <= 40 else shown[:40] + "…"


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.open = [Element("", {}, 0, file)]
        self.count = 0
        self._pieces: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._pieces.append
        self.parser.EntityDeclHandler = self._entity
        self.parser.UnparsedEntityDeclHandler = self._entity
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def _refuse(self, problem: str) -> NoReturn:
        raise ValueError(f"{self.file}: line {self.parser.CurrentLineNumber}: {problem}")

    def _entity(self, *_: object) -> None:
        self._refuse("declares an entity; expected none in a topology")

    def _end(self, _: str) -> None:
        """Text counts where no further element follows it."""
        self.open.pop().content = "".join(self._pieces).strip()
        self._pieces.clear()

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._pieces.clear()
        self.count += 1
        if self.count > MOST_ELEMENTS:
            self._refuse(f"more than {MOST_ELEMENTS:,} elements; expected a machine's")
        if len(self.open) > DEEPEST:
            self._refuse(f"<{short(tag)}> is inside {DEEPEST} others; expected fewer")
        if len(attributes) > MOST_ATTRIBUTES:
            self._refuse(f"<{short(tag)}> has {len(attributes):,} attributes; expected at most {MOST_ATTRIBUTES}")
        element = Element(short(tag), attributes, self.parser.CurrentLineNumber, self.file)
        self.open[-1].children.append(element)
        self.open.append(element)
