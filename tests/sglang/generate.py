"""Generates tokens by SGLang on this host's CPUs: `python generate.py MODEL RESULT OPTIONS`, where OPTIONS is JSON of
sglang.Engine's own words. RESULT gets the tokens of each prompt, and tokens per second of each turn. The second of two
hosts serves the first until it is ended."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import sglang

PROMPTS = [[(7 * row + 3 * at) % 2000 + 2 for at in range(20)] for row in range(4)]


def main(model: str, result: str, options: str) -> None:
    given = json.loads(options)
    turns = given.pop("turns", 1)
    engine = sglang.Engine(
        model_path=model, device="cpu", attention_backend="torch_native", sampling_backend="pytorch",
        skip_tokenizer_init=True, disable_radix_cache=True, disable_overlap_schedule=True,
        log_level="info", mem_fraction_static=0.1, max_total_tokens=2048, random_seed=0, **given,
    )  # fmt: skip
    sampling = {"temperature": 0, "max_new_tokens": 64, "ignore_eos": True}
    rates = []
    for _ in range(turns + 1):
        began_s = time.perf_counter()
        done = engine.generate(input_ids=PROMPTS, sampling_params=sampling)
        tokens = [one["output_ids"] for one in done]
        rates.append(sum(map(len, tokens)) / (time.perf_counter() - began_s))
    Path(result).write_text(json.dumps({"tokens": tokens, "tokens_per_s": rates[1:]}))
    engine.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
