"""What every way of parallel training sends and holds: measured, beside its formula and beside data parallelism.

    python benchmarks/parallelism.py                 all pages, some minutes; torch must be there
    python benchmarks/parallelism.py zero pipeline   those

Each layout trains the same model on as many ranks of this machine. Of one step, when some have been taken: bytes that
the engine counted, the calls in their order (a picture), what each rank did when (a timeline). Then, of another run,
what a rank holds. The figures go to benchmarks/parallelism.json, the pictures to docs/images/parallelism, and both into
the pages of docs/parallelism, between `<!-- measured: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ringtree.ir import units
from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings

ROOT = Path(__file__).parent.parent
PAGES, PICTURES = ROOT / "docs" / "parallelism", ROOT / "docs" / "images" / "parallelism"
RECORD = ROOT / "benchmarks" / "parallelism.json"
MODEL = Shape(width=128, layers=4, heads=8, context=128)
EXPERTS = {"experts": 8}
SETTINGS = TrainingSettings(steps=4, batch=16)

ROWS: dict[str, list[tuple[ParallelLayout, dict[str, Any]]]] = {
    "data_parallel": [(ParallelLayout(dp=2), {}), (ParallelLayout(dp=4), {})],
    "zero": [(ParallelLayout(dp=4, zero=z), {}) for z in (1, 2, 3)],
    "asynchronous": [(ParallelLayout(dp=4, staleness=0, server=s), {}) for s in ("central", "sharded", "peers")],
    "layer_split": [(ParallelLayout(pp=2, schedule="naive"), {}), (ParallelLayout(pp=4, schedule="naive"), {})],
    "pipeline": [
        (ParallelLayout(pp=2, schedule="interleaved", micro_batches=4), {}),
        (ParallelLayout(pp=4, schedule="gpipe", micro_batches=4), {}),
        (ParallelLayout(pp=4, schedule="1f1b", micro_batches=4), {}),
    ],
    "tensor_parallel": [(ParallelLayout(tp=2), {}), (ParallelLayout(tp=4), {})],
    "sequence_parallel": [(ParallelLayout(tp=2, sp=True), {}), (ParallelLayout(tp=4, sp=True), {})],
    "context_parallel": [(ParallelLayout(cp=4), {}), (ParallelLayout(cp=4, context="ulysses"), {})],
    "expert_parallel": [
        (ParallelLayout(dp=4), EXPERTS),
        (ParallelLayout(ep=4), EXPERTS),
        (ParallelLayout(dp=2, ep=2, zero=3), EXPERTS),
    ],
    "products": [
        (ParallelLayout(dp=2, tp=2), {}),
        (ParallelLayout(dp=2, tp=2, sp=True, zero=3), {}),
        (ParallelLayout(dp=2, tp=2, pp=2, micro_batches=4), {}),
    ],
}
"""Of each page the layouts, and what their models have beside."""
BESIDE = ParallelLayout(dp=4)
"""What memory is shown beside."""


def plan_of(layout: ParallelLayout, more: dict[str, Any]) -> TrainingPlan:
    optimizer = "adamw" if layout.staleness is None else "sgd"
    return TrainingPlan(
        layout, Shape(**{**asdict(MODEL), **more}), TrainingSettings(**{**asdict(SETTINGS), "optimizer": optimizer})
    )


def options(layout: ParallelLayout, more: dict[str, Any]) -> str:
    """As `ringtree train` takes them."""
    plain, words = ParallelLayout(), []
    for name, value in asdict(layout).items():
        if value != getattr(plain, name):
            option = {"staleness": "async-staleness"}.get(name, name).replace("_", "-")
            words.append(f"--{option}" if value is True else f"--{option} {value}")
    return " ".join(words + [f"--{name} {value}" for name, value in more.items()])


def measure(layout: ParallelLayout, more: dict[str, Any]) -> dict[str, Any]:
    """Starts the ranks; what they found."""
    with tempfile.TemporaryDirectory(prefix="ringtree-parallelism-") as folder:
        file = Path(folder) / "found.json"
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={layout.ranks}"]
        job = json.dumps([asdict(layout), more, str(file)])
        environment = {**os.environ, "RINGTREE_ALGORITHM": "two_shot,pairwise", "OMP_NUM_THREADS": "1"}
        done = subprocess.run([*words, __file__, "--rank", job], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{options(layout, more)} failed:\n{done.stderr}")
        found: dict[str, Any] = json.loads(file.read_text())
        return found


def take_part(job: str) -> None:
    """As a rank."""
    import torch.distributed as dist

    from ringtree.draw.step_picture import step_picture
    from ringtree.draw.text.timeline import timeline
    from ringtree.torch_backend import communicator
    from ringtree.training import Trainer
    from ringtree.training.measure import memory
    from ringtree.training.measure.calls import called
    from ringtree.training.measure.wire import meet, received_nbytes
    from ringtree.training.strategies.registry import traffic
    from ringtree.training.strategies.strategy import known

    layout, more, file = json.loads(job)
    plan = plan_of(ParallelLayout(**layout), more)
    dist.init_process_group("ringtree")
    trainer = Trainer(plan)
    for _ in range(3):
        trainer.step()
    trainer.drain()
    meet()
    before, so_far = received_nbytes(), trainer.counted()
    meet()  # nobody's step begins before that was read, nor the next one before it is read again
    trainer.step()
    trainer.drain()
    counted = received_nbytes() - before
    meet()
    routed = {what: nbytes - so_far[what] for what, nbytes in trainer.counted().items()}
    calls = called(trainer.step)
    with communicator().trace() as recording:
        trainer.step()
    trainer.close()
    mine = (counted, asdict(memory.measure(plan)), routed)
    everybodys: list[Any] = [None] * plan.layout.ranks
    dist.all_gather_object(everybodys, mine)
    if dist.get_rank() == 0:
        received, held, sent = zip(*everybodys, strict=True)
        formula = known(traffic(plan), {what: sum(its[what] for its in sent) for what in routed})
        found = {
            "formula_nbytes": sum(t.wire_nbytes for t in formula),
            "counted_nbytes": received,
            "memory_nbytes": held,
            "picture": step_picture(calls),
            "timeline": timeline(replace(recording.trace, facts={})),
        }
        Path(file).write_text(json.dumps(found))
    dist.destroy_process_group()


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Bytes and memory of the rank that holds the most, as Markdown."""
    kinds = ("parameters", "gradients", "optimizer_state", "activations", "peak")
    lines = [
        "| | bytes on the wire, formula | counted | parameters | gradients | optimizer's | activations | peak |",
        "| --- " + "| ---: " * 7 + "|",
    ]
    for row in rows:
        held = [units.size(max(rank[kind] for rank in row["memory_nbytes"])) for kind in kinds]
        formula, counted = row["formula_nbytes"], sum(row["counted_nbytes"])
        lines.append(" | ".join([f"| `{row['options']}`", f"{formula:,}", f"{counted:,}", *held]) + " |")
    return lines


def written(page: str, rows: list[dict[str, Any]], beside: dict[str, Any]) -> None:
    """Puts a page's figures and pictures where it has room for them."""
    path = PAGES / f"{page}.md"
    if not path.exists():
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    text = ["The calls of a step, a column a rank; time runs down."]
    for row in rows:
        name = re.sub(r"\W+", "_", row["options"]).strip("_")
        (PICTURES / f"{name}.svg").write_text(row["picture"])
        text += ["", f"`{row['options']}`", "", f"![the calls of a step](../images/parallelism/{name}.svg)"]
    text += [
        "",
        *table(rows if beside in rows else [beside, *rows]),
        "",
        f"A step with `{rows[-1]['options']}`, as every rank recorded it:",
        "",
        *(f"    {line}".rstrip() for line in rows[-1]["timeline"].splitlines()),
        "",
    ]
    marked = re.compile(rf"(<!-- measured: {page} -->\n).*?(<!-- end -->)", re.DOTALL)
    block = "\n".join(text)
    path.write_text(marked.sub(lambda found: found[1] + block + found[2], path.read_text()))


def main() -> None:
    if sys.argv[1:2] == ["--rank"]:
        return take_part(sys.argv[2])
    asked = sys.argv[1:] or list(ROWS)
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    measured: dict[str, dict[str, Any]] = {}
    for page in asked:
        for layout, more in [(BESIDE, {}), *ROWS[page]]:
            words = options(layout, more)
            if words not in measured:
                print(f"{page}: {words}", flush=True)
                measured[words] = {"options": words, **measure(layout, more)}
        rows = [measured[options(layout, more)] for layout, more in [(BESIDE, {}), *ROWS[page]]]
        written(page, rows[1:], rows[0])
        record[page] = [{k: v for k, v in row.items() if k not in ("picture", "timeline")} for row in rows]
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
