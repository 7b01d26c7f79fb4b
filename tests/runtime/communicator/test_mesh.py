"""Groups as grids with named axes."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.mesh import Mesh
from tests.runtime.conftest import Pools


def grid(comm: Communicator) -> None:
    me = comm.rank
    mesh = comm.mesh(dp=2, tp=3)
    assert mesh.shape == {"dp": 2, "tp": 3}
    assert mesh.coordinates == {"dp": me // 3, "tp": me % 3}
    assert mesh.tp is mesh["tp"]
    assert mesh.tp.ranks == tuple(range(me // 3 * 3, me // 3 * 3 + 3))
    assert mesh.dp.ranks == (me % 3, me % 3 + 3)
    assert mesh.tp.all_gather(me).tolist() == list(mesh.tp.ranks)
    assert mesh.dp.all_reduce(me) == 2 * (me % 3) + 3
    assert mesh["dp", "tp"].ranks == tuple(range(6))
    assert mesh["dp", "tp"] is mesh["dp", "tp"]
    assert mesh["tp", "dp"].ranks == (0, 3, 1, 4, 2, 5)
    mesh.close()


def nested(comm: Communicator) -> None:
    """Hierarchical parallelism: a grid of a part, and an all_reduce along one axis and then the other."""
    half = comm.split(comm.rank // 4, -comm.rank)
    if half is None or half.size < 4:
        comm.barrier()
        return
    mesh = half.mesh(a=2, b=-1, c=1)
    assert mesh.shape == {"a": 2, "b": 2, "c": 1}
    assert mesh.b.ranks == ((3, 2) if comm.rank > 1 else (1, 0))
    assert mesh.c.ranks == (comm.rank,)
    assert mesh.a.all_reduce(mesh.b.all_reduce(np.full(3, comm.rank))).tolist() == [6, 6, 6]
    assert mesh["a", "c"].size == 2
    comm.barrier()


def outlived(comm: Communicator) -> None:
    """Axes, and products made before, outlive the group; a product that is asked for later cannot be made."""
    parent = comm.duplicate()
    mesh = parent.mesh(a=2, b=3)
    before = mesh["a", "b"]
    parent.close()
    assert mesh.a.all_reduce(1) == 2
    assert mesh["a", "b"] is before and before.all_reduce(1) == 6
    with pytest.raises(RuntimeError) as refusal:
        _ = mesh["b", "a"]
    assert str(refusal.value) == (
        f"mesh[b x a]: this communicator (rank {comm.rank} of 6) is closed; expected the mesh's group open at a "
        "product's first use: ask for it before you close the group"
    )
    mesh.close()


def odd_names(comm: Communicator) -> None:
    """Axes named as arguments and attributes are."""
    mesh = comm.mesh(self=2, axes=1, shape=3)
    assert mesh.shape == {"self": 2, "axes": 1, "shape": 3}
    assert mesh.self.all_reduce(1) == 2
    assert mesh.axes.size == 1
    assert mesh["shape"].all_reduce(1) == 3
    mesh.close()


@pytest.mark.parametrize("act", [grid, nested, outlived, odd_names])
def test_a_mesh(pools: Pools, engine: str, act: object) -> None:
    pools(engine, 6).run(act)  # type: ignore[arg-type]


BAD = {
    "dp=2, tp=3": "mesh(dp=2, tp=3): 2 * 3 = 6 ranks; this group has 8",
    "dp=-1, tp=3": "mesh(dp=-1, tp=3): 8 ranks are no multiple of 3 = 3",
    "dp=-1, tp=-1": "mesh(dp=-1, tp=-1): expected axes with lengths of at least 1, of which one may be -1",
    "dp=0, tp=8": "mesh(dp=0, tp=8): expected axes with lengths of at least 1",
    "": "mesh(): expected axes",
}


@pytest.mark.parametrize("axes", BAD)
def test_axes_that_do_not_fit(axes: str) -> None:
    lengths = {name: int(length) for name, _, length in (axis.partition("=") for axis in axes.split(", ") if axis)}
    with pytest.raises(ValueError) as caught:
        Mesh(lengths, 0, 8, lambda *_: pytest.fail("nobody meets"))
    assert str(caught.value).startswith(BAD[axes])


def test_axes_that_there_are_not() -> None:
    mesh = Mesh({"dp": 2, "tp": 4}, 5, 8, lambda ranks, name: (tuple(ranks), name))  # type: ignore[arg-type,return-value]
    assert mesh.tp == ((4, 5, 6, 7), "tp.4")
    assert repr(mesh) == "<Mesh dp=2, tp=4, this rank at dp=1, tp=1>"
    with pytest.raises(AttributeError, match="a mesh of dp=2, tp=4 has no 'pp'"):
        _ = mesh.pp
    for axes in ("pp", ("dp", "pp"), ("dp", "dp"), ()):
        with pytest.raises(KeyError, match="in a mesh of dp=2, tp=4; expected some of these, once each"):
            _ = mesh[axes]
    odd = Mesh({"shape": 2, "_x": 4}, 5, 8, lambda ranks, name: (tuple(ranks), name))  # type: ignore[arg-type,return-value]
    assert odd.shape == {"shape": 2, "_x": 4}
    assert odd["shape"] == ((1, 5), "shape.1")
    assert odd._x == ((4, 5, 6, 7), "_x.4")
    with pytest.raises(TypeError, match="axes are an int; expected a name, or several in a tuple"):
        _ = mesh[0]  # type: ignore[index]
