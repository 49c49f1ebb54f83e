"""The families of architectures that are known; all others are refused by name."""

from collections.abc import Mapping
from typing import Any

from .layouts import Layout, UnsupportedArchitectureError

_GGUF_NAMES = {
    "embed": "token_embd.weight",
    "head": "output.weight",
    "final_norm": "output_norm.weight",
    "attention_norm": "blk.{b}.attn_norm.weight",
    "mlp_norm": "blk.{b}.ffn_norm.weight",
    "attention_post_norm": "blk.{b}.post_attention_norm.weight",
    "mlp_post_norm": "blk.{b}.post_ffw_norm.weight",
    "q_norm": "blk.{b}.attn_q_norm.weight",
    "k_norm": "blk.{b}.attn_k_norm.weight",
    "q": "blk.{b}.attn_q.weight",
    "k": "blk.{b}.attn_k.weight",
    "v": "blk.{b}.attn_v.weight",
    "qkv": "blk.{b}.attn_qkv.weight",
    "o": "blk.{b}.attn_output.weight",
    "gate": "blk.{b}.ffn_gate.weight",
    "up": "blk.{b}.ffn_up.weight",
    "gate_up": "blk.{b}.ffn_up.weight",
    "down": "blk.{b}.ffn_down.weight",
    "q_bias": "blk.{b}.attn_q.bias",
    "k_bias": "blk.{b}.attn_k.bias",
    "v_bias": "blk.{b}.attn_v.bias",
}
"""What llama.cpp calls the parts, in all families that are read from GGUF."""

_OUTSIDE = {
    "embed": "model.embed_tokens.weight",
    "head": "lm_head.weight",
    "final_norm": "model.norm.weight",
}
_NORMS = {
    "attention_norm": "model.layers.{b}.input_layernorm.weight",
    "mlp_norm": "model.layers.{b}.post_attention_layernorm.weight",
}
_MATRICES = {
    "q": "model.layers.{b}.self_attn.q_proj.weight",
    "k": "model.layers.{b}.self_attn.k_proj.weight",
    "v": "model.layers.{b}.self_attn.v_proj.weight",
    "o": "model.layers.{b}.self_attn.o_proj.weight",
    "gate": "model.layers.{b}.mlp.gate_proj.weight",
    "up": "model.layers.{b}.mlp.up_proj.weight",
    "down": "model.layers.{b}.mlp.down_proj.weight",
}
_QKV_BIASES = {
    "q_bias": "model.layers.{b}.self_attn.q_proj.bias",
    "k_bias": "model.layers.{b}.self_attn.k_proj.bias",
    "v_bias": "model.layers.{b}.self_attn.v_proj.bias",
}
_HEAD_NORMS = {
    "q_norm": "model.layers.{b}.self_attn.q_norm.weight",
    "k_norm": "model.layers.{b}.self_attn.k_norm.weight",
}
_GEMMA3_NORMS = {
    "attention_norm": "model.layers.{b}.input_layernorm.weight",
    "attention_post_norm": "model.layers.{b}.post_attention_layernorm.weight",
    "mlp_norm": "model.layers.{b}.pre_feedforward_layernorm.weight",
    "mlp_post_norm": "model.layers.{b}.post_feedforward_layernorm.weight",
}
_PHI3_MATRICES = {
    "qkv": "model.layers.{b}.self_attn.qkv_proj.weight",
    "o": "model.layers.{b}.self_attn.o_proj.weight",
    "gate_up": "model.layers.{b}.mlp.gate_up_proj.weight",
    "down": "model.layers.{b}.mlp.down_proj.weight",
}
_GPT2_PARTS = {
    "embed": "transformer.wte.weight",
    "positions": "transformer.wpe.weight",
    "head": "lm_head.weight",
    "final_norm": "transformer.ln_f.weight",
    "final_norm_bias": "transformer.ln_f.bias",
    "attention_norm": "transformer.h.{b}.ln_1.weight",
    "attention_norm_bias": "transformer.h.{b}.ln_1.bias",
    "mlp_norm": "transformer.h.{b}.ln_2.weight",
    "mlp_norm_bias": "transformer.h.{b}.ln_2.bias",
    "qkv": "transformer.h.{b}.attn.c_attn.weight",
    "qkv_bias": "transformer.h.{b}.attn.c_attn.bias",
    "o": "transformer.h.{b}.attn.c_proj.weight",
    "o_bias": "transformer.h.{b}.attn.c_proj.bias",
    "up": "transformer.h.{b}.mlp.c_fc.weight",
    "up_bias": "transformer.h.{b}.mlp.c_fc.bias",
    "down": "transformer.h.{b}.mlp.c_proj.weight",
    "down_bias": "transformer.h.{b}.mlp.c_proj.bias",
}
_GPT_NEOX_PARTS = {
    "embed": "gpt_neox.embed_in.weight",
    "head": "embed_out.weight",
    "final_norm": "gpt_neox.final_layer_norm.weight",
    "final_norm_bias": "gpt_neox.final_layer_norm.bias",
    "attention_norm": "gpt_neox.layers.{b}.input_layernorm.weight",
    "attention_norm_bias": "gpt_neox.layers.{b}.input_layernorm.bias",
    "mlp_norm": "gpt_neox.layers.{b}.post_attention_layernorm.weight",
    "mlp_norm_bias": "gpt_neox.layers.{b}.post_attention_layernorm.bias",
    "qkv": "gpt_neox.layers.{b}.attention.query_key_value.weight",
    "qkv_bias": "gpt_neox.layers.{b}.attention.query_key_value.bias",
    "o": "gpt_neox.layers.{b}.attention.dense.weight",
    "o_bias": "gpt_neox.layers.{b}.attention.dense.bias",
    "up": "gpt_neox.layers.{b}.mlp.dense_h_to_4h.weight",
    "up_bias": "gpt_neox.layers.{b}.mlp.dense_h_to_4h.bias",
    "down": "gpt_neox.layers.{b}.mlp.dense_4h_to_h.weight",
    "down_bias": "gpt_neox.layers.{b}.mlp.dense_4h_to_h.bias",
}
# Old checkpoints carry the rotary frequencies as a buffer; GGUF has those of Llama 3.1 and later.
_ROTARY = (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"rope_freqs\.weight")


def _like_llama(
    name: str, classes: Mapping[str, str], *parts: Mapping[str, str], **conventions: Any
) -> Layout:
    """A family whose tensors are named as Llama's, in GGUF, too."""
    named = {part: tensor for some in (_OUTSIDE, *parts) for part, tensor in some.items()}
    gguf_names = {part: _GGUF_NAMES[part] for part in named}
    return Layout(name, classes, named, name, gguf_names, ignored=_ROTARY, **conventions)


LAYOUTS = (
    _like_llama(
        "llama",
        {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM"},
        _NORMS,
        _MATRICES,
        gguf_permuted=True,
    ),
    _like_llama("qwen2", {"qwen2": "Qwen2ForCausalLM"}, _NORMS, _MATRICES, _QKV_BIASES),
    _like_llama(
        "qwen3",
        {"qwen3": "Qwen3ForCausalLM"},
        _NORMS,
        _HEAD_NORMS,
        _MATRICES,
        defaults={"head_dim": 128},
    ),
    _like_llama(
        "gemma3",
        {"gemma3_text": "Gemma3ForCausalLM"},
        _GEMMA3_NORMS,
        _HEAD_NORMS,
        _MATRICES,
        norm_offset=1.0,
        tied=True,
        # The 4B model's config.json leaves out all four.
        defaults={
            "vocab_size": 262_208,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
        },
    ),
    _like_llama("phi3", {"phi3": "Phi3ForCausalLM"}, _NORMS, _PHI3_MATRICES),
    Layout(
        "gpt2",
        {"gpt2": "GPT2LMHeadModel"},
        _GPT2_PARTS,
        transposed=True,
        regauged=False,
        tied=True,
        prefix="transformer.",
        ignored=(r"transformer\.h\.\d+\.attn\.bias",),
        left_out=(r"transformer\.h\.\d+\.attn\.masked_bias",),
    ),
    Layout(
        "gpt_neox",
        {"gpt_neox": "GPTNeoXForCausalLM"},
        _GPT_NEOX_PARTS,
        by_head=True,
        regauged=False,
        prefix="gpt_neox.",
        ignored=(r"gpt_neox\.layers\.\d+\.attention\.((masked_)?bias|rotary_emb\.inv_freq)",),
    ),
)


def layout_of(config: Mapping[str, Any]) -> Layout:
    """The layout of a Hugging Face config.

    Raises:
        UnsupportedArchitectureError: no layout has this `model_type`.
    """
    return _find(str(config.get("model_type")), {t: x for x in LAYOUTS for t in x.classes})


def layout_of_gguf(architecture: str) -> Layout:
    """The layout of a GGUF file's `general.architecture`; raises like `layout_of`."""
    return _find(
        architecture, {x.gguf_architecture: x for x in LAYOUTS if x.gguf_architecture is not None}
    )


def _find(name: str, known: Mapping[str, Layout]) -> Layout:
    if name not in known:
        raise UnsupportedArchitectureError(
            f"architecture {name!r} is not supported; known are {', '.join(known)}."
        )
    return known[name]
