"""A rank's process: an actor of Ray's."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

from ringtree.runtime.bootstrap.network.contact import shown
from ringtree.runtime.communicator import lifetime
from ringtree.runtime.launch.crew import Outcome, Task
from ringtree.runtime.launch.spawn_processes import attempt, failure
from ringtree.runtime.world import init


class Rank:
    """The actor. Its process has no other task, so that its environment is the rank's."""

    _reserved: socket.socket | None = None

    def reserve(self) -> str:
        """A free port at the address by which Ray reaches this node: the ranks' RINGTREE_ADDRESS, if this is rank 0.
        It is bound and does not listen, so that no other process gets it before rank 0's server listens."""
        from ray.util import get_node_ip_address

        host = get_node_ip_address()
        self._reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((host, 0))
        return shown(host, self._reserved.getsockname()[1])

    def work(self, variables: Mapping[str, str], task: Task) -> Outcome:
        """Joins the world that the variables name, and does the task in it."""
        os.environ.update(variables)
        try:
            comm = init()
        except Exception as error:  # noqa: BLE001  # of any kind: the driver raises it
            return _carried(failure(error))
        finally:
            if self._reserved is not None:
                self._reserved.close()
        outcome = attempt(comm, task)
        closing = attempt(
            comm, (lambda _: lifetime.close_all(outcome.cause), ())
        )  # it may be the first to detect a mismatch
        return _carried(closing if closing.failed and not outcome.failed else outcome)


def _carried(outcome: Outcome) -> Outcome:
    """The outcome, without an error that cannot be pickled and made again."""
    from ray import cloudpickle

    if outcome.failed:
        try:
            cloudpickle.loads(cloudpickle.dumps(outcome.cause))
        except Exception:  # noqa: BLE001
            return Outcome(story=outcome.story)
    return outcome


def ray_of(variables: Mapping[str, str] | None) -> dict[str, Any]:
    """Ray's options for the environment in which a rank's process starts."""
    return {"runtime_env": {"env_vars": dict(variables)}} if variables else {}
