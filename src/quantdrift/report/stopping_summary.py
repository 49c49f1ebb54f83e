"""Stopping points of a study: every rule, model and mark, held against measured agreement."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from quantdrift.prediction.regressors import HONEST, SplitError
from quantdrift.prediction.stopping import foreseen, judge, safe_by

from . import findings
from .agreement_findings import level_agreements, primary
from .names import Names

BASELINES = (("weight_error", "KQV"), ("level", "all"))
"""What topology has to beat."""
MARGIN = " lower"
"""After the name of features: a level is safe if the lower end of its interval is."""


@dataclass(frozen=True)
class Choice:
    """Which predictions are used."""

    regressor: str
    features: str
    matrices: str
    coverage: float
    marks: Sequence[float]

    @property
    def questions(self) -> list[tuple[str, str]]:
        """Features and matrices: the chosen ones first, then the baselines."""
        return list(dict.fromkeys([(self.features, self.matrices), *BASELINES]))


def honest(predictions: pd.DataFrame) -> str:
    """The split that statements use: by model where several were measured, else by level.

    Raises:
        SplitError: no honest split could be made: one level of one model.
    """
    there = set(predictions["split"])
    found = [split for split in reversed(HONEST) if split in there]
    if not found:
        raise SplitError(
            "nothing can be foreseen of one level of one model: name more `schemes`, or models."
        )
    return found[0]


def foreseen_rows(predictions: pd.DataFrame, choice: Choice, names: Names) -> pd.DataFrame:
    """The rows of `foreseen`.

    Args:
        predictions: the table of that name.
        choice: which of them.
        names: of the study.

    Raises:
        SplitError: no honest split could be made.
    """
    split = honest(predictions)
    rows = predictions[
        predictions["split"].eq(split) & predictions["regressor"].eq(choice.regressor)
    ]
    found = []
    for features, matrices in choice.questions:
        its = rows[rows["features"].eq(features) & rows["matrices"].eq(matrices)]
        about = {"features": features, "matrices": matrices, "split": split}
        about |= {"regressor": choice.regressor, "bos": rows["bos"].iloc[0]}
        found.append(foreseen(its, names.leading, choice.coverage).assign(**about))
    return pd.concat(found, ignore_index=True)


def stopping_rows(
    seen: pd.DataFrame,
    agreement: pd.DataFrame,
    drift: pd.DataFrame,
    errors: pd.DataFrame,
    choice: Choice,
    names: Names,
) -> pd.DataFrame:
    """The rows of `stopping`, in the order of models, marks and rules.

    Args:
        seen: what `foreseen_rows` gives.
        agreement: `agreement_table`.
        drift: `drift_table`.
        errors: `weight_error_table`.
        choice: the marks.
        names: of the study.
    """
    verdicts = findings.verdicts(drift, errors, names)
    measured = pd.DataFrame(
        [
            {"model": one.model, "level": one.level, "bits": one.bits, "iou": one.iou}
            for one in level_agreements(primary(agreement), verdicts, names)
        ]
    )
    by_drift = pd.DataFrame(
        [
            {
                "model": one.model,
                "level": one.level,
                "quiet": one.verdict == "quiet",
                "knee": not one.past_knee,
            }
            for one in verdicts
        ]
    )
    rows = []
    for model in (model.id for model in names.models):
        for mark in choice.marks:
            truth = measured[measured["model"] == model]
            truth = truth.assign(safe=truth["iou"] >= mark)
            for rule, safe in _rules(seen, by_drift, mark, choice).items():
                claimed = safe[safe["model"] == model].drop(columns="model")
                claimed = claimed.merge(truth[["level", "bits"]], on="level")
                rows.append({"model": model, "rule": rule, "mark": mark} | judge(claimed, truth))
    return pd.DataFrame(rows)


def rules_in_order(stopping: pd.DataFrame, choice: Choice, names: Names) -> pd.DataFrame:
    """Rows read from a file, which sorts them by key, in the order of models, marks and rules."""
    rules = ["quiet", "knee"]
    rules += [name + end for name, _ in choice.questions for end in ("", MARGIN)]
    orders = {
        "model": [model.id for model in names.models],
        "mark": list(choice.marks),
        "rule": rules,
    }
    ranks = pd.DataFrame({name: stopping[name].map(order.index) for name, order in orders.items()})
    return stopping.loc[ranks.sort_values(list(orders), kind="stable").index].reset_index(drop=True)


def _rules(
    seen: pd.DataFrame, by_drift: pd.DataFrame, mark: float, choice: Choice
) -> dict[str, pd.DataFrame]:
    """Which levels each rule calls safe; those that know no mark say the same at each."""
    rules = {
        name: by_drift[["model", "level", name]].rename(columns={name: "safe"})
        for name in ("quiet", "knee")
    }
    for features, _ in choice.questions:
        its = seen[seen["features"] == features]
        rules[features] = safe_by(its, "predicted", mark)
        rules[features + MARGIN] = safe_by(its, "lower", mark)
    return rules
