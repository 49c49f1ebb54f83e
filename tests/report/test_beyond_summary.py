import pandas as pd
import pytest

from quantdrift.report.beyond_summary import beyond_rows
from quantdrift.report.names import Names
from quantdrift.tables.io import from_rows
from quantdrift.tables.report import BEYOND_ATTENTION

NAMES = Names.of([["s-pure", "q4_k", "pure"]], [["m", "M", "MIT", None, "local"]])
EXACT = [0.1, 0.2, 0.4, 0.8]


def found(factor: float, wobble: tuple[float, float] = (0.0, 0.0)) -> pd.DataFrame:
    key = {"model": "m", "scheme": "s-pure", "role": "up", "filtration": "full"}
    rows = []
    for block, value in enumerate(EXACT):
        here = key | {"block": block}
        exact = {"shortcut": "exact", "size": 100, "draw": None}
        rows.append(here | exact | {"swd": 100 * value, "swd_per_point": value})
        for draw, shift in enumerate(wobble):
            sampled = {"shortcut": "rows", "size": 10, "draw": draw}
            drift = value * (factor + shift)
            rows.append(here | sampled | {"swd": 10 * drift, "swd_per_point": drift})
    errors = pd.DataFrame(
        [{"model": "m", "scheme": "s-pure", "role": "up"} | {"relative_frobenius": 0.07}]
    )
    return beyond_rows(pd.DataFrame(rows), errors, NAMES).set_index("shortcut")


def test_the_exact_row_is_its_own_measure():
    exact = found(1.5).loc["exact"]
    assert (exact["ratio"], exact["ratio_rms_error"], exact["rank_correlation"]) == (1, 0, 1)
    assert exact["swd_mean"] == pytest.approx(100 * sum(EXACT) / 4)


def test_bias_and_spread_of_a_sample():
    sampled = found(1.5, (-0.1, 0.1)).loc["rows"]
    assert sampled["ratio"] == pytest.approx(1.5)
    assert sampled["ratio_rms_error"] == pytest.approx(((0.4**2 + 0.6**2) / 2) ** 0.5)
    assert sampled["rank_correlation"] == pytest.approx(1)


def test_rows_fit_their_table():
    rows = found(0.9).reset_index()[BEYOND_ATTENTION.schema.names]
    assert from_rows(BEYOND_ATTENTION, rows.to_dict("records")).num_rows == 2
