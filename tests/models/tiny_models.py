"""Tiny random models, and the GGUF files that llama.cpp's converter would make of them."""

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

VOCABULARY, HIDDEN, BLOCKS, HEADS, KV_HEADS = 128, 64, 3, 4, 2
F32, F16, BF16 = (gguf.GGMLQuantizationType[name] for name in ("F32", "F16", "BF16"))
Q8_0, Q4_0, Q4_1 = (gguf.GGMLQuantizationType[name] for name in ("Q8_0", "Q4_0", "Q4_1"))


_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 96,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_LIKE_LLAMA = _COMMON | {"num_key_value_heads": KV_HEADS, "rms_norm_eps": 1e-5}
CONFIGS: dict[str, tuple[type, dict[str, Any]]] = {
    "llama": (LlamaConfig, _LIKE_LLAMA),
    "mistral": (MistralConfig, _LIKE_LLAMA),
    "qwen2": (Qwen2Config, _LIKE_LLAMA),
    "qwen3": (Qwen3Config, _LIKE_LLAMA | {"head_dim": 32}),
    "gemma3": (
        Gemma3TextConfig,
        # The window is shorter than the test's texts; half of what hidden / heads would scale by.
        _LIKE_LLAMA
        | {"head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 8}
        | {"tie_word_embeddings": False},
    ),
    "phi3": (Phi3Config, _LIKE_LLAMA | {"pad_token_id": 0}),
    "gpt2": (GPT2Config, _COMMON | {"tie_word_embeddings": False}),
    "gpt_neox": (GPTNeoXConfig, _COMMON),
}


def tiny(family: str = "llama", *, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A model whose every weight, norms and biases included, is random."""
    config_type, about = CONFIGS[family]
    if family == "gpt2":  # the names that its config.json has
        own = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer"}
        own |= {"num_attention_heads": "n_head", "max_position_embeddings": "n_positions"}
        about = {own.get(key, key): value for key, value in about.items()}
        about["n_inner"] = about.pop("intermediate_size")
    model = AutoModelForCausalLM.from_config(config_type(**about | changes)).eval()
    generator = torch.Generator().manual_seed(seed)
    norm = 0 if family == "gemma3" else 1  # Gemma multiplies by 1 + w
    with torch.no_grad():
        for parameter in model.parameters():
            # Matrices large enough that attention is no plain mean; norms around 1.
            mean, sd = (0, 0.15) if parameter.ndim == 2 else (norm, 0.3)
            parameter.normal_(mean, sd, generator=generator)
    return model


def weights_of(model: PreTrainedModel) -> dict[str, np.ndarray]:
    """All weights by their Hugging Face names; a tied head is not among them."""
    return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


def logits_of(model: torch.nn.Module, length: int = 24, seed: int = 7) -> torch.Tensor:
    """Logits on random ids."""
    config: Any = model.config
    ids = torch.randint(
        config.vocab_size, (1, length), generator=torch.Generator().manual_seed(seed)
    )
    with torch.no_grad():
        return model(ids).logits


def silent(items: Iterable[Any], _total: int, _label: str) -> Iterator[Any]:
    """A progress wrapper that says nothing."""
    yield from items


def converter_permute(weights: np.ndarray, n_head: int, n_head_kv: int | None) -> np.ndarray:
    """`LlamaModel.permute` of llama.cpp's convert_hf_to_gguf.py, line by line."""
    if n_head_kv is not None and n_head != n_head_kv:
        n_head = n_head_kv
    return (
        weights.reshape(n_head, 2, weights.shape[0] // n_head // 2, *weights.shape[1:])
        .swapaxes(1, 2)
        .reshape(weights.shape)
    )


def write_gguf(
    model: PreTrainedModel,
    path: Path,
    stored: gguf.GGMLQuantizationType = F32,
    *,
    left_out: Iterable[str] = (),
    metadata: Callable[[gguf.GGUFWriter], None] = lambda writer: None,
    extra: dict[str, np.ndarray] | None = None,
    mix: dict[str, str] | None = None,
) -> Path:
    """Write what convert_hf_to_gguf.py would: matrices as `stored`, vectors in float32.

    Args:
        model: of a family that is read from GGUF.
        path: the file to write.
        stored: type of the matrices.
        left_out: metadata keys (without the architecture), GGUF tensor names, or `tokenizer`.
        metadata: adds or replaces keys.
        extra: more tensors, float32, by GGUF name.
        mix: patterns of GGUF names to the type, in our words, that the first match gives.
    """
    from quantdrift.quantizers.llamacpp import TYPES, quantized_bytes

    config: Any = model.config
    family = {"gemma3_text": "gemma3", "mistral": "llama"}.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, family)
    keys: dict[str, Callable[[], None]] = {
        "block_count": lambda: writer.add_block_count(config.num_hidden_layers),
        "context_length": lambda: writer.add_context_length(config.max_position_embeddings),
        "embedding_length": lambda: writer.add_embedding_length(config.hidden_size),
        "feed_forward_length": lambda: writer.add_feed_forward_length(config.intermediate_size),
        "head_count": lambda: writer.add_head_count(config.num_attention_heads),
        "head_count_kv": lambda: writer.add_head_count_kv(config.num_key_value_heads),
        "rms_eps": lambda: writer.add_layer_norm_rms_eps(config.rms_norm_eps),
    }
    rope = config.rope_parameters
    if family == "gemma3":
        keys["sliding_window"] = lambda: writer.add_sliding_window(config.sliding_window)
        rope = rope["full_attention"]
        if rope["rope_type"] == "linear":
            keys["scaling"] = lambda: writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            keys["factor"] = lambda: writer.add_rope_scaling_factor(rope["factor"])
    if family == "phi3":
        keys["sliding_window"] = lambda: writer.add_sliding_window(config.sliding_window or 0)
        keys["original"] = lambda: writer.add_rope_scaling_orig_ctx_len(
            config.original_max_position_embeddings
        )
    keys["freq_base"] = lambda: writer.add_rope_freq_base(rope["rope_theta"])
    if head_dim := getattr(config, "head_dim", None):
        if family != "gemma3":
            keys["dimension_count"] = lambda: writer.add_rope_dimension_count(head_dim)
        if head_dim * config.num_attention_heads != config.hidden_size:
            keys["key_length"] = lambda: writer.add_key_length(head_dim)
            keys["value_length"] = lambda: writer.add_value_length(head_dim)
    for key in keys.keys() - set(left_out):
        keys[key]()
    if "tokenizer" not in left_out:
        writer.add_tokenizer_model("gpt2" if family.startswith("qwen") else "llama")
        writer.add_token_list([f"<{i}>" for i in range(config.vocab_size)])
        writer.add_token_scores([0.0] * config.vocab_size)
        writer.add_token_types([1] * config.vocab_size)
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    metadata(writer)

    names = gguf.get_tensor_name_map(
        gguf.MODEL_ARCH[family.upper()],
        config.num_hidden_layers,
    )
    for name, values in weights_of(model).items():
        gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert gguf_name is not None, name
        if gguf_name in left_out:
            continue
        if family == "llama" and "q_proj" in name:
            values = converter_permute(values, HEADS, HEADS)
        if family == "llama" and "k_proj" in name:
            values = converter_permute(values, HEADS, KV_HEADS)
        if family == "gemma3" and name.endswith("norm.weight"):
            values = values + 1
        fitting = [name for pattern, name in (mix or {}).items() if fnmatch(gguf_name, pattern)]
        if fitting and values.ndim == 2:
            kind = gguf.GGMLQuantizationType(TYPES[fitting[0]].ggml_id)
            writer.add_tensor(gguf_name, quantized_bytes(values, fitting[0]), raw_dtype=kind)
            continue
        kind = stored if values.ndim == 2 else F32
        writer.add_tensor(
            gguf_name, gguf.quantize(np.ascontiguousarray(values), kind), raw_dtype=kind
        )
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def as_stored(values: np.ndarray, kind: gguf.GGMLQuantizationType) -> np.ndarray:
    """What is left of a weight matrix that was stored as `kind`."""
    return gguf.dequantize(gguf.quantize(values, kind), kind).reshape(values.shape)


def reading_of_transformers(path: Path) -> PreTrainedModel:
    """The GGUF file as transformers reads it: its config, its unpermuting, its names.

    `from_pretrained(gguf_file=...)` does the same but wants accelerate.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_config(config).eval()
    load_as_transformers(path, model)
    return model


def load_as_transformers(path: Path, model: PreTrainedModel) -> None:
    """Fill `model` with the tensors of a GGUF file as transformers reads them."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    tensors = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert missing == (["lm_head.weight"] if model.config.tie_word_embeddings else [])
