"""The post of a process: who may use it, what it answers, and what it knows of attempts that were given up."""

from __future__ import annotations

import resource
import socket
import time
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ringtree.runtime.bootstrap.door import announced_door
from ringtree.runtime.bootstrap.network.boards.file_board import FileBoard
from ringtree.runtime.bootstrap.network.connection import Connection, proof
from ringtree.runtime.bootstrap.network.post import (
    AWAY,
    GIVEN_UP,
    LEADS,
    MADE,
    MOST_KEPT,
    Addressee,
    Correspondent,
    Post,
    dial,
    post,
)
from tests.waiting import until

JOB = "job of the tests"
SECRET = partial(proof, b"of the tests")


@pytest.fixture
def office() -> Post:
    """This process's."""
    made = post()
    made.know(JOB, SECRET, made)
    return made


def to(office: Post, secret: Any = SECRET, job: str = JOB) -> Addressee:
    return Addressee(("127.0.0.1", office.port), job, secret)


def asked(connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    connection.send(message)
    return connection.whole(10.0)


def test_a_process_says_what_it_does(office: Post) -> None:
    connection = dial(to(office))
    assert asked(connection, {"key": "a"}) == {"state": AWAY}
    office.does("a", LEADS)
    assert asked(connection, {"key": "a"}) == {"state": LEADS}
    assert asked(connection, {"key": "b"}) == {"state": AWAY}
    connection.wire.close()


def test_who_comes_waits_until_it_leaves(office: Post) -> None:
    connection = dial(to(office))
    connection.send({"come": "c", "rank": 3, "shunned": [1]})
    until(lambda: office.come("c"))
    [come] = office.come("c")
    assert (come.rank, come.shunned) == (3, [1])
    come.answer({"members": [0, 3]})
    assert connection.whole(10.0) == {"members": [0, 3]}
    connection.wire.close()
    until(lambda: not office.come("c"))


def test_only_those_that_have_answers_are_forgotten(office: Post) -> None:
    first, second = dial(to(office)), dial(to(office))
    first.send({"come": "d", "rank": 1, "shunned": []})
    until(lambda: office.come("d"))
    answered = office.come("d")
    second.send({"come": "d", "rank": 2, "shunned": []})
    until(lambda: len(office.come("d")) == 2)
    office.dismiss("d", answered)
    assert [come.rank for come in office.come("d")] == [2]
    first.wire.close()
    second.wire.close()


def test_who_does_not_know_the_secret_is_refused(office: Post) -> None:
    for stranger in (to(office, partial(proof, b"another")), to(office, job="another job")):
        with pytest.raises(ConnectionError):
            dial(stranger)
    with socket.create_connection(("127.0.0.1", office.port)) as noise:
        noise.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
    dial(to(office)).wire.close()


def test_who_is_asked_and_has_no_group_does_not_take_it(office: Post) -> None:
    connection = dial(to(office))
    office.attempt("asked first")
    assert asked(connection, {"attempt": "asked first"}) == {"outcome": GIVEN_UP}
    assert office.settle("asked first", MADE) == GIVEN_UP
    office.attempt("made first")
    assert office.settle("made first", MADE) == MADE
    assert asked(connection, {"attempt": "made first"}) == {"outcome": MADE}
    assert asked(connection, {"attempt": "not begun"}) == {"outcome": GIVEN_UP}
    office.attempt("not begun")
    assert office.settle("not begun", MADE) == GIVEN_UP
    office.correct("not begun")
    assert office.settle("not begun", GIVEN_UP) == MADE
    connection.wire.close()


def test_what_it_knows_is_bounded(office: Post) -> None:
    for number in range(2 * MOST_KEPT):
        office.does(f"group {number}", LEADS)
        office.attempt(f"attempt {number}")
    assert len(office._states) <= MOST_KEPT
    assert len(office._attempts) <= MOST_KEPT


def test_a_job_is_known_as_long_as_its_owner_lives(office: Post) -> None:
    for number in range(2 * MOST_KEPT):
        office.know(f"later job {number}", SECRET, Event())
    dial(to(office)).wire.close()
    dial(to(office, job=f"later job {2 * MOST_KEPT - 1}")).wire.close()  # late survivors ask what has become of it
    assert sum(job.startswith("later") for job in office._secrets) <= MOST_KEPT + 1
    with pytest.raises(ConnectionError):
        dial(to(office, job="later job 0"))


def test_a_door_that_was_closed_is_forgotten(office: Post, tmp_path: Path) -> None:
    before = [*office._secrets]
    with announced_door(FileBoard(tmp_path / "board", "", b"")):
        assert len(office._secrets) == len(before) + 1
    assert [*office._secrets] == before


def test_who_is_asked_by_a_leader_knows_that_it_leads(office: Post) -> None:
    first, second = dial(to(office)), dial(to(office))
    asked(first, {"key": "f", "rank": 2, "leads": True})
    asked(second, {"key": "f", "rank": 4, "leads": True})
    asked(second, {"key": "g", "rank": 0, "leads": True})
    assert office.leaders("f") == {2, 4}
    asked(first, {"key": "f", "rank": 2, "leads": False})
    assert office.leaders("f") == {4}
    second.wire.close()
    until(lambda: not office.leaders("f") and not office.leaders("g"))
    assert "f" not in office._leaders and "g" not in office._leaders
    asked(first, {"key": "f", "rank": 2, "leads": True})
    until(lambda: not office.leaders("f"))  # it asks no more
    first.wire.close()


def test_a_correspondent_calls_whom_it_asks_where_this_process_leads(office: Post) -> None:
    mine = Correspondent(to(office), "h", 5)
    until(lambda: mine.answer.state == AWAY)
    assert office.leaders("h") == set()
    office.does("h", LEADS)
    until(lambda: office.leaders("h") == {5})
    began_s = mine.answer.asked_s
    until(lambda: mine.answer.asked_s > began_s)
    mine.stop()


def test_a_process_short_of_descriptors_takes_nobody_for_silent(office: Post) -> None:
    """That it cannot ask says nothing of the other one."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        asked_for = Correspondent(to(office), "short", 0)
        time.sleep(0.3)
        while_short = asked_for.answer.state
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert while_short == Correspondent.UNKNOWN
    until(lambda: asked_for.answer.state == AWAY)
    asked_for.stop()


def test_an_end_and_an_answer_differ(office: Post) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    alive, ended = (
        Correspondent(addressee, "e", 0) for addressee in (to(office), to(office)._replace(address=("127.0.0.1", port)))
    )
    until(lambda: alive.answer.state == AWAY and ended.answer.state == Correspondent.ENDED)
    office.does("e", LEADS)
    until(lambda: alive.answer.state == LEADS)
    alive.stop()
    ended.stop()
