"""Groups of any ranks as the text of an option: the number of each rank's group, such as 0,0,1,0."""

from __future__ import annotations

from collections.abc import Iterable


def written(group_of: Iterable[int]) -> str:
    """The text of the group of each rank."""
    return ",".join(map(str, group_of))


def read(text: str, ranks: int) -> list[int]:
    """The group of each of `ranks` ranks; ValueError for another text."""
    numbers = text.split(",")
    if len(numbers) != ranks or not all(number.isascii() and number.isdigit() for number in numbers):
        raise ValueError(
            f"group={text[:80]}: expected a size, or the number of each of {ranks} ranks' group: 0,0,1,..."
        )
    return [int(number) for number in numbers]
