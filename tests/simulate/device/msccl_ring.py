"""An MSCCL program that is written here: all_gather round a ring, each chunk on a channel of its own number."""

from __future__ import annotations

from pathlib import Path


def all_gather_ring(ranks: int, channels: int, instances: int = 1, protocol: str = "Simple") -> str:
    """The program's XML. Each rank's block is cut for as many `instances`; part i of rank r's travels on channel
    r % channels of instance i, whose thread blocks receive a part and then send it on."""
    chunks = ranks * instances
    lines = [
        f'<algo name="ring_{channels}_{instances}" proto="{protocol}" nchannels="{channels * instances}" '
        f'nchunksperloop="{chunks}" ngpus="{ranks}" coll="allgather" inplace="1" outofplace="0" minBytes="0" '
        'maxBytes="0">'
    ]
    for rank in range(ranks):
        lines.append(f'<gpu id="{rank}" i_chunks="0" o_chunks="{chunks}" s_chunks="0">')
        for block in range(instances * channels):
            instance, channel = divmod(block, channels)
            lines += _thread_block(ranks, rank, block, [
                (hop, ((rank - hop) % ranks) * instances + instance)
                for hop in range(ranks)
                if (rank - hop) % ranks % channels == channel
            ])  # fmt: skip
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])


def _thread_block(ranks: int, rank: int, block: int, carried: list[tuple[int, int]]) -> list[str]:
    """The thread block that carries those chunks: (hops that it has behind it, chunk)."""
    steps = [(kind, chunk) for hop, chunk in carried for kind in ("r" * (hop > 0) + "s" * (hop < ranks - 1))]
    kinds = {kind for kind, _ in steps}
    send = (rank + 1) % ranks if "s" in kinds else -1
    receive = (rank - 1) % ranks if "r" in kinds else -1
    return [
        f'<tb id="{block}" send="{send}" recv="{receive}" chan="{block}">',
        *(
            f'<step s="{number}" type="{kind}" srcbuf="o" srcoff="{chunk}" dstbuf="o" dstoff="{chunk}" cnt="1" '
            'depid="-1" deps="-1" hasdep="0"/>'
            for number, (kind, chunk) in enumerate(steps)
        ),
        "</tb>",
    ]


def written(folder: Path, ranks: int, channels: int, instances: int = 1, protocol: str = "Simple") -> Path:
    """A file of the program."""
    path = folder / f"ring_{protocol}_{channels}_{instances}.xml"
    path.write_text(all_gather_ring(ranks, channels, instances, protocol))
    return path
