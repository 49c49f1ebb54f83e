"""Every regressor on every set of features, by every kind of folds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .features import KEY, MATRICES, TARGET, columns_of, design
from .permutation import groups_of, losses
from .regressors import HONEST, REGRESSORS, Judged, SplitError, judged

ALL = "all"
"""In place of matrices, for features that do not depend on them."""
_GROUP = {"by_scheme": "scheme", "by_level": "level", "by_model": "model"}
Question = tuple[str, str]
"""Features and matrices."""


@dataclass(frozen=True)
class Verdict:
    """One regressor's out-of-fold predictions for one data set."""

    dataset: str
    split: str
    regressor: str
    features: str
    matrices: str
    n_features: int
    rows: pd.DataFrame
    found: Judged

    @property
    def key(self) -> dict[str, str]:
        """What names it."""
        names = ("dataset", "split", "regressor", "features", "matrices")
        return {name: getattr(self, name) for name in names}

    def numbers(self) -> dict[str, Any]:
        """A row of `regressors`, without the BOS policy."""
        folds = self.found.r2_folds[np.isfinite(self.found.r2_folds)]
        return self.key | {
            "r2": self.found.r2_pooled,
            "r2_folds": float(folds.mean()) if len(folds) else None,
            "r2_folds_sd": float(folds.std(ddof=1)) if len(folds) > 1 else None,
            "mae": self.found.mae,
            "n_rows": len(self.rows),
            "n_features": self.n_features,
            "n_folds": len(self.found.r2_folds),
        }

    def predictions(self) -> Iterator[dict[str, Any]]:
        """Rows of `predictions`, without the BOS policy."""
        its = self.rows[[*KEY, TARGET]].to_dict("records")
        for row, predicted, fold in zip(its, self.found.predicted, self.found.fold, strict=True):
            yield self.key | {
                "model": row["model"],
                "scheme": row["scheme"],
                "block": row["block"],
                "fold": int(fold),
                "measured": row[TARGET],
                "predicted": float(predicted),
            }


def questions(found: pd.DataFrame) -> list[Question]:
    """Sets of features: what the paper tries, and the baselines it lacks.

    `llm7` needs every model's family and parameters, so it is left out where one is unknown.
    """
    asked = [("level", ALL), ("weight_error", "KQV"), ("llm5", ALL)]
    if found["parameters"].notna().all():
        asked.append(("llm7", ALL))
    return asked + [(group, name) for group in ("tda", "combined") for name in MATRICES]


def verdicts(
    found: pd.DataFrame,
    splits: Iterable[str],
    progress: Any,
    regressors: Iterable[str] = REGRESSORS,
) -> Iterator[Verdict]:
    """Judge them all; a split that has too few groups is left out.

    Args:
        found: what `features.rows` gives.
        splits: kinds of folds.
        progress: wraps the work, given its count and label.
        regressors: their names.
    """
    work = [
        (dataset, split, name, group, matrices)
        for dataset in dict.fromkeys(found["dataset"])
        for split in splits
        for name in regressors
        for group, matrices in questions(found)
    ]
    for dataset, split, name, group, matrices in progress(work, len(work), "Regressors"):
        its = found[found["dataset"] == dataset].reset_index(drop=True)
        X = design(its, group, "KQV" if matrices == ALL else matrices)
        groups = groups_for(its, split)
        try:
            fitted = judged(name, X, its[TARGET].to_numpy(dtype=float), split, groups)
        except SplitError:
            continue
        yield Verdict(dataset, split, name, group, matrices, X.shape[1], its, fitted)


def groups_for(rows: pd.DataFrame, split: str) -> np.ndarray:
    """What must not stand on both sides of a fold, as numbers."""
    return pd.factorize(rows[_GROUP.get(split, "scheme")])[0]


def importances(
    found: pd.DataFrame, matrices: str, progress: Any, regressors: Iterable[str] = REGRESSORS
) -> Iterator[dict[str, Any]]:
    """Permutation importance of all the features of a question, by the honest splits.

    Args:
        found: what `features.rows` gives.
        matrices: whose distances stand beside what is known without a weight.
        progress: wraps the work, given its count and label.
        regressors: their names.

    Raises:
        SplitError: one level of one model, so no honest split.
    """
    if all(len(set(groups_for(found, split).tolist())) < 2 for split in HONEST):
        raise SplitError(
            "no feature can be judged on one level of one model: name more `schemes`, or models."
        )
    columns = columns_of("combined", matrices)
    work = [
        (dataset, split, name)
        for dataset in dict.fromkeys(found["dataset"])
        for split in HONEST
        for name in regressors
    ]
    for dataset, split, name in progress(work, len(work), "Features shuffled"):
        its = found[found["dataset"] == dataset].reset_index(drop=True)
        groups = groups_for(its, split)
        if len(set(groups.tolist())) < 2:
            continue
        X, y = design(its, "combined", matrices), its[TARGET].to_numpy(dtype=float)
        about = {"dataset": dataset, "split": split, "regressor": name}
        about |= {"features": "combined", "matrices": matrices}
        for row in losses(name, X, y, split, groups, groups_of(columns)):
            yield about | row
