"""One gpu of an execution plan: its channels, and its thread blocks' operations, pipelines unrolled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ringtree.formats.execution import SPACES
from ringtree.formats.imported import FormatError
from ringtree.formats.mscclpp.plan import PipelineLoop, Plan
from ringtree.ir.program import Operand

PLAIN = {"copy", "put", "get", "re", "res", "rre", "rres", "glres", "gstore"}
PACKETS = {"ppkt", "rppkt", "cpkt", "upkt", "repkt", "recpkt", "respkt", "recspkt", "gstorepkt"}
PUTS = {"put", "pws", "pwsf", "ppkt", "rppkt"}
"""Operations that a port channel's proxy does too."""
SUMS = {"re", "res", "rre", "rres", "glres", "repkt", "recpkt", "respkt", "recspkt"}
SIGNALS = {"signal", "rlxsignal"}
WAITS = {"wait", "rlxwait"}
SYNCHRONIZATION = {*SIGNALS, *WAITS, "flush", "sem_acquire", "sem_release", "barrier", "nop"}
KNOWN = {*PLAIN, *PACKETS, *PUTS, *SYNCHRONIZATION}

_FIELDS = {
    "name",
    "src_buff",
    "dst_buff",
    "channel_type",
    "channel_ids",
    "reduce_op",
    "tbg_info",
    "semaphore_ids",
    "barrier_id",
    "num_threadblocks",
}


class Op(NamedTuple):
    """An operation of a thread block. `number`: its position there, `2.0` the first one inside of the pipeline that is
    number 2. `offset`: the pieces that earlier iterations of its pipeline have done."""

    block: int
    number: str
    name: str
    fields: Mapping[str, Any]
    loop: PipelineLoop | None = None
    offset: int = 0

    @property
    def port(self) -> bool:
        """Whether a port channel's proxy does it."""
        return self.fields.get("channel_type") == "port"


class Gpu:
    """A gpu's channels and thread blocks, checked as they are asked for. `peers`: by type of channel, the peer of each
    of the gpu's channels; `groups`: by switch channel, its buffer and its gpus."""

    def __init__(self, plan: Plan, gpu: Mapping[str, Any]) -> None:
        self.plan, self.gpu, self.rank = plan, gpu, int(gpu["id"])
        self.blocks = [plan.get(b, dict, "thread block") for b in plan.item(gpu, "threadblocks", list)]
        self.peers: dict[str, list[int]] = {"memory": [], "port": []}
        self.groups: list[tuple[str, list[int]]] = []
        for entry in plan.item(gpu, "channels", list):
            self._channel(plan.get(entry, dict, "channel"))
        for peer in (*self.peers["memory"], *self.peers["port"]):
            if not 0 <= peer < len(plan.gpus) or peer == self.rank:
                raise plan.refuse(f"gpu {self.rank} has a channel to gpu {peer}; expected another gpu")

    def _channel(self, channel: Mapping[str, Any]) -> None:
        plan, kind = self.plan, channel.get("channel_type")
        if kind == "switch":
            buffer = channel.get("buffer_type", channel.get("buff"))  # its name in newer files, and in older ones
            for entry in plan.item(channel, "rank_groups", list):
                group = [plan.get(r, int, "rank") for r in plan.item(plan.get(entry, dict, "group"), "ranks", list)]
                named = isinstance(buffer, str) and buffer in SPACES
                if not named or len(set(group)) < len(group) or self.rank not in group:
                    shown = json.dumps([buffer, group])[:60]
                    raise plan.refuse(
                        f"gpu {self.rank} has a switch channel {shown}; expected a buffer, and gpus with it"
                    )
                if not set(group) <= set(range(len(plan.gpus))):
                    raise plan.refuse(
                        f"gpu {self.rank} has a switch channel to gpus {group[:8]}; expected gpus of the plan"
                    )
                self.groups.append((str(buffer), group))
        elif isinstance(kind, str) and kind in self.peers:
            self.peers[kind] += [plan.get(p, int, "connected_to") for p in plan.item(channel, "connected_to", list)]

    def where(self, op: Op) -> str:
        """`plan.json: gpu 0 tb 1 op 2 (put)`."""
        given = self.blocks[op.block].get("id")
        block = given if isinstance(given, int) else op.block
        return f"{self.plan.path}: gpu {self.rank} tb {block} op {op.number} ({op.name})"

    def refuse(self, op: Op, problem: str) -> FormatError:
        """An error that names the operation."""
        return FormatError(f"{self.where(op)}: {problem}")

    def ops(self, block: int) -> Iterator[Op]:
        """The thread block's operations in order, each iteration of a pipeline written out."""
        plan = self.plan
        for number, fields in enumerate(plan.item(self.blocks[block], "ops", list)):
            name = plan.word(plan.get(fields, dict, "op"), "name")[:20]
            op = Op(block, str(number), name, fields)
            if name != "pipeline":
                yield self._checked(op)
                continue
            if set(fields) != {"name", "iter_context", "ops"}:
                raise self.refuse(op, "expected a name, an iter_context and ops")
            loop = plan.loop(fields["iter_context"])
            inner = [
                self._checked(Op(block, f"{number}.{k}", plan.word(each, "name")[:20], each, loop))
                for k, each in enumerate(plan.item(fields, "ops", list))
            ]
            plan.count(len(inner) * loop.iterations)
            for iteration in range(loop.iterations):
                for each in inner:
                    yield each._replace(offset=iteration * loop.step)

    def _checked(self, op: Op) -> Op:
        if op.name not in KNOWN:
            raise self.refuse(op, f"is not known; expected one of {', '.join(sorted(KNOWN))}")
        odd = set(op.fields) - _FIELDS
        if odd:
            raise self.refuse(op, f"has {min(odd)!r}; known are {', '.join(sorted(_FIELDS))}")
        if op.loop is not None and op.name in PACKETS:
            raise self.refuse(op, "packets in a pipeline, whose iterations would carry the same flag; expected none")
        if op.name in SUMS and op.fields.get("reduce_op", "sum") != "sum":
            raise self.refuse(op, f"reduce_op is {json.dumps(op.fields['reduce_op'])[:20]}; expected sum")
        expected = _channel_types(op.name)
        kind = op.fields.get("channel_type", expected[0])
        if kind not in (*expected, "none"):
            raise self.refuse(op, f"is on a channel of type {json.dumps(kind)[:20]}; expected {' or '.join(expected)}")
        return op

    def channels(self, op: Op) -> list[int]:
        """The gpu's channels that the operation names by their position in its block's list."""
        kind = "port" if op.port else "memory"
        mine = self._refs(op.block, "channels", "channel_type", "channel_ids", kind)
        named = self.plan.item(op.fields, "channel_ids", list)
        return [self._pick(op, "channel", mine, index, len(self.peers[kind])) for index in named]

    def lane(self, op: Op, channel: int) -> tuple[int, int]:
        """The peer at the other end of a channel, and its number among those of its type to that peer."""
        peers = self.peers["port" if op.port else "memory"]
        return peers[channel], peers[:channel].count(peers[channel])

    def _refs(self, block: int, key: str, kind: str, ids: str, wanted: str) -> list[int]:
        """The gpu's channels or remote buffers of one type that a block lists."""
        found: list[int] = []
        for entry in self.plan.get(self.blocks[block].get(key, []), list, key):
            if self.plan.get(entry, dict, key).get(kind) == wanted:
                found += [self.plan.get(i, int, ids) for i in self.plan.item(entry, ids, list)]
        return found

    def _pick(self, op: Op, what: str, mine: Sequence[int], index: object, count: int) -> int:
        if not isinstance(index, int) or not 0 <= index < len(mine) or not 0 <= mine[index] < count:
            raise self.refuse(op, f"names {what} {json.dumps(index)[:20]}, which it does not have")
        return mine[index]

    def operands(self, op: Op, key: str) -> list[list[Operand]]:
        """The operands that each entry of `key` names: one, or of a switch channel one of each gpu."""
        found = [self._operands(op, self.plan.get(b, dict, key)) for b in self.plan.item(op.fields, key, list)]
        self.plan.count(sum(map(len, found)))
        return found

    def _operands(self, op: Op, reference: Mapping[str, Any]) -> list[Operand]:
        plan, owners, buffer = self.plan, [self.rank], reference.get("type")
        if "switch_channel_id" in reference:
            mine = self._refs(op.block, "channels", "channel_type", "channel_ids", "switch")
            channel = self._pick(op, "switch channel", mine, reference["switch_channel_id"], len(self.groups))
            buffer, owners = self.groups[channel]
        elif "buffer_id" in reference:
            buffers = plan.item(self.gpu, "remote_buffers", list)
            kind = "port" if op.port else "memory"
            mine = self._refs(op.block, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids", kind)
            remote = buffers[self._pick(op, "remote buffer", mine, reference["buffer_id"], len(buffers))]
            owners = [plan.number(plan.get(remote, dict, "buffer"), "rank")]
            buffer = remote.get("type")
        if not isinstance(buffer, str) or buffer not in SPACES or owners[0] >= len(plan.gpus):
            problem = json.dumps(reference)[:60]
            raise self.refuse(op, f"{problem} is no buffer i, o or s of 0..{len(plan.gpus) - 1}")
        return [self._operand(op, reference, buffer, owner) for owner in owners]

    def _operand(self, op: Op, reference: Mapping[str, Any], buffer: str, owner: int) -> Operand:
        """The pieces of a gpu's buffer."""
        plan = self.plan
        index, size = plan.number(reference, "index"), plan.number(reference, "size")
        windows = {
            "i": plan.memory.precondition(owner),
            "o": plan.memory.postcondition(owner),
            "s": range(plan.scratch[owner]),
        }
        chunk = plan.ring if plan.ring and buffer == "s" else plan.fineness
        if size < 1 or (index + size) * chunk > len(windows[buffer]):
            span = f"gpu {owner}'s {buffer}[{index}:{index + size}]"
            raise self.refuse(op, f"{span}; it has {len(windows[buffer]) // chunk} chunks")
        place, group = plan.group(op.fields)
        first, count = index * chunk, size * plan.fineness // group
        if op.loop is None:
            if chunk != plan.fineness:
                raise self.refuse(op, "uses scratch outside of the pipelines, whose iterations reuse it; expected none")
            first += place * count
        else:
            if count != op.loop.chunks * plan.fineness:
                part = f"a part of {group} of {size}" if group > 1 else f"{size}"
                raise self.refuse(op, f"moves {part} chunks in a pipeline over {op.loop.chunks}; expected as many")
            if chunk != plan.fineness and group > 1:
                raise self.refuse(
                    op, "shares scratch that the iterations reuse among a group; expected one thread block"
                )
            first += place * count + (op.offset % chunk if chunk != plan.fineness else op.offset)
            count = op.loop.step
        return Operand(SPACES[buffer], first, -1, count, -1 if owner == self.rank else owner)


def _channel_types(name: str) -> tuple[str, ...]:
    """The types of channel that an operation may be on, the usual one first."""
    if name in ("glres", "gstore", "gstorepkt"):
        return ("switch",)
    if name in ("pws", "pwsf", "flush"):
        return ("port",)
    return ("memory", "port") if name in (*PUTS, *SIGNALS, *WAITS) else ("memory",)
