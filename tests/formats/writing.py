"""Writes small MSCCL programs for tests: a step is a line such as `rrcs i0 i0 x2 after 1.0`."""

from __future__ import annotations

from pathlib import Path

Block = tuple[int, int, list[str]]
"""(the peer sent to, the peer received from, steps); its channel is 0."""


def algo(gpus: list[list[Block]], chunks: int, coll: str = "allreduce", inplace: int = 1, scratch: int = 0) -> str:
    """The XML of a program; gpus[r] are the thread blocks of gpu r."""
    n = len(gpus)
    own = chunks // n
    i, o = {"allgather": (own, chunks), "reducescatter": (chunks, own)}.get(coll, (chunks, chunks))
    lines = [
        f'<algo name="test" proto="Simple" nchannels="1" nchunksperloop="{chunks}" ngpus="{n}" coll="{coll}" '
        f'inplace="{inplace}">'
    ]
    for rank, blocks in enumerate(gpus):
        lines.append(f'<gpu id="{rank}" i_chunks="{i}" o_chunks="{o}" s_chunks="{scratch}">')
        awaited = {_announced(blocks, *map(int, w.split(".")[:2])) for _, _, steps in blocks for w in _waits(steps)}
        for number, (send, recv, steps) in enumerate(blocks):
            lines.append(f'<tb id="{number}" send="{send}" recv="{recv}" chan="0">')
            lines += [_step(s, text, (number, s) in awaited) for s, text in enumerate(steps)]
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])


def _waits(steps: list[str]) -> list[str]:
    return [words[words.index("after") + 1] for words in map(str.split, steps) if "after" in words]


def _announced(blocks: list[Block], block: int, step: int) -> tuple[int, int]:
    """The step that ends the wait for that one: a nop announces nothing."""
    steps = blocks[block][2]
    return block, next((k for k in range(step, len(steps)) if not steps[k].startswith("nop")), -1)


def _step(number: int, text: str, is_awaited: bool) -> str:
    words = text.split()
    kind = words[0]
    source, target, *rest = ["i0", "i0", *words[1:]] if kind == "nop" else words[1:]
    count = next((r[1:] for r in rest if r[0] == "x"), "1")
    block, before = rest[rest.index("after") + 1].split(".") if "after" in rest else ("-1", "-1")
    return (
        f'<step s="{number}" type="{kind}" srcbuf="{source[0]}" srcoff="{source[1:]}" dstbuf="{target[0]}" '
        f'dstoff="{target[1:]}" cnt="{count}" depid="{block}" deps="{before}" hasdep="{int(is_awaited)}"/>'
    )


def ring(n: int) -> str:
    """All-reduce over a ring as MSCCL's compiler fuses it: sums are sent on without being stored."""
    gpus: list[list[Block]] = []
    for r in range(n):
        at = [(r - 1 - k) % n for k in range(2 * n - 1)]
        steps = [f"s i{at[0]} i{at[0]}"]
        steps += [f"rrs i{c} i{c}" for c in at[1 : n - 1]]
        steps += [f"rrcs i{at[n - 1]} i{at[n - 1]}"]
        steps += [f"rcs i{c} i{c}" for c in at[n : 2 * n - 2]]
        steps += [f"r i{at[2 * n - 2]} i{at[2 * n - 2]}"]
        gpus.append([((r + 1) % n, (r - 1) % n, steps)])
    return algo(gpus, n)


def write(folder: Path, text: str, name: str = "test.xml") -> Path:
    path = folder / name
    path.write_text(text)
    return path
