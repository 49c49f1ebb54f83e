"""Distances between smoothed diagrams: persistence Fisher distance and persistence images.

Deaths are sorted, all births are 0, so every point is (0, d) and its diagonal projection
(d/2, d/2). Both distances then reduce to sums of one-dimensional Gaussians.
"""

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev


def fisher_distance(
    a: Float[np.ndarray, " a"], b: Float[np.ndarray, " b"], *, sigma: float
) -> float:
    """Persistence Fisher distance: the angle between two square-root densities, in radians.

    Diagram a with the diagonal projections of b, and b with those of a, are smoothed by a Gaussian
    of standard deviation `sigma` in the plane, and both densities p and q are evaluated at all of
    these points (a multiset) and normalised to sum 1. The distance arccos Σ √(p q) is computed as
    2 arcsin(‖√p - √q‖ / 2), which keeps its digits near 0.

    A pseudometric bounded by π/2; 0 for two empty diagrams; blind to repeating every bar of both.
    The sums are taken at the points themselves, or, where that is fewer, at Chebyshev nodes and
    interpolated (relative error below 1e-5).

    Source: Le & Yamada, "Persistence Fisher kernel", NeurIPS 2018 (whose σ is a variance).
    """
    x = np.concatenate([a, b])
    if len(x) == 0:
        return 0.0

    def densities(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 4"]:
        """Unnormalised p, q at the points (0, x), then p, q at (x/2, x/2)."""
        # Squared distances: (0, x) to (0, y): (x - y)². (x/2, x/2) to (y/2, y/2): (x - y)² / 2.
        # (0, x) to (y/2, y/2): ((x - y)² + x²) / 2. So one kernel serves all four.
        at_axis = np.exp(-((x / (2 * sigma)) ** 2))
        sums = []
        for d in (a, b):
            kernel = np.exp(-(((x[:, None] - d) / (2 * sigma)) ** 2))
            sums.append(
                (
                    np.einsum("ij,ij->i", kernel, kernel),  # (0, x) to the bars
                    kernel @ np.exp(-((d / (2 * sigma)) ** 2)),  # (x/2, x/2) to the bars
                    kernel.sum(axis=1),  # (x/2, x/2) to the projections
                )
            )
        (axis_a, cross_a, diagonal_a), (axis_b, cross_b, diagonal_b) = sums
        return np.stack(
            [
                axis_a + at_axis * diagonal_b,
                axis_b + at_axis * diagonal_a,
                cross_a + diagonal_b,
                cross_b + diagonal_a,
            ],
            axis=1,
        )

    low, high = x.min(), x.max()
    half = max((high - low) / 2, 1e-3 * sigma)
    degree = 16 + int(9 * half / sigma)  # a Gaussian's spectrum beyond 9 / sigma is below 1e-17
    centre = (low + high) / 2
    nodes = chebyshev.chebpts1(degree + 1)
    direct = len(x) <= degree
    places = x if direct else centre + half * nodes
    parts = np.array_split(places, 1 + len(places) // 256)  # bounds the kernel matrix's memory
    values = np.concatenate([densities(part) for part in parts])
    if not direct:
        fit = chebyshev.chebvander(nodes, degree).T @ values
        fit *= np.where(np.arange(degree + 1) == 0, 1, 2)[:, None] / (degree + 1)
        values = np.maximum(chebyshev.chebval((x - centre) / half, fit).T, 0)
    p, q = values[:, [0, 2]], values[:, [1, 3]]
    p, q = p / p.sum(), q / q.sum()
    chord = np.sqrt(np.sum((np.sqrt(p) - np.sqrt(q)) ** 2))
    return float(2 * np.arcsin(min(chord / 2, np.sqrt(0.5))))


def _pixel_masses(
    centres: Float[np.ndarray, " bars"],
    weights: Float[np.ndarray, " bars"],
    *,
    upper: float,
    pixel: float,
    sigma: float,
) -> Float[np.ndarray, " pixels"]:
    """Integrals of Σ weight · N(centre, sigma²) over the equal pixels of [0, upper]."""
    from scipy.special import ndtr  # only here: importing scipy costs more than an image

    edges = np.linspace(0, upper, 1 + max(1, round(upper / pixel)))
    return np.diff(ndtr((edges[:, None] - centres) / sigma) @ weights)


def image_distance(
    a: Float[np.ndarray, " a"],
    b: Float[np.ndarray, " b"],
    *,
    upper: float,
    pixel: float,
    sigma: float,
) -> float:
    """Euclidean distance of two persistence images.

    An image holds, for each pixel of the square [0, upper]² of (birth, persistence), the integral
    of Σ w(d) N((0, d), sigma² I), where the weight w(d) = min(d / upper, 1) rises linearly so that
    bars near the diagonal vanish. As every birth is 0, an image is the outer product of one fixed
    profile along the birth axis and a profile along persistence; the distance is the product of
    their norms. Half of the mass lies left of birth 0, outside of every image alike.

    Unit: weighted bars. A pseudometric. The range and the pixels are fixed, never fitted to the
    pair, so values are comparable. An empty diagram has the image 0.

    Source: Adams et al., "Persistence images", JMLR 18, 2017.
    """
    options = {"upper": upper, "pixel": pixel, "sigma": sigma}
    along_birth = _pixel_masses(np.zeros(1), np.ones(1), **options)
    image_a, image_b = (_pixel_masses(d, np.minimum(d / upper, 1), **options) for d in (a, b))
    return float(np.linalg.norm(along_birth) * np.linalg.norm(image_a - image_b))
