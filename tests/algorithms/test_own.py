"""A user's own algorithms: registered, in files, in packages; each mistake is one line that names its place."""

from __future__ import annotations

import runpy
import sys
from functools import partial
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

from ringtree import algorithms
from ringtree.algorithms import REGISTRY, build, cost, find, own, register, registry, serving
from ringtree.algorithms.cost import S, n
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.plan import order, prove_own
from ringtree.plan.growth import closed, linear, transfers
from ringtree.verify import ProofError, ReductionOrder, prove
from tests.algorithms.own_files import ZIGZAG, install, write


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_own", {})


def relay(ranks: int, root: int) -> Schedule:
    """Relay: from rank to rank.

    Once round.
    """
    hop = list(range(ranks - 1))
    rows = Transfers.of([(root + k) % ranks for k in hop], [(root + k + 1) % ranks for k in hop], round=hop)
    return Schedule("?", "broadcast", ranks, 1, (Block(rows),) if ranks > 1 else (), root)


def test_a_function_is_registered() -> None:
    assert register(relay) is relay
    found = find("relay")
    assert (found.name, found.serves, found.origin) == ("relay", ("broadcast",), "test_own.py")
    assert (found.summary, found.about) == ("Relay: from rank to rank.", ("Once round.",))
    schedule = build("relay", "broadcast", 5, 2)
    assert (schedule.name, schedule.root) == ("relay", 2)
    prove(schedule)
    assert register(relay) is relay  # a second time changes nothing


def test_an_own_algorithm_runs_only_by_its_name() -> None:
    register(relay)
    assert "relay" not in serving("broadcast") and "relay" not in REGISTRY
    with pytest.raises(ValueError, match=r"no algorithm 'rely': expected one of ring, .*, relay, or FILE\.py:FUNCTION"):
        find("rely")


def test_an_unstated_cost_is_counted() -> None:
    register(relay)
    counted = find("relay").costs["broadcast"]
    assert counted.evaluate(9, 64.0) == (8.0, 64.0) and str(counted.sent) == "not stated" and not counted.pipelines
    register(cost(n - 1, S, pipelines=True)(partial(relay)), "stated")
    stated = find("stated").costs["broadcast"]
    assert (str(stated.rounds), str(stated.sent), stated.pipelines) == ("n-1", "S", True)


def test_a_module_is_registered_with_all_that_it_serves() -> None:
    module = ModuleType("pair", "Pair: two in one.")
    module.broadcast, module.all_reduce = relay, algorithms.REGISTRY["ring"].functions["all_reduce"]  # type: ignore[attr-defined]
    register(module)
    assert find("pair").serves == ("all_reduce", "broadcast")
    assert build("pair", "all_reduce", 4).name == "pair"
    with pytest.raises(ValueError, match="nothing serves nothing; expected functions named like collectives"):
        register(ModuleType("nothing"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ring", r"test_own\.py: ringtree has an algorithm 'ring'; expected another name"),
        ("all", r"'all' cannot be an algorithm's name; expected a word"),
        ("my.own", r"'my\.own' cannot be an algorithm's name"),
        ("taken", r"'taken' is registered, from test_own\.py; expected another name"),
    ],
)
def test_names_that_clash_are_refused(name: str, expected: str) -> None:
    register(lambda ranks: build("ring", "all_reduce", ranks), "taken")
    with pytest.raises(ValueError, match=expected):
        register(relay, name)


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(ValueError, match=r"'<lambda>' cannot be an algorithm's name"):
        register(lambda ranks: build("ring", "all_reduce", ranks))
    with pytest.raises(TypeError, match=r"5 is no algorithm; expected a function or a module"):
        register(5, "five")  # type: ignore[type-var]


def test_a_file_is_found_by_its_name_and_a_functions(tmp_path: Path) -> None:
    path = write(tmp_path)
    schedule = build(f"{path}:zigzag", "broadcast", 5, 0)
    assert schedule.name == "zigzag" == find("zigzag").name and find(f"{path}:zigzag") is find("zigzag")
    assert schedule.expand().target.tolist() == [4, 1, 3, 2]
    assert find(f"{path}:star").origin == path
    assert build(f"{path}:zigzag", "broadcast", 5, 0, back=1) == schedule
    with pytest.raises(ValueError, match="zigzag broadcast has no option 'forth': expected one of back"):
        build(f"{path}:zigzag", "broadcast", 5, 0, forth=1)


def test_a_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert find("mine.py:star") is find("./mine.py:star") is find(own.absolute("mine.py:star"))
    assert own.absolute("mine.py:star") == f"{tmp_path}/mine.py:star"


def test_a_file_imports_from_its_own_folder(tmp_path: Path) -> None:
    write(tmp_path, "HOPS = 3\n", "beside_it.py")
    path = write(tmp_path, "import beside_it\n" + ZIGZAG, "other.py")
    before = list(sys.path)
    assert find(f"{path}:star").serves == ("all_reduce",) and sys.path == before


def test_a_file_that_registers_by_itself_is_loaded_once(tmp_path: Path) -> None:
    text = "from ringtree.algorithms import register\n" + ZIGZAG.replace("def star", "@register\ndef star")
    path = write(tmp_path, text)
    found: list[Any] = []
    threads = [Thread(target=lambda: found.append(find(f"{path}:star"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(one is found[0] for one in found)


def test_a_program_that_registers_is_its_own_file_too(tmp_path: Path) -> None:
    """`ringtree run --algorithm mine.py:star mine.py` executes it twice."""
    path = write(tmp_path)
    program = runpy.run_path(path)
    register(program["star"])
    assert find(f"{path}:star") is find("star")
    other = write(tmp_path, ZIGZAG.replace("rank, 0, reduce", "rank, 0, 0, reduce"), "other.py")
    with pytest.raises(ValueError, match=r"other\.py: 'star' is registered, from mine\.py; expected another name"):
        find(f"{other}:star")


def test_functions_that_close_over_other_values_are_others() -> None:
    def over(name: str) -> Any:
        return lambda ranks: build(name, "all_reduce", ranks)

    register(over("ring"), "one")
    with pytest.raises(ValueError, match=r"'one' is registered"):
        register(over("swing"), "one")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("stra", "FILE:stra: FILE has no function 'stra'; expected one of zigzag, star, forgetful, powers,"),
        ("number", "FILE has no function 'number'; expected one of zigzag"),
        ("Thing", "FILE has no function 'Thing'; expected one of zigzag"),
        ("", "FILE has no function ''; expected one of zigzag"),
        ("deaf", "FILE: deaf over 4 ranks returns a list; expected a ringtree.ir.schedule.Schedule"),
        ("silent", "FILE: silent over 4 ranks returns None; expected a ringtree.ir.schedule.Schedule"),
        ("broken", "FILE: broken makes no schedule over any of 13 numbers of ranks; over 4: ZeroDivisionError: "
            "integer division or modulo by zero (line 45)"),
        ("many", "FILE: many takes 3 arguments; expected (ranks), or (ranks, root)"),
        ("rootless", "FILE: rootless is for broadcast; expected a function of (ranks, root)"),
        ("rooted", "FILE: rooted is for all_reduce; expected a function of (ranks)"),
    ],
)  # fmt: skip
def test_a_wrong_algorithm_is_refused_in_a_line(tmp_path: Path, function: str, expected: str) -> None:
    path = write(tmp_path)
    with pytest.raises(ValueError) as refusal:
        find(f"{path}:{function}")
    assert expected.replace("FILE", path) in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def star(ranks:\n    pass\n", "mine.py: line 1: "),
        ("\nimport no_such_module\n", "mine.py: ModuleNotFoundError: No module named 'no_such_module' (line 2)"),
        ("raise SystemExit(3)\n", "mine.py: SystemExit: 3 (line 1)"),
        ("# nothing\n", "mine.py has no function 'star'; it defines no function at all"),
    ],
)
def test_so_is_a_file_that_cannot_be_loaded(tmp_path: Path, text: str, expected: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ValueError) as refusal:
        find(f"{path}:star")
    assert expected in str(refusal.value)


def test_so_is_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no\.py:star: no file .*/no\.py; expected FILE\.py:FUNCTION"):
        find(f"{tmp_path}/no.py:star")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("ranks, 1, Transfers.of([0], [1])", "odd over 4 ranks has Transfers as its blocks; expected a tuple of"),
        ("ranks, 1, Block(Transfers.of([0], [1]))", "odd over 4 ranks has Block as its blocks; expected a tuple of"),
        ("ranks, 1, (Block([0]),)", "odd over 4 ranks has list as the rows of a block; expected ringtree.ir."),
        ("ranks, ranks / 2, ()", "odd over 4 ranks has chunks 2.0; expected a whole number"),
        ("ranks, 1, (Block(Transfers.of(0, 1), 1.5),)", "odd over 4 ranks has times 1.5; expected a whole number"),
        ("ranks, 1, (), None, None", "odd over 4 ranks has scratch None; expected a whole number"),
    ],
)
def test_fields_of_another_type_are_refused(tmp_path: Path, fields: str, expected: str) -> None:
    path = write(tmp_path, ZIGZAG + f"\n\ndef odd(ranks):\n    return Schedule('odd', 'all_reduce', {fields})\n")
    with pytest.raises(ValueError) as refusal:
        find(f"{path}:odd")
    assert f"{path}: {expected}" in str(refusal.value)


def test_numbers_of_numpy_become_pythons(tmp_path: Path) -> None:
    text = f"from dataclasses import replace\n{ZIGZAG}\n\ndef counted(ranks):\n"
    text += "    return replace(star(ranks), chunks=np.arange(ranks).max() + 1)\n"
    made = build(f"{write(tmp_path, text)}:counted", "all_reduce", 4)
    assert (made.chunks, type(made.chunks)) == (4, int)


def test_what_has_no_name_takes_that_of_its_reference(tmp_path: Path) -> None:
    text = f"{ZIGZAG}\n\nshort = lambda ranks: star(ranks)\n\n\n"
    text += "class Maker:\n    def __call__(self, ranks):\n        return star(ranks)\n\n\nmade = Maker()\n"
    path = write(tmp_path, text)
    for name in ("short", "made"):
        assert build(f"{path}:{name}", "all_reduce", 4).name == name == find(f"{path}:{name}").name


@pytest.mark.parametrize("head", ["", "from __future__ import annotations\n"])
def test_options_that_are_whole_numbers_are_refused_others(tmp_path: Path, head: str) -> None:
    text = head + ZIGZAG.partition('"""Mine."""')[2]
    with pytest.raises(TypeError, match=r"back: got 0\.5; expected a whole number"):
        build(f"{write(tmp_path, text)}:zigzag", "broadcast", 5, 0, back=0.5)


def test_a_coroutine_is_refused_without_a_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    path = write(tmp_path, ZIGZAG + "\n\nasync def late(ranks):\n    return star(ranks)\n")
    with pytest.raises(ValueError, match="late over 4 ranks returns a coroutine; expected"):
        find(f"{path}:late")
    assert not recwarn.list


def test_an_exit_is_refused_as_any_exception_is(tmp_path: Path) -> None:
    """Its code would be the command's: 0 for a schedule that was never made."""
    text = ZIGZAG + "\n\ndef leaves(ranks):\n    raise SystemExit(0)\n"
    text += "\n\ndef leaves_later(ranks):\n    return star(ranks) if ranks < 5 else leaves(ranks)\n"
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=r"leaves makes no schedule .*; over 4: SystemExit: 0 \(line 72\)"):
        find(f"{path}:leaves")
    with pytest.raises(ValueError, match=r"leaves_later all_reduce over 5 ranks: SystemExit: 0 \(line 72\)"):
        build(f"{path}:leaves_later", "all_reduce", 5)


def test_so_is_that_of_a_package(site: Path) -> None:
    install(site, "leaving_trees", "raise SystemExit(0)\n", leaving="leaving_trees:star")
    with pytest.raises(ValueError, match="leaving_trees:star cannot be loaded: SystemExit: 0"):
        find("leaving")


def test_an_algorithm_for_some_numbers_of_ranks_names_them(tmp_path: Path) -> None:
    name = f"{write(tmp_path)}:powers"
    assert build(name, "all_reduce", 16).ranks == 16
    with pytest.raises(ValueError, match=r"mine\.py: powers all_reduce over 6 ranks: only powers of two \(line 32\)"):
        build(name, "all_reduce", 6)
    with pytest.raises(ValueError, match=r"powers does not serve reduce: expected all_reduce, which .*mine\.py has"):
        build(name, "reduce", 4)
    other = f"{write(tmp_path)}:of_other_ranks"
    with pytest.raises(ValueError, match="of_other_ranks made a schedule of all_reduce over 2 ranks; expected all_red"):
        build(other, "all_reduce", 4)


def test_a_wrong_one_is_refused_with_rank_chunk_and_reason(tmp_path: Path) -> None:
    path = write(tmp_path)
    prove_own(f"{path}:star", "all_reduce", 6)
    with pytest.raises(ProofError, match="forgetful all_reduce over 4 ranks: rank 3 chunk 0: expected the sum"):
        prove_own(f"{path}:forgetful", "all_reduce", 4)


def test_properties_of_schedules_hold_for_own_algorithms(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert order(f"{path}:star", "all_reduce") is ReductionOrder.FOLD
    assert order(f"{path}:forgetful", "all_reduce") is ReductionOrder.ANY  # it is wrong wherever one looks
    assert linear(f"{path}:star", "all_reduce") and transfers(f"{path}:star", "all_reduce", 1000) == 1998
    assert closed(f"{path}:powers", "all_reduce") is None
    register(lambda ranks: build("ring", "all_reduce", ranks), "round")
    assert closed("round", "all_reduce") is closed("ring", "all_reduce")
    assert transfers("round", "all_reduce", 1024) == pytest.approx(2 * 1024 * 1023, rel=0.2)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that packages are installed in."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_packages_entry_points_are_found_by_name(site: Path) -> None:
    both = "\nbroadcast, all_reduce = zigzag, star\nSOURCE = 'Nobody: Nothing, 2026'\n"
    install(site, "its_trees", ZIGZAG + both, its_star="its_trees:star", its_two="its_trees")
    assert build("its_star", "all_reduce", 4).name == "its_star"
    assert find("its_star").origin == "package its_trees" and "its_star" not in serving("all_reduce")
    assert find("its_two").serves == ("all_reduce", "broadcast") and find("its_two").source == "Nobody: Nothing, 2026"
    with pytest.raises(ValueError, match=r", its_star, its_two, or FILE\.py:FUNCTION"):
        find("its_tsar")


def test_an_entry_point_that_is_wrong_names_its_package(site: Path) -> None:
    install(site, "gone_trees", ZIGZAG, gone="gone_trees:nothing", deaf="gone_trees:deaf")
    with pytest.raises(ValueError, match="package gone_trees: gone_trees:nothing cannot be loaded: AttributeError"):
        find("gone")
    with pytest.raises(ValueError, match="package gone_trees: deaf over 4 ranks returns a list"):
        find("deaf")


def test_two_packages_with_one_name_are_refused(site: Path) -> None:
    install(site, "first_trees", ZIGZAG, shared="first_trees:star")
    install(site, "second_trees", ZIGZAG, shared="second_trees:star")
    with pytest.raises(ValueError, match=r"packages \w+_trees and \w+_trees both have an algorithm 'shared'"):
        find("shared")


def test_ringtrees_own_come_before_a_packages(site: Path) -> None:
    install(site, "ring_trees", ZIGZAG, ring="ring_trees:star")
    assert find("ring") is REGISTRY["ring"]
