"""A schedule as an MSCCL++ execution plan: memory channels within a node, port channels between nodes.

Each stream of the schedule is a thread block on every gpu. A transfer is a put by its source's thread block, and a
signal: into the target's chunk where it is stored there and all that touched that chunk before is known to be done, by
the signals so far; else into scratch, from where the target's thread block copies it or adds it. At the start every
target signals that it has begun. One nop stands between moving data and signalling, and between waiting and moving.
What port channels' proxies put is flushed at once, before signals of memory channels, so that nobody overwrites what
they read; a port channel's own signal shows that its puts are done, and nothing of other port channels' since the flush
before.

The limits are the executor's: 64 operations of a thread block, 16 channels of a type, 8 of them in an operation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ringtree.formats.streams import (
    Cell,
    NotExpressible,
    StreamMove,
    Streams,
    letter,
    their_collective,
)
from ringtree.ir.schedule import Schedule

MOST_BLOCKS = 64
MOST_OPERATIONS = 64
SENDING, RECEIVING, REDUCING = 3, 2, 1
"""The fewest operations of a round in which a thread block sends (a put, a nop and a signal), receives (a wait and a
nop), and adds what it received."""
MOST_CHANNELS = 16
MOST_CHANNELS_AT_ONCE = 8
MOST_SOURCES = 8
STREAMS = (8, 4, 2, 1, 16, 32, 64)
"""Numbers of streams, tried in this order."""

Author = tuple[int, int]
"""Who does a move: a gpu's thread block of the stream, as (gpu, gpu), or the proxy of its port channel to a peer."""
Clock = dict[Author, int]
"""The number of each author's moves that are done for certain."""
Reference = dict[str, Any]
KINDS = ("memory", "port")
"""The types of channel: within a node, and between nodes."""


def text(schedule: Schedule, gpus_per_node: int | None = None) -> str:
    """The schedule as the text of an execution plan, for nodes of so many gpus each (None: one node). NotExpressible:
    where the format or its executor has no room for it, as for rooted collectives."""
    coll = their_collective(schedule, "MSCCL++")
    streams = Streams(schedule)
    refused = ""
    for most in STREAMS:
        writer = _Writer(schedule, gpus_per_node or schedule.ranks)
        try:
            if streams.most_operations(most, SENDING, RECEIVING, REDUCING) > MOST_OPERATIONS:
                raise writer.too_long()
            for each in streams.rounds(most):
                writer.round(each)
            return _lines(writer.plan(coll))
        except NotExpressible as reason:
            refused = refused or str(reason)
    raise NotExpressible(refused)


def _lines(plan: dict[str, Any]) -> str:
    """The plan's JSON, a gpu a line."""
    packed = {**plan, "gpus": []}
    head, tail = json.dumps(packed, indent=1).split('"gpus": []')
    gpus = ",\n  ".join(json.dumps(gpu, separators=(",", ":")) for gpu in plan["gpus"])
    return f'{head}"gpus": [\n  {gpus}\n ]{tail}\n'


@dataclass(slots=True)
class _Message:
    """A move that was put: `staged`, its first chunk of the target's scratch, or -1 where it is in place already."""

    move: StreamMove
    staged: int
    clock: Clock = field(default_factory=dict)


@dataclass(slots=True)
class _Block:
    """A thread block. `channels`, `buffers`: by type of channel, the gpu's channels and the remote buffers in the order
    of its own lists. `sources`, `targets`: the gpus that put into this one's memory, and that it puts to."""

    ops: list[dict[str, Any]] = field(default_factory=list)
    channels: dict[str, list[int]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    buffers: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    clock: Clock = field(default_factory=dict)
    flushed: Clock = field(default_factory=dict)
    """The moves of its proxies that it has flushed."""
    recent: set[Cell] = field(default_factory=set)
    """Chunks of this gpu that copies and additions touched since the last nop."""


class _Writer:
    def __init__(self, schedule: Schedule, gpus_per_node: int) -> None:
        self.schedule, self.gpus_per_node = schedule, gpus_per_node
        self.blocks: dict[tuple[int, int], _Block] = {}  # (gpu, stream)
        self.peers: dict[str, list[list[int]]] = {kind: [[] for _ in range(schedule.ranks)] for kind in KINDS}
        """The peers of each gpu's channels, by type of channel."""
        self.channel: dict[tuple[int, int, int], int] = {}  # (gpu, stream, peer) -> the gpu's channel
        self.scratch = [schedule.scratch] * schedule.ranks
        self.touched: dict[Cell, Clock] = {}  # by author: its last move that read or wrote the chunk

    def _block(self, gpu: int, stream: int) -> _Block:
        if (gpu, stream) not in self.blocks:
            self.blocks[gpu, stream] = _Block()
        return self.blocks[gpu, stream]

    def _kind(self, gpu: int, peer: int) -> str:
        """The type of the channels between two gpus."""
        return KINDS[gpu // self.gpus_per_node != peer // self.gpus_per_node]

    def round(self, each: Sequence[StreamMove]) -> None:
        """Writes a round, which reads the state at its start: all puts, then what the targets do."""
        read = {cell for move in each for cell in move.read}
        written: dict[Cell, int] = {}
        for move in each:
            for cell in move.written:
                written[cell] = written.get(cell, 0) + 1
        sent = [
            self._put(move, direct=all(c not in read and written[c] == 1 for c in move.written))
            for move in each
            if not move.local
        ]
        self._signal(sent)
        self._wait(sent)
        messages = iter(sent)
        for move in each:
            message = None if move.local else next(messages)
            if message is None or message.staged >= 0:
                self._take(move, message)

    def _put(self, move: StreamMove, *, direct: bool) -> _Message:
        """The put of a move, in place if the round allows it (`direct`) and all that touched the chunks is done."""
        block = self._block(move.source, move.stream)
        certain = all(
            block.clock.get(who, 0) >= at for cell in move.written for who, at in self.touched.get(cell, {}).items()
        )
        staged = -1
        if move.reduce or not direct or not certain:
            staged = self.scratch[move.target]
            self.scratch[move.target] += move.count
        self._connect(move)
        self._separate(block, move.read)
        buffer, first = letter(self.schedule, move.target_buffer), move.target_chunk
        if staged >= 0:
            buffer, first = "s", staged
        kind, remote = self._kind(move.source, move.target), (move.target, buffer)
        buffers = block.buffers[kind]
        if remote not in buffers:
            buffers.append(remote)
        channel = block.channels[kind].index(self.channel[move.source, move.stream, move.target])
        self._add(
            block,
            "put",
            src_buff=[self._own(move.source_buffer, move.source_chunk, move.count)],
            dst_buff=[{"buffer_id": buffers.index(remote), "index": first, "size": move.count}],
            channel_type=kind,
            **({"channel_ids": [channel]} if kind == "port" else {}),
        )
        author = move.source, move.target if kind == "port" else move.source
        self._touch(author, move.stream, [*move.read, *(move.written if staged < 0 else [])])
        return _Message(move, staged)

    def _connect(self, move: StreamMove) -> None:
        """Channels between both ends' thread blocks, and that the target signals its beginning."""
        for gpu, peer in ((move.source, move.target), (move.target, move.source)):
            if (gpu, move.stream, peer) not in self.channel:
                mine = self._block(gpu, move.stream).channels[self._kind(gpu, peer)]
                peers = self.peers[self._kind(gpu, peer)][gpu]
                self.channel[gpu, move.stream, peer] = len(peers)
                mine.append(len(peers))
                peers.append(peer)
                if len(mine) > MOST_CHANNELS:
                    problem = f"{self.schedule.name} needs more than {MOST_CHANNELS} channels of a thread block"
                    raise NotExpressible(f"{problem}, as many as MSCCL++'s executor has")
        source, target = self._block(move.source, move.stream), self._block(move.target, move.stream)
        if move.target not in source.targets:
            source.targets.append(move.target)
            target.sources.append(move.source)

    def _signal(self, sent: Sequence[_Message]) -> None:
        """Signals of all that was put, one for each target of each thread block."""
        targets: dict[tuple[int, int], dict[int, None]] = {}
        for message in sent:
            move = message.move
            targets.setdefault((move.source, move.stream), {})[move.target] = None
        for (gpu, stream), peers in targets.items():
            block = self._block(gpu, stream)
            self._nop(block)
            far = [peer for peer in peers if self._kind(gpu, peer) == "port"]
            if far:
                self._synchronize(block, "signal", gpu, stream, far)
                self._synchronize(block, "flush", gpu, stream, far)
                self._nop(block)
            self._synchronize(block, "signal", gpu, stream, [peer for peer in peers if peer not in far])
        for message in sent:
            gpu, peer = message.move.source, message.move.target
            block = self._block(gpu, message.move.stream)
            message.clock = dict(block.clock)
            if self._kind(gpu, peer) == "port":
                others = [who for who in block.clock if who[0] == gpu and who[1] not in (gpu, peer)]
                message.clock.update((who, block.flushed.get(who, 0)) for who in others)
        for gpu, stream in targets:
            block = self._block(gpu, stream)
            block.flushed = {who: at for who, at in block.clock.items() if who[0] == gpu}

    def _wait(self, sent: Sequence[_Message]) -> None:
        sources: dict[tuple[int, int], dict[int, None]] = {}
        for message in sent:
            move = message.move
            sources.setdefault((move.target, move.stream), {})[move.source] = None
        for (gpu, stream), peers in sources.items():
            block = self._block(gpu, stream)
            self._synchronize(block, "wait", gpu, stream, list(peers))
            self._nop(block)
        for message in sent:
            block = self._block(message.move.target, message.move.stream)
            for who, at in message.clock.items():
                block.clock[who] = max(block.clock.get(who, 0), at)

    def _take(self, move: StreamMove, message: _Message | None) -> None:
        """Adds what the target's thread block does with a message, or a move within a gpu."""
        block = self._block(move.target, move.stream)
        source = self._own(move.source_buffer, move.source_chunk, move.count)
        if message is not None:
            source = {"type": "s", "index": message.staged, "size": move.count}
        target = self._own(move.target_buffer, move.target_chunk, move.count)
        mine = [*(move.read if move.local else []), *move.written]
        if move.reduce and message and self._joined(block, target, source):
            self._touch((move.target, move.target), move.stream, mine)
            return
        self._separate(block, mine)
        if move.reduce:
            self._add(block, "re", src_buff=[target, source], dst_buff=[target], reduce_op="sum")
        else:
            self._add(block, "copy", src_buff=[source], dst_buff=[target])
        self._touch((move.target, move.target), move.stream, mine)
        block.recent.update(mine)

    def _joined(self, block: _Block, target: Reference, source: Reference) -> bool:
        """Whether the last operation adds to the same chunks, and now adds one more source."""
        last = block.ops[-1] if block.ops else {}
        if last.get("name") != "re" or last["dst_buff"] != [target] or len(last["src_buff"]) == MOST_SOURCES:
            return False
        last["src_buff"].append(source)
        return True

    def _own(self, buffer: int, chunk: int, count: int) -> Reference:
        return {"type": letter(self.schedule, buffer), "index": chunk, "size": count}

    def _touch(self, author: Author, stream: int, cells: Sequence[Cell]) -> None:
        block = self._block(author[0], stream)
        at = block.clock.get(author, 0) + 1
        block.clock[author] = at
        for cell in cells:
            self.touched.setdefault(cell, {})[author] = at

    def _separate(self, block: _Block, cells: Sequence[Cell]) -> None:
        """A nop, where the next operation touches chunks that one since the last nop did."""
        if not block.recent.isdisjoint(cells):
            self._nop(block)

    def _nop(self, block: _Block) -> None:
        if not block.ops or block.ops[-1]["name"] != "nop":
            self._add(block, "nop")
        block.recent.clear()

    def _synchronize(self, block: _Block, name: str, gpu: int, stream: int, peers: list[int]) -> None:
        """Signals, waits or flushes on the thread block's channels to `peers`."""
        for kind in KINDS:
            these = [self.channel[gpu, stream, peer] for peer in peers if self._kind(gpu, peer) == kind]
            mine = [block.channels[kind].index(channel) for channel in these]
            for first in range(0, len(mine), MOST_CHANNELS_AT_ONCE):
                ids = mine[first : first + MOST_CHANNELS_AT_ONCE]
                self._add(block, name, channel_ids=ids, channel_type=kind)

    def _add(self, block: _Block, name: str, **fields: Any) -> None:
        block.ops.append({"name": name, **fields})
        begins = 3 + -(-len(block.sources) // MOST_CHANNELS_AT_ONCE) - (-len(block.targets) // MOST_CHANNELS_AT_ONCE)
        if len(block.ops) + begins > MOST_OPERATIONS:
            raise self.too_long()

    def too_long(self) -> NotExpressible:
        """The error of a schedule that needs longer thread blocks than there are."""
        problem = f"{self.schedule.name} needs more than {MOST_OPERATIONS} operations of a thread block"
        return NotExpressible(f"{problem}, as many as MSCCL++'s executor has")

    def plan(self, coll: str) -> dict[str, Any]:
        """The whole plan."""
        s = self.schedule
        for (gpu, stream), block in self.blocks.items():
            ops, block.ops = block.ops, []
            self._synchronize(block, "rlxsignal", gpu, stream, block.sources)
            self._synchronize(block, "rlxwait", gpu, stream, block.targets)
            if block.targets:
                self._nop(block)
            block.ops += ops
        return {
            "name": s.name,
            "collective": coll,
            "protocol": "Simple",
            "inplace": s.in_place,
            "reuse_resources": False,
            "gpus": [self._gpu(rank) for rank in range(s.ranks)],
            "num_threads_per_block": 1024,
            "use_double_scratch_buffer": False,
            "buffer_alignment": 16,
            "min_message_size": 0,
            "max_message_size": 2**64 - 1,
        }

    def _gpu(self, rank: int) -> dict[str, Any]:
        mine = [block for (gpu, _), block in sorted(self.blocks.items()) if gpu == rank]
        buffers: dict[tuple[int, str], list[str]] = {}
        for kind in KINDS:
            for remote in dict.fromkeys(remote for block in mine for remote in block.buffers[kind]):
                buffers.setdefault(remote, []).append(kind)
        ids = {remote: number for number, remote in enumerate(buffers)}
        return {
            "id": rank,
            "input_chunks": len(self.schedule.precondition(rank)),
            "output_chunks": len(self.schedule.postcondition(rank)),
            "scratch_chunks": self.scratch[rank],
            "threadblocks": [
                {
                    "id": number,
                    "ops": block.ops,
                    "channels": [
                        {"channel_type": kind, "channel_ids": block.channels[kind]}
                        for kind in KINDS
                        if block.channels[kind]
                    ],
                    "remote_buffer_refs": [
                        {"access_channel_type": kind, "remote_buffer_ids": [ids[b] for b in block.buffers[kind]]}
                        for kind in KINDS
                        if block.buffers[kind]
                    ],
                }
                for number, block in enumerate(mine)
            ],
            "channels": [
                {"channel_type": kind, "connected_to": self.peers[kind][rank]}
                for kind in KINDS
                if self.peers[kind][rank]
            ],
            "remote_buffers": [
                {"rank": peer, "type": buffer, "access_channel_types": kinds}
                for (peer, buffer), kinds in buffers.items()
            ],
            "semaphores": [],
        }
