"""Smaller clouds in place of a large one: what they get wrong is measured, not assumed.

TopoQuant's limitation 3 names mini-batch sampling and low-rank filtrations for models above 70B.
`rows` keeps a seeded sample of the points, `rank` all points in fewer dimensions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .diagrams import sample_rows

Cloud = Float[np.ndarray, "n dim"]


@dataclass(frozen=True)
class Shortcut:
    """One smaller pair of clouds, before and after quantization."""

    name: str
    """`exact`, `rows` or `rank`."""
    size: int
    """Points that are left, or dimensions; of `exact` the points."""
    draw: int | None
    """Seed of the sample; None where nothing is drawn."""
    before: Cloud
    after: Cloud


def shortcuts(
    before: Cloud, after: Cloud, *, sizes: Iterable[int], ranks: Iterable[int], draws: Iterable[int]
) -> Iterator[Shortcut]:
    """The pair itself, then every smaller one that is really smaller.

    Args:
        before: the base's points.
        after: the same points after quantization.
        sizes: points of a sample; the same points are drawn before and after.
        ranks: dimensions: the base's leading right singular vectors, for both clouds, since
            directions of its own would hide that the quantized cloud turned.
        draws: seeds of the samples.
    """
    yield Shortcut("exact", len(before), None, before, after)
    for size in sizes:
        if size >= len(before):
            continue
        for draw in draws:
            kept = sample_rows(before, size, np.random.default_rng([draw, size]))
            yield Shortcut("rows", size, draw, before[kept], after[kept])
    directions = None
    for rank in ranks:
        if rank >= min(before.shape):
            continue
        if directions is None:
            directions = np.linalg.svd(before.astype(np.float64), full_matrices=False)[2].T
        leading = directions[:, :rank]
        yield Shortcut("rank", rank, None, before @ leading, after @ leading)
