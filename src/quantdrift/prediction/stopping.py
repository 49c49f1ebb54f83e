"""Where to stop quantizing, by rules that never run the model; and whether they were right.

TopoQuant asks it (RQ2) and gives no rule. A rule calls levels safe; the level it *names* is the one
of fewest bits among those. Measured agreement says which levels are safe indeed: mean IoU of at
least a mark on every data set. A rule *hits* if the level it names is safe and none of fewer bits
is; it stops *early* if a cheaper one would have done, *late* if the one it names is not safe.

Intervals are conformal: what the predictor got wrong on levels (or models) that it had not seen
bounds what it gets wrong on the next, whatever the shape of its errors, if that one is no stranger
than they. Source: Vovk, Gammerman, Shafer 2005; Barber et al. 2021, the cross-conformal form.
"""

import math

import numpy as np
import pandas as pd
from jaxtyping import Float

OUTCOMES = ("hit", "early", "late")
_CELL = ["model", "level", "dataset"]


def half_width(errors: Float[np.ndarray, " n"], coverage: float) -> tuple[float, float]:
    """Half the width of a conformal interval, and the coverage it can promise.

    Args:
        errors: predicted - measured of cases that the predictor had not seen.
        coverage: wanted; n errors can promise n / (n + 1) at most.

    Raises:
        ValueError: there are no errors to learn from.
    """
    n = len(errors)
    if not n:
        raise ValueError("an interval needs errors on levels that were not seen, and has none.")
    rank = min(math.ceil(coverage * (n + 1)), n)
    return float(np.sort(np.abs(errors))[rank - 1]), min(coverage, n / (n + 1))


def foreseen(predictions: pd.DataFrame, schemes: dict[str, str], coverage: float) -> pd.DataFrame:
    """Mean agreement of each level as a regressor foresees it that did not see it.

    Args:
        predictions: rows of the table `predictions` of one regressor and one honest split.
        schemes: for each level the scheme that speaks for it.
        coverage: of the intervals.

    Returns:
        model, level, scheme, dataset, `predicted` and `measured` (means over blocks, predictions
        cut to [0, 1]), `lower`, `upper`, `coverage` (promised). An interval comes of the errors
        on all other folds of its data set.
    """
    level_of = {scheme: level for level, scheme in schemes.items()}
    rows = predictions[predictions["scheme"].isin(list(level_of))]
    rows = rows.assign(level=rows["scheme"].map(level_of), predicted=rows["predicted"].clip(0, 1))
    means = rows.groupby([*_CELL, "scheme", "fold"], sort=False)[["predicted", "measured"]].mean()
    means = means.reset_index()
    error = means["predicted"] - means["measured"]
    found = []
    for at, row in means.iterrows():
        others = means["dataset"].eq(row["dataset"]) & means["fold"].ne(row["fold"])
        width, promised = half_width(error[others].to_numpy(), coverage)
        ends = {
            "lower": max(row["predicted"] - width, 0),
            "upper": min(row["predicted"] + width, 1),
        }
        found.append({"at": at, "coverage": promised} | ends)
    return means.join(pd.DataFrame(found).set_index("at")).drop(columns="fold")


def safe_by(found: pd.DataFrame, column: str, mark: float) -> pd.DataFrame:
    """Whether `column` reaches the mark on every data set: model, level, `safe`."""
    lowest = found.groupby(["model", "level"], sort=False)[column].min()
    return (lowest >= mark).rename("safe").reset_index()


def judge(claimed: pd.DataFrame, measured: pd.DataFrame) -> dict[str, object]:
    """What one rule names for one model, and whether it was right.

    Args:
        claimed: a row a level: level, bits, `safe` as the rule has it.
        measured: a row a level: level, bits, `iou` (its lowest over data sets) and `safe`.

    Returns:
        level, bits and iou of what is named (None: no level), best_level and best_bits, outcome.
    """
    named, best = _cheapest(claimed[claimed["safe"]]), _cheapest(measured[measured["safe"]])
    truth = measured.set_index("level")
    if named is None:
        outcome = "hit" if best is None else "early"
    elif not bool(truth["safe"][named["level"]]):
        outcome = "late"
    else:
        outcome = "early" if best is not None and best["bits"] < named["bits"] else "hit"
    return {
        "level": None if named is None else named["level"],
        "bits": None if named is None else float(named["bits"]),
        "iou": None if named is None else float(truth["iou"][named["level"]]),
        "best_level": None if best is None else best["level"],
        "best_bits": None if best is None else float(best["bits"]),
        "outcome": outcome,
    }


def _cheapest(levels: pd.DataFrame) -> pd.Series | None:
    if not len(levels):
        return None
    by = ["bits", "iou"] if "iou" in levels else ["bits"]
    ordered = levels.sort_values(by, ascending=[True, False][: len(by)], kind="stable")
    return ordered.iloc[0]
