"""Programs of clients that ask for Gloo give the same results on ringtree.

The restarts hang on Gloo itself now and then: all ranks wait in its constructor after the restart."""

from __future__ import annotations

from importlib.metadata import Distribution
from importlib.util import find_spec

import pytest

from tests.torch_backend.clients.jobs import CLIENTS, Client, run, torchrun

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("client", CLIENTS, ids=[client.id for client in CLIENTS])
def test_a_client_on_ringtree(client: Client) -> None:
    if missing := [name for name in client.packages if next(Distribution.discover(name=name), None) is None]:
        pytest.skip(f"no {', '.join(missing)} here: make test-clients")
    on_gloo, on_ringtree = run(client, ""), run(client, "gloo")
    assert (on_gloo.pop("serving"), on_ringtree.pop("serving")) == ("torch", "ringtree")
    on_gloo.pop("took_s"), on_ringtree.pop("took_s")
    assert on_ringtree == on_gloo
    assert len(set(on_gloo["losses"])) > 3


def test_deepspeed_takes_the_backend_by_name() -> None:
    if find_spec("deepspeed") is None:
        pytest.skip("no deepspeed here: make test-clients")
    zero = torchrun("DeepSpeed", "deepspeed", "deepspeed_zero.py", "2")
    named = zero._replace(command=(*zero.command, "ringtree"))
    on_gloo, on_ringtree = run(zero, ""), run(named, "")
    assert on_ringtree["serving"] == "ringtree" and on_ringtree["losses"] == on_gloo["losses"]
