"""`ringtree run --hosts`: the ranks of several hosts as one job, by an agent on each."""

from __future__ import annotations

import os
import secrets
import selectors
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ringtree.runtime.bootstrap.environment import (
    ADDRESS,
    ENDED_RANKS,
    INTERFACE,
    SECRET,
    TRACE_FOLDER,
    rendezvous_address,
)
from ringtree.runtime.bootstrap.network.contact import shown
from ringtree.runtime.launch.hosts.agents import Agents, SetupEnded
from ringtree.runtime.launch.hosts.link import SSH, AgentLink, command_for
from ringtree.runtime.launch.hosts.messages import Message
from ringtree.runtime.launch.hosts.placement import HostRanks
from ringtree.runtime.launch.interrupts import PASSED_ON, interrupts
from ringtree.runtime.launch.torch_variables import HERE, store_variables
from ringtree.runtime.launch.traces import recordings, write_trace

PASSED = ("RINGTREE_", "UCX_")
"""Beginnings of the variables that go along to other hosts."""
KEPT_BACK = (ADDRESS, SECRET, TRACE_FOLDER, ENDED_RANKS, "RINGTREE_RANK", "RINGTREE_WORLD_SIZE", "RINGTREE_JOB")
"""Variables of each job's own."""


@dataclass(frozen=True, slots=True)
class HostedProgram:
    """A program that all hosts run. `env`: NAME or NAME=VALUE, beside the variables that go along anyway; `python`: the
    interpreter's path on other hosts; `interface`: by which the hosts reach each other; `prefixed`: whether host and
    rank stand before each line that it prints (those of its standard error have them anyway); `caller`: the command of
    ringtree's that has asked for it, as which errors are reported."""

    command: Sequence[str]
    module: bool = False
    ssh: str = SSH
    python: str | None = None
    interface: str | None = None
    env: Sequence[str] = ()
    algorithm: str | None = None
    prefixed: bool = True
    caller: str = "run"


def run(program: HostedProgram, hosts: Sequence[HostRanks], trace: Path | None = None) -> int:
    """Runs the program on the hosts as `launch.run` does on one; returns the exit code. `trace` as there.

    ValueError, before anything is started, for a variable, a command or an address that makes no sense.
    """
    if not program.command:
        raise ValueError("no program to run; expected a Python file, -m and a module, or an executable")
    env = variables(program, os.environ)
    rendezvous_address()  # for the error of a text that is none
    if any(not host.local for host in hosts):
        check_ssh(program.ssh)
    job = {"RINGTREE_WORLD_SIZE": str(sum(len(host.ranks) for host in hosts)), "RINGTREE_JOB": os.urandom(8).hex()}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(recordings())) if trace else None
        agents = Agents(stack.enter_context(selectors.DefaultSelector()), folder, prefixed=program.prefixed)
        stack.enter_context(interrupts(agents.signals.append, agents.selector, (signal.SIGTSTP, *PASSED_ON)))
        stack.callback(agents.close)
        words = [*program.command]
        try:
            agents.connect((host, command_for(host, program.ssh, program.python, env)) for host in hosts)
            found = _prepared(agents, program, env)
            words = found.words
            job |= _store(found.address, found.store_port, env)
            _start(agents, job, found, folder is not None)
            agents.watch()
        except SetupEnded as ended:
            if agents.job.signal is None:
                agents.job.failed(str(ended), 1)
        code = agents.report(program.caller)
        if trace is None or folder is None:
            return code
        return write_trace(trace, folder, len(agents.home), words, later=agents.clock_readings) or code


def check_ssh(command: str) -> None:
    """ValueError for a command that cannot reach other hosts."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"--ssh {command}: {error}; expected a command in a shell's words") from None
    if not words:
        raise ValueError("--ssh is empty; expected a command")
    if shutil.which(words[0]) is None:
        raise ValueError(f"no such program: {words[0]}, by which other hosts are reached; expected one by --ssh")


def variables(program: HostedProgram, env: Mapping[str, str]) -> dict[str, str]:
    """The variables that go along: those of ringtree and UCX, PYTHONPATH, and the program's. ValueError for a name that
    is not set."""
    found = {name: text for name, text in env.items() if name.startswith(PASSED) and name not in KEPT_BACK}
    found |= passed_path(env) | named_variables(program.env, env)
    if program.interface:
        found[INTERFACE] = program.interface
    if program.algorithm:
        found["RINGTREE_ALGORITHM"] = program.algorithm
    return found


def named_variables(words: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """The variables that --env names, by its words. ValueError: a name is not set, or is that of each job's own."""
    found = {}
    for text in words:
        name, given, value = text.partition("=")
        if not name or (not given and name not in env):
            raise ValueError(f"--env {text}: no variable of that name is set here; expected one, or NAME=VALUE")
        if name in KEPT_BACK:
            own = "set in this command's own environment" if name == ADDRESS else "not given"
            raise ValueError(f"--env {name}: ranks get that from this command; expected it {own}")
        found[name] = value if given else env[name]
    return found


def passed_path(env: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH as it goes along to other hosts, where it is set."""
    path = env.get("PYTHONPATH")
    return (
        {"PYTHONPATH": os.pathsep.join(os.path.join(_folder(), one) for one in path.split(os.pathsep))} if path else {}
    )


def _folder() -> str:
    """The working directory by the name that the user's shell has for it: other hosts may have it under that name, and
    what links stand for here may be another folder's name there, as with homes that are mounted on demand."""
    named = os.environ.get("PWD", "")
    try:
        return named if os.path.isabs(named) and os.path.samefile(named, ".") else os.getcwd()
    except OSError:
        return os.getcwd()


class _Prepared(NamedTuple):
    """The answers of the agents. `words`: of the program, as rank 0's host found them; `address`: rank 0's for all
    ranks, "" on one host; `store_port`: a port there for torch's store; `beside`: the ranks of each agent's host, those
    of other agents included where the host was given by several names."""

    words: list[str]
    address: str
    store_port: int
    beside: dict[AgentLink, list[int]]


def _prepared(agents: Agents, program: HostedProgram, env: Mapping[str, str]) -> _Prepared:
    given = os.environ.get(ADDRESS, "")
    first, *others = agents.links
    order = {"do": "prepare", "folder": _folder(), "command": [*program.command], "module": program.module}
    order |= {"env": dict(env), "first": False, "doorway": False, "several": bool(others)}
    order["marks"] = [*agents.marks.values()]
    opens = bool(others) and not given
    answers = agents.ask(others, order)
    contact = agents.ask([first], {**order, "first": True, "doorway": opens})[first]
    answers[first] = contact
    address = given if others else ""
    if opens:
        reached = agents.ask(others, {"do": "probe", **{key: contact[key] for key in ("addresses", "port", "token")}})
        address = shown(_common(first, contact["addresses"], reached), contact["port"])
    return _Prepared(contact["words"], address, contact["store_port"], _beside(agents.marks, answers))


def _beside(marks: Mapping[AgentLink, str], answers: Mapping[AgentLink, Message]) -> dict[AgentLink, list[int]]:
    return {
        link: sorted({rank for other in answers if marks[other] in answer["alike"] for rank in other.host.ranks})
        for link, answer in answers.items()
    }


def _store(address: str, port: int, env: Mapping[str, str]) -> dict[str, str]:
    """The place of torch's store, on rank 0's host, which may be known by a file only."""
    at = rendezvous_address({ADDRESS: address}) if address else (HERE, 0)
    return store_variables(at[0] if isinstance(at, tuple) else None, port, env)


def _common(first: AgentLink, addresses: Sequence[str], reached: Mapping[AgentLink, Message]) -> str:
    """The first address that all reach; SetupEnded names the hosts where there is none."""
    for address in addresses:
        if all(address in answer["reached"] for answer in reached.values()):
            return address
    lacking = [link.host.name for link, answer in reached.items() if not answer["reached"]]
    tried = ", ".join(addresses) or "none"
    if lacking:
        text = f"host {lacking[0]} reaches rank 0's host {first.host.name} at none of its addresses: {tried}"
    else:
        text = f"no address of rank 0's host {first.host.name} is reached by all hosts: {tried}"
    raise SetupEnded(f"{text}; expected a network that all hosts are in (--interface), or {ADDRESS}=host:port")


def _start(agents: Agents, job: Mapping[str, str], found: _Prepared, trace: bool) -> None:
    """Starts the ranks. The secret goes over the lines to the agents, and is on no command line."""
    order = {"do": "start", "env": dict(job), "secret": secrets.token_hex(32), "address": found.address, "trace": trace}
    agents.begin()
    for link in agents.links:
        link.send({**order, "ranks": link.host.ranks, "beside": found.beside[link]})
