"""Accuracy, flips and tests of items counted by hand."""

import numpy as np
import pandas as pd
import pytest

from quantdrift.report.accuracy_summary import accuracy_rows, answered, compared
from quantdrift.report.names import Names
from quantdrift.tables.choices import ACCURACY_TABLE
from quantdrift.tables.io import from_rows

NAMES = Names.of(
    [["s-paper", "q4_0", "paper"]],
    [["m", "M", "MIT", None, "local"]],
    [["arc", "ARC", "arc", "MIT", True], ["wino", "W", "winogrande", "MIT", True]],
)


def choices(likelihoods: dict[str, list[list[float]]], dataset: str = "arc") -> pd.DataFrame:
    """Of each scheme and item; the right choice is number 1, twice as long as number 0."""
    rows = [
        {
            "model": "m",
            "scheme": scheme,
            "dataset": dataset,
            "bos": "without",
            "item": f"i{item:02d}",
            "choice": number,
            "is_answer": number == 1,
            "n_characters": None if dataset == "wino" else 4 * (number + 1),
            "token_sha256": f"{item}-{number}",
            "log_likelihood": value,
        }
        for scheme, items in likelihoods.items()
        for item, values in enumerate(items)
        for number, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


BASE = [[-2.0, -1.0], [-2.0, -1.0], [-1.0, -2.5], [-1.0, -1.5]]
OTHER = [[-2.0, -1.0], [-1.0, -3.0], [-2.0, -1.0], [-1.0, -1.5]]


def test_counts_by_hand():
    row = accuracy_rows(choices({"base": BASE, "s-paper": OTHER}), NAMES).iloc[0]
    assert (row["acc"], row["acc_base"], row["acc_difference"]) == (0.5, 0.5, 0)
    assert (row["right_to_wrong"], row["wrong_to_right"], row["flips"]) == (0.25, 0.25, 0.5)
    assert (row["changed"], row["mcnemar_p"], row["chance"]) == (0.5, 1.0, 0.5)
    # Differences 0, -1, 1, 0: deviation sqrt(2/3), over sqrt(4).
    assert row["acc_difference_se"] == pytest.approx(np.sqrt(2 / 3) / 2)
    # A character: -0.5 against -0.125 and so on; only -2.5 / 8 < -1 / 4 stays wrong in the base.
    assert (row["acc_norm_base"], row["acc_norm"]) == (0.75, 0.75)


def test_of_ties_the_first_is_chosen_as_numpy_does():
    assert answered(choices({"base": [[-1.0, -1.0]]}))["choice"].item() == 0


def test_what_has_one_end_is_not_normed():
    both = [choices({"base": BASE, "s-paper": OTHER}, name) for name in ("arc", "wino")]
    rows = accuracy_rows(pd.concat(both), NAMES).set_index("dataset")
    assert pd.isna(rows.loc["wino", "acc_norm"])
    assert rows.loc["wino", "acc"] == 0.5
    records = rows.reset_index()[ACCURACY_TABLE.schema.names].astype(object)
    fits = from_rows(ACCURACY_TABLE, records.where(records.notna(), None).to_dict("records"))
    assert fits.num_rows == 2
    alone = accuracy_rows(choices({"base": BASE, "s-paper": OTHER}, "wino"), NAMES)
    assert alone["acc_norm"].isna().all()


def test_mcnemar_is_the_binomial_test_of_flips():
    right = np.ones(20, int)
    wrong = right.copy()
    wrong[:8] = 0
    found = compared(wrong, right, right)
    assert found["mcnemar_p"] == pytest.approx(2 * 0.5**8)
    assert (found["flips"], found["acc"]) == (0.4, 0.6)
    assert found["acc_se"] == pytest.approx(0.11239, abs=1e-5)
    same = compared(right, right, right)
    assert (same["mcnemar_p"], same["acc_se"]) == (1, 0)


def test_other_items_or_tokens_are_not_compared():
    table = choices({"base": BASE, "s-paper": OTHER[:-1]})
    with pytest.raises(ValueError, match=r"m, arc: scheme s-paper and its base scored different"):
        accuracy_rows(table, NAMES)
    table = choices({"base": BASE, "s-paper": OTHER})
    table.loc[table.index[-1], "token_sha256"] = "x"
    with pytest.raises(ValueError, match="scored different items"):
        accuracy_rows(table, NAMES)
