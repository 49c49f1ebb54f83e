"""H0 of a cloud of weight vectors: the deaths, that is the edges of its minimum spanning tree.

All bars of H0 are born at 0, so the sorted death times are the whole diagram. They are kept
uncensored; what a threshold hides is decided afterwards by `censor`, so one computation serves
all filtrations. Memory is the n x n distance matrix, which Prim's algorithm reads once, row by
row. Distances made on the fly inside Prim were left out: a row at a time they are matrix-vector
products, which read the whole cloud n times and lose to one symmetric matrix product.
"""

from collections.abc import Iterator
from typing import Literal, no_type_check

import numba
import numpy as np
from jaxtyping import Float, Int

Precision = Literal["float32", "float64"]

POINTS = ("rows", "columns", "heads")
BACKENDS = ("prim", "ripser")


def clouds(
    weight: Float[np.ndarray, "rows columns"], points: str, head_dim: int | None = None
) -> Iterator[tuple[int, Float[np.ndarray, "n dim"]]]:
    """The point clouds of one weight matrix, as (part, cloud) with one point a row.

    `rows` takes the output features as points, `columns` the input features (both are part 0),
    `heads` the `head_dim` rows of each attention head (the part is the head's index).

    Raises:
        ValueError: `points` is unknown, or the rows do not split into heads.
    """
    if points == "rows":
        yield 0, weight
    elif points == "columns":
        yield 0, weight.T
    elif points == "heads":
        if not head_dim or len(weight) % head_dim:
            raise ValueError(f"{len(weight)} rows do not split into heads of head_dim={head_dim}")
        for head in range(len(weight) // head_dim):
            yield head, weight[head * head_dim : (head + 1) * head_dim]
    else:
        raise ValueError(f"unknown points {points!r}; known: {', '.join(POINTS)}")


def sample_rows(
    weight: Float[np.ndarray, "rows columns"], limit: int, rng: np.random.Generator
) -> Int[np.ndarray, " kept"]:
    """Sorted indices of at most `limit` rows, drawn without replacement; all rows if they fit.

    Raises:
        ValueError: `limit` is below 2, so no bar would be left.
    """
    if limit < 2:
        raise ValueError(f"a sample of {limit} rows has no bar; the limit must be at least 2")
    if len(weight) <= limit:
        return np.arange(len(weight))
    return np.sort(rng.choice(len(weight), limit, replace=False))


def required_bytes(n: int, precision: Precision = "float64", dim: int = 0) -> int:
    """Peak memory in bytes of `h0_deaths` by Prim on n points of `dim` coordinates.

    The distance matrix, the unit rows and Prim's n-vectors, or, if more, the unit rows in both
    precisions. The cloud itself is the caller's, and not counted.
    """
    item = np.dtype(precision).itemsize
    copies = 12 * dim if precision == "float32" else 8 * dim
    return n * max(item * (n + dim) + 32, copies)


def cosine_distances(
    cloud: Float[np.ndarray, "n dim"], *, precision: Precision = "float64"
) -> Float[np.ndarray, "n n"]:
    """Cosine distances D = 1 - X Xᵀ of the unit rows X, in [0, 2].

    D is exactly symmetric with an exactly zero diagonal (ripser leaves its dense path, and births
    stop being 0, when rounding stays there). A zero row has no direction: its distance is 1 to
    every other row, another zero row included. float32 errs by about 1e-6.

    Raises:
        ValueError: a value is not finite, or the precision is unknown.
    """
    if precision not in ("float32", "float64"):
        raise ValueError(f"unknown precision {precision!r}; known: float32, float64")
    X = np.array(cloud, dtype=np.float64, order="C")
    largest = np.maximum(X.max(axis=1, initial=0), -X.min(axis=1, initial=0))
    if not np.isfinite(largest).all():
        bad = np.flatnonzero(~np.isfinite(largest))
        raise ValueError(f"the cloud has NaN or infinite values in {len(bad)} rows, first {bad[0]}")
    X /= np.where(largest > 0, largest, 1)[:, None]  # now squares neither overflow nor vanish
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    X /= np.where(norms > 0, norms, 1)[:, None]
    X = X.astype(precision, copy=False)
    D = X @ X.T  # numpy calls syrk here, so the product is symmetric to the bit
    np.subtract(1, D, out=D)
    np.clip(D, 0, 2, out=D)
    np.fill_diagonal(D, 0)
    return D


@numba.njit(cache=True, nogil=True)
@no_type_check  # numba must see the bare function
def _prim(D):
    """Edge lengths of a minimum spanning tree in the order in which Prim's algorithm adds them."""
    n = D.shape[0]
    nearest = np.full(n, np.inf, D.dtype)  # distance to the tree; of a point inside it: infinite
    outside = np.ones(n, np.bool_)
    lengths = np.empty(n - 1, np.float64)
    current = 0
    for step in range(n - 1):
        outside[current] = False
        row = D[current]
        best, following = np.inf, -1
        for j in range(n):
            if outside[j]:
                nearest[j] = min(nearest[j], row[j])
                if nearest[j] < best:
                    best, following = nearest[j], j
        lengths[step] = best
        current = following
    return lengths


def _deaths_by_ripser(distances: Float[np.ndarray, "n n"]) -> Float[np.ndarray, " bars"]:
    """Finite deaths as ripser finds them (in float32), with the zero bars that it omits."""
    from ripser import ripser  # imports scipy and scikit-learn: only for those who ask for it

    bars = ripser(distances, maxdim=0, distance_matrix=True)["dgms"][0]
    deaths = bars[np.isfinite(bars[:, 1]), 1]
    return np.concatenate([np.zeros(len(distances) - 1 - len(deaths)), deaths])


def deaths_of_distances(
    distances: Float[np.ndarray, "n n"], *, backend: str = "prim"
) -> Float[np.ndarray, " bars"]:
    """Sorted, uncensored H0 deaths (n - 1 of them) of a symmetric distance matrix.

    `prim` keeps the matrix's precision; `ripser` rounds to float32.

    Raises:
        ValueError: the backend is unknown.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown H0 backend {backend!r}; known: {', '.join(BACKENDS)}")
    if len(distances) < 2:
        return np.empty(0)
    deaths = _prim(distances) if backend == "prim" else _deaths_by_ripser(distances)
    return np.sort(deaths.astype(np.float64, copy=False))


def h0_deaths(
    cloud: Float[np.ndarray, "n dim"], *, backend: str = "prim", precision: Precision = "float64"
) -> Float[np.ndarray, " bars"]:
    """Sorted, uncensored H0 deaths (n - 1 of them) of a cloud under the cosine distance.

    A cloud of n points has n - 1 finite bars and one that never dies, which is not listed. Exact
    duplicates give bars of length 0. One point, or none, gives no bar.

    Raises:
        ValueError: a value is not finite, or the backend or precision is unknown.

    Source: H0 of a Vietoris-Rips filtration is its minimum spanning tree (single linkage);
        cosine distances of weight rows after TopoQuant, section IV.
    """
    return deaths_of_distances(cosine_distances(cloud, precision=precision), backend=backend)
