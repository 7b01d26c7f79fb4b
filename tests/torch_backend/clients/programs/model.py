"""A tiny language model of random weights, and random text."""

import torch
import transformers


def language_model() -> torch.nn.Module:
    """Two layers of 32."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=128,
        max_position_embeddings=64,
    )
    return transformers.LlamaForCausalLM(config)


def texts(rows: int = 64) -> list[dict[str, torch.Tensor]]:
    """Rows of 16 tokens, which are their own labels."""
    tokens = torch.randint(0, 128, (rows, 16), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in tokens]
