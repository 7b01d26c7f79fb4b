"""A mistake gets one clear line with what was expected, and a non-zero exit; never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Ringtree

MISTAKES = [
    ("nonsense", "no command 'nonsense': expected one of run, train, bench, report"),
    ("run true", "expected a number of ranks (-n N) or hosts (--hosts a:4,b:4)"),
    ("run -n 2 --ssh x true", "--ssh is for ranks on several hosts; expected --hosts beside it"),
    ("run -n 3 --hosts a:2 true", "3 ranks for 2 slots of the hosts"),
    ("run --hosts a:x true", "'a:x' is no host; expected host:4 or [fd00::1]:4"),
    ("run --hosts a --ssh no-such-ssh true", "no such program: no-such-ssh, by which other hosts are reached"),
    ("run --hosts a --ssh ' true", "--ssh ': No closing quotation; expected a command in a shell's words"),
    ("run --hosts a:4000,b:97 true", "4097 ranks on the hosts; expected at most 4096, the most of a group"),
    ("doctor --hosts a --ssh false", "ringtree doctor: host a started no agent: the command exited with code 1"),
    ("tune --hosts a --ssh false", "--hosts a: expected 2 different hosts at least, such as --hosts a,b"),
    ("tune --hosts a,a:4 --ssh false", "--hosts a,a:4: expected 2 different hosts at least, such as --hosts a,b"),
    ("bench all_reduce --hosts a --ssh false", "--hosts a: expected 2 ranks at least, such as --hosts a:1,b:1"),
    ("bench all_reduce --hosts a:2 --ssh false", "ringtree bench: host a started no agent: the command exited with"),
    ("bench all_reduce --hosts a:2 --ssh false -d nothing", "ringtree bench: no datatype 'nothing': expected bool"),
    ("bench all_reduce --hosts a:2,b:2 -n 2,4", "-n 2,4 with --hosts: expected one number of ranks"),
    ("bench all_reduce --hosts a:2 -t", "-t/--threads with --hosts, whose ranks are processes; leave it out"),
    ("bench all_reduce --ssh false", "--ssh and --python are for ranks on several hosts; expected --hosts beside them"),
    ("doctor --hosts a --ssh false", "ringtree doctor: host a started no agent: the command exited with code 1"),
    (
        "tune --hosts a --device cuda",
        "--hosts measures ranks on CPUs and their network; expected no --device or --from",
    ),
    ("run --hosts localhost --env NO_SUCH_NAME true", "--env NO_SUCH_NAME: no variable of that name is set here"),
    ("run --hosts localhost", "no program to run"),
    ("show", "one of the arguments ALGORITHM|FILE --algorithm is required"),
    (
        "plan all_reduce --topology dgx-h100 --node 16",
        "ringtree plan: unrecognized arguments: --node 16; did you mean "
        "--nodes? (ringtree plan --help lists all options)",
    ),
    (
        "prove examples/own_algorithm.py",
        "ringtree prove: examples/own_algorithm.py is a file of functions: expected "
        "examples/own_algorithm.py:FUNCTION, one of there_and_back, there_and_half_back",
    ),
    ("show tests/effort.py", "tests/effort.py is a file of functions: expected tests/effort.py:FUNCTION"),
    ("show ring --bogus", "ringtree show: unrecognized arguments: --bogus (ringtree show --help lists all options)"),
    ("topo show dgx-h100 --soures", "--soures; did you mean --sources? (ringtree topo show --help lists"),
    ("--bogus info", "ringtree: unrecognized arguments: --bogus (ringtree --help lists all options)"),
    ("show nothing", "'nothing' is neither an algorithm nor a file: expected a file, or one of ring"),
    ("show ring -n 0", "over 0 ranks: expected at least 1"),
    ("plan all_reduce -n 300", "-n/--ranks 300: expected 1 to 256 ranks on this machine"),
    ("plan all_reduce -n 2 --hosts 2,2", "-n/--ranks does not apply to --hosts"),
    ("simulate ring -n 3 --hosts 2,2 --bytes 1K", "and -n/--ranks 3: expected the same"),
    ("sweep all_reduce --topology switch -n 0", "-n/--ranks 0: expected such as 64"),
    ("show ring -n two", "-n/--ranks: invalid int value: 'two'"),
    ("show ring --collective all_to_all", "ring does not serve all_to_all: expected one of one_shot"),
    ("show ring --collective nothing", "no collective 'nothing': expected one of all_reduce"),
    ("show ring --root 3", "all_reduce has no root: got root 3"),
    ("show chain --collective broadcast --root 8", "broadcast with root 8: expected a rank, 0..7"),
    ("show ring -n 4 --rank 4", "rank 4: expected one of the 4 ranks, 0..3"),
    ("show ring --bytes big", "'big' is not a size: expected a number of bytes"),
    ("show missing.xml", "missing.xml"),
    ("simulate ring --bytes 8 --topology trace:-", "-: standard input is not read"),
    ("topo show dgx-h100 --json -", "-: expected a file to write to, or /dev/stdout"),
    ("report -", "-: standard input is not read; expected the name of a file"),
    ("compare-trace LICENSE -", "-: standard input is not read; expected the name of a file"),
    ("topo show -", "-: standard input is not read; expected the name of a file"),
    ("explain -", "-: standard input is not read; expected the name of a file"),
    ("run --hosts - true", "-: standard input is not read; expected the name of a file"),
    ("plan all_reduce --topology -", "-: standard input is not read; expected the name of a file"),
    ("simulate ring --constants -", "-: standard input is not read; expected the name of a file"),
    ("topo detect --root -", "-: standard input is not read; expected the name of a file"),
    ("show split_tree --option group", "'group' is not an option: expected NAME=VALUE, such as group=4"),
    ("show split_tree --option group=x", "split_tree: group: got 'x'; expected a whole number"),
    ("show split_tree --option group=3", "groups of 3 do not divide 8 ranks"),
    ("show ring --option group=2", "ring all_reduce has no option 'group': it has none"),
    ("show chain --option pieces=4 --bytes 1M", "the cut for a size chooses pieces itself; leave it out"),
    ("prove all --option group=2", "options belong to a single algorithm; leave --option out"),
    ("prove ring -n 0", "0 ranks: expected 1 to 1048576"),
    ("prove ring -n 8-2", "expected 1 to 1048576, and from low to high"),
    ("prove ring -n 100000000", "expected 1 to 1048576"),
    ("prove ring -n x", "'x' is not a number of ranks: expected such as 8, 1-64 or 1,2,4"),
    ("prove ring --jobs 0", "--jobs 0: expected at least 1"),
    ("prove ring --most-transfers 0", "--most-transfers 0: expected at least 1"),
    ("prove ring --collective barrier", "ring does not serve barrier: expected one of one_shot"),
    ("prove all --collective nothing", "no collective 'nothing': expected one of all_reduce"),
    ("bench", "required: COLLECTIVE"),
    ("bench nothing", "no collective 'nothing': expected one of all_reduce"),
    ("bench all_reduce -n 0", "0 ranks: expected 1 to 1048576"),
    ("bench all_reduce -b big", "'big' is not a size: expected a number of bytes"),
    ("bench all_reduce -b 9000G -e 9000G", "arrays of 38654705664000 bytes for 2 ranks of this machine, and"),
    ("bench all_reduce -b 8 -e 4", "-e not below it"),
    ("bench all_reduce -f 1", "-f 1: expected a factor over 1"),
    ("plan all_reduce --topology \u202e.xml", "?.xml: no such file"),
    ("bench all_reduce -f 2 -i 8", "a factor or a step, not both"),
    ("bench all_reduce -d spam", "no datatype 'spam': expected bool, int8"),
    ("bench all_reduce -d float32_int32", "there is no table of exact complex numbers or pairs to check with"),
    ("bench all_reduce -o band", "band of float32 is not supported; expected one of sum"),
    ("bench all_reduce -d bool -o avg", "avg of bool is not supported"),
    ("bench scan -o avg", "scan has no avg"),
    ("bench all_reduce -o xor", "invalid choice: 'xor'"),
    ("bench broadcast -r 2 -n 2", "root 2: expected one of the 2 ranks, 0..1"),
    ("bench all_reduce --algorithm nothing", "no algorithm 'nothing': expected auto, all or one of ring"),
    ("bench all_reduce --algorithm flat", "flat does not serve all_reduce: expected auto, all or one of ring"),
    ("bench all_reduce --iters 99999999999999999999", "at least 1 timed call, each at most 1,000,000"),
    ("bench all_reduce -w 99999999999999999999", "at least 1 timed call, each at most 1,000,000"),
    ("bench all_reduce --iters 0", "--iters 0: expected a warm-up of at least 0 and at least 1 timed call"),
    ("bench all_reduce -g 8", "option -g is not supported: a rank is a process"),
    ("bench all_reduce -m 5", "option -m is not supported: every call is timed on its own"),
    ("bench all_reduce --json missing/rows.json", "no such folder to write to"),
    ("report", "required: BENCH.json"),
    ("report missing.json", "missing.json: no such file"),
    ("report LICENSE", "LICENSE: not JSON (Expecting value: line 2"),
    ("report benchmarks/all_reduce_2_ranks.json --html missing/page.html", "no such folder to write to"),
    ("report benchmarks/all_reduce_2_ranks.json --html docs", "is a folder; expected a file to write to"),
    ("bench all_reduce --trace missing/trace.json", "no such folder to write to"),
    ("run -n 2 --trace missing/trace.json true", "no such folder to write to"),
    ("run -n 2 --trace . true", "is a folder; expected a file to write to"),
    ("run -n 2 --trace /proc/trace.json true", "cannot be written: "),
    ("algorithms --collective nothing", "no collective 'nothing': expected one of all_reduce"),
    ("run -n 2", "no program to run; expected a Python file"),
    ("run -n 2 missing.py", "no such program: missing.py"),
    ("run -n 2 -m no_such_module", "no module 'no_such_module' to run"),
    ("bench all_reduce -f 0", "expected a factor over 1"),
    ("bench all_reduce -c 7", "invalid choice: 7"),
    ("bench all_reduce --json .", "is a folder; expected a file to write to"),
    ("run -n 0 missing.py", "-n/--ranks 0: expected at least 1"),
    ("run -n 0 --hosts localhost true", "-n/--ranks 0: expected at least 1"),
    ("topo", "required: COMMAND"),
    ("topo nothing", "invalid choice: 'nothing'"),
    ("topo show", "required: FILE|NAME"),
    ("topo show dgx-h10", "'dgx-h10' is neither a machine's name nor a file: nearest are dgx-h100"),
    ("topo show missing.xml", "missing.xml"),
    ("topo show LICENSE", "LICENSE: of no form that is known; expected a machine"),
    ("topo show dgx-h100 --gpus 9", "--gpus 9: dgx-h100 has 8"),
    ("topo show dgx-h100 --gpus \u0663", "expected a number of GPUs such as 4"),
    ("topo show dgx-h100 --nics \u0663x400Gb", "no count and rate; expected such as 8x400Gb"),
    ("topo show dgx-h100 --gpus 8,", "dgx-h100 has no GPU 8: expected 0..7"),
    ("topo show dgx-h100 --gpus ,", "expected a number of GPUs such as 4, or a list such as 0,1,4,5"),
    ("topo show dgx-h100 --gpus 1,1", "--gpus 1,1: expected GPUs that differ, such as 0,1,4,5"),
    ("topo show dgx-h100 --oversubscription 4", "--oversubscription: one node has no network to others; expected"),
    ("plan all_reduce --topology dgx-h100 --oversubscription 4", "--oversubscription: one node has no network"),
    ("plan all_reduce --topology dgx-h100 --network torus", "--network: one node has no network to others"),
    ("plan all_reduce --topology dgx-h100 --sharp", "--sharp: one node has no network to others"),
    ("plan all_reduce --topology dgx-h100 --nodes 2 --network torus --sharp", "expected no SHARP on a torus"),
    (
        "plan all_reduce --topology dgx-h100 --nodes 2 --fabric tcp --sharp",
        "dgx-h100 x2: SHARP over tcp, where no switch reduces; expected infiniband",
    ),
    ("topo show aws-p5 --nodes 2 --sharp", "aws-p5 x2: SHARP over efa, where no switch reduces; expected infiniband"),
    ("sweep all_reduce --topology dgx-h100 -n 8 --network torus", "--network: one node has no network to others"),
    ("sweep all_reduce --topology dgx-h100 --nodes 2 --sharp", "--sharp: no schedule that is priced here reduces"),
    (
        "sweep all_reduce --topology cpu-2s -n 1",
        "cpu-2s: 1 of 2 CPUs; expected a multiple of 2 ranks, one for each CPU",
    ),
    ("simulate ring -n 1 --topology cpu-2s --bytes 1M", "cpu-2s: 1 of 2 CPUs; expected a multiple of 2 ranks"),
    ("topo show dgx-h100 --gpus 0,9", "dgx-h100 has no GPU 9: expected 0..7"),
    ("topo show dgx-h100 --nodes 0", "--nodes 0: expected 1 to"),
    ("topo show dgx-h100 --nodes 2 --fabric string", "--fabric string: expected one of infiniband"),
    ("topo show dgx-h100 --json missing/machine.json", "no such folder to write to"),
    ("topo show dgx-h100 --xml docs", "is a folder; expected a file to write to"),
    ("topo show dgx-h100 --json m --xml m", "m is read or written by this command already"),
    ("topo show dgx-h100 --copies 0,9", "--copies 0,9: expected two of the 8 GPUs of dgx-h100, as 0,1"),
    ("topo show cpu-2s --copies 0,1", "--copies 0,1: expected two of the 0 GPUs"),
    ("topo detect --root missing", "--root missing: no such folder"),
]


@pytest.mark.parametrize(("words", "expected"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_is_one_line(ringtree: Ringtree, words: str, expected: str) -> None:
    got = ringtree(*words.split())
    assert got.code in (1, 2)
    assert expected in got.err and "internal error" not in got.err
    assert len(got.err.splitlines()) == 1
    assert got.out == ""


def test_a_file_that_is_no_schedule_is_refused(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader\n")
    for command in ("show", "prove"):
        got = ringtree(command, str(path))
        assert got.code == 1 and "not a schedule" in got.err and len(got.err.splitlines()) == 1


def test_a_traceback_is_printed_on_request(ringtree: Ringtree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_DEBUG", "trace")
    with pytest.raises(ValueError, match="expected at least 1"):
        ringtree("show", "ring", "-n", "0")


def test_no_command_is_answered_with_help(ringtree: Ringtree) -> None:
    got = ringtree()
    assert got.code == 2 and "prove" in got.err


def test_a_character_that_an_encoding_lacks_is_a_question_mark() -> None:
    command = [sys.executable, "-m", "ringtree.cli", "show", "ring", "-n", "2", "--rounds"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and "ring all_reduce: 2 ranks" in done.stdout and not done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"{sys.executable} -m ringtree.cli show ring -n 64 --rank 0 | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith("program ring") and done.stderr == ""
