"""Train a small network on handwritten digits, data-parallel: every rank its own shard, gradients averaged.

    ringtree run -n 4 examples/digits.py

Rank 0 reads the data and scatters it. Then three trainings from the same start: the ranks together, averaging their
gradients with all_reduce; one process over the whole data, which must arrive at the same weights; and the ranks
without all_reduce, which must not. The data are scikit-learn's bundled digits: 1797 real scans of 8 x 8 pixels.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

import ringtree

PIXELS, HIDDEN, DIGITS = 64, 48, 10
BATCH = 48  # images a step, over all ranks
RATE = 0.25


def digits():
    """Images and labels, shuffled once: 1440 to learn from, 357 to be judged by."""
    try:  # here, for only rank 0 needs it, and it takes a second to import
        from sklearn.datasets import load_digits
    except ImportError:
        raise SystemExit("the digits come with scikit-learn: pip install scikit-learn") from None

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = images[order].astype(np.float32) / 16, labels[order]
    return (images[:1440], labels[:1440]), (images[1440:], labels[1440:])


def deal(comm, images, labels):
    """Rank r's shard: every size-th image from the r-th on, so that the ranks' shards of a batch are the batch."""
    shard = np.empty((1440 // comm.size, PIXELS), np.float32), np.empty(1440 // comm.size, np.int64)
    for whole, part in zip((images, labels), shard, strict=True):
        dealt = None if whole is None else np.concatenate([whole[r :: comm.size] for r in range(comm.size)])
        comm.scatter(dealt, root=0, out=part)
    return shard


def layers(weights):
    """The flat vector of weights, seen as the two layers' matrices. The last row of each is the bias."""
    first, second = np.split(weights, [(PIXELS + 1) * HIDDEN])
    return first.reshape(PIXELS + 1, HIDDEN), second.reshape(HIDDEN + 1, DIGITS)


def start():
    draw = np.random.default_rng(1)
    weights = np.zeros((PIXELS + 1) * HIDDEN + (HIDDEN + 1) * DIGITS, np.float32)
    for layer in layers(weights):
        layer[:-1] = draw.normal(scale=1 / np.sqrt(len(layer)), size=layer[:-1].shape)
    return weights


def forward(weights, images):
    first, second = layers(weights)
    hidden = np.tanh(images @ first[:-1] + first[-1])
    scores = hidden @ second[:-1] + second[-1]
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, chances / chances.sum(axis=1, keepdims=True)


def loss_and_gradient(weights, images, labels):
    """Mean cross-entropy over the images, and its gradient as one flat vector like the weights."""
    hidden, chances = forward(weights, images)
    rows = np.arange(len(labels))
    loss = -np.log(chances[rows, labels]).mean()
    chances[rows, labels] -= 1
    chances /= len(labels)
    _, second = layers(weights)
    back = chances @ second[:-1].T * (1 - hidden**2)
    gradient = np.empty_like(weights)
    into_first, into_second = layers(gradient)
    into_first[:-1], into_first[-1] = images.T @ back, back.sum(axis=0)
    into_second[:-1], into_second[-1] = hidden.T @ chances, chances.sum(axis=0)
    return loss, gradient


def accuracy(weights, images, labels):
    return (forward(weights, images)[1].argmax(axis=1) == labels).mean()


def train(images, labels, batch, epochs, average, report=lambda epoch, loss, weights: None):
    """Plain gradient descent. `average` is all that data parallelism adds."""
    weights = start()
    for epoch in range(epochs):
        losses = []
        for at in range(0, len(labels), batch):
            loss, gradient = loss_and_gradient(weights, images[at : at + batch], labels[at : at + batch])
            weights -= RATE * average(gradient)
            losses.append(loss)
        report(epoch, np.mean(losses), weights)
    return weights


class Bar:
    """Rank 0's progress bar. On a terminal it moves; into a pipe every epoch is a line."""

    def __init__(self, epochs):
        self.console, self.epochs = Console(width=100, highlight=False), epochs
        text = TextColumn("epoch {task.completed:>2}/{task.total}"), BarColumn(24), TextColumn("{task.description}")
        self.live = Progress(*text, console=self.console)
        self.task = self.live.add_task("", total=epochs)
        if self.console.is_terminal:
            self.live.start()

    def show(self, epoch, loss, accuracy):
        status = f"loss {loss:.4f}  accuracy {accuracy:6.2%}"
        self.live.update(self.task, completed=epoch + 1, description=status)
        if not self.console.is_terminal:
            filled = round(24 * (epoch + 1) / self.epochs)
            self.console.print(f"epoch {epoch + 1:>2}/{self.epochs} {'━' * filled}{'╌' * (24 - filled)} {status}")

    def stop(self):
        if self.console.is_terminal:
            self.live.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    epochs = parser.parse_args().epochs

    comm = ringtree.init()
    first = comm.rank == 0
    if BATCH % comm.size:
        raise SystemExit(f"{comm.size} ranks do not divide a batch of {BATCH} images evenly")
    data, test = digits() if first else ((None, None), None)
    shard = deal(comm, *data)
    bar = Bar(epochs) if first else None

    def report(epoch, loss, weights):
        loss = comm.all_reduce(np.array([loss]), op="avg")[0]
        if first:
            bar.show(epoch, loss, accuracy(weights, *test))

    together = train(*shard, BATCH // comm.size, epochs, lambda gradient: comm.all_reduce(gradient, op="avg"), report)
    alone = train(*shard, BATCH // comm.size, epochs, lambda gradient: gradient)  # each rank sees its shard only
    single = train(*data, BATCH, epochs, lambda gradient: gradient) if first else np.empty_like(together)
    comm.broadcast(single, root=0)

    same = np.abs(together - single).max()
    between, drift = (
        (comm.all_reduce(weights, op="max") - comm.all_reduce(weights, op="min")).max() for weights in (together, alone)
    )
    if first:
        bar.stop()
        n = comm.size
        print(f"{n} ranks, gradients averaged  accuracy {accuracy(together, *test):.2%}")
        print(f"1 process, all the data     accuracy {accuracy(single, *test):.2%}   weights differ by {same:.1e}")
        print(f"{n} ranks, each for itself    accuracy {accuracy(alone, *test):.2%}   weights differ by {drift:.1e}")
    verdicts = {
        "all ranks hold the same weights, bit for bit": between == 0,
        "one process over the whole data reaches the same weights (float tolerance)": same < 1e-3,
        "without all_reduce the ranks drift apart": comm.size == 1 or drift > 0.1,
    }
    for claim, true in verdicts.items():
        if first:
            print(f"{'ok' if true else 'FAILED'}  {claim}")
    comm.close()
    raise SystemExit(0 if all(verdicts.values()) else 1)


if __name__ == "__main__":
    main()
