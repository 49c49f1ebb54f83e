"""From agreement by item to summaries: means over items and blocks, with their standard errors.

Items are the sample: blocks of one item are no independent draws. So every error is a bootstrap
over items, and one draw of resamples serves all cells with the same number of items.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from .names import BOS, Names

CELL = ["model", "scheme", "dataset", "bos"]
MEASURES = ["top1", "iou", "iou_tokens", "chance_top1", "chance_iou"]
SAMPLED = MEASURES[:2]
"""Those whose standard error is told."""
RESAMPLES = 2000


@dataclass(frozen=True)
class Summaries:
    """The rows of `agreement_blocks` and of `agreement_table`, in the study's order."""

    blocks: pd.DataFrame
    table: pd.DataFrame


def resampled_shares(
    n_items: int, resamples: int, rng: np.random.Generator
) -> Float[np.ndarray, "resample item"]:
    """How much each item counts in each resample of `n_items` with replacement; rows sum to 1."""
    return rng.multinomial(n_items, np.full(n_items, 1 / n_items), size=resamples) / n_items


def standard_errors(
    values: Float[np.ndarray, "item ..."], shares: Float[np.ndarray, "resample item"]
) -> Float[np.ndarray, "..."]:
    """Bootstrap standard error of means over items; 0 for a single item, which tells nothing."""
    means = shares @ values.reshape(len(values), -1)
    return means.std(axis=0, ddof=1).reshape(values.shape[1:])


def summaries(rows: pd.DataFrame, names: Names, rng: np.random.Generator) -> Summaries:
    """Sum up the table `agreement`.

    Args:
        rows: the table; where it holds single heads and no mean over heads, they are averaged.
        names: of the study.
        rng: draws the resamples.

    Raises:
        ValueError: an item of a cell lacks a block that another has.
    """
    shares: dict[int, np.ndarray] = {}
    blocks: list[dict[str, Any]] = []
    table: list[dict[str, Any]] = []
    for cell, numbers, values in _cells(one_per_block(rows)):
        n_items = len(values)
        if n_items not in shares:
            shares[n_items] = resampled_shares(n_items, RESAMPLES, rng)
        by_block, by_item = values.mean(0), values.mean(1)
        errors = standard_errors(values[..., : len(SAMPLED)], shares[n_items])
        for at, block in enumerate(numbers):
            blocks.append(cell | {"block": block} | _row(by_block[at], errors[at], n_items))
        error = standard_errors(by_item[:, : len(SAMPLED)], shares[n_items])
        its = _row(by_item.mean(0), error, n_items)
        table.append(cell | {"n_blocks": len(numbers)} | its)
    return Summaries(*(names.described(pd.DataFrame(its)) for its in (blocks, table)))


def one_per_block(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a cell, item and block: of the mean over heads, else of the heads' own mean."""
    keys = [*CELL, "item", "block"]
    whole = rows["head"].isna()
    if not whole.all():
        has_whole = rows.assign(whole=whole).groupby(CELL)["whole"].transform("any")
        rows = rows[whole | ~has_whole]
    if rows.duplicated(keys).any():
        return rows.groupby(keys, sort=False)[MEASURES].mean().reset_index()
    return rows[[*keys, *MEASURES]]


def _cells(
    rows: pd.DataFrame,
) -> Iterator[tuple[dict[str, Any], list[int], Float[np.ndarray, "item block measure"]]]:
    """Every cell with its blocks and its values."""
    for key, group in rows.groupby(CELL, sort=False):
        cell = dict(zip(CELL, key, strict=True))
        group = group.sort_values(["item", "block"])
        n_items, blocks = group["item"].nunique(), sorted(set(group["block"]))
        if len(group) != n_items * len(blocks):
            raise ValueError(
                f"agreement of {cell} has {len(group)} rows for {n_items} items and "
                f"{len(blocks)} blocks: some item lacks a block. Delete its shard and run again."
            )
        values = group[MEASURES].to_numpy(dtype=float)
        yield cell, [int(b) for b in blocks], values.reshape(n_items, len(blocks), len(MEASURES))


def _row(means: np.ndarray, errors: np.ndarray, n_items: int) -> dict[str, Any]:
    row: dict[str, Any] = {name: float(value) for name, value in zip(MEASURES, means, strict=True)}
    row |= {f"{name}_se": float(value) for name, value in zip(SAMPLED, errors, strict=True)}
    return row | {"n_items": n_items}


def policies(rows: pd.DataFrame) -> list[str]:
    """BOS policies of a table, the paper's (with) first."""
    return [bos for bos in BOS if bos in set(rows["bos"])]
