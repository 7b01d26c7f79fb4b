"""`ringtree ps --hosts`, by shells of this machine in the place of ssh's."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ringtree import __version__
from ringtree.runtime.launch.hosts.placement import HostRanks
from ringtree.runtime.observing import hosts
from ringtree.runtime.observing.listing import MARK, Listing, line_of, listing_in
from ringtree.runtime.observing.worlds import LongWait, ObservedRank, ObservedWorld
from tests.cli.conftest import Ringtree
from tests.runtime.hosts.launched import ssh
from tests.runtime.observing.hanging import hanging_job
from tests.waiting import until

WAIT = LongWait(100, 300_000_000_100, None, 12, "recv", "0, 1")
WORLD = ObservedWorld("w7", "python \x1b[2Jx.py", True, "", (ObservedRank(0, "running", 7, 3, None, (WAIT,)),), (7, 8))


def test_each_host_lists_its_own_and_silence_is_reported(ringtree: Ringtree, tmp_path: Path) -> None:
    with hanging_job(tmp_path) as world:
        file = tmp_path / "groups.json"
        result = ringtree("ps", "--hosts", "localhost:2,chatty,refused,a", "--ssh", ssh(), "--json", str(file))
    assert result.code == 1
    assert result.err == (
        "ringtree ps: host refused is out of ssh's reach: me@refused: Permission denied (publickey).; expected a "
        "connection that asks no questions\n"
    )
    parts = re.split(r"^host (.+)\n", result.out, flags=re.MULTILINE)
    shown = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(shown) == ["localhost", "chatty", "refused", "a"]
    assert shown["refused"] == "  not known\n\n"
    for name in ("localhost", "chatty", "a"):
        assert re.search(rf"  {world.job}: 3 ranks, .*\n", shown[name])
        assert re.search(rf"    +1 +{world.ranks[1].pid}  waits for rank 2 since [\d.]+ m?s", shown[name])
        assert "    rank 2 holds up rank 1\n" in shown[name]
    record = json.loads(file.read_text())["hosts"]
    assert [entry["host"] for entry in record] == list(shown)
    assert "out of ssh's reach" in record[2]["error"]
    assert world.job in [group["job"] for group in record[0]["groups"]]


@pytest.mark.parametrize(
    ("name", "command", "python", "why"),
    [
        ("silent", ssh(), None, "gave no answer within 0.3 s"),
        ("mute", ssh(), None, "listed no groups: the command exited with code 3"),
        ("unknown", ssh(), None, "is out of ssh's reach: ssh: Could not resolve hostname unknown.*"),
        ("a", ssh(), "/no/python", "has no such python.*; name its path by --python"),
        ("x", "sh -c 'sleep 1064 & sleep 1064'", None, "gave no answer within 0.3 s"),
        ("x", "sh -c 'echo; echo ringtree groups {}; cat'", None, "has ringtree another version, and here is .*"),
        ("x", """sh -c 'echo; echo "ringtree groups"" {]"'""", None, "lists its groups in another way: not JSON.*"),
    ],
)
def test_a_host_without_an_answer_is_reported(
    name: str, command: str, python: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "ANSWER_S", 0.3 if "within" in why else 30.0)
    ((host, found),) = hosts.listings([HostRanks(name, (0,), False)], command, python)
    assert host.name == name and isinstance(found, str)
    assert re.fullmatch(why, found), found
    until(lambda: "sleep 1064" not in subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True).stdout)


def test_a_listing_comes_through_without_what_moves_the_cursor() -> None:
    sent = Listing(5, (WORLD,))
    found = listing_in(b"Welcome! ringtree" + line_of(sent) + b"bye\n")
    assert found is not None
    assert found.groups[0].command == "python ?[2Jx.py"
    assert (found.now_ns, found.groups[0].ranks, found.groups[0].holders) == (5, WORLD.ranks, (7, 8))
    assert listing_in(b"Welcome!\n") is None


def put(given: Any, key: str, value: object) -> None:
    """Sets every field of that name."""
    for name, inner in given.items() if isinstance(given, dict) else enumerate(given):
        if name == key:
            given[name] = value
        elif isinstance(inner, (dict, list)):
            put(inner, key, value)


FINE = {("pid", "null"), ("peer", "null"), ("where", '"7"'), ("holders", "[1]")}


@pytest.mark.parametrize("broken", ['"7"', "{}", "null", "1.5", "true", "[1]"])
@pytest.mark.parametrize("key", ["now_ns", "groups", "ranks", "pid", "waits", "peer", "where", "holders"])
def test_a_listing_of_another_shape_is_refused(key: str, broken: str) -> None:
    line = line_of(Listing(5, (WORLD,)))
    given = json.loads(line[line.index(b"{") :])
    put(given, key, json.loads(broken))
    changed = b"\n" + MARK + json.dumps(given).encode() + b"\n"
    if (key, broken) in FINE:
        assert listing_in(changed) is not None
    else:
        with pytest.raises(ValueError, match=f"lists its groups in another way; expected what ringtree {__version__} "):
            listing_in(changed)


def test_options_for_hosts_alone(ringtree: Ringtree) -> None:
    result = ringtree("ps", "--ssh", "ssh")
    assert (result.code, result.err.strip()) == (
        1,
        "ringtree ps: --ssh is for groups on several hosts; expected --hosts beside it",
    )
