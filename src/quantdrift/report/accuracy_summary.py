"""From scored choices to accuracy, flips and their errors, each scheme beside its base."""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from scipy.stats import binomtest

from .names import Names

CELL = ["model", "scheme", "dataset"]


def accuracy_rows(choices: pd.DataFrame, names: Names) -> pd.DataFrame:
    """The rows of `accuracy_table`, in the study's order.

    Args:
        choices: the table `choices`; it holds the base, too.
        names: of the study.

    Raises:
        ValueError: a scheme and its base scored different items or tokens.
    """
    answers = {key: answered(its) for key, its in choices.groupby(CELL, sort=False)}
    rows = []
    for (model, scheme, dataset), its in answers.items():
        if scheme == "base":
            continue
        base = answers[model, "base", dataset]
        if not its.index.equals(base.index) or (its["token_sha256"] != base["token_sha256"]).any():
            raise ValueError(
                f"{model}, {dataset}: scheme {scheme} and its base scored different items. Delete "
                "both shards of `choices` and run again."
            )
        row = {"model": model, "scheme": scheme, "dataset": dataset, "bos": its["bos"].iloc[0]}
        row |= {"n_items": len(its), "chance": float((1 / its["n_choices"]).mean())}
        for suffix in ("", "_norm"):
            chosen, by_base = (one[f"choice{suffix}"].to_numpy() for one in (its, base))
            found = compared(chosen, by_base, its["answer"].to_numpy())
            if (chosen < 0).any():
                found = dict.fromkeys(found)
            row |= {_suffixed(name, suffix): value for name, value in found.items()}
        rows.append(row)
    return names.described(pd.DataFrame(rows))


def answered(choices: pd.DataFrame) -> pd.DataFrame:
    """One row an item: what was chosen, by log-likelihood and a character; of ties the first.

    Where all choices end in one text (WinoGrande) there is nothing to norm by: -1.
    """
    found = []
    for item, its in choices.sort_values("choice").groupby("item"):
        likelihood = its["log_likelihood"].to_numpy()
        lengths = its["n_characters"].astype(float)
        found.append(
            {
                "item": item,
                "bos": its["bos"].iloc[0],
                "answer": int(np.argmax(its["is_answer"].to_numpy())),
                "n_choices": len(its),
                "choice": int(np.argmax(likelihood)),
                "choice_norm": -1 if lengths.isna().any() else int(np.argmax(likelihood / lengths)),
                "token_sha256": "-".join(its["token_sha256"]),
            }
        )
    return pd.DataFrame(found).set_index("item").sort_index()


def compared(
    chosen: Int[np.ndarray, " item"],
    by_base: Int[np.ndarray, " item"],
    answer: Int[np.ndarray, " item"],
) -> dict[str, Any]:
    """Accuracy of two models on the same items.

    Standard errors are those of a mean over items; a difference's is that of the mean of paired
    differences. McNemar's test asks whether items that one alone gets fall to either side alike.
    """
    right, base = chosen == answer, by_base == answer
    lost, won = base & ~right, right & ~base
    n_flips = int(lost.sum() + won.sum())
    return {
        "acc": float(right.mean()),
        "acc_se": standard_error(right),
        "acc_base": float(base.mean()),
        "acc_difference": float(right.mean() - base.mean()),
        "acc_difference_se": standard_error(right.astype(float) - base),
        "right_to_wrong": float(lost.mean()),
        "wrong_to_right": float(won.mean()),
        "flips": float((lost | won).mean()),
        "changed": float((chosen != by_base).mean()),
        "mcnemar_p": float(binomtest(int(lost.sum()), n_flips).pvalue) if n_flips else 1.0,
    }


def _suffixed(name: str, suffix: str) -> str:
    return name.replace("acc", f"acc{suffix}") if name.startswith("acc") else f"{name}{suffix}"


def standard_error(values: np.ndarray) -> float | None:
    """Of the mean; None for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
