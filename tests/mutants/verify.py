"""`python -m tests.mutants.verify [--sample N] [--seed N] [--seconds N]`: as many of cosmic-ray's mutants of the proof
as are asked for, each against the proof's own tests. It changes files of src/ringtree/verify while it runs, and
restores them.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SESSION = HERE.parent.parent / "build" / "mutants" / "verify.sqlite"
UNWANTED = re.compile(r"core/(ReplaceBinaryOperator_BitOr|ReplaceUnaryOperator|RemoveDecorator|ReplaceOrWithAnd$)")
"""Mutants of annotations (`int | None`) and decorators: they change no verdict, or nothing can be imported."""


def main() -> int:
    """Prints each verdict; returns 0, as what survives is to be judged."""
    from cosmic_ray.commands import init
    from cosmic_ray.config import load_config
    from cosmic_ray.mutating import mutate_and_test
    from cosmic_ray.work_db import WorkDB, use_db

    parser = argparse.ArgumentParser(prog="python -m tests.mutants.verify", description=__doc__)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    args = parser.parse_args()
    config = load_config(str(HERE / "verify.toml"))
    began, verdicts = time.monotonic(), dict[str, int]()
    SESSION.parent.mkdir(parents=True, exist_ok=True)
    SESSION.unlink(missing_ok=True)
    if subprocess.run(config["test-command"], shell=True, capture_output=True).returncode:
        print("the tests fail without a mutant")
        return 1
    with use_db(str(SESSION), WorkDB.Mode.create) as db:
        init(sorted(Path(config["module-path"]).glob("*.py")), db, config.operators_config)
        every = [i.mutations[0] for i in db.work_items if not UNWANTED.match(i.mutations[0].operator_name)]
    every.sort(key=lambda m: (str(m.module_path), m.start_pos, m.operator_name, m.occurrence))
    chosen = random.Random(args.seed).sample(every, min(args.sample, len(every)))
    for number, mutation in enumerate(chosen, 1):
        if time.monotonic() - began > args.seconds:
            print("the time is over")
            break
        result = mutate_and_test([mutation], config.test_command, config.timeout)
        found = str(result.test_outcome).rpartition(".")[2].lower()
        verdicts[found] = verdicts.get(found, 0) + 1
        line = next((d for d in (result.diff or "").splitlines() if d.startswith(("+ ", "+\t"))), "")
        place = f"{mutation.module_path}:{mutation.start_pos[0]}"
        print(f"{number} {found}: {place} {mutation.operator_name.partition('/')[2]}: {line[1:].strip()}", flush=True)
    print(f"{sum(verdicts.values())} of {len(every)} mutants: {verdicts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
