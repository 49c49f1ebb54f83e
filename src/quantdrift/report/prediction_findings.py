"""What predictions say: numbers by honest folds first, and the paper's claims held against them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from quantdrift.prediction.features import MATRICES

from .answer import number
from .checks import Check
from .names import Names, listed
from .prediction_figure import FEATURES, FOLDS
from .stopping_summary import MARGIN, Choice

_BY_DRIFT = {"quiet": "bars that hardly move", "knee": "drift before its knee"}
STRONG = 0.8
"""The paper prints R2 of combined features up to 0.83 to 0.85 on its three data sets."""


@dataclass(frozen=True)
class Found:
    """The tables that statements are made of."""

    regressors: pd.DataFrame
    foreseen: pd.DataFrame
    stopping: pd.DataFrame
    importance: pd.DataFrame
    split: str
    """The honest one."""
    choice: Choice

    def r2(self, features: str, matrices: str, split: str = "", regressor: str = "") -> pd.Series:
        """R2 by data set."""
        rows = self.regressors
        its = rows[
            rows["split"].eq(split or self.split)
            & rows["regressor"].eq(regressor or self.choice.regressor)
            & rows["features"].eq(features)
            & rows["matrices"].eq(matrices)
        ]
        return its.set_index("dataset")["r2"].astype(float)

    def level_error(self, features: str) -> pd.Series:
        """Mean |foreseen - measured| of a level's mean IoU, by data set."""
        its = self.foreseen[self.foreseen["features"] == features]
        error = (its["predicted"] - its["measured"]).abs()
        return error.groupby(its["dataset"]).mean()


def spread(values: Sequence[float] | pd.Series, digits: int = 2) -> str:
    """`0.15 to 0.50`, or one number where that is all."""
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def honest_number(found: Found) -> str:
    """The headline of the chapter: what is foreseen of a level, or model, that was never seen."""
    chosen, matrices = found.choice.questions[0]
    unseen = {"by_level": "a level", "by_model": "a model"}[found.split]
    said = [
        f"{FEATURES[features]} foresees it with R² {spread(found.r2(features, its))}, and a "
        f"level's mean within {spread(found.level_error(features), 3)}"
        for features, its in found.choice.questions
        if features != "level" and len(found.r2(features, its))
    ]
    leaking = spread(found.r2(chosen, matrices, "random"))
    return (
        f"Of {unseen} that the regressor never saw, the IoU of a block: {'; '.join(said)} (on the "
        f"worst and the best data set). Random folds, the paper's way, would say {leaking} for "
        f"{FEATURES[chosen]}: they show the regressor other blocks of the very same scheme."
    )


def outcomes(found: Found) -> Iterator[str]:
    """How often each rule hits, stops early and stops late, over models and marks."""
    table = found.stopping
    for rule, rows in table.groupby("rule", sort=False):
        counts = rows["outcome"].value_counts()
        told = listed(f"{counts[name]} {name}" for name in counts.index)
        yield f"{rule_label(str(rule))}: {told}"


def rule_label(rule: str) -> str:
    """A stopping rule in words."""
    if rule in _BY_DRIFT:
        return _BY_DRIFT[rule]
    features = rule.removesuffix(MARGIN)
    return FEATURES[features] + (", lower end" if rule != features else "")


def stops(found: Found, names: Names) -> Iterator[str]:
    """What the best rule names for each model at the page's mark."""
    mark = found.choice.marks[0]
    for model in names.models:
        here = found.stopping["model"].eq(model.id) & found.stopping["mark"].eq(mark)
        rows = found.stopping[here]
        best = rows["best_level"].iloc[0]
        truth = f"{best} is the lowest that is" if isinstance(best, str) else "no level is"
        named: dict[str, list[str]] = {}
        for row in rows.to_dict("records"):
            level = row["level"] if isinstance(row["level"], str) else "none"
            named.setdefault(f"{level} ({row['outcome']})", []).append(rule_label(row["rule"]))
        told = "; ".join(f"{level} by {' / '.join(rules)}" for level, rules in named.items())
        yield f"{names.of_model(model.id)}Measured, {truth} safe at {number(mark)}. Named: {told}."


def claims(found: Found, names: Names) -> Iterator[Check]:
    """What the paper concludes, by its own folds and by honest ones; and what it did not ask."""
    matrices = found.choice.matrices
    for split in ("random", found.split):
        best = _best(found, "combined", split)
        yield Check(
            f"combined features reach R² {number(STRONG)} on every data set ({FOLDS[split]})",
            bool((best >= STRONG).all()),
            f"best of all regressors and projections: {spread(best)}",
        )
        alone = _best(found, "llm5", split), _best(found, "tda", split)
        yield Check(
            f"combined features beat bits and place, and drift alone ({FOLDS[split]})",
            bool(all((best >= one).all() for one in alone)),
            f"combined {spread(best)}, bits and place {spread(alone[0])}, drift {spread(alone[1])}",
        )
    of = {name: found.r2("tda", name) for name in MATRICES}
    yield Check(
        f"Q, K and both together foresee more than V ({FOLDS[found.split]})",
        all(bool((of[name] > of["V"]).all()) for name in ("Q", "K", "KQ")),
        f"R² of drift ({found.choice.regressor}): "
        + ", ".join(f"{name} {spread(of[name])}" for name in ("Q", "K", "KQ", "V")),
    )
    topology = found.r2("tda", matrices)
    plain = found.r2("weight_error", "KQV")
    yield Check(
        f"drift foresees a block better than plain weight error does ({FOLDS[found.split]})",
        bool((topology > plain).all()),
        f"R² of drift {spread(topology)}, of weight error {spread(plain)} "
        f"({found.choice.regressor})",
    )
    held = (found.foreseen["lower"] <= found.foreseen["measured"]) & (
        found.foreseen["measured"] <= found.foreseen["upper"]
    )
    promised = found.foreseen["coverage"].mean()
    yield Check(
        "intervals hold the truth as often as they promise",
        bool(held.mean() >= promised - 0.1),
        f"{held.sum()} of {len(held)}, promised {promised:.0%}",
    )


def _best(found: Found, features: str, split: str) -> pd.Series:
    rows = found.regressors
    its = rows[rows["split"].eq(split) & rows["features"].eq(features)]
    return its.groupby("dataset")["r2"].max().astype(float)
