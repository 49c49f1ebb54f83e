"""What a saved predictor says of a study's schemes: the table `predict`, and sentences above it."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from quantdrift.prediction.features import ROLES

from .answer import number
from .names import Names, listed
from .written import markdown_lines


def forecast_rows(
    levels: pd.DataFrame, errors: pd.DataFrame, mark: float, names: Names
) -> pd.DataFrame:
    """The rows of `predict`, in the study's order.

    Args:
        levels: what `predictor.levels` gives.
        errors: the table `weight_error`.
        mark: from which on a level is safe; one whose every block lies outside never is.
        names: of the study.
    """
    errors = errors[errors["role"].isin(ROLES)]
    sizes = errors.assign(bits=errors["bpw_full"] * errors["n_weights"])
    sums = sizes.groupby(["model", "scheme"])[["bits", "n_weights"]].sum()
    bits = (sums["bits"] / sums["n_weights"]).rename("bits").reset_index()
    its = levels.groupby(["model", "scheme", "features"])
    reaches = its["lower"].transform("min") >= mark
    known = its["share_outside"].transform("max") < 1
    found = levels.assign(is_safe=reaches & known).merge(bits, on=["model", "scheme"])
    return names.described(found)


def lowest_safe(rows: pd.DataFrame, model: str, features: str) -> pd.Series | None:
    """The scheme of fewest bits among those that are safe by these features, if there is one."""
    its = rows[rows["model"].eq(model) & rows["features"].eq(features) & rows["is_safe"]]
    return None if not len(its) else its.iloc[int(its["bits"].argmin())]


def sentences(rows: pd.DataFrame, mark: float, names: Names) -> Iterable[str]:
    """The lowest safe scheme of each model, by each set of features."""
    for model in dict.fromkeys(rows["model"]):
        for features in dict.fromkeys(rows["features"]):
            best = lowest_safe(rows, model, features)
            reaches = f"a mean IoU of {number(mark)} on every data set"
            if best is None:
                yield (
                    f"{names.label(model)}, by {features}: no scheme is foreseen to reach "
                    f"{reaches}."
                )
                continue
            its = rows[rows["model"].eq(model) & rows["features"].eq(features)]
            its = its[its["scheme"] == best["scheme"]]
            least = its.iloc[int(its["lower"].argmin())]
            yield (
                f"{names.label(model)}, by {features}: {best['scheme']}, at "
                f"{number(best['bits'], 4)} bits a weight of Q, K and V, is the lowest that is "
                f"foreseen to reach {reaches}: {least['predicted']:.2f} "
                f"({least['lower']:.2f} to {least['upper']:.2f}) where it is lowest."
            )


def as_markdown(rows: pd.DataFrame, said: Iterable[str], mark: float, names: Names) -> str:
    """Sentences, then a line a scheme, data set and set of features."""
    head = ["model", "scheme", "bits", "data set", "features", "IoU", "interval"]
    head += ["worst blocks", "outside", f"safe at {number(mark)}"]
    lines = [
        [
            names.label(row["model"]),
            row["scheme"],
            number(row["bits"], 4),
            names.dataset_label(row["dataset"]),
            row["features"],
            f"{row['predicted']:.3f}",
            f"{row['lower']:.3f} to {row['upper']:.3f}",
            listed(map(str, row["worst_blocks"])),
            f"{row['share_outside']:.0%}",
            "yes" if row["is_safe"] else "no",
        ]
        for row in rows.to_dict("records")
    ]
    promised = listed(f"{value:.0%}" for value in np.unique(rows["coverage"].round(2)))
    text = ["Predicted from the weights alone; the model was not run.", ""]
    text += [f"- {line}" for line in said]
    text += [
        "",
        f"Intervals hold {promised} of such means where the model is no stranger to the predictor; "
        "of another family they may hold far fewer.",
        "",
    ]
    return "\n".join([*text, *markdown_lines(head, lines, (0, 1, 3, 4, 6, 7, 9))]) + "\n"
