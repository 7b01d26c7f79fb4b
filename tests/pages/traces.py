"""Traces to draw: a pipelined ring, with the waits that its messages cause; small or huge."""

from __future__ import annotations

import numpy as np

from ringtree.ir.trace import Event, Trace

STEP_S, MESSAGE_S, CHUNK_NBYTES = 4e-6, 2.5e-6, 4096


def ring(ranks: int, steps: int, *, source: str = "measured", noise: float = 0.3, seed: int = 0) -> Trace:
    """Each step every rank hands a chunk to its right neighbour, waits for its left one's, and reduces or copies it.
    `noise`: by how much its work may take longer."""
    random = np.random.default_rng(seed)
    free_s = np.zeros(ranks)  # when each rank is done so far
    me = np.arange(ranks)
    left, right = (me - 1) % ranks, (me + 1) % ranks
    parts = []
    for step in range(steps):
        sent_s = free_s + 0.1e-6
        there_s = sent_s + MESSAGE_S * (1 + noise * random.random(ranks))
        taken_s = np.maximum(sent_s, there_s[left])
        work = Event.REDUCE if step % (2 * ranks) < ranks else Event.COPY
        done_s = taken_s + STEP_S * (1 + noise * random.random(ranks)) * (1.0 if work == Event.REDUCE else 0.6)
        facts = {
            "source": source, "name": f"ring all_reduce, {ranks} ranks", "machine": "2 CPUs", "topology": "one host",
        }  # fmt: skip
        chunk, named = (me - step) % ranks, {"calls": ("all_reduce(float32, sum, count 8192)",), "facts": facts}
        for kind, start_s, end_s, peer in (
            (Event.SEND, sent_s, there_s, right),
            (Event.WAIT, sent_s, taken_s, left),
            (work, taken_s, done_s, left),
        ):
            parts.append(
                Trace.of(ranks, me, kind, start_s, end_s, nbytes=CHUNK_NBYTES, peer=peer, chunk=chunk, **named)
            )  # type: ignore[arg-type]
        free_s = done_s
    trace = Trace.concatenate(parts)
    return Trace.of(
        ranks, *(getattr(trace, name) for name in ("rank", "kind", "start_s", "end_s")),
        nbytes=trace.nbytes, peer=trace.peer, chunk=trace.chunk, calls=parts[0].calls, facts=parts[0].facts,
    )  # fmt: skip
