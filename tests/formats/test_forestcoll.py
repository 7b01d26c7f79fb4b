"""ForestColl's trees: a forest is an all_gather that proves, a broken one is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringtree.formats import FormatError, load
from ringtree.verify import ProofError, prove


def tree(root: str, sends: list[str], nchunks: int = 1, index: int = 0) -> str:
    lines = [f'<send src="{a}" dst="{b}" path="{a},switch,{b}"/>' for a, b in (send.split(">") for send in sends)]
    return f'<tree root="{root}" index="{index}" nchunks="{nchunks}" height="1">{"".join(lines)}</tree>'


def forest(*trees: str, pieces: int = 1) -> str:
    return f'<Algo nchunkspernode="{pieces}">\n  {"".join(trees)}\n</Algo>\n'


THREE = [tree("g0", ["g0>g1", "g1>g10"]), tree("g1", ["g1>g0", "g1>g10"]), tree("g10", ["g10>g0", "g0>g1"])]


def test_a_forest_is_an_all_gather(tmp_path: Path) -> None:
    path = tmp_path / "forest.xml"
    path.write_text(forest(*THREE))
    found = load(path)
    s = found.schedule
    assert (s.name, s.collective, s.ranks, s.chunks, s.rounds, s.transfers) == ("forest", "all_gather", 3, 3, 2, 6)
    assert found.facts == {"format": "ForestColl trees", "trees": 3, "chunks per rank": 1}
    prove(s)
    last = s.expand()
    assert (last.source[-1], last.target[-1]) == (0, 1)  # g10 is rank 2: the numbers in names are numbers


def test_trees_of_a_root_share_its_chunks(tmp_path: Path) -> None:
    path = tmp_path / "forest.xml"
    two = [tree("a", ["a>b"], 2), tree("a", ["a>b"], 1, 1), tree("b", ["b>a"], 3)]
    path.write_text('<?xml version="1.0" ?>\n<!-- of a\nbox --> ' + forest(*two, pieces=3))
    s = load(path).schedule
    assert s.chunks == 6 and s.expand().count.tolist() == [2, 1, 3]
    prove(s)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (forest(), "0 roots"),
        (forest(*THREE, tree("g0", [])), "have more than 1 chunks"),
        (forest(*THREE, pieces=2), "the trees of g0 have 1 chunks; expected 2 in all"),
        (forest(tree("g0", ["g0>g9"])), "g9 is no root"),
        (forest(tree("g0", ["g1>g0"]), tree("g1", [])), "g1 sends what it does not have"),
        (forest(tree("g0", ["g0>g1", "g0>g1"]), tree("g1", [])), "g1 receives a second time"),
        ('<Algo nchunkspernode="0"/>', "whole number of 1"),
        ("<Algo/>", "lacks the attribute nchunkspernode"),
        ("<Algo", "not well-formed"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><Algo/>', "document type|entity"),
    ],
)
def test_broken_forests_are_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "forest.xml"
    path.write_text(text)
    with pytest.raises(FormatError, match=message) as error:
        load(path)
    assert "\n" not in str(error.value)


def test_a_forest_that_leaves_a_rank_out_is_not_proved(tmp_path: Path) -> None:
    path = tmp_path / "forest.xml"
    path.write_text(forest(*THREE[:2], tree("g10", ["g10>g0"])))
    with pytest.raises(ProofError, match="rank 1 chunk 2"):
        prove(load(path).schedule)
