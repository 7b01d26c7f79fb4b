"""Train a small transformer language model on several ranks of this machine, over the backend "ringtree".

    torchrun --nproc-per-node 2 examples/train_lm.py
    torchrun --nproc-per-node 2 examples/train_lm.py --parallel fsdp2 --check
    python examples/train_lm.py                                               one process, the same batches

Plain torch; what ringtree adds is the word in init_process_group(). The text is the source of Python's own standard
library, byte by byte. Every step has the same batch however many ranks share it, so the losses are one process's:
`--check` trains that one, too, and compares. The last step is recorded: how much of it each rank spent in collectives,
waiting for the others included, and with `--trace step.json.gz` what it did there, for

    ringtree show step.json.gz --html step.html
"""

import argparse
import os
import sysconfig
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from ringtree.formats import chrome
from ringtree.torch_backend import communicator

BYTES = 256
TEXT_NBYTES = 4 << 20
TOLERANCE = 1e-3


class Block(nn.Module):
    """Attention to what came before, then two dense layers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_dense = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        parts = self.queries_keys_values(self.before_attention(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        seen = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).flatten(2))
        return x + self.dense(self.before_dense(x))


class LanguageModel(nn.Module):
    """[rows, context + 1] of bytes -> how badly it foretells each byte from those before it: the mean cross-entropy."""

    def __init__(self, width, layers, heads, context):
        super().__init__()
        self.bytes, self.places = nn.Embedding(BYTES, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last, self.scores = nn.LayerNorm(width), nn.Linear(width, BYTES)

    def forward(self, rows):
        given, wanted = rows[:, :-1], rows[:, 1:]
        x = self.bytes(given) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return cross_entropy(self.scores(self.last(x)).flatten(0, 1), wanted.flatten())


def read_text():
    """The standard library's source, as bytes."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return torch.frombuffer(bytearray(b"\n".join(f.read_bytes() for f in files)[:TEXT_NBYTES]), dtype=torch.uint8)


def batches(text, args):
    """Of every step, all ranks' rows: [batch, context + 1]."""
    draw = torch.Generator().manual_seed(args.seed)
    for _ in range(args.steps):
        starts = torch.randint(len(text) - args.context - 1, (args.batch,), generator=draw)
        yield torch.stack([text[s : s + args.context + 1] for s in starts.tolist()]).long()


def shared(model, parallel):
    """The model over all ranks: copied to each (DDP), or cut into a piece for each (FSDP2)."""
    if parallel == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def train(args, rank, size):
    """The losses over all ranks' rows, one a step; the trace of the last step and how long it took."""
    torch.manual_seed(args.seed)
    model = LanguageModel(args.width, args.layers, args.heads, args.context)
    if size > 1:
        model = shared(model, args.parallel)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate)
    losses, recording = [], None
    for number, rows in enumerate(batches(read_text(), args), 1):
        rows = rows[rank::size]
        if size > 1 and number == args.steps:
            recording = communicator().trace()
        with recording or nullcontext():
            began = time.perf_counter()
            optimizer.zero_grad()
            loss = model(rows)
            loss.backward()
            optimizer.step()
            loss = loss.detach()
            if size > 1:
                dist.all_reduce(loss)
            step_s = time.perf_counter() - began
        losses.append(loss.item() / size)
        if rank == 0 and (number % args.every == 0 or number == args.steps):
            speed = args.batch * args.context / step_s
            print(f"step {number:>4}/{args.steps}  loss {losses[-1]:.4f}  {speed:8,.0f} tokens/s", flush=True)
    return losses, recording and recording.trace, step_s


def in_collectives_s(trace, rank):
    """Seconds in which a rank was in a collective, waiting for others included."""
    mine = trace.rank == rank
    total = until = 0.0
    for start, end in sorted(zip(trace.start_s[mine], trace.end_s[mine], strict=True)):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total


def main():
    args = arguments()
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if args.batch % size:
        raise SystemExit(f"{size} ranks do not divide a batch of {args.batch} rows evenly")
    if size > 1:
        dist.init_process_group("ringtree")
    losses, trace, step_s = train(args, rank, size)
    if rank == 0 and trace:
        shares = ", ".join(f"{in_collectives_s(trace, r) / step_s:.0%}" for r in range(size))
        print(f"the last step's share in collectives, rank by rank: {shares}")
        if args.trace:
            chrome.write(trace, args.trace)
            print(f"{args.trace} is that step; see it: ringtree show {args.trace} --html step.html")
    if size > 1:
        dist.destroy_process_group()
    if rank == 0 and args.check:
        print("one process over the same batches:", flush=True)
        alone, _, _ = train(args, 0, 1)
        apart = max(abs(a - b) for a, b in zip(losses, alone, strict=True))
        print(f"{'ok' if apart < TOLERANCE else 'FAILED'}  the losses differ by {apart:.1e} at most")
        raise SystemExit(apart >= TOLERANCE)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parallel", choices=["ddp", "fsdp2"], default="ddp")
    for name, default in (("steps", 40), ("every", 5), ("batch", 16), ("context", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("width", 96), ("layers", 3), ("heads", 4), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--check", action="store_true", help="train one process, too, and compare the losses")
    parser.add_argument("--trace", metavar="FILE", help="write what the ranks did in the last step")
    return parser.parse_args()


if __name__ == "__main__":
    main()
