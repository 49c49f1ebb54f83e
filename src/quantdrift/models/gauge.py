"""Gauges of a transformer: channel scalings that change every weight and no output.

A base model that was quantized before lies on that format's lattice and spoils every comparison
with it. Scaling channels by 2^u, |u| <= 1/2, compensated in norms and neighbours, is the same
function without the lattice. The scalings, for block b:

    attention norm / a,   columns of q, k, v   * a        (one scale per residual channel)
    mlp norm       / m,   columns of gate, up  * m
    rows of v      * s,   columns of o         / s        (once for all heads that read v)
    rows of up     * t,   columns of down      / t

Where a norm multiplies by 1 + w (Gemma), 1 + w is what is divided. LayerNorm would allow the first
three, but an MLP without a gate (GPT-2, GPT-NeoX) has no linear path for t, so those families have
no gauge here.

The residual stream itself is untouched, so what is measured on it is free of the gauge. Tied
embeddings keep their lattice. Gauges form a group: from seed i to seed j is again a gauge.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .geometry import Geometry
from .layouts import FUSED, Layout, Place

_GROUPS = ("a", "m", "s", "t")


@dataclass(frozen=True)
class Gauge:
    """The gauge of one seed; seed None is the identity."""

    seed: int | None
    geometry: Geometry

    def scale(self, group: str, block: int) -> Float[np.ndarray, " n"]:
        """The float64 scales of one group of channels."""
        size = {
            "a": self.geometry.hidden,
            "m": self.geometry.hidden,
            "s": self.geometry.kv_heads * self.geometry.head_dim,
            "t": self.geometry.intermediate,
        }[group]
        if self.seed is None:
            return np.ones(size)
        rng = np.random.default_rng([self.seed, block, _GROUPS.index(group)])
        return np.exp2(rng.uniform(-0.5, 0.5, size))


def regauge(
    tensor: Float[np.ndarray, "*shape"],
    part: str,
    block: int | None,
    old: Gauge,
    new: Gauge,
    *,
    norm_offset: float = 0.0,
) -> Float[np.ndarray, "*shape"]:
    """A tensor of gauge `old` in gauge `new`; what no gauge touches comes back as it is.

    Args:
        tensor: (rows, columns) of a matrix, or (channels,) of a norm or bias; float32 or float64,
            which comes back (half precision would round away what the gauge is for).
        part: a role, `attention_norm`, `mlp_norm` or a bias (`v_bias`), as in the layout.
        block: the block it belongs to; None outside the blocks.
        old: the gauge the tensor is in.
        new: the gauge it is moved to.
        norm_offset: what the model adds to a stored norm before it multiplies.
    """
    if block is None or old == new:
        return tensor
    geometry = new.geometry

    def change(group: str) -> np.ndarray:
        return new.scale(group, block) / old.scale(group, block)

    match part:
        case "attention_norm" | "mlp_norm":
            group = "a" if part == "attention_norm" else "m"
            scaled = (tensor.astype(np.float64) + norm_offset) / change(group) - norm_offset
        case "q" | "k":
            scaled = tensor * change("a")
        case "v":
            scaled = change("s")[:, None] * tensor * change("a")
        case "v_bias":
            scaled = tensor * change("s")
        case "o":
            by_head = change("s").reshape(geometry.kv_heads, 1, geometry.head_dim)
            shared = np.repeat(by_head, geometry.heads // geometry.kv_heads, axis=1)
            scaled = tensor / shared.reshape(-1)
        case "gate":
            scaled = tensor * change("m")
        case "up":
            scaled = change("t")[:, None] * tensor * change("m")
        case "down":
            scaled = tensor / change("t")
        case _:
            return tensor
    return scaled.astype(tensor.dtype)


def regauge_stored(
    tensor: Float[np.ndarray, "*shape"], place: Place, layout: Layout, old: Gauge, new: Gauge
) -> Float[np.ndarray, "*shape"]:
    """`regauge` for a tensor as it is stored: all matrices that are fused in it."""
    if place.part not in FUSED:
        offset = layout.norm_offset
        return regauge(tensor, place.part, place.block, old, new, norm_offset=offset)
    if old == new:
        return tensor
    moved = tensor.copy()
    for role, view in layout.views(place.part, moved, new.geometry).items():
        view[...] = regauge(view, role, place.block, old, new)
    return moved
