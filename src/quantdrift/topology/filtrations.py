"""Where a filtration stops: what a threshold hides of the uncensored deaths."""

import numpy as np
from jaxtyping import Float

FILTRATIONS = ("clip", "drop", "full")


def censor(
    deaths: Float[np.ndarray, " bars"], filtration: str, threshold: float
) -> Float[np.ndarray, " kept"]:
    """The sorted deaths that a filtration stopped at `threshold` shows.

    `clip` lets every bar end at the threshold at the latest. `drop` keeps only the bars that died
    at or before it, as ripser's `thresh` does (there the others are infinite, and leave with the
    essential bar). `full` has no threshold.

    Raises:
        ValueError: the filtration is unknown.
    """
    if filtration == "clip":
        return np.minimum(deaths, threshold)
    if filtration == "drop":
        return deaths[deaths <= threshold]
    if filtration == "full":
        return deaths
    raise ValueError(f"unknown filtration {filtration!r}; known: {', '.join(FILTRATIONS)}")


def count_bars(deaths: Float[np.ndarray, " bars"], threshold: float) -> tuple[int, int]:
    """How many of the n = bars + 1 components die at or before `threshold`, and how many do not."""
    n_finite = int(np.count_nonzero(deaths <= threshold))
    return n_finite, len(deaths) + 1 - n_finite
