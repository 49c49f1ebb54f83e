"""Drift of every projection, and what smaller clouds make of it (TopoQuant's limits 1, 3)."""

from typing import Any

import numpy as np
import pandas as pd

from .names import Names

_CELL = ["model", "scheme", "role", "filtration"]
_SHORT = ["shortcut", "size"]


def beyond_rows(shortcuts: pd.DataFrame, errors: pd.DataFrame, names: Names) -> pd.DataFrame:
    """The rows of `beyond_attention`, in the study's order.

    Args:
        shortcuts: the table `shortcuts`.
        errors: the table `weight_error_table`.
        names: of the study.
    """
    is_exact = shortcuts["shortcut"].eq("exact")
    exact = shortcuts[is_exact].set_index([*_CELL, "block"])["swd_per_point"]
    index = pd.MultiIndex.from_frame(shortcuts[[*_CELL, "block"]])
    exact_here = exact.reindex(index).to_numpy(dtype=float)
    found = shortcuts.assign(exact=exact_here)
    rows: list[dict[str, Any]] = []
    for key, its in found.groupby([*_CELL, *_SHORT], sort=False):
        cell = dict(zip([*_CELL, *_SHORT], key, strict=True))
        rows.append(cell | _numbers(its))
    table = pd.DataFrame(rows).merge(
        errors[["model", "scheme", "role", "relative_frobenius"]], on=["model", "scheme", "role"]
    )
    return names.described(table)


def _numbers(its: pd.DataFrame) -> dict[str, Any]:
    moved = its[its["exact"] > 0]
    ratios = (moved["swd_per_point"] / moved["exact"]).to_numpy(dtype=float)
    by_block = its.groupby("block")[["swd_per_point", "exact"]].mean()
    varies = len(by_block) > 2 and bool((by_block.std() > 0).all())
    rank = by_block["swd_per_point"].corr(by_block["exact"], method="spearman") if varies else None
    return {
        "n_blocks": len(by_block),
        "swd_mean": float(its["swd"].mean()),
        "swd_per_point": float(its["swd_per_point"].mean()),
        "ratio": float(ratios.mean()) if len(ratios) else None,
        "ratio_rms_error": float(np.sqrt(((ratios - 1) ** 2).mean())) if len(ratios) else None,
        "rank_correlation": None if rank is None else float(rank),
    }
