"""Which features a regressor leans on: what is lost when some are shuffled in rows it did not see.

Distances of one matrix say much the same, so shuffling one of them loses little however much all of
them matter: whole groups (a projection, a distance over all projections, all that is known without
a weight) are shuffled together, too. Source: Breiman 2001, section 10; groups as in Au et al. 2022.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.metrics import r2_score

from .features import DISTANCES, ROLES
from .regressors import SEED, folds, regressor

REPEATS = 5


def groups_of(columns: list[str]) -> dict[str, list[int]]:
    """Columns that are shuffled together: each alone, then by projection, by distance, and bits.

    Args:
        columns: names as `features.columns_of` gives them.
    """
    found = {name: [at] for at, name in enumerate(columns)}
    sets = {f"all of {role.upper()}": [f"{role}_{name}" for name in DISTANCES] for role in ROLES}
    sets |= {f"all {name}": [f"{role}_{name}" for role in ROLES] for name in DISTANCES}
    topological = {name for names in sets.values() for name in names}
    sets["all but topology"] = [name for name in columns if name not in topological]
    for label, names in sets.items():
        there = [at for at, name in enumerate(columns) if name in names]
        if len(there) > 1:
            found[label] = there
    return found


def losses(
    name: str,
    X: Float[np.ndarray, "row feature"],
    y: Float[np.ndarray, " row"],
    split: str,
    groups: Int[np.ndarray, " row"],
    shuffled: Mapping[str, list[int]],
) -> Iterator[dict[str, Any]]:
    """By how much R2 of all out-of-fold predictions falls when columns are shuffled.

    Args:
        name: of the regressor.
        X: features.
        y: the target.
        split: one of `regressors.SPLITS`.
        groups: what must not stand on both sides.
        shuffled: label to the columns that are shuffled together, within each held-out fold.

    Yields:
        feature, n_columns, loss (mean over `REPEATS` shuffles) and loss_sd.
    """
    cut = [(train, test) for train, test in folds(split, len(y), groups)]
    fitted = [regressor(name).fit(X[train], y[train]) for train, _ in cut]
    whole = _r2(fitted, cut, X, y)
    for at, (label, columns) in enumerate(shuffled.items()):
        rng = np.random.default_rng([SEED, at])
        lost = []
        for _ in range(REPEATS):
            moved = X.copy()
            for _, test in cut:
                order = rng.permutation(test)
                for column in columns:
                    moved[test, column] = X[order, column]
            lost.append(whole - _r2(fitted, cut, moved, y))
        yield {
            "feature": label,
            "n_columns": len(columns),
            "loss": float(np.mean(lost)),
            "loss_sd": float(np.std(lost, ddof=1)),
        }


def _r2(fitted: list[Any], cut: list[Any], X: np.ndarray, y: np.ndarray) -> float:
    predicted = np.empty(len(y))
    for one, (_, test) in zip(fitted, cut, strict=True):
        predicted[test] = one.predict(X[test])
    return float(r2_score(y, predicted))
