"""An endpoint whose programs run elsewhere, on devices: all else, and the group's health, is its host endpoint's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ringtree.runtime.engines import shm

if TYPE_CHECKING:
    from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup


class OnHost:
    """The part of an endpoint that the group's host endpoint has: messages, windows, the memo, health, survival, and
    recordings of them. What has programs and the fast path is built on it."""

    def __init__(self, host: Any) -> None:
        self.host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)


def join_host(parameters: GroupParameters) -> JoinedGroup:
    """The same members' group on their hosts, by which they meet, send messages and notice who has died."""
    return shm.join(parameters)
