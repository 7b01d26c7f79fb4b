"""Facts of a file beside its schedule: what connections have room for, and what a conversion does not keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringtree.algorithms import build
from ringtree.formats import load, text_of
from ringtree.formats.call_facts import Facts, lacks_room, not_kept

XML = "MSCCL XML"
TUNED: Facts = {"format": XML, "proto": "LL", "minBytes": 1024, "maxBytes": 4096, "nchannels": 16}


@pytest.mark.parametrize(("facts", "slots", "words"), [
    ({"format": XML, "proto": "Simple"}, 2, ""),
    ({"format": XML, "proto": "Simple"}, 3, "a connection must hold 3 messages, and Simple has room for 2"),
    ({"format": XML}, 3, "a connection must hold 3 messages, and Simple has room for 2"),
    ({"format": XML, "proto": "LL"}, 8, ""),
    ({"format": XML, "proto": "ll128"}, 9, "a connection must hold 9 messages, and ll128 has room for 8"),
    ({"format": "ringtree text"}, 99, ""),
    ({"format": XML, "proto": "none of them"}, 99, ""),
])  # fmt: skip
def test_the_room_of_a_connection_is_its_protocols(facts: Facts, slots: int, words: str) -> None:
    assert lacks_room(facts, slots) == words


@pytest.mark.parametrize(("facts", "written", "words"), [
    ({}, {"proto": "Simple", "nchannels": 8}, ""),
    ({"format": "ringtree text"}, {"format": XML, "proto": "Simple", "nchannels": 8}, ""),
    (TUNED, TUNED, ""),
    (TUNED, {**TUNED, "nchannels": 2}, "nchannels 16 (now 2)"),
    (TUNED, {"format": "ringtree text"}, "proto LL, minBytes 1024, maxBytes 4096, nchannels 16"),
    ({"redop": "sum", "proto": "simple"}, {"proto": "Simple"}, "redop sum"),
    ({"protocol": "LL", "max_message_size": 2**64 - 1}, {"protocol": "Simple"}, "protocol LL (now Simple)"),
])  # fmt: skip
def test_what_differs_from_what_was_read_is_named(facts: Facts, written: Facts, words: str) -> None:
    assert not_kept(facts, written) == words


def test_a_file_of_the_same_format_takes_over_its_protocol_and_sizes(tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    schedule = build("ring", "all_reduce", 3)
    path.write_text(text_of(schedule, "msccl", facts=TUNED))
    facts = load(path).facts
    assert [facts[name] for name in ("proto", "minBytes", "maxBytes")] == ["LL", 1024, 4096]
    assert text_of(schedule, "mscclpp", facts=TUNED) == text_of(schedule, "mscclpp")
    path.write_text(text_of(schedule, "msccl", facts={"proto": 'LL" name="<'}))
    with pytest.raises(ValueError, match="proto is 'LL\" name=\"<'; expected one of Simple, LL, LL128"):
        load(path)
