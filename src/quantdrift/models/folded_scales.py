"""The scales that AWQ folds into norms and neighbours: a gauge (see `gauge.py`), measured.

AWQ multiplies the columns of a matrix by a scale before it rounds, and divides what stands before
it: the norm for q, k, v and for gate, up; the rows of v for o; the rows of up for down. Its
matrices are therefore the base's in another gauge, and compare with the base only after it is
undone. The scales themselves are not stored:

- Those in the norms are exact: the base's norm divided by the file's.
- So are those between v and o where v has a bias, since it is scaled, too.
- Those between up and down, and between v and o without a bias, leave no other trace than the
  matrices. They are fitted: for each row of v or up, by least squares to the row of the base. What
  AWQ's rounding did to the length of these rows cannot be told from its scales, and is lost.

Whatever the scales, the function is the file's: what one matrix is multiplied by, its neighbour is
divided by.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from quantdrift.quantizers.ledger import Quantized

from .checkpoint import Checkpoint
from .gauge import Gauge, regauge
from .quantized_tensor import StoredVector

_ROUNDED = 0.1
"""Rounding alone changes no row's length by more than 2^0.1 (7 %); scales that fold do."""


@dataclass(frozen=True)
class FoldedGauge(Gauge):
    """The gauge of one block of an AWQ file."""

    scales: Mapping[str, np.ndarray] = field(default_factory=dict)
    fitted: tuple[str, ...] = ()
    """Roles whose rows were fitted: `v`, `up`."""

    def scale(self, group: str, block: int) -> Float[np.ndarray, " n"]:
        """The float64 scales of one group of channels; `block` is the block it was measured in."""
        return self.scales[group]


def folded_gauge(
    block: int,
    vectors: Mapping[str, StoredVector],
    matrices: Mapping[str, Quantized],
    base: Checkpoint,
    home: Gauge,
) -> FoldedGauge:
    """The gauge of the file's block `block`.

    Args:
        block: which.
        vectors: part to norm or bias, as the file has them.
        matrices: role to matrix, as the file has them.
        base: what was quantized.
        home: the gauge that `base` is in.

    Raises:
        ValueError: a channel of a norm or bias is 0 in one of the two models alone.
    """
    layout = base.layout

    def ratio(part: str, above: np.ndarray, below: np.ndarray) -> np.ndarray:
        offset = layout.norm_offset if part.endswith("norm") else 0.0
        numerator, denominator = above.astype(np.float64) + offset, below + np.float64(offset)
        dead = (numerator == 0) & (denominator == 0)
        if odd := np.flatnonzero(((numerator == 0) | (denominator == 0)) & ~dead).tolist():
            name = layout.tensor(part, block)
            raise ValueError(f"channel {odd[0]} of {name} is 0 in the file or in the base alone")
        return np.where(dead, 1.0, numerator / np.where(dead, 1.0, denominator))

    def stored(part: str) -> np.ndarray:
        return base.entries[layout.tensor(part, block)].float32()

    scales = {group: home.scale(group, block) for group in ("a", "m", "s", "t")}
    for group, part in (("a", "attention_norm"), ("m", "mlp_norm")):
        scales[group] = scales[group] * ratio(part, stored(part), vectors[part].values)
    fitted = []
    if "v_bias" in vectors:
        scales["s"] = scales["s"] * ratio("v_bias", vectors["v_bias"].values, stored("v_bias"))
    for group, role in (("s", "v"), ("t", "up")):
        # AutoAWQ scales v for o only where every head has a v of its own.
        if role == "v" and ("v_bias" in vectors or base.geometry.heads != base.geometry.kv_heads):
            continue
        so_far = FoldedGauge(None, base.geometry, scales)
        weight = regauge(matrices[role].weight, role, block, so_far, home)
        lengths = _row_scales(weight, base.matrix(role, block))
        if np.abs(np.log2(lengths)).max() > _ROUNDED:
            scales[group] = scales[group] * lengths
            fitted.append(role)
    return FoldedGauge(None, base.geometry, scales, tuple(fitted))


def _row_scales(
    weight: Float[np.ndarray, "rows columns"], base: Float[np.ndarray, "rows columns"]
) -> Float[np.ndarray, " rows"]:
    """What the rows of `base` are to be multiplied by; 1 where a row has no likeness with it."""
    products = np.einsum("ij,ij->i", weight, base, dtype=np.float64)
    squares = np.einsum("ij,ij->i", base, base, dtype=np.float64)
    alike = (products > 0) & (squares > 0)
    return np.where(alike, products / np.where(alike, squares, 1.0), 1.0)
