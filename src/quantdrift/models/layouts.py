"""Where an architecture keeps its weights: roles and norms by their names in Hugging Face and GGUF.

A role names what a matrix does (`q k v o gate up down embed head`). A layout says which stored
tensor holds it: alone, fused with others (`qkv`, `gate_up`), or transposed. Whatever the storage,
a role's matrix is (outputs, inputs). The families themselves are in `families.py`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Shaped

from .geometry import Geometry

LINEAR_ROLES = ("q", "k", "v", "o", "gate", "up", "down")
"""Those of a block."""
ROLES = (*LINEAR_ROLES, "embed", "head")
FUSED = {"qkv": ("q", "k", "v"), "gate_up": ("gate", "up")}
"""Parts that hold several roles, in the order of their rows."""


class UnsupportedArchitectureError(ValueError):
    """No layout knows the architecture or a tensor of it."""


@dataclass(frozen=True)
class Place:
    """What one stored tensor is: its part (see `Layout.parts`), and its block (None outside)."""

    part: str
    block: int | None

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles whose matrices the tensor holds: none for norms and biases."""
        return FUSED.get(self.part, (self.part,) if self.part in ROLES else ())

    @property
    def role(self) -> str | None:
        """The roles in one word for the manifest: `q`, or `q k v` where they are fused."""
        return " ".join(self.roles) or None

    @property
    def order(self) -> int:
        """By which tensors are read block by block; those outside come first."""
        return -1 if self.block is None else self.block


@dataclass(frozen=True)
class Layout:
    """Names and conventions of one family of architectures."""

    name: str
    classes: Mapping[str, str]
    """`model_type` of config.json to the class of transformers."""
    parts: Mapping[str, str]
    """A part to its Hugging Face name, `{b}` standing for the block.

    Parts are roles, fused roles (`FUSED`), norms (`..._norm`), biases (`..._bias`) and `positions`.
    """
    gguf_architecture: str | None = None
    """`general.architecture`; None where GGUF files of the family are not read."""
    gguf_names: Mapping[str, str] = field(default_factory=dict)
    """A part to its GGUF name."""
    gguf_permuted: bool = False
    """GGUF stores the rows of q and k pairwise interleaved (llama.cpp's RoPE convention)."""
    norm_offset: float = 0.0
    """A norm multiplies by offset + w, w being what Hugging Face stores; GGUF stores the sum."""
    transposed: bool = False
    """Linear weights of the blocks are stored (inputs, outputs)."""
    by_head: bool = False
    """Rows of a fused qkv are (heads, 3, head_dim), not q, then k, then v."""
    regauged: bool = True
    """The gauges of `gauge.py` keep the function."""
    tied: bool = False
    """Whether embedding and head are one where the config does not say."""
    defaults: Mapping[str, int] = field(default_factory=dict)
    """Sizes that transformers takes where the config does not say."""
    prefix: str = ""
    """What names may lack in a checkpoint that was saved without its head."""
    ignored: tuple[str, ...] = ()
    """Patterns of tensors that carry no weights (buffers), as transformers knows."""
    left_out: tuple[str, ...] = ()
    """Patterns of buffers that transformers would complain of."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The linear roles of a block."""
        held = {role for part in self.parts for role in Place(part, None).roles}
        return tuple(role for role in LINEAR_ROLES if role in held)

    def part_of(self, role: str) -> str | None:
        """The part that holds a role's matrix; None where the architecture has no such role."""
        held = {role: part for part in self.parts for role in Place(part, None).roles}
        return held.get(role)

    def geometry(self, config: Mapping[str, Any]) -> Geometry:
        """The sizes of a config of this family."""
        return Geometry.of(config, self.defaults)

    def place(self, tensor: str) -> Place | None:
        """The place of a tensor by its Hugging Face name; None for a buffer.

        Raises:
            UnsupportedArchitectureError: the layout does not know the name.
        """
        return self._place(tensor, self.parts)

    def gguf_place(self, tensor: str) -> Place | None:
        """The place of a tensor by its GGUF name; see `place`."""
        return self._place(tensor, self.gguf_names)

    def tensor(self, part: str, block: int | None = None) -> str:
        """The Hugging Face name of a part."""
        return self.parts[part].format(b=block)

    def in_blocks(self, part: str) -> bool:
        """Whether every block has this part; else it is there once, outside."""
        return "{b}" in self.parts[part]

    def spelled(self, tensor: str) -> str | None:
        """The full name of a tensor that may lack the prefix; None for one that is left out."""
        whole = (self.prefix, self.parts["head"])
        name = tensor if tensor.startswith(whole) else self.prefix + tensor
        return None if any(re.fullmatch(pattern, name) for pattern in self.left_out) else name

    def stored_shape(self, part: str, geometry: Geometry) -> tuple[int, ...]:
        """The shape of a part's tensor in the file."""
        shape = geometry.shape(part)
        return shape[::-1] if self._is_transposed(part) else shape

    def views(
        self, part: str, stored: Shaped[np.ndarray, "..."], geometry: Geometry
    ) -> dict[str, Shaped[np.ndarray, "... inputs"]]:
        """The matrices in a stored tensor, as views: writing to them writes to it.

        Returns:
            Role to matrix; (outputs, inputs), or (heads, head_dim, inputs) where heads interleave.
        """
        matrix = stored.T if self._is_transposed(part) else stored
        roles = Place(part, None).roles
        if len(roles) == 1:
            return {part: matrix}
        if self.by_head:
            rows = matrix.reshape(geometry.heads, len(roles), geometry.head_dim, -1)
            return {role: rows[:, i] for i, role in enumerate(roles)}
        ends = np.cumsum([geometry.shape(role)[0] for role in roles])
        return dict(zip(roles, np.split(matrix, ends[:-1]), strict=True))

    def _is_transposed(self, part: str) -> bool:
        return self.transposed and bool({*LINEAR_ROLES} & {*Place(part, None).roles})

    def _place(self, tensor: str, names: Mapping[str, str]) -> Place | None:
        for part, name in names.items():
            pattern = re.escape(name).replace(r"\{b\}", r"(\d+)")
            if match := re.fullmatch(pattern, tensor):
                return Place(part, int(match[1]) if match.groups() else None)
        if any(re.fullmatch(pattern, tensor) for pattern in self.ignored):
            return None
        raise UnsupportedArchitectureError(
            f"tensor {tensor!r} has no place in the layout {self.name!r}, which knows "
            f"{', '.join(names.values())}. "
            "The checkpoint is of another architecture, or carries an adapter that must be merged."
        )


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
