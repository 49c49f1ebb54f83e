"""Write a prepared checkpoint as a GGUF file that llama.cpp runs: the inverse of `GgufSource`.

What llama.cpp's code takes for granted in a family (activation, Gemma's pattern of windows, which
rotary scalings) is checked against the config; where they differ nothing is written, because the
file would be another model. Names, order of rows and metadata are those of llama.cpp's own
converter, so any llama.cpp program takes the file.

Source: `conversion/` and `src/models/` of llama.cpp (ggml 0.25.3).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
from jaxtyping import Float32, Shaped

from .checkpoint import Checkpoint
from .gguf_vocabulary import add_vocabulary
from .layouts import Layout, Place, UnsupportedArchitectureError, permute_heads

Kind = Literal["f16", "f32"]
Change = Callable[[str, int, np.ndarray], np.ndarray]

_TYPES = {
    "f16": (np.float16, gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "f32": (np.float32, gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
}
_ACTIVATIONS = {
    "gemma3": ("gelu_pytorch_tanh",),
    "gpt2": ("gelu_new", "gelu_pytorch_tanh"),
    # llama.cpp has one GELU, the tanh form; the exact one is within 5e-4 of it.
    "gpt_neox": ("gelu", "gelu_new", "gelu_pytorch_tanh"),
}
_SWIGLU = ("silu", "swish")
_WITHOUT_READER = {
    "gpt2": "gpt2",
    "gpt_neox": "gptneox",
}
"""What llama.cpp calls the families that are written, and not read, from GGUF."""
_THEIR_NAMES = {
    "embed": "token_embd.weight",
    "positions": "position_embd.weight",
    "head": "output.weight",
    "final_norm": "output_norm.weight",
    "attention_norm": "blk.{b}.attn_norm.weight",
    "mlp_norm": "blk.{b}.ffn_norm.weight",
    "qkv": "blk.{b}.attn_qkv.weight",
    "o": "blk.{b}.attn_output.weight",
    "up": "blk.{b}.ffn_up.weight",
    "down": "blk.{b}.ffn_down.weight",
}


@dataclass(frozen=True)
class _Tensor:
    """One tensor of the file; its values are read when they are written."""

    name: str
    shape: tuple[int, ...]
    kind: Kind
    values: Callable[[], np.ndarray]


def write_gguf(
    checkpoint: Checkpoint, path: Path, *, kind: Kind = "f16", change: Change | None = None
) -> None:
    """Write `path`, whole or not at all; one tensor at a time is in memory.

    Matrices are stored as `kind`, vectors and learned positions in float32, as llama.cpp's
    converter does. A checkpoint without a tokenizer gives a file that takes token ids only.

    Args:
        checkpoint: a prepared one.
        path: a file; what stood there is replaced.
        kind: type of the matrices. Read back by `GgufSource`, f32 gives the tensors bit for bit
            (Gemma's norms within half a unit of 1 + w, which is what GGUF holds).
        change: (role, block, W) to the matrix that takes the place of W, as in `causal_lm.load`.

    Raises:
        UnsupportedArchitectureError: llama.cpp has no such family.
        ValueError: the config asks for what llama.cpp does not do in this family, a value is
            beyond float16, or the tokenizer cannot be written (see `add_vocabulary`).
    """
    unfinished = path.with_name(f".{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write(checkpoint, unfinished, kind, change)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _write(checkpoint: Checkpoint, path: Path, kind: Kind, change: Change | None) -> None:
    about = _config_of(checkpoint)
    writer = gguf.GGUFWriter(path, _architecture(checkpoint.layout))
    writer.add_name(checkpoint.directory.name)
    writer.add_file_type(_TYPES[kind][2])
    _add_sizes(writer, checkpoint, about)
    frequencies = _add_rope(writer, checkpoint, about)
    add_vocabulary(writer, checkpoint)
    tensors = _tensors(checkpoint, kind, change)
    if frequencies is not None:
        tensors.append(_Tensor("rope_freqs.weight", frequencies.shape, "f32", lambda: frequencies))
    for tensor in tensors:
        dtype, ggml_type, _ = _TYPES[tensor.kind]
        n_bytes = int(np.prod(tensor.shape)) * np.dtype(dtype).itemsize
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(dtype), n_bytes, ggml_type)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in tensors:
            writer.write_tensor_data(_as(tensor.kind, tensor.values(), tensor.name))
    finally:
        writer.close()


def _as(kind: Kind, values: Float32[np.ndarray, "..."], name: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(values, dtype=_TYPES[kind][0])
    if not np.isfinite(stored).all():
        raise ValueError(f"{name} holds values that {kind} cannot: write it with kind='f32'.")
    return stored


def _config_of(checkpoint: Checkpoint) -> Any:
    """The config as transformers completes it: what a missing key means is decided there."""
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(checkpoint.directory, local_files_only=True)


def _architecture(layout: Layout) -> str:
    name = layout.gguf_architecture or _WITHOUT_READER.get(layout.name)
    if name is None:
        raise UnsupportedArchitectureError(f"a {layout.name} model cannot be written as GGUF.")
    return name


def _gguf_name(layout: Layout, place: Place) -> str:
    if layout.gguf_names:
        name = layout.gguf_names[place.part]
    elif place.part.endswith("_bias"):
        name = _THEIR_NAMES[place.part.removesuffix("_bias")].replace(".weight", ".bias")
    else:
        name = _THEIR_NAMES[place.part]
    return name.format(b=place.block)


def _tensors(checkpoint: Checkpoint, kind: Kind, change: Change | None) -> list[_Tensor]:
    """All tensors, block by block, those outside the blocks first."""
    layout = checkpoint.layout
    places = {n: place for n in sorted(checkpoint.entries) if (place := layout.place(n))}
    tensors = []
    for name in sorted(places, key=lambda name: places[name].order):
        place = places[name]
        shape = checkpoint.geometry.shape(place.part)
        in_float32 = len(shape) == 1 or place.part == "positions"
        tensors.append(
            _Tensor(
                _gguf_name(layout, place),
                shape,
                "f32" if in_float32 else kind,
                lambda name=name, place=place: _values(checkpoint, name, place, change),
            )
        )
    return tensors


def _values(
    checkpoint: Checkpoint, name: str, place: Place, change: Change | None
) -> Float32[np.ndarray, "..."]:
    """A tensor as GGUF holds it: (outputs, inputs), rows in llama.cpp's order."""
    layout, geometry = checkpoint.layout, checkpoint.geometry
    if change is not None and place.block is not None and place.roles:
        stored = checkpoint.replaced(name, change)
    else:
        stored = checkpoint.entries[name].float32()
    heads = {"q": geometry.heads, "k": geometry.kv_heads}
    part = place.part.removesuffix("_bias")
    if layout.gguf_permuted and part in heads:
        return permute_heads(stored, heads[part])
    if layout.norm_offset and part.endswith("norm"):
        return stored + np.float32(layout.norm_offset)
    if layout.by_head and part == "qkv":
        return _by_role(stored, geometry.heads)
    transposed = layout.transposed and place.block is not None and place.roles
    return stored.T if transposed else stored


def _by_role(stored: Shaped[np.ndarray, "rows ..."], heads: int) -> np.ndarray:
    """Rows (heads, 3, head_dim) to all of q, then k, then v."""
    split = stored.reshape(heads, 3, -1, *stored.shape[1:])
    return np.ascontiguousarray(split.swapaxes(0, 1).reshape(stored.shape))


def _add_sizes(writer: gguf.GGUFWriter, checkpoint: Checkpoint, about: Any) -> None:
    layout, geometry = checkpoint.layout, checkpoint.geometry
    _check(checkpoint, about)
    writer.add_block_count(geometry.blocks)
    writer.add_context_length(_context(about))
    writer.add_embedding_length(geometry.hidden)
    writer.add_feed_forward_length(geometry.intermediate)
    writer.add_vocab_size(geometry.vocabulary)
    writer.add_head_count(geometry.heads)
    writer.add_head_count_kv(geometry.kv_heads)
    if layout.name == "gpt2":
        writer.add_layer_norm_eps(about.layer_norm_epsilon)
        return
    writer.add_key_length(geometry.head_dim)
    writer.add_value_length(geometry.head_dim)
    if layout.name == "gpt_neox":
        writer.add_layer_norm_eps(about.layer_norm_eps)
        writer.add_parallel_residual(about.use_parallel_residual)
        return
    writer.add_layer_norm_rms_eps(about.rms_norm_eps)
    if layout.name == "gemma3":
        writer.add_sliding_window(about.sliding_window)
        if about.final_logit_softcapping:
            writer.add_final_logit_softcapping(about.final_logit_softcapping)
    if layout.name == "phi3":
        writer.add_sliding_window(about.sliding_window or 0)
        writer.add_rope_scaling_orig_ctx_len(about.original_max_position_embeddings)


def _context(about: Any) -> int:
    """Tokens up to which llama.cpp computes the same function.

    It ignores the sliding window of all families but Gemma 3; texts within one window do not
    notice.
    """
    positions = about.max_position_embeddings
    window = getattr(about, "sliding_window", None)
    if window is None or about.model_type == "gemma3_text":
        return positions
    return min(positions, window)


def _check(checkpoint: Checkpoint, about: Any) -> None:
    """Refuse what llama.cpp's code for the family does not do.

    Raises:
        ValueError: naming the key and its value.
    """
    layout, geometry = checkpoint.layout, checkpoint.geometry

    def refuse(key: str, value: Any, instead: str) -> None:
        raise ValueError(
            f"{checkpoint.directory}: llama.cpp's {_architecture(layout)} has {instead}, and "
            f"config.json says {key} = {value!r}; the model cannot be written as GGUF."
        )

    names = ("hidden_activation", "hidden_act", "activation_function")
    key = next(name for name in names if getattr(about, name, None) is not None)
    known = _ACTIVATIONS.get(layout.name, _SWIGLU)
    if getattr(about, key) not in known:
        refuse(key, getattr(about, key), f"the activation {known[0]}")
    if layout.name in ("qwen2", "phi3") and geometry.heads * geometry.head_dim != geometry.hidden:
        refuse("head_dim", geometry.head_dim, "heads of width hidden / heads")
    if layout.name == "gpt2":
        if not about.scale_attn_weights:
            refuse("scale_attn_weights", False, "scaled attention")
        if about.scale_attn_by_inverse_layer_idx:
            refuse("scale_attn_by_inverse_layer_idx", True, "one scale in all blocks")
    if layout.name == "gemma3":
        kinds = [
            "full_attention" if (b + 1) % 6 == 0 else "sliding_attention"
            for b in range(geometry.blocks)
        ]
        if list(about.layer_types) != kinds:
            refuse("layer_types", about.layer_types, "full attention in every sixth block alone")
        of_27b = geometry.blocks == 62  # as llama.cpp tells it
        scale = geometry.hidden // geometry.heads if of_27b else geometry.head_dim
        if about.query_pre_attn_scalar != scale:
            refuse("query_pre_attn_scalar", about.query_pre_attn_scalar, f"{scale} there")
        if getattr(about, "attn_logit_softcapping", None) is not None:
            refuse("attn_logit_softcapping", about.attn_logit_softcapping, "no such cap")
        if getattr(about, "use_bidirectional_attention", False):
            refuse("use_bidirectional_attention", True, "causal attention")


def _add_rope(
    writer: gguf.GGUFWriter, checkpoint: Checkpoint, about: Any
) -> Float32[np.ndarray, " frequencies"] | None:
    """Metadata of the rotary embedding; Llama 3.1's scaling is a tensor, which is returned."""
    layout, head_dim = checkpoint.layout, checkpoint.geometry.head_dim
    if layout.name == "gpt2":
        return None
    rope: Mapping[str, Any] = about.rope_parameters
    if layout.name == "gemma3":
        local, rope = rope["sliding_attention"], rope["full_attention"]
        _refuse_rope(checkpoint, local, ("default",))
        writer.add_rope_freq_base_swa(local["rope_theta"])
    known = ("default", "linear", "llama3") if layout.name == "llama" else ("default", "linear")
    _refuse_rope(checkpoint, rope, known)
    rotated = int(head_dim * (rope.get("partial_rotary_factor") or 1.0))
    if rotated != head_dim and layout.name not in ("phi3", "gpt_neox"):
        raise ValueError(
            f"{checkpoint.directory}: llama.cpp's {_architecture(layout)} rotates whole heads, and "
            f"config.json says partial_rotary_factor = {rope['partial_rotary_factor']}."
        )
    writer.add_rope_dimension_count(rotated)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    return _llama3_factors(rope, head_dim) if rope["rope_type"] == "llama3" else None


def _refuse_rope(checkpoint: Checkpoint, rope: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if rope["rope_type"] not in known:
        raise ValueError(
            f"{checkpoint.directory}: a rotary embedding of rope_type {rope['rope_type']!r} is not "
            f"written for {checkpoint.layout.name}; known are {', '.join(known)}."
        )


def _llama3_factors(rope: Mapping[str, Any], head_dim: int) -> Float32[np.ndarray, " frequencies"]:
    """What Llama 3.1's scaling divides each frequency by.

    Source: `_compute_llama3_parameters` in transformers' `modeling_rope_utils.py`.
    """
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    wavelengths = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, head_dim, 2) / head_dim)
    turns = rope["original_max_position_embeddings"] / wavelengths
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32)
