"""Chapter of the page on accuracy: whether the right answer is still chosen, and which flip."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from .answer import Point
from .chapter import Chapter, HtmlTable
from .names import Names, listed

_LEAD = (
    "Every choice of an item is scored by its log-likelihood after the context, as "
    "lm-evaluation-harness does it, and the likeliest is the answer. Accuracy may stay while "
    "answers change: flips are items that are right under one of base and quantized alone."
)
SIGNIFICANT = 0.05


def answer(table: pd.DataFrame, names: Names) -> Point:
    """Flips at each level that leads, and where accuracy differs for certain.

    Args:
        table: `accuracy_table`, in the study's order.
        names: of the study.
    """
    lines = []
    for model in names.models:
        here = table["model"].eq(model.id) & table["scheme"].isin(list(names.leading.values()))
        rows = table[here]
        flips = rows.groupby("level", sort=False)["flips"].agg(["min", "max"])
        said = [
            f"{level} {row['min']:.0%}"
            + (f" to {row['max']:.0%}" if row["max"] > row["min"] else "")
            for level, row in flips.iterrows()
        ]
        worse = rows[(rows["mcnemar_p"] < SIGNIFICANT) & (rows["acc_difference"] < 0)]
        told = listed(
            f"{row['level']} on {names.dataset_label(row['dataset'])}"
            for row in worse.to_dict("records")
        )
        lines.append(
            f"{names.of_model(model.id)}answers that flip: {', '.join(said)}. Less accurate than "
            f"its base by McNemar's test (p < {SIGNIFICANT}): {told or 'none'}."
        )
    return Point.of("Answers", lines)


def chapter(table: pd.DataFrame, names: Names) -> Chapter:
    """The chapter; arguments as of `answer`."""
    many = len(names.models) > 1
    head = ["Scheme", "Data set", "acc", "Base", "Difference", "Flips", "Changed", "McNemar p"]
    head += ["acc_norm", "Base", "Chance", "Items"]
    rows = [
        [
            *([names.label(row["model"])] if many else []),
            f"{row['level']} {row['variant']}",
            names.dataset_label(row["dataset"]),
            _with_error(row, "acc"),
            f"{row['acc_base']:.3f}",
            _with_error(row, "acc_difference", "+"),
            f"{row['flips']:.1%}",
            f"{row['changed']:.1%}",
            f"{row['mcnemar_p']:.2g}",
            "–" if pd.isna(row["acc_norm"]) else _with_error(row, "acc_norm"),
            "–" if pd.isna(row["acc_norm_base"]) else f"{row['acc_norm_base']:.3f}",
            f"{row['chance']:.3f}",
            str(row["n_items"]),
        ]
        for row in table.to_dict("records")
    ]
    ours = [one.label for one in names.datasets if one.is_ours]
    whose = (
        f"The items of {listed(ours)} were written for this project: no published number compares."
    )
    return Chapter(
        id="accuracy",
        title="Accuracy and flips",
        lead=_LEAD,
        tables=[
            HtmlTable(
                caption=(
                    "Every scheme: share of items answered rightly ± standard error over items; "
                    "the difference's is paired. Changed: another choice, right or wrong."
                ),
                head=[*(["Model"] if many else []), *head],
                rows=rows,
                text_columns=(0, 1, 2) if many else (0, 1),
            )
        ],
        notes=[whose] if ours else [],
    )


def _with_error(row: Mapping[Any, Any], name: str, sign: str = "") -> str:
    error = row[f"{name}_se"]
    value = format(row[name], f"{sign}.3f")
    return value if pd.isna(error) else f"{value} ± {error:.3f}"
