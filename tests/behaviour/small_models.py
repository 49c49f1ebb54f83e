"""Small random models of every family, with attention far from uniform."""

from copy import deepcopy
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
)

TINY = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}
WINDOW = 7
CONFIGS = {
    "llama": LlamaConfig(**TINY),
    "mistral": MistralConfig(**TINY, sliding_window=WINDOW),
    "qwen2": Qwen2Config(**TINY),
    "qwen3": Qwen3Config(**TINY, head_dim=32),
    "gemma3": Gemma3TextConfig(
        **TINY | {"num_hidden_layers": 6}, head_dim=32, sliding_window=WINDOW
    ),
    "phi3": Phi3Config(**TINY, pad_token_id=0),
    "gpt2": GPT2Config(n_embd=64, n_layer=3, n_head=4, vocab_size=128),
    "gpt_neox": GPTNeoXConfig(**{k: v for k, v in TINY.items() if k != "num_key_value_heads"}),
}


def tiny(family: str) -> Any:
    """A random model whose attention is far from uniform."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(deepcopy(CONFIGS[family])).eval()
    for weight in model.parameters():
        weight.data += 0.1 * torch.randn_like(weight)
    return model
