import numpy as np
import pandas as pd
import pytest
from report_tables import HARD_BLOCK, LEVELS, study

from quantdrift.report import findings


def curve(errors, drift):
    types = [f"t{at}" for at in range(len(errors))]
    return pd.DataFrame({"type": types, "relative_frobenius": errors, "swd_mean": drift})


def test_the_knee_is_where_drift_begins_to_outgrow_the_error():
    errors = np.array([0.01, 0.02, 0.04, 0.08, 0.16])
    gentle, steep = errors[:3] ** 0.8, errors[3:] ** 2 * 0.04**0.8 / 0.04**2
    assert findings.knee(curve(errors, np.concatenate([gentle, steep]))) == "t3"


def test_a_steep_step_before_a_gentle_one_is_no_knee():
    # Slopes 2, 0.5, 2: drift outgrows the error for good only at the last step.
    errors = np.array([1.0, 2.0, 4.0, 8.0])
    assert findings.knee(curve(errors, np.array([1.0, 4.0, 4 * 2**0.5, 16 * 2**0.5]))) == "t3"


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_drift_that_never_outgrows_the_error_has_no_knee(power):
    errors = np.array([1.0, 2.0, 4.0])
    assert findings.knee(curve(errors, errors**power)) is None


def test_drift_that_always_outgrows_the_error_climbs_from_the_second_type():
    errors = np.array([1.0, 2.0, 4.0])
    assert findings.knee(curve(errors, errors**2)) == "t1"


def test_one_level_has_no_knee():
    assert findings.knee(curve([0.1], [1.0])) is None


def test_knees_of_a_study_are_read_at_the_type_a_role_really_had():
    made = study()
    assert findings.knees(made.drift, made.errors) == {
        ("tiny", "q"): "q4_0",
        ("tiny", "k"): "q2_k",
        ("tiny", "v"): "q2_k",
    }
    without_pure = study(levels=LEVELS[:-1])
    assert findings.knees(without_pure.drift, without_pure.errors)["tiny", "v"] is None


def test_a_role_that_the_threshold_nearly_empties_is_read_without_it():
    made = study()
    assert findings.readings(made.drift) == {"q": "clip", "k": "clip", "v": "full"}
    assert findings.finite_shares(made.drift)["v"] == pytest.approx(4 / 40)


def test_readings_without_full_fall_back_on_what_is_there():
    made = study()
    drift = made.drift[made.drift["filtration"] == "drop"]
    assert set(findings.readings(drift).values()) == {"drop"}


def test_verdicts_by_the_declared_rule():
    made = study()
    found = {one.level: one for one in findings.verdicts(made.drift, made.errors, made.names)}
    assert {level: one.verdict for level, one in found.items()} == {
        "Q8_0": "quiet",
        "Q5_0": "quiet",
        "Q5_K": "quiet",
        "Q4_0": "reshapes",  # q moves by 1.2 % in five blocks, twice that in the sixth
        "Q2_K": "reshapes",
    }
    assert found["Q4_0"].past_knee == ("q",)
    assert found["Q2_K"].past_knee == ("q", "k")  # v has q4_0 there, before its knee
    assert found["Q4_0"].worst_shift == pytest.approx(0.024)
    assert found["Q4_0"].mean_shift == pytest.approx(0.012 * 7 / 6)
    assert found["Q2_K"].bits == pytest.approx((2.625 + 2.625 + 4.5) / 3)


def test_a_level_past_a_knee_moves_even_where_its_bars_hardly_do():
    made = study()
    drift = made.drift.assign(bar_shift_mean=0.0, bar_shift_max=0.0)
    found = findings.by_verdict(findings.verdicts(drift, made.errors, made.names))
    assert found == {"quiet": ["Q8_0", "Q5_0", "Q5_K"], "moves": ["Q4_0", "Q2_K"], "reshapes": []}


def test_where_models_disagree_the_worst_verdict_counts():
    made = study(models=("tiny", "other"))
    drift = made.drift.copy()
    of_other = (drift["model"] == "other") & (drift["level"] == "Q8_0")
    drift.loc[of_other, ["bar_shift_mean", "bar_shift_max"]] = 0.5
    found = findings.by_verdict(findings.verdicts(drift, made.errors, made.names))
    assert "Q8_0" in found["reshapes"]


def test_worst_blocks_and_thirds():
    made = study()
    ratios = findings.block_ratios(made.blocks, findings.readings(made.drift))
    worst = findings.worst_blocks(ratios)
    assert worst["tiny", "q"][0] == HARD_BLOCK
    assert len(worst["tiny", "q"]) == 3
    thirds = findings.third_means(ratios)["tiny", "k"]
    assert list(thirds) == ["early", "middle", "late"]
    # Mean 7/6: ordinary blocks have 6/7 of it, the hard one 12/7.
    assert thirds == pytest.approx({"early": 6 / 7, "middle": 6 / 7, "late": 9 / 7})


def test_blocks_that_never_drift_are_no_division_by_zero():
    made = study()
    blocks = made.blocks.assign(value=0.0)
    assert findings.block_ratios(blocks, findings.readings(made.drift)).empty


def test_same_bits_pairs_the_types_of_one_size():
    made = study()
    pairs = {(p.role, p.less, p.more): p for p in findings.same_bits(made.drift, made.errors)}
    assert set(pairs) == {(role, "q5_k", "q5_0") for role in ("q", "k", "v")}
    assert pairs["q", "q5_k", "q5_0"].drift_ratio == pytest.approx(0.75**0.8)
    assert pairs["q", "q5_k", "q5_0"].error_ratio == pytest.approx(0.75)


def test_gauge_spread_is_the_range_over_the_mean():
    spreads = findings.gauge_spreads(study().tables["gauge_drift"])
    assert spreads["spread"].to_numpy() == pytest.approx(0.04)
    assert set(spreads["count"]) == {3}


def test_rises():
    assert findings.rises([1.0, 2.0, 3.0])
    assert not findings.rises([1.0, 1.0])
    assert findings.rises([1.0])
