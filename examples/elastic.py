"""Training that goes on when ranks are killed, and takes a new one in: python examples/elastic.py

Five processes train a softmax regression, each on its part of every batch. Three of them are killed on the way, one
after the other; the survivors shrink the group and go on. Later a new process joins. The loss is that of one process
that nothing happened to.
"""

from __future__ import annotations

import multiprocessing
import os
import signal

import numpy as np

import ringtree

RANKS, STEPS, BATCH = 5, 120, 240
KILLED_AT = {3: 20, 0: 45, 2: 70}  # process -> step
JOINS_AT = 90
PLACE = f"elastic example {os.getpid()}"  # where a newcomer and the group meet

draw = np.random.default_rng(0)
inputs = draw.normal(size=(2400, 20))
labels = (inputs @ draw.normal(size=(20, 4)) + draw.normal(size=(2400, 4))).argmax(axis=1)


def loss_and_gradient(weights, step, rank, ranks):
    """Of this rank's part of the step's batch, over the whole batch's size."""
    rows = np.arange(step * BATCH, (step + 1) * BATCH)[rank::ranks] % len(inputs)
    scores = inputs[rows] @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    loss = -np.log(chances[np.arange(len(rows)), labels[rows]]).sum()
    chances[np.arange(len(rows)), labels[rows]] -= 1
    return np.concatenate([[loss], (inputs[rows].T @ chances).ravel()]) / BATCH


def caught_up(comm, weights, step):
    """The furthest member's weights and step: one may have finished the step in which another heard of a death. They
    come into a copy, for that member may die on the way, and half of its weights would be nobody's."""
    steps = comm.all_gather(np.array([step])).ravel()
    root = int(steps.argmax())
    return comm.broadcast(weights.copy(), root), int(steps[root])


def train(process, place, losses):
    if process < RANKS:
        os.environ.update(RINGTREE_JOB=place, RINGTREE_RANK=str(process), RINGTREE_WORLD_SIZE=str(RANKS))
        comm, step, grown = ringtree.init(timeout_s=60), 0, False
    else:
        comm, step, grown = ringtree.join(place, timeout_s=60), -1, True
    weights, alike = np.zeros((20, 4)), None  # the group whose ranks have the same weights
    while step < STEPS:
        try:
            if comm is not alike:
                weights, step = caught_up(comm, weights, step)
                alike = comm
            if step == JOINS_AT and not grown:
                comm, grown = comm.grow(1, at=place), True
                continue
            if KILLED_AT.get(process) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            total = comm.all_reduce(loss_and_gradient(weights, step, comm.rank, comm.size))
            weights, step = weights - 0.5 * total[1:].reshape(20, 4), step + 1
        except (ringtree.PeerDied, ringtree.Poisoned):
            comm = comm.shrink()  # a rank may die in caught_up, too
            if comm.rank == 0:
                print(f"{comm.first_cause.partition(' (')[0]}: {comm.size} ranks go on", flush=True)
    if comm.rank == 0:
        losses.put((total[0], comm.size))
    comm.barrier()


def alone():
    weights = np.zeros((20, 4))
    for step in range(STEPS):
        total = loss_and_gradient(weights, step, 0, 1)
        weights = weights - 0.5 * total[1:].reshape(20, 4)
    return total[0]


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    losses = context.Queue()
    workers = [context.Process(target=train, args=(n, PLACE, losses)) for n in range(RANKS + 1)]
    for worker in workers:
        worker.start()
    loss, ranks = losses.get(timeout=120)
    for worker in workers:
        worker.join()
    print(f"{ranks} ranks at the end, one of which has joined")
    print(f"loss {loss:.6f}, undisturbed {alone():.6f}, equal within 1e-12: {abs(loss - alone()) < 1e-12}")
