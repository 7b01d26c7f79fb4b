"""Generates tokens by vLLM on this host's CPUs: `python generate.py MODEL RESULT OPTIONS`, where OPTIONS is JSON of
vLLM's own words. RESULT gets the tokens of each prompt, and tokens per second of each turn."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from vllm import LLM, SamplingParams

PROMPTS = [{"prompt_token_ids": [(7 * row + 3 * at) % 2000 + 2 for at in range(20)]} for row in range(4)]


def main(model: str, result: str, options: str) -> None:
    given = json.loads(options)
    turns = given.pop("turns", 1)
    llm = LLM(
        model, skip_tokenizer_init=True, dtype="bfloat16", max_model_len=256, max_num_seqs=8, seed=0, **given
    )  # fmt: skip
    sampling = SamplingParams(temperature=0, max_tokens=64, detokenize=False, ignore_eos=True)
    rates = []
    for _ in range(turns + 1):
        began_s = time.perf_counter()
        done = llm.generate(PROMPTS, sampling, use_tqdm=False)
        tokens = [list(one.outputs[0].token_ids) for one in done]
        rates.append(sum(map(len, tokens)) / (time.perf_counter() - began_s))
    Path(result).write_text(json.dumps({"tokens": tokens, "tokens_per_s": rates[1:]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
