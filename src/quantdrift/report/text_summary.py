"""From single tokens to perplexity, KL and their standard errors.

Windows are the sample: tokens of one window are no independent draws. A mean over tokens is a ratio
of two sums over windows, and its standard error the linearised one of such a ratio.
"""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from .names import Names

BROKEN = 10.0
"""A perplexity that many times the base's says that nothing is left to compare."""
CELL = ["model", "scheme", "protocol"]
_NUMBERS = ["nll", "nll_base", "kl", "jsd", "tv", "p_top_base", "p_top", "same_top"]


def ratio_error(
    sums: Float[np.ndarray, " window"], counts: Float[np.ndarray, " window"]
) -> float | None:
    """Standard error of sum(sums) / sum(counts) over windows; None for a single one."""
    n = len(sums)
    if n < 2:
        return None
    mean = sums.sum() / counts.sum()
    residuals = sums - mean * counts
    return float(np.sqrt(n / (n - 1) * (residuals**2).sum()) / counts.sum())


def perplexity_rows(tokens: pd.DataFrame, names: Names) -> pd.DataFrame:
    """The rows of `perplexity_table`, in the study's order.

    Args:
        tokens: the table `tokens`; it holds the base, too.
        names: of the study.

    Raises:
        ValueError: a scheme and its base read different tokens.
    """
    is_base = tokens["scheme"] == "base"
    bases = {
        (model, protocol): its
        for (model, protocol), its in tokens[is_base].groupby(["model", "protocol"])
    }
    rows = []
    for (model, scheme, protocol), its in tokens[~is_base].groupby(CELL, sort=False):
        base = bases[model, protocol]
        token_hash, its_base = (str(one["token_sha256"].iloc[0]) for one in (its, base))
        if token_hash != its_base:
            raise ValueError(
                f"{model}, {protocol}: scheme {scheme} read the tokens {token_hash}, the base "
                f"{its_base}. Delete both shards and run again."
            )
        floor = float(base["kl"].to_numpy(dtype=float).mean())
        key = {"model": model, "scheme": scheme, "protocol": protocol}
        rows.append(key | {"token_sha256": token_hash, "kl_floor": floor} | numbers(its))
    return names.described(pd.DataFrame(rows))


def numbers(its: pd.DataFrame) -> dict[str, Any]:
    """What the tokens of one scheme on one text come to."""
    of = {name: its[name].to_numpy(dtype=float) for name in _NUMBERS}
    _, place = np.unique(its["window"].to_numpy(), return_inverse=True)
    counts = np.bincount(place).astype(float)
    sums = {name: np.bincount(place, weights=values) for name, values in of.items()}

    def error(values: Float[np.ndarray, " window"]) -> float | None:
        return ratio_error(values, counts)

    nll, nll_base = of["nll"].mean(), of["nll_base"].mean()
    nll_error = error(sums["nll"])
    dp = np.exp(-of["nll"]) - np.exp(-of["nll_base"])
    quantiles = np.quantile(of["kl"], [0.5, 0.9, 0.99, 0.999])
    return {
        "n_windows": len(counts),
        "n_tokens": len(its),
        "perplexity": float(np.exp(nll)),
        "perplexity_se": None if nll_error is None else float(np.exp(nll) * nll_error),
        "perplexity_base": float(np.exp(nll_base)),
        "log_ratio": float(nll - nll_base),
        "log_ratio_se": error(sums["nll"] - sums["nll_base"]),
        "nll_correlation": _correlation(sums["nll"] / counts, sums["nll_base"] / counts),
        "kl": float(of["kl"].mean()),
        "kl_se": error(sums["kl"]),
        **dict(zip(("kl_median", "kl_90", "kl_99", "kl_99_9"), quantiles.tolist(), strict=True)),
        "kl_max": float(of["kl"].max()),
        "jsd": float(of["jsd"].mean()),
        "tv": float(of["tv"].mean()),
        "same_top": float(of["same_top"].mean()),
        "same_top_se": error(sums["same_top"]),
        "dp": float(dp.mean()),
        "dp_rms": float(np.sqrt((dp**2).mean())),
        "p_top_rms": float(np.sqrt(((of["p_top"] - of["p_top_base"]) ** 2).mean())),
        "status": "broken" if nll - nll_base > np.log(BROKEN) else "sound",
    }


def _correlation(one: np.ndarray, other: np.ndarray) -> float | None:
    """Pearson's; None where fewer than three windows, or no spread, say nothing."""
    if len(one) < 3 or min(one.std(), other.std()) == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])
