"""What Gloo, Open MPI, MPICH, Intel MPI and ringtree report when a rank fails, how soon, and to whom.

    python -m benchmarks.faults_of_peers --json benchmarks/faults_of_peers.json
    python -m benchmarks.faults_of_peers --peers gloo,mpich --faults kill,stop --json benchmarks/faults_of_peers.json
    python -m benchmarks.faults_of_peers --table benchmarks/faults_of_peers.json

RANKS ranks call in a loop; one of them, the culprit, has one fault (faulty_rank.py). `kill` and `stop` are signals at a
random time, `link down` takes the link of the culprit's host away (every rank has a host of its own then, a namespace,
and needs root). Each survivor raises, is killed by its launcher, returns from all its calls as if nothing were amiss,
or hangs: then there was no answer within LIMIT_S. --json keeps the rows of other peers and faults in that file.

A peer is a virtual environment in --home with that MPI and mpi4py; Gloo is that of the torch in this one. Peers run as
their manuals say: MPI's ranks by `python -m mpi4py`, which aborts the job for an error that nobody catches. In the
modes `openmpi_ulfm` (failed ranks are detected, whoever hears revokes the communicator, and asks who has failed) and
`gloo_detail` (TORCH_DISTRIBUTED_DEBUG=DETAIL, which compares calls) failures are looked for.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.over_hosts import ROOT, agent_for
from tests.runtime.hosts.lab import Lab

RANK = Path(__file__).with_name("faulty_rank.py")
RANKS, CULPRIT = 4, 2
SURVIVORS = [rank for rank in range(RANKS) if rank != CULPRIT]
LIMIT_S, START_S = 20.0, 45.0
MOST_TEXT = 3000
"""Characters of a launcher's output that are kept, of one that has killed ranks."""
PEERS = "ringtree,gloo,gloo_detail,openmpi,openmpi_ulfm,mpich,impi"
FAULTS = "kill,exit,stop,link down,size,type,operation,root"
SHOWN = {
    "ringtree": "ringtree",
    "gloo": "Gloo",
    "gloo_detail": "Gloo, DETAIL",
    "openmpi": "Open MPI",
    "openmpi_ulfm": "Open MPI, ULFM",
    "mpich": "MPICH",
    "impi": "Intel MPI",
}
"""The peers' names in the table."""
MISMATCHES = ("size", "type", "operation", "root")
CALLED = ("exit", *MISMATCHES)
"""Faults of the culprit's own; the others come from outside."""
NAMES = re.compile(r"\b(?:[Rr]anks?|RANK|process rank)[ =:#]*\[?(\d+(?:(?:,| and) \d+)*)")
PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Survivor:
    """A rank without the fault. `outcome`: raised, killed, returned or hung; `after_s`: since the fault, None where it
    did not end; `named`: culprit, other or nobody, by the text of its error or the launcher's; `wrong`: whether the
    call that did not match returned another result than if it had matched, None where it did not return."""

    rank: int
    outcome: str
    after_s: float | None
    named: str
    wrong: bool | None
    text: str


@dataclass
class Trial:
    peer: str
    fault: str
    repeat: int
    survivors: list[Survivor] = field(default_factory=list)
    launcher: str = ""


def command(peer: str, home: Path, words: list[str], lab: Lab | None, folder: Path) -> list[list[str]]:
    """What starts the ranks: one command for each, or for all."""
    if peer.startswith("gloo") or (peer == "ringtree" and lab):
        with socket.create_server(("", 0)) as free:
            port = free.getsockname()[1]
        found = []
        for rank in range(RANKS):
            at = lab.address(0) if lab else "127.0.0.1"
            env = [f"RANK={rank}", f"WORLD_SIZE={RANKS}", f"MASTER_ADDR={at}", f"MASTER_PORT={port}"]
            env += [f"GLOO_SOCKET_IFNAME={'eth0' if lab else 'lo'}"]
            env += ["TORCH_DISTRIBUTED_DEBUG=DETAIL"] if peer == "gloo_detail" else []
            env += [f"RINGTREE_RANK={rank}", f"RINGTREE_WORLD_SIZE={RANKS}", f"RINGTREE_ADDRESS={at}:{port}"]
            found.append([*(lab.command(rank) if lab else []), "env", *env, sys.executable, str(RANK), *words])
        return found
    if peer == "ringtree":
        return [[sys.executable, "-m", "ringtree.cli", "run", "-n", str(RANKS), str(RANK), *words]]
    return [[*(lab.command(0) if lab else []), *mpi(peer, home, lab, folder), *words]]


def mpi(peer: str, home: Path, lab: Lab | None, folder: Path) -> list[str]:
    """The launcher of an MPI and the program, without its words."""
    base, agent = home / peer.partition("_")[0], str(agent_for(lab, folder)) if lab else ""
    hosts = [lab.address(rank) for rank in range(RANKS)] if lab else []
    program = [str(base / "bin/python"), *([] if "ulfm" in peer else ["-m", "mpi4py"]), str(RANK)]
    if peer.startswith("openmpi"):
        words = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        words += ["--with-ft", "ulfm", "--mca", "mpi_ft_detector", "true"] if "ulfm" in peer else []
        if lab:
            words += ["--prtemca", "plm_ssh_agent", agent, "--host", ",".join(f"{host}:1" for host in hosts)]
            words += ["--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]
        return [str(base / "bin/mpirun"), *words, "-n", str(RANKS), *program]
    words = ["-genv", "I_MPI_WAIT_MODE", "1"] if peer == "impi" else []
    if lab:
        words += ["-launcher", "ssh", "-launcher-exec", agent, "-iface", "eth0", "-hosts", ",".join(hosts)]
        words += ["-ppn", "1"]
    return [str(base / "bin/mpiexec"), *words, "-n", str(RANKS), *program]


def descendants(pid: int) -> set[int]:
    """All processes below one."""
    below: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            below.setdefault(parent, []).append(int(folder.name))
    found, front = set[int](), [pid]
    while front:
        front = [child for one in front for child in below.get(one, [])]
        found.update(front)
    return found


@contextlib.contextmanager
def ended_afterwards() -> Iterator[None]:
    """Ends what was started within, also what launchers have left."""
    before = descendants(os.getpid())
    try:
        yield
    finally:
        for _ in range(100):
            left = descendants(os.getpid()) - before
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if not left:
                break
            time.sleep(0.02)


def diaries(folder: Path) -> dict[int, dict[str, Any]]:
    """By rank the events that it wrote."""
    found: dict[int, dict[str, Any]] = {}
    for rank in range(RANKS):
        with contextlib.suppress(OSError):
            lines = (folder / str(rank)).read_text().splitlines()
            found[rank] = {entry["event"]: entry for entry in map(json.loads, lines)}
    return found


def runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def fault_at(fault: str, folder: Path, lab: Lab | None) -> float:
    """The time of the fault, which is caused here if it comes from outside."""
    until_s = time.monotonic() + START_S
    wanted = "fault" if fault in CALLED else "at"
    while not all(
        wanted in (found := diaries(folder)).get(rank, {}) for rank in ([CULPRIT] if fault in CALLED else range(RANKS))
    ):
        if time.monotonic() > until_s:
            text = (folder / "out").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the ranks did not start within {START_S:g} s: {text}")
        time.sleep(0.02)
    if fault in CALLED:
        return float(found[CULPRIT]["fault"]["at"])
    time.sleep(random.uniform(0.1, 0.3))
    at = time.time()
    if fault == "link down":
        assert lab is not None
        lab.link(CULPRIT, "down")
    else:
        os.kill(found[CULPRIT]["started"]["pid"], {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[fault])
    return at


def ends(folder: Path, at: float) -> dict[int, float]:
    """When each survivor's process was seen to have ended; returns when all have raised, returned or ended, or after
    LIMIT_S."""
    gone: dict[int, float] = {}
    while time.time() < at + LIMIT_S:
        found = diaries(folder)
        for rank, events in found.items():
            if rank not in gone and not runs(events["started"]["pid"]):
                gone[rank] = time.time()
        if all(
            rank in gone or "ended" in found[rank] or "asked" in found[rank] for rank in range(RANKS) if rank != CULPRIT
        ):
            break
        time.sleep(0.01)
    return gone


def ranks_in(text: str) -> set[int]:
    return {int(n) for match in NAMES.finditer(text) for n in re.findall(r"\d+", match[1])}


def named(text: str, rank: int) -> str:
    """Whether the culprit is among the ranks that an error names, but for the one that raises it."""
    found = ranks_in(text) - {rank}
    return "culprit" if CULPRIT in found else "other" if found else "nobody"


def named_by_launcher(text: str) -> str:
    """The same by a launcher's text; one that lists all ranks names none."""
    found = ranks_in(text)
    if len(found) == RANKS or not found:
        return "nobody"
    return "culprit" if CULPRIT in found else "other"


def survivor(rank: int, events: dict[str, Any], at: float, gone: float | None, launcher: str) -> Survivor:
    wrong = events["returned"]["wrong"] if "returned" in events else None
    if "raised" in events:
        text = events["raised"]["type"] + ": " + events["raised"]["text"] + events.get("asked", {}).get("text", "")
        return Survivor(rank, "raised", events["raised"]["at"] - at, named(text, rank), wrong, text)
    if "ended" in events:
        wrong = bool(events["all returned"]["wrong"])
        return Survivor(rank, "returned", None, "nobody", wrong, "")
    if gone is not None:
        return Survivor(rank, "killed", gone - at, named_by_launcher(launcher), wrong, "")
    return Survivor(rank, "hung", None, "nobody", wrong, "")


def scrubbed(text: str, home: Path) -> str:
    """Without this machine's name and folders."""
    text = text.replace(str(home), "PEERS").replace(str(ROOT), "ROOT").replace(str(Path.home()), "~")
    return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "HOST", text)


def tried(peer: str, fault: str, repeat: int, home: Path, count: int) -> Trial:
    """One run of the ranks with the fault."""
    trial = Trial(peer, fault, repeat)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lab = stack.enter_context(Lab(RANKS)) if fault == "link down" else None
        stack.enter_context(ended_afterwards())
        out = stack.enter_context((folder / "out").open("w+"))
        words = [peer, fault, str(CULPRIT), str(count), str(folder)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "UCX_NET_DEVICES": "eth0" if lab else "all"}
        for each in command(peer, home, words, lab, folder):
            subprocess.Popen(each, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)
        at = fault_at(fault, folder, lab)
        gone = ends(folder, at)
        time.sleep(0.3)  # for what the launcher prints in the end
        found = diaries(folder)
        launcher = scrubbed((folder / "out").read_text(errors="replace"), home)[-MOST_TEXT:]
        for rank in SURVIVORS:
            trial.survivors.append(survivor(rank, found[rank], at, gone.get(rank), launcher))
            trial.survivors[-1].text = scrubbed(trial.survivors[-1].text, home)
        if any(one.outcome == "killed" for one in trial.survivors):
            trial.launcher = launcher
    return trial


def shortened(text: str, most: int = 84) -> str:
    """An error's first sentence without places in sources, addresses, process numbers, and types that mean nothing."""
    text = " ".join(re.sub(r"\[/\S+\] |={5,}|-{5,}|^=", " ", text, flags=re.MULTILINE).split())
    text = re.sub(r"\[[\d.]+\]:\d+", "[ADDRESS]", re.sub(r"\b(PID|process) \d+", r"\1 N", text))
    text = re.sub(r"^(Runtime|Dist\w+)?(Error|Exception): ", "", text).partition(". ")[0].replace("|", "/")
    return text if len(text) <= most else text[:most].rpartition(" ")[0] + " …"


def lasted(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 0.0995 else f"{seconds:.1f} s"


def rows(trials: list[dict[str, Any]]) -> Iterator[list[str]]:
    """A row of the table for each fault and peer, over its repeats, in the order of FAULTS and PEERS."""
    faults, peers = FAULTS.split(","), PEERS.split(",")
    measured = {(trial["fault"], trial["peer"]) for trial in trials}
    for fault, peer in sorted(measured, key=lambda pair: (faults.index(pair[0]), peers.index(pair[1]))):
        runs = [trial for trial in trials if (trial["fault"], trial["peer"]) == (fault, peer)]
        mine = [one for trial in runs for one in trial["survivors"]]
        outcomes = Counter(one["outcome"] for one in mine)
        times = [one["after_s"] for one in mine if one["after_s"] is not None]
        heard = [one for one in mine if one["outcome"] in ("raised", "killed")]
        right = sum(one["named"] == "culprit" for one in heard)
        wrong = sum(bool(one["wrong"]) for one in mine)
        texts = Counter(shortened(one["text"]) for one in mine if one["text"])
        texts = texts or Counter(shortened(trial["launcher"]) for trial in runs if trial["launcher"])
        yield [
            fault,
            SHOWN[peer],
            ", ".join(f"{n} {outcome}" for outcome, n in outcomes.most_common()),
            f"{lasted(median(times))}, {lasted(max(times))}" if times else "",
            f"{right} of {len(heard)}" if heard else "",
            f"{wrong} of {len(mine)}" if fault in MISMATCHES else "",
            texts.most_common(1)[0][0] if texts else "",
        ]


def line(row: list[str]) -> str:
    return "| " + " | ".join(row) + " |"


def in_short(trials: list[dict[str, Any]]) -> Iterator[list[str]]:
    """A row for each fault: its name, and what the survivors of each peer get, in the order of PEERS."""
    cells: dict[str, list[str]] = {}
    for fault, _, outcome, after, named, wrong, _ in rows(trials):
        if wrong and not wrong.startswith("0"):
            cell = f"{wrong} wrong"
        elif not after:
            cell = "hang" if "hung" in outcome else "no error"
        else:
            heard, of = named.split(" of ")
            names = ", named" if heard == of else f", {named} named" if heard != "0" else ""
            cell = after.split(", ")[0] + names
        cells.setdefault(fault, []).append(cell)
    return ([fault, *found] for fault, found in cells.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=PEERS)
    parser.add_argument("--faults", default=FAULTS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1, help="repeats that run at the same time")
    parser.add_argument("--count", type=int, default=1024, help="elements of float32 of a call")
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache/peers")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path, help="only print the rows of this file")
    given = parser.parse_args()
    if given.table:
        for row in rows(json.loads(given.table.read_text())["trials"]):
            print(line(row), flush=True)
        return
    with ProcessPoolExecutor(given.at_once, initializer=adopt_orphans) as pool:
        for peer in given.peers.split(","):
            for fault in given.faults.split(","):
                tasks = [pool.submit(tried, peer, fault, n, given.home, given.count) for n in range(given.repeats)]
                made = [asdict(task.result()) for task in tasks]
                for row in rows(made):
                    print(line(row), flush=True)
                if given.json:
                    keep(given.json, made, {"count": given.count, "at_once": given.at_once})


def adopt_orphans() -> None:
    """Makes what launchers leave behind children of this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def keep(file: Path, made: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    """Puts trials in the place of earlier ones of the same peer and fault."""
    kept = json.loads(file.read_text())["trials"] if file.exists() else []
    pair = (made[0]["peer"], made[0]["fault"])
    kept = [trial for trial in kept if (trial["peer"], trial["fault"]) != pair]
    settings |= {"ranks": RANKS, "culprit": CULPRIT, "limit_s": LIMIT_S}
    file.write_text(json.dumps({"settings": settings, "trials": kept + made}, indent=1) + "\n")


if __name__ == "__main__":
    main()
