"""The seven distances between two H0 diagrams, by the papers' names.

A diagram is its sorted deaths; all births are 0, which turns every distance into a closed or
cheap form (`curves`, `densities`, `sliced`). No paper gives its discretisation: ours is `Grids`,
fixed for a whole study and never fitted to a pair, so that values can be compared.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quantdrift.topology.curves import betti_distance, entropy_distance, landscape_distance
from quantdrift.topology.densities import fisher_distance, image_distance
from quantdrift.topology.filtrations import censor
from quantdrift.topology.sliced import sliced_wasserstein, tree_sliced_wasserstein

LARGEST_DISTANCE = 2.0  # of the cosine distance: opposite vectors


@dataclass(frozen=True)
class Grids:
    """Everything a distance depends on beside the two diagrams. Lengths are cosine distances.

    Betti curves and entropies need no choice: their forms are exact.
    """

    threshold: float = 0.8
    """Where the filtrations `clip` and `drop` end."""
    landscape_levels: int | None = None
    """How many landscapes count, longest bars first; None: all."""
    pfd_sigma: float = 0.05
    """Standard deviation of the Fisher distance's kernel."""
    image_sigma: float = 0.05
    """Standard deviation of a persistence image's kernel (persim calls for its square)."""
    image_pixel: float = 0.0125
    """Side of an image's pixel: 64 of them up to 0.8, 160 up to 2."""
    swd_directions: int = 64
    """Directions of the sliced Wasserstein distance, midpoints of equal angles."""
    tswd_slices: int = 100
    """Random trees of the tree-sliced Wasserstein distance."""
    tswd_depth: int = 10
    """Levels of a tree; the smallest cell of side 2 upper / 2^depth is 0.0016 up to 0.8."""
    tswd_seed: int = 0
    """Seed of the trees' random positions."""

    def __post_init__(self):
        for name, value in vars(self).items():
            if name != "tswd_seed" and value is not None and not value > 0:
                raise ValueError(f"grids: {name} = {value} must be positive")
        if self.threshold > LARGEST_DISTANCE:
            raise ValueError(f"grids: threshold = {self.threshold} is beyond any cosine distance")

    def upper(self, filtration: str) -> float:
        """The end of the common range [0, upper]: the threshold, or 2 where there is none."""
        return LARGEST_DISTANCE if filtration == "full" else self.threshold


Distance = Callable[[np.ndarray, np.ndarray, Grids, float], float]

DISTANCES: dict[str, Distance] = {
    "betti": lambda a, b, grids, upper: betti_distance(a, b),
    "entropy": lambda a, b, grids, upper: entropy_distance(a, b),
    "landscape": lambda a, b, grids, upper: landscape_distance(a, b, levels=grids.landscape_levels),
    "pfd": lambda a, b, grids, upper: fisher_distance(a, b, sigma=grids.pfd_sigma),
    "pi": lambda a, b, grids, upper: image_distance(
        a, b, upper=upper, pixel=grids.image_pixel, sigma=grids.image_sigma
    ),
    "swd": lambda a, b, grids, upper: sliced_wasserstein(a, b, directions=grids.swd_directions),
    "tswd": lambda a, b, grids, upper: tree_sliced_wasserstein(
        a,
        b,
        upper=upper,
        slices=grids.tswd_slices,
        depth=grids.tswd_depth,
        seed=grids.tswd_seed,
    ),
}
"""Name to function of (deaths, deaths, grids, upper end of the range), in the papers' order."""

GROWTH: dict[str, Callable[[int], float]] = {
    "betti": float,
    "entropy": lambda bars: float(np.log(bars)) if bars > 1 else 1.0,
    "landscape": lambda bars: float(np.sqrt(bars)),
    "pfd": lambda bars: 1.0,
    "pi": float,
    "swd": float,
    "tswd": float,
}
"""How a distance grows with the number of bars when every bar moves by the same law."""


def all_distances(
    base: Float[np.ndarray, " base"],
    quantized: Float[np.ndarray, " quantized"],
    grids: Grids,
    filtration: str,
) -> dict[str, tuple[float, float]]:
    """The seven distances under one filtration, as name to (raw, normalised).

    Takes the sorted, uncensored deaths and censors them itself. Normalised is raw divided by what
    the distance grows with: the number of bars n for Betti curves, images, SWD and TSWD, √n for
    landscapes, log n for entropy, nothing for PFD. Here n counts the uncensored bars, points - 1,
    in all filtrations: what `drop` hides must not shrink the divisor too. No value is ever NaN;
    two equal diagrams, or two empty ones, give exactly 0.

    Raises:
        ValueError: the filtration is unknown.
    """
    a, b = (censor(deaths, filtration, grids.threshold) for deaths in (base, quantized))
    n = max(len(base), len(quantized), 1)
    raw = {name: f(a, b, grids, grids.upper(filtration)) for name, f in DISTANCES.items()}
    return {name: (value, value / GROWTH[name](n)) for name, value in raw.items()}
