"""Messages and receives, matched as MPI does: a receive takes the earliest message that it may take, and a message goes
to the earliest receive that may take it. Each costs O(1), also where receives take messages of any rank or any tag."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ringtree.ir.operations import ANY

Pattern = tuple[int, int, int]
"""Source, target and tag; ANY as the source or the tag of a receive."""


class Matching:
    """`wild`: whether any receive takes messages of any rank or tag."""

    def __init__(self, wild: bool) -> None:
        self._wild = wild
        self._posted: dict[Pattern, deque[tuple[int, int]]] = {}  # (turn, receive)
        self._arrived: dict[Pattern, deque[int]] = {}  # messages, under each pattern that may take them
        self._taken: set[int] = set()
        self._turns = 0
        self.waiting = 0
        """Messages that no receive has taken so far."""

    def post(self, receive: int, pattern: Pattern) -> int | None:
        """The message that the receive takes, or None: then it waits for one."""
        messages = self._arrived.get(pattern, ())
        while messages:
            message = messages.popleft()
            if message not in self._taken:
                if self._wild:
                    self._taken.add(message)
                self.waiting -= 1
                return message
        self._turns += 1
        self._posted.setdefault(pattern, deque()).append((self._turns, receive))
        return None

    def arrive(self, message: int, pattern: Pattern) -> int | None:
        """The receive that takes the message, or None: then it waits for one."""
        found = [queue for one in self._patterns(pattern) if (queue := self._posted.get(one))]
        if found:
            return min(found, key=lambda queue: queue[0]).popleft()[1]
        for one in self._patterns(pattern):
            self._arrived.setdefault(one, deque()).append(message)
        self.waiting += 1
        return None

    def receives(self) -> list[int]:
        """The receives that wait, in the order of their rows."""
        return sorted(receive for queue in self._posted.values() for _, receive in queue)

    def _patterns(self, pattern: Pattern) -> Iterator[Pattern]:
        """The patterns of receives that may take a message of this one."""
        yield pattern
        if self._wild:
            source, target, tag = pattern
            yield from ((ANY, target, tag), (source, target, ANY), (ANY, target, ANY))
