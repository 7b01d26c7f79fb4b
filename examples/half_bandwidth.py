"""Half the bandwidth: a rank of the naive binary tree sends all it gets to two others; the double tree repairs that.

Both broadcast the same vector in the same number of pieces. Bytes are what the engine counted on real ranks. Steps are
counted on the schedules: in one step each rank sends one piece at most and receives one.
"""

import numpy as np

import ringtree
from ringtree.algorithms import build
from ringtree.transform import pipeline

PIECES = 64
ELEMENTS = 64 * 1024


def sent(comm, schedule):
    """Bytes that each rank sent to this one."""
    comm.reset_counters()
    comm.execute(schedule, np.ones(ELEMENTS))
    return comm.counters()[:, 0]


def steps(schedule):
    """How many it takes if each rank has one port to send and one to receive, and edges take turns at the ports."""
    rows = schedule.expand()
    queues = {}
    for source, target, chunk in zip(
        rows.source.tolist(), rows.target.tolist(), rows.source_chunk.tolist(), strict=True
    ):
        queues.setdefault((source, target), []).append(chunk)
    turn = {}

    def give(edge, parity):
        if edge not in turn:
            turn[edge] = parity
            for other in queues:
                if other != edge and (other[0] == edge[0] or other[1] == edge[1]):
                    give(other, 1 - parity)

    for edge in queues:
        give(edge, 0)
    has = {(schedule.root, chunk) for chunk in range(schedule.chunks)}
    count = 0
    while any(queues.values()):
        mine = [edge for edge, queue in queues.items() if queue and turn[edge] == count % 2]
        ready = [(edge, queues[edge][0]) for edge in mine if (edge[0], queues[edge][0]) in has]
        ports = [(edge[0], "out") for edge, _ in ready] + [(edge[1], "in") for edge, _ in ready]
        assert len(ports) == len(set(ports)), "two want one port"
        for edge, chunk in ready:
            queues[edge].pop(0)
            has.add((edge[1], chunk))
        count += 1
    return count


def trees(ranks):
    """The two broadcasts, in as many pieces."""
    naive, double = build("binary_tree", "broadcast", ranks), build("double_tree", "broadcast", ranks)
    return pipeline(naive, PIECES), pipeline(double, PIECES // double.chunks)


if __name__ == "__main__":
    print(f"broadcast of S bytes in {PIECES} pieces")
    print("ranks  tree         the busiest rank sends  steps")
    for ranks in (4, 8):
        for schedule in trees(ranks):
            received = np.array(ringtree.spawn(sent, ranks, schedule))
            busiest = received.sum(axis=0).max() / (ELEMENTS * 8)
            print(f"{ranks:5}  {schedule.name:11}  {busiest:20.0f} S  {steps(schedule):5}")
