import pandas as pd
import pytest

from quantdrift.report.names import Names
from quantdrift.report.projection_summary import sensitivity_rows
from quantdrift.tables.io import from_rows
from quantdrift.tables.report import PROJECTION_SENSITIVITY

LEVELS = [
    ["llamacpp-q8_0-paper", "q8_0", "paper"],
    ["llamacpp-q4_k-paper", "q4_k", "paper"],
    ["llamacpp-q4_k-pure", "q4_k", "pure"],
]
NAMES = Names.of(LEVELS, [["m", "M", "MIT", None, "local"]])
DRIFT = {
    ("q8_0-paper", "q"): ("q8_0", 1.0, 0.01),
    ("q8_0-paper", "v"): ("q8_0", 0.3, 0.009),
    ("q4_k-paper", "q"): ("q4_k", 8.0, 0.08),
    ("q4_k-paper", "v"): ("q6_k", 0.6, 0.018),
    ("q4_k-pure", "q"): ("q4_k", 8.0, 0.08),
    ("q4_k-pure", "v"): ("q4_k", 2.0, 0.06),
}


def found(*leave_out: str) -> pd.DataFrame:
    drift, errors = [], []
    for (scheme, role), (kind, swd, per_point) in DRIFT.items():
        if scheme in leave_out:
            continue
        key = {"model": "m", "scheme": f"llamacpp-{scheme}", "role": role}
        drift.append(key | {"filtration": "full", "swd_mean": swd, "swd_per_point": per_point})
        errors.append(key | {"type": kind, "bpw_full": 4.5, "relative_frobenius": 0.1})
    rows = sensitivity_rows(pd.DataFrame(drift), pd.DataFrame(errors), NAMES)
    return rows.set_index(["level", "role"])


def test_projections_at_equal_bits_and_what_the_bits_spare():
    value = found().loc[("Q4_K", "v")]
    assert (value["type_pure"], value["type_paper"]) == ("q4_k", "q6_k")
    assert value["of_query"] == pytest.approx(0.06 / 0.08)
    assert value["spared_by_bits"] == pytest.approx(1 - 0.6 / 2.0)
    assert found().loc[("Q4_K", "q"), "spared_by_bits"] == 0


def test_a_level_whose_type_is_its_own_stands_on_both_sides():
    value = found().loc[("Q8_0", "v")]
    assert value["swd_mean_pure"] == value["swd_mean_paper"] == 0.3
    assert value["of_query"] == pytest.approx(0.9)


def test_a_side_that_was_not_measured_is_empty():
    value = found("q4_k-pure").loc[("Q4_K", "v")]
    assert pd.isna(value["swd_mean_pure"])
    assert pd.isna(value["spared_by_bits"])
    assert value["swd_mean_paper"] == 0.6


def test_rows_fit_their_table():
    rows = found("q4_k-pure").reset_index()
    records = rows.astype(object).where(rows.notna(), None)[PROJECTION_SENSITIVITY.schema.names]
    assert from_rows(PROJECTION_SENSITIVITY, records.to_dict("records")).num_rows == 4
