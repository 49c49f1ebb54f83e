"""Regressors of attention agreement, judged by splits that leak and by splits that do not.

Random folds (the paper's) put blocks of one model and one scheme on both sides, so a regressor
that only learns how bad each scheme is looks good. Folds by scheme still leak where two schemes
give some role one type, as `paper` and `pure` of a level do. Folds by level ask what a user asks:
what of a format that was never seen? Folds by model ask it of a model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRegressor

FOLDS = 5
SPLITS = ("random", "by_scheme", "by_level", "by_model")
HONEST = ("by_level", "by_model")
"""What statements use. By level a type may still stand on both sides in V, to which mixes give
another level's type; by model only the items do."""
SEED = 0


def regressor(name: str) -> Any:
    """A fresh regressor: `linear`, `forest` or `boosting`; one thread, fixed seed.

    The paper names the three and no setting of theirs: these are the libraries' defaults.
    """
    if name == "linear":
        return make_pipeline(StandardScaler(), LinearRegression())
    if name == "forest":
        return RandomForestRegressor(random_state=SEED, n_jobs=1)
    if name == "boosting":
        return XGBRegressor(random_state=SEED, n_jobs=1, tree_method="hist")
    raise ValueError(f"unknown regressor {name!r}; known: linear, forest, boosting")


REGRESSORS = ("linear", "forest", "boosting")


class SplitError(ValueError):
    """There are too few groups to split by; the message says how many there are."""


@dataclass(frozen=True)
class Judged:
    """How well rows were predicted by regressors that did not see their fold."""

    predicted: Float[np.ndarray, " row"]
    fold: Int[np.ndarray, " row"]
    r2_pooled: float
    """Over all rows at once."""
    r2_folds: Float[np.ndarray, " fold"]
    """Of each fold alone: against the fold's own mean, so the harder number."""
    mae: float


def folds(
    split: str, n: int, groups: Int[np.ndarray, " row"] | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of each fold.

    Raises:
        SplitError: fewer than two groups.
    """
    if split == "random":
        yield from KFold(min(FOLDS, n), shuffle=True, random_state=SEED).split(np.empty(n))
        return
    assert groups is not None
    count = len(set(groups.tolist()))
    if count < 2:
        raise SplitError(f"{split} needs two groups or more, and there is {count}.")
    splitter = LeaveOneGroupOut() if split == "by_model" else GroupKFold(min(FOLDS, count))
    yield from splitter.split(np.empty(n), groups=groups)


def judged(
    name: str,
    X: Float[np.ndarray, "row feature"],
    y: Float[np.ndarray, " row"],
    split: str,
    groups: Int[np.ndarray, " row"] | None = None,
) -> Judged:
    """Predict every row by a regressor that was fitted without its fold.

    Args:
        name: of the regressor.
        X: features.
        y: the target.
        split: one of `SPLITS`.
        groups: what must not stand on both sides.
    """
    predicted, fold = np.empty(len(y)), np.empty(len(y), int)
    scores = []
    for number, (train, test) in enumerate(folds(split, len(y), groups)):
        fitted = regressor(name).fit(X[train], y[train])
        predicted[test] = fitted.predict(X[test])
        fold[test] = number
        scores.append(r2_score(y[test], predicted[test]) if len(test) > 1 else np.nan)
    return Judged(
        predicted=predicted,
        fold=fold,
        r2_pooled=float(r2_score(y, predicted)),
        r2_folds=np.array(scores),
        mae=float(np.abs(y - predicted).mean()),
    )
