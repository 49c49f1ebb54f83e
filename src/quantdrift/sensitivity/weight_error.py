"""How far a quantized matrix is from its base: Frobenius norm, MAE, cosine, largest error."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

CHUNK = 1 << 16
"""Weights that are float64 at a time: they stay in the cache, and no copy of the matrix is made."""


@dataclass(frozen=True)
class WeightError:
    """The error Δ = W - Ŵ of one matrix.

    `relative_frobenius` is ‖Δ‖ / ‖W‖; `mae` and `max_abs` are the mean and the largest |Δ|, in the
    unit of the weights; `cosine` is that of the flattened matrices, 0 where Ŵ is all zeros.
    """

    relative_frobenius: float
    mae: float
    cosine: float
    max_abs: float


def weight_error(
    base: Float[np.ndarray, "_rows _cols"], quantized: Float[np.ndarray, "_rows _cols"]
) -> WeightError:
    """The error of `quantized` against `base`; differences and sums are taken in float64.

    Raises:
        ValueError: the shapes differ; `base` is all zeros or empty, so that nothing is relative to
            it; or a value is not finite.

    Source: Δ is equation 4 of TopoQuant.
    """
    if base.shape != quantized.shape:
        raise ValueError(f"base has shape {base.shape}, quantized {quantized.shape}")
    w, w_hat = np.ravel(base), np.ravel(quantized)
    ΔΔ = WW = ŴŴ = WŴ = abs_sum = max_abs = 0.0
    for start in range(0, w.size, CHUNK):
        W = w[start : start + CHUNK].astype(np.float64)
        Ŵ = w_hat[start : start + CHUNK].astype(np.float64)
        Δ = np.abs(W - Ŵ)
        ΔΔ += np.sum(Δ * Δ)
        WW += np.sum(W * W)
        ŴŴ += np.sum(Ŵ * Ŵ)
        WŴ += np.sum(W * Ŵ)
        abs_sum += np.sum(Δ)
        max_abs = max(max_abs, Δ.max())
    if not np.isfinite(WW + ŴŴ):
        raise ValueError("base or quantized holds values that are not finite")
    if WW == 0:
        raise ValueError(f"base, of shape {base.shape}, is all zeros: nothing is relative to it")
    return WeightError(
        relative_frobenius=float(np.sqrt(ΔΔ / WW)),
        mae=float(abs_sum / w.size),
        cosine=float(np.clip(WŴ / np.sqrt(WW * ŴŴ), -1, 1)) if ŴŴ > 0 else 0.0,
        max_abs=float(max_abs),
    )
