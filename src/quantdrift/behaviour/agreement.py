"""Do two models look at the same tokens? Top positions of attention, and how far two sets agree.

Source: TopoQuant eq. 10-14. Positions stand for tokens by default; the same measure over token ids
is taken beside it, since equal words at two places are one element of that set.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from math import comb
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

_MEASURED = ("token_sha256", "positions", "tokens", "weights", "masked")


def eligible(token_ids: Sequence[int], special: frozenset[int]) -> Bool[np.ndarray, " token"]:
    """Positions that may be looked at: neither the query's own, the last, nor special (eq. 10)."""
    allowed = np.array([token not in special for token in token_ids])
    allowed[-1] = False
    return allowed


def top_positions(
    rows: Float[Tensor, "*rows token"], allowed: Bool[Tensor, "*rows token"], count: int
) -> list[list[int]]:
    """Per row the `count` allowed positions of largest attention, largest first.

    Equal weights go by position, the earlier first. Where fewer are allowed there are fewer.
    """
    tokens = rows.shape[-1]
    flat = rows.reshape(-1, tokens).masked_fill(~allowed.reshape(-1, tokens), -1.0)
    order = torch.sort(flat, dim=-1, descending=True, stable=True).indices[:, :count]
    kept = allowed.reshape(-1, tokens).sum(-1).clamp(max=count)
    return [row[:n] for row, n in zip(order.tolist(), kept.tolist(), strict=True)]


def iou(one: Sequence[int], other: Sequence[int]) -> float:
    """Intersection over union of two sets; 1 if both are empty (eq. 14)."""
    first, second = set(one), set(other)
    union = first | second
    return len(first & second) / len(union) if union else 1.0


def top1(one: Sequence[int], other: Sequence[int]) -> float:
    """1 if the first of both is the same, or neither has one; else 0 (eq. 11)."""
    return float(list(one[:1]) == list(other[:1]))


@cache
def chances(n_eligible: int, count: int) -> tuple[float, float]:
    """What `top1` and `iou` are expected to be for positions drawn at random from `n_eligible`.

    The size j of the intersection of two sets of k is hypergeometric: IoU = Σ_j P(j) j / (2k - j).
    """
    k = min(count, n_eligible)
    if k == 0:
        return 1.0, 1.0
    ways = comb(n_eligible, k)
    expected = sum(
        comb(k, j) * comb(n_eligible - k, k - j) / ways * j / (2 * k - j) for j in range(1, k + 1)
    )
    return 1 / n_eligible, expected


def compare(
    base: list[dict[str, Any]], quantized: list[dict[str, Any]], top: int
) -> Iterator[dict[str, Any]]:
    """The columns of table `agreement`: rows of table `attention` of both runs, paired.

    They are paired by BOS policy, item, block and head.

    Raises:
        ValueError: a pair lacks a partner, or the two were not made of the same tokens.
    """

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("bos", "item", "block", "head"))

    partners = {place(row): row for row in base}
    if partners.keys() != {place(row) for row in quantized}:
        raise ValueError("the base was measured on other items, blocks or heads; run both again.")
    for row in quantized:
        partner = partners[place(row)]
        if row["token_sha256"] != partner["token_sha256"]:
            raise ValueError(
                f"item {row['item']}, {row['bos']} BOS: the base saw other tokens than "
                f"{row['scheme']} did, so the two cannot be compared; run both again."
            )
        chance_top1, chance_iou = chances(row["n_eligible"], top)
        about = {name: value for name, value in row.items() if name not in _MEASURED}
        yield about | {
            "top1": top1(partner["positions"], row["positions"]),
            "iou": iou(partner["positions"], row["positions"]),
            "iou_tokens": iou(partner["tokens"], row["tokens"]),
            "chance_top1": chance_top1,
            "chance_iou": chance_iou,
        }
