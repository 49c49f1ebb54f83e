"""Optimal transport on lines and on trees: sliced and tree-sliced Wasserstein distances.

Both compare diagram a with the diagonal projections of b, and b with those of a: two sets of
equally many points. Deaths are sorted, all births are 0: the points are (0, d), the projections
(d/2, d/2).
"""

import numpy as np
from jaxtyping import Float


def sliced_wasserstein(
    a: Float[np.ndarray, " a"], b: Float[np.ndarray, " b"], *, directions: int
) -> float:
    """Sliced Wasserstein distance: the mean over directions of the 1-D transport cost.

    The directions are the midpoints of equal parts of [-π/2, π/2): a grid that contains 45 degrees,
    where all projections onto the diagonal line up, is biased. Each direction costs one sort.

    Unit: bars times cosine distance (a sum over bars, not a mean: it grows with their number).
    A metric in the limit of many directions. An empty diagram is compared by its partner's
    projections. 64 directions err by about 0.2 %, at most 1 %.

    Source: Carriere, Cuturi & Oudot, "Sliced Wasserstein kernel for persistence diagrams",
        ICML 2017 (1/2π times the integral over the full circle, which is this mean).
    """
    theta = (np.arange(directions) + 0.5) * np.pi / directions - np.pi / 2
    axis = np.sin(theta)[:, None]
    diagonal = (np.cos(theta) + np.sin(theta))[:, None] / 2
    first = np.sort(np.concatenate([axis * a, diagonal * b], axis=1), axis=1)
    second = np.sort(np.concatenate([axis * b, diagonal * a], axis=1), axis=1)
    return float(np.abs(first - second).sum() / directions)


def tree_sliced_wasserstein(
    a: Float[np.ndarray, " a"],
    b: Float[np.ndarray, " b"],
    *,
    upper: float,
    slices: int,
    depth: int,
    seed: int,
) -> float:
    """Tree-sliced Wasserstein distance: the mean over random quadtrees of the cost on the tree.

    A tree's root is a square of side 2 `upper` placed at random over the square [0, upper]² that
    holds all points; `depth` times every cell is cut into four. An edge is as long as the distance
    between the centres of the two cells, and the transport cost is Σ over edges of its length times
    the difference of the numbers of points below it. Every tree has its full depth (no branch stops
    early at a single point), so a tree is one metric whatever the diagrams, and the trees depend
    only on `upper`, `slices`, `depth`, `seed`: values are comparable.

    Unit: bars times cosine distance. In the mean over trees larger than the Wasserstein distance,
    by a factor of up to 2 `depth`. A pseudometric: points that share all leaves are one. On weight
    matrices 100 trees of another seed change it by 2 to 5 % (standard deviation), 400 by half.

    Source: Le, Yamada, Fukumizu & Cuturi, "Tree-sliced variants of Wasserstein distances",
        NeurIPS 2019 (the partition-based trees, for low dimensions).
    """
    shift_x, shift_y = upper * np.random.default_rng(seed).random((2, slices, 1))

    def surplus(t: Float[np.ndarray, "slices cuts"]) -> Float[np.ndarray, "slices cells"]:
        """Bars of a minus bars of b with deaths in [t_i, t_{i+1})."""
        below = np.searchsorted(a, t) - np.searchsorted(b, t)
        return np.diff(below).astype(np.float64)

    cost = 0.0
    for level in range(1, depth + 1):
        side = 2 * upper / 2**level
        # Cells count from the one that holds the origin, which lies at this offset from its corner.
        offset_x, offset_y = shift_x % side, shift_y % side
        # The points (0, d) lie in one column of cells and enter a new one at every cut of y.
        column = surplus(side * np.arange(2 + 2 ** (level - 1)) - offset_y)
        # The projections (d/2, d/2) enter a new cell at every cut of x or y.
        cuts = side * np.arange(2 + 2 ** max(level - 2, 0))
        entries = 2 * np.sort(np.concatenate([cuts - offset_x, cuts - offset_y], axis=1), axis=1)
        diagonal = -surplus(entries)
        # In that column, points and projections share their cells.
        middle = (entries[:, 1:] + entries[:, :-1]) / 4
        tree, entry = np.nonzero((middle < side - offset_x) & (diagonal != 0))
        cell = np.floor((middle[tree, entry] + offset_y[tree, 0]) / side).astype(np.int64)
        column[tree, cell] += diagonal[tree, entry]
        diagonal[tree, entry] = 0
        edge = side / np.sqrt(2)
        cost += edge * (np.abs(column).sum() + np.abs(diagonal).sum())
    return float(cost / slices)
