"""Distances between functions of a diagram: Betti curve, persistence entropy, landscapes.

Deaths are sorted, all births are 0. The papers put the curves on a grid; with births at 0 the
integrals have closed forms, so there is no grid to choose and no grid error.
"""

import numpy as np
from jaxtyping import Float


def betti_distance(a: Float[np.ndarray, " a"], b: Float[np.ndarray, " b"]) -> float:
    """L2 distance of the Betti curves, sqrt(∫ (β_a - β_b)² dt), β(t) = number of deaths beyond t.

    Exact: the difference is constant between neighbouring deaths of either diagram. Unit: bars
    times the square root of a cosine distance. A metric; of an empty diagram the curve is 0. The
    essential component of both diagrams cancels.

    Source: Betti distance of TopoQuant, section IV (there discretised; this is its limit).
    """
    t = np.sort(np.concatenate([np.zeros(1), a, b]))
    alive_a = len(a) - np.searchsorted(a, t[:-1], side="right")
    alive_b = len(b) - np.searchsorted(b, t[:-1], side="right")
    difference = (alive_a - alive_b).astype(np.float64)
    return float(np.sqrt(np.sum(difference**2 * np.diff(t))))


def entropy(deaths: Float[np.ndarray, " bars"]) -> float:
    """Persistence entropy -Σ p log p in nats, where p = death / Σ deaths.

    Bars of length 0 add nothing. Of one bar, of none, and of bars that are all 0, it is 0.

    Source: Atienza, Gonzalez-Diaz & Rucco, "Persistent entropy for separating topological
        features from noise in Vietoris-Rips complexes", J. Intell. Inf. Syst. 52, 2019.
    """
    p = deaths / max(deaths.sum(), np.finfo(np.float64).tiny)
    p = p[p > 0]
    return abs(float(np.sum(p * np.log(p))))  # no term is positive, and of one bar it is -0


def entropy_distance(a: Float[np.ndarray, " a"], b: Float[np.ndarray, " b"]) -> float:
    """Absolute difference of the persistence entropies, in nats.

    Only a pseudometric: blind to a common factor on all deaths.
    """
    return abs(entropy(a) - entropy(b))


def landscape_distance(
    a: Float[np.ndarray, " a"], b: Float[np.ndarray, " b"], *, levels: int | None = None
) -> float:
    """L2 distance of the persistence landscapes, sqrt(Σ_k ∫ (λ_k^a - λ_k^b)² dt).

    With births at 0 the tents are nested, so λ_k is the tent over (0, d) of the k-th longest bar:
    it rises to d/2 at t = d/2. For two tents over x >= y the integral is (x - y)² y / 2 where
    x <= 2y, and x³/12 - y³/6 beyond. Missing bars are tents of height 0.

    Args:
        a: Sorted deaths of one diagram.
        b: Sorted deaths of the other.
        levels: Compare only the longest `levels` bars; all of them if None.

    Returns:
        The distance, in cosine distance to the power 3/2. A metric (for all levels).

    Source: Bubenik, "Statistical topological data analysis using persistence landscapes",
        JMLR 16, 2015.
    """
    n = max(len(a), len(b))
    A, B = (np.concatenate([np.zeros(n - len(d)), d])[::-1][:levels] for d in (a, b))
    x, y = np.maximum(A, B), np.minimum(A, B)
    near = (x - y) ** 2 * y / 2
    far = x**3 / 12 - y**3 / 6
    return float(np.sqrt(np.sum(np.where(x <= 2 * y, near, far))))
