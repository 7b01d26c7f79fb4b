"""Writes small MSCCL++ plans for tests: an operation is a line such as `respkt i0 s0 > i0 1.s2`.

Buffers are i, o and s, with an index and `:size`; `1.s2` is gpu 1's, `all.s2` that of all gpus by a switch channel.
`signal 1` is on a thread block's memory channel to gpu 1, `signal 1p` on its port channel; `put i0 > 1.i0 on 1p` is a
put by that. `sem_acquire 0` and `barrier 0 2` name a semaphore, and a barrier of two thread blocks. `/2.1` at the end
makes the thread block number 1 of a group of 2. A list is a pipeline: its bytes, its chunks, then its operations.
"""

from __future__ import annotations

import json
from typing import Any

Line = str | list[Any]


class _Block:
    def __init__(self, number: int, gpu: dict[str, Any]) -> None:
        self.number, self.gpu = number, gpu
        self.ids: dict[str, list[int]] = {"memory": [], "port": [], "switch": []}
        self.refs: dict[str, list[int]] = {"memory": [], "port": []}
        self.peers: dict[str, list[int]] = {"memory": [], "port": []}

    def channel(self, word: str) -> tuple[str, int]:
        """The type of `1p`'s channel, and its place in the block's list."""
        kind, peer = ("port", int(word[:-1])) if word.endswith("p") else ("memory", int(word))
        if peer not in self.peers[kind]:
            self.peers[kind].append(peer)
            self.ids[kind].append(len(self.gpu[kind]))
            self.gpu[kind].append(peer)
        return kind, self.peers[kind].index(peer)

    def buffer(self, word: str, kind: str) -> dict[str, Any]:
        owner, _, place = word.rpartition(".")
        index, _, size = place[1:].partition(":")
        span = {"index": int(index), "size": int(size or 1)}
        if owner == "all":
            self.ids["switch"] = [0]
            return {"switch_channel_id": 0, **span}
        if not owner:
            return {"type": place[0], **span}
        remote = {"rank": int(owner), "type": place[0], "access_channel_types": ["memory", "port"]}
        if remote not in self.gpu["remote"]:
            self.gpu["remote"].append(remote)
        number = self.gpu["remote"].index(remote)
        if number not in self.refs[kind]:
            self.refs[kind].append(number)
        return {"buffer_id": self.refs[kind].index(number), **span}

    def op(self, line: Line) -> dict[str, Any]:
        if isinstance(line, list):
            nbytes, chunks, *lines = line
            context = {"unit_size": nbytes, "num_chunks": chunks}
            return {"name": "pipeline", "iter_context": context, "ops": [self.op(each) for each in lines]}
        words = line.split()
        found: dict[str, Any] = {"name": words[0]}
        if words[-1].startswith("/"):
            size, place = words.pop()[1:].split(".")
            found["tbg_info"] = {"tb_id": int(place), "tbg_size": int(size)}
        if words[0].startswith("sem"):
            return {**found, "semaphore_ids": [int(w) for w in words[1:]]}
        if words[0] == "barrier":
            return {**found, "barrier_id": int(words[1]), "num_threadblocks": int(words[2])}
        if ">" not in words:
            channels = [self.channel(w) for w in words[1:]]
            return {
                **found,
                **({"channel_type": channels[0][0], "channel_ids": [c for _, c in channels]} if channels else {}),
            }
        kind = "memory"
        if "on" in words:
            kind, number = self.channel(words.pop())
            words.pop()
            found["channel_ids"] = [number]
        at = words.index(">")
        found["src_buff"] = [self.buffer(w, kind) for w in words[1:at]]
        found["dst_buff"] = [self.buffer(w, kind) for w in words[at + 1 :]]
        found["channel_type"] = "switch" if "all." in line else kind
        if words[0] in ("re", "res", "rre", "rres", "glres", "repkt", "respkt", "recpkt", "recspkt"):
            found["reduce_op"] = "sum"
        return found


def plan(
    gpus: list[list[list[Line]]],
    chunks: int,
    coll: str = "allreduce",
    *,
    inplace: bool = True,
    scratch: int = 0,
    semaphores: tuple[int, ...] = (),
    switch: str = "s",
    **head: Any,
) -> dict[str, Any]:
    """The plan; gpus[r] are the operations of gpu r, by thread block. `chunks`: of the whole vector."""
    n = len(gpus)
    own = chunks // n
    given, made = {"allgather": (own, chunks), "reducescatter": (chunks, own)}.get(coll, (chunks, chunks))
    found = []
    for rank, blocks in enumerate(gpus):
        shared: dict[str, Any] = {"memory": [], "port": [], "remote": []}
        written = []
        for number, lines in enumerate(blocks):
            block = _Block(number, shared)
            ops = [block.op(line) for line in lines]
            written.append(
                {
                    "id": number,
                    "ops": ops,
                    "channels": [{"channel_type": k, "channel_ids": ids} for k, ids in block.ids.items() if ids],
                    "remote_buffer_refs": [
                        {"access_channel_type": k, "remote_buffer_ids": ids} for k, ids in block.refs.items() if ids
                    ],
                }
            )
        group = {"channel_type": "switch", "buffer_type": switch, "rank_groups": [{"size": n, "ranks": [*range(n)]}]}
        found.append(
            {
                "id": rank,
                "input_chunks": given,
                "output_chunks": made,
                "scratch_chunks": scratch,
                "threadblocks": written,
                "channels": [
                    group,
                    *({"channel_type": k, "connected_to": shared[k]} for k in ("memory", "port") if shared[k]),
                ],
                "remote_buffers": shared["remote"],
                "semaphores": [{"init_value": value} for value in semaphores],
            }
        )
    return {"name": "test", "collective": coll, "protocol": "Simple", "inplace": inplace, "gpus": found, **head}


def text(*args: Any, **options: Any) -> str:
    return json.dumps(plan(*args, **options))
