"""A tiny model of random weights."""

from __future__ import annotations

from pathlib import Path


def make_model(folder: Path) -> None:
    """8 layers of 512, whose logits are far apart."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=2048,
        max_position_embeddings=512,
        initializer_range=0.3,
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
