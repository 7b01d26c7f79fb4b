"""Programs of clients that ask for Gloo give the same results on ringtree."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.torch_backend.clients.jobs import CLIENTS, Client, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("client", CLIENTS, ids=[client.id for client in CLIENTS])
def test_a_client_on_ringtree(client: Client) -> None:
    if missing := [name for name in client.packages if find_spec(name) is None]:
        pytest.skip(f"no {', '.join(missing)} here: make test-clients")
    on_gloo, on_ringtree = run(client, ""), run(client, "gloo")
    assert (on_gloo.pop("serving"), on_ringtree.pop("serving")) == ("ProcessGroup", "StandIn")
    on_gloo.pop("took_s"), on_ringtree.pop("took_s")
    assert on_ringtree == on_gloo
    assert len(set(on_gloo["losses"])) > 3
