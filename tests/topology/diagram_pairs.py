"""Clouds and pairs of diagrams that the tests of this folder share."""

import json
from pathlib import Path

import numpy as np

from quantdrift.topology.diagrams import h0_deaths

UPPER = 0.8


def low_rank(n: int, seed: int = 0) -> np.ndarray:
    """Rows like those of trained weights: a few strong directions and noise."""
    rng = np.random.default_rng(seed)
    strong = rng.standard_normal((n, 6)) @ rng.standard_normal((6, 64))
    return strong + rng.standard_normal((n, 64))


def rounded(rows: np.ndarray, levels: int = 4) -> np.ndarray:
    """The rows on a coarse grid with one scale a row."""
    scale = np.abs(rows).max(axis=1, keepdims=True) / levels
    return np.round(rows / scale) * scale


def clouds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    gaussian = rng.standard_normal((90, 24))
    return {
        "gaussian": gaussian,
        "float32": gaussian.astype(np.float32),
        "low-rank": low_rank(120),
        "rounded": rounded(low_rank(120), levels=1),
        "duplicates": np.repeat(np.sign(gaussian), 3, axis=0)[:100],
        "zero-rows": np.where(np.arange(90)[:, None] % 9 == 0, 0, gaussian),
        "orthogonal": np.eye(17),
        "at-distance-0": np.repeat(np.eye(9), 3, axis=0),
        "two-points": gaussian[:2],
        "more-dimensions": rng.standard_normal((10, 300)),
    }


def pairs() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pairs of sorted deaths in [0, UPPER]."""
    rng = np.random.default_rng(2)

    def uniform(n):
        return np.sort(rng.uniform(0, UPPER, n))

    real = json.loads((Path(__file__).parent / "real_deaths.json").read_text())
    base = h0_deaths(low_rank(120))
    coarse = h0_deaths(rounded(low_rank(120)))
    none, some = np.empty(0), uniform(25)
    k, v, q = (tuple(map(np.array, real[name])) for name in real if name != "about")
    big = uniform(300)
    return {
        "random": (uniform(60), uniform(60)),
        "sizes-differ": (uniform(40), uniform(57)),
        "one-much-longer": (np.array([0.1, 0.75]), np.array([0.1, 0.2, 0.3])),
        "weights-clip": (np.minimum(base, UPPER), np.minimum(coarse, UPPER)),
        "weights-drop": (base[base <= 0.35], coarse[coarse <= 0.35]),
        "real-k-clip": tuple(np.minimum(deaths, UPPER) for deaths in k),
        "real-k-drop": tuple(deaths[deaths <= UPPER] for deaths in k),
        "real-v-drop": tuple(deaths[deaths <= UPPER] for deaths in v),
        "real-q-clip": tuple(np.minimum(deaths, UPPER) for deaths in q),
        "big-and-close": (big, np.sort(np.clip(big + 0.01 * rng.standard_normal(300), 0, UPPER))),
        "zeros-among-bars": (np.sort(np.r_[np.zeros(9), some]), np.sort(np.r_[np.zeros(3), some])),
        "all-zero": (np.zeros(5), some),
        "one-bar-each": (np.array([0.3]), np.array([0.5])),
        "one-bar-and-none": (np.array([0.3]), none),
        "none-and-some": (none, some),
        "all-at-the-end": (np.full(20, UPPER), some),
        "equal": (some, some.copy()),
        "none-at-all": (none, none),
    }


def plane(deaths: np.ndarray) -> np.ndarray:
    """The diagram as points (birth, death)."""
    return np.stack([np.zeros(len(deaths)), deaths], axis=1)


def with_projections(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Diagram a with the diagonal projections of b, as points of the plane."""
    return np.concatenate([plane(a), np.stack([b / 2, b / 2], axis=1)])
