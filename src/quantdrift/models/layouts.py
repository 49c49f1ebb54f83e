"""Where an architecture keeps its weights: roles and norms by their names in Hugging Face and GGUF.

A role names what a matrix does (`q k v o gate up down embed head`); a layout says which tensor
holds it. What no layout knows is refused by name, with the list of what is known.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

ROLES = ("q", "k", "v", "o", "gate", "up", "down", "embed", "head")


class UnsupportedArchitectureError(ValueError):
    """No layout knows the architecture or a tensor of it."""


@dataclass(frozen=True)
class Place:
    """What one tensor is: a role or the name of a norm or bias, and its block (None outside)."""

    part: str
    block: int | None

    @property
    def role(self) -> str | None:
        """The role, where the tensor is a weight matrix."""
        return self.part if self.part in ROLES else None

    @property
    def order(self) -> int:
        """By which tensors are read block by block; those outside come first."""
        return -1 if self.block is None else self.block


@dataclass(frozen=True)
class Layout:
    """Names and conventions of one family of architectures.

    `parts` maps a part to its Hugging Face name and its GGUF name, `{b}` standing for the block.
    """

    name: str
    model_types: tuple[str, ...]
    """`model_type` of config.json."""
    gguf_architecture: str
    gguf_permuted: bool
    """GGUF stores the rows of q and k pairwise interleaved (llama.cpp's RoPE convention)."""
    parts: dict[str, tuple[str, str]]
    ignored: tuple[str, ...] = ()
    """Patterns of tensors that carry no weights (buffers)."""

    def place(self, tensor: str) -> Place | None:
        """The place of a tensor by its Hugging Face name; None for a buffer.

        Raises:
            UnsupportedArchitectureError: the layout does not know the name.
        """
        return self._place(tensor, column=0)

    def gguf_place(self, tensor: str) -> Place | None:
        """The place of a tensor by its GGUF name; see `place`."""
        return self._place(tensor, column=1)

    def tensor(self, part: str, block: int | None = None) -> str:
        """The Hugging Face name of a part."""
        return self.parts[part][0].format(b=block)

    def in_blocks(self, part: str) -> bool:
        """Whether every block has this part; else it is there once, outside."""
        return "{b}" in self.parts[part][0]

    def _place(self, tensor: str, column: int) -> Place | None:
        for part, names in self.parts.items():
            pattern = re.escape(names[column]).replace(r"\{b\}", r"(\d+)")
            if match := re.fullmatch(pattern, tensor):
                return Place(part, int(match[1]) if match.groups() else None)
        if any(re.fullmatch(pattern, tensor) for pattern in self.ignored):
            return None
        known = ", ".join(names[column] for names in self.parts.values())
        raise UnsupportedArchitectureError(
            f"tensor {tensor!r} has no place in the layout {self.name!r}, which knows {known}. "
            "The checkpoint is of another architecture, or carries an adapter that must be merged."
        )


_LLAMA_PARTS = {
    "embed": ("model.embed_tokens.weight", "token_embd.weight"),
    "head": ("lm_head.weight", "output.weight"),
    "final_norm": ("model.norm.weight", "output_norm.weight"),
    "attention_norm": ("model.layers.{b}.input_layernorm.weight", "blk.{b}.attn_norm.weight"),
    "mlp_norm": ("model.layers.{b}.post_attention_layernorm.weight", "blk.{b}.ffn_norm.weight"),
    "q": ("model.layers.{b}.self_attn.q_proj.weight", "blk.{b}.attn_q.weight"),
    "k": ("model.layers.{b}.self_attn.k_proj.weight", "blk.{b}.attn_k.weight"),
    "v": ("model.layers.{b}.self_attn.v_proj.weight", "blk.{b}.attn_v.weight"),
    "o": ("model.layers.{b}.self_attn.o_proj.weight", "blk.{b}.attn_output.weight"),
    "gate": ("model.layers.{b}.mlp.gate_proj.weight", "blk.{b}.ffn_gate.weight"),
    "up": ("model.layers.{b}.mlp.up_proj.weight", "blk.{b}.ffn_up.weight"),
    "down": ("model.layers.{b}.mlp.down_proj.weight", "blk.{b}.ffn_down.weight"),
}
_QWEN2_PARTS = _LLAMA_PARTS | {
    "q_bias": ("model.layers.{b}.self_attn.q_proj.bias", "blk.{b}.attn_q.bias"),
    "k_bias": ("model.layers.{b}.self_attn.k_proj.bias", "blk.{b}.attn_k.bias"),
    "v_bias": ("model.layers.{b}.self_attn.v_proj.bias", "blk.{b}.attn_v.bias"),
}
# Old checkpoints carry the rotary frequencies as a buffer; GGUF has those of Llama 3.1 and later.
_ROTARY = (r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"rope_freqs\.weight")

LAYOUTS = (
    Layout("llama", ("llama", "mistral"), "llama", True, _LLAMA_PARTS, _ROTARY),
    Layout("qwen2", ("qwen2",), "qwen2", False, _QWEN2_PARTS, _ROTARY),
)


def layout_of(config: dict[str, Any]) -> Layout:
    """The layout of a Hugging Face config.

    Raises:
        UnsupportedArchitectureError: no layout has this `model_type`.
    """
    return _find(str(config.get("model_type")), {t: x for x in LAYOUTS for t in x.model_types})


def layout_of_gguf(architecture: str) -> Layout:
    """The layout of a GGUF file's `general.architecture`; raises like `layout_of`."""
    return _find(architecture, {layout.gguf_architecture: layout for layout in LAYOUTS})


def _find(name: str, known: dict[str, Layout]) -> Layout:
    if name not in known:
        raise UnsupportedArchitectureError(
            f"architecture {name!r} is not supported; known are {', '.join(known)}."
        )
    return known[name]


@dataclass(frozen=True)
class Geometry:
    """The sizes a config promises; shapes do not tell how heads share the rows of q, k and v."""

    blocks: int
    hidden: int
    intermediate: int
    vocabulary: int
    heads: int
    kv_heads: int
    head_dim: int

    @staticmethod
    def of(config: dict[str, Any]) -> "Geometry":
        """From a Hugging Face config; `head_dim` is hidden / heads only where it is not given.

        Raises:
            ValueError: the config lacks a size, or it is no positive whole number.
        """

        def size(key: str) -> int:
            value = config.get(key)
            if not isinstance(value, int) or value <= 0:
                raise ValueError(f"config.json: {key} is {value!r}, not a positive whole number.")
            return value

        heads, hidden = size("num_attention_heads"), size("hidden_size")
        given = {key for key in ("num_key_value_heads", "head_dim") if config.get(key) is not None}
        geometry = Geometry(
            blocks=size("num_hidden_layers"),
            hidden=hidden,
            intermediate=size("intermediate_size"),
            vocabulary=size("vocab_size"),
            heads=heads,
            kv_heads=size("num_key_value_heads") if "num_key_value_heads" in given else heads,
            head_dim=size("head_dim") if "head_dim" in given else hidden // heads,
        )
        if heads % geometry.kv_heads:
            raise ValueError(
                f"config.json: {heads} query heads cannot share {geometry.kv_heads} key heads."
            )
        return geometry

    def shape(self, part: str) -> tuple[int, ...]:
        """The shape a part's tensor must have, (outputs, inputs) for a matrix."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q": (q, self.hidden),
            "k": (kv, self.hidden),
            "v": (kv, self.hidden),
            "o": (self.hidden, q),
            "gate": (self.intermediate, self.hidden),
            "up": (self.intermediate, self.hidden),
            "down": (self.hidden, self.intermediate),
            "embed": (self.vocabulary, self.hidden),
            "head": (self.vocabulary, self.hidden),
            "attention_norm": (self.hidden,),
            "mlp_norm": (self.hidden,),
            "final_norm": (self.hidden,),
            "q_bias": (q,),
            "k_bias": (kv,),
            "v_bias": (kv,),
        }[part]


def permute_heads(weight: Shaped[np.ndarray, "rows ..."], heads: int) -> np.ndarray:
    """Hugging Face's order of q or k rows (halves of a head) to llama.cpp's (interleaved pairs).

    `heads` is the number of heads *this* matrix has: query heads for q, key-value heads for k.
    """
    rows = weight.shape[0]
    split = weight.reshape(heads, 2, rows // heads // 2, *weight.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2).reshape(weight.shape))


def unpermute_heads(weight: Shaped[np.ndarray, "rows ..."], heads: int) -> np.ndarray:
    """The inverse of `permute_heads`: llama.cpp's order of rows to Hugging Face's."""
    rows = weight.shape[0]
    split = weight.reshape(heads, rows // heads // 2, 2, *weight.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2).reshape(weight.shape))
