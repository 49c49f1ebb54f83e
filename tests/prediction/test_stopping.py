"""Stopping rules against cases whose outcome is known, intervals against their promise."""

import numpy as np
import pandas as pd
import pytest

from quantdrift.prediction.stopping import foreseen, half_width, judge, safe_by

LEVELS = {"Q8": "s8", "Q6": "s6", "Q4": "s4", "Q2": "s2"}
BITS = {"Q8": 8.5, "Q6": 6.5, "Q4": 4.5, "Q2": 2.6}


def truth(**iou: float) -> pd.DataFrame:
    rows = [{"level": level, "bits": BITS[level], "iou": value} for level, value in iou.items()]
    return pd.DataFrame(rows).assign(safe=lambda t: t["iou"] >= 0.9)


def claimed(*safe: str) -> pd.DataFrame:
    return pd.DataFrame([{"level": x, "bits": BITS[x], "safe": x in safe} for x in BITS])


MEASURED = truth(Q8=0.99, Q6=0.95, Q4=0.8, Q2=0.5)


@pytest.mark.parametrize(
    ("safe", "named", "outcome"),
    [
        (("Q8", "Q6"), "Q6", "hit"),
        (("Q8",), "Q8", "early"),
        (("Q8", "Q6", "Q4"), "Q4", "late"),
        ((), None, "early"),
    ],
)
def test_hit_early_late(safe, named, outcome):
    found = judge(claimed(*safe), MEASURED)
    assert (found["level"], found["outcome"]) == (named, outcome)
    assert (found["best_level"], found["best_bits"]) == ("Q6", 6.5)


def test_where_nothing_is_safe_naming_nothing_is_right():
    none = truth(Q8=0.8, Q6=0.7, Q4=0.6, Q2=0.5)
    assert judge(claimed(), none)["outcome"] == "hit"
    assert judge(claimed("Q8"), none)["outcome"] == "late"


def test_of_two_levels_of_one_size_either_is_right():
    both = truth(Q8=0.99, Q6=0.95, Q4=0.8, Q2=0.5)
    both.loc[both["level"] == "Q4", ["bits", "iou", "safe"]] = [6.5, 0.92, True]
    claims = claimed("Q8", "Q4").assign(bits=lambda t: t["bits"].replace(4.5, 6.5))
    found = judge(claims, both)
    assert (found["level"], found["outcome"], found["best_level"]) == ("Q4", "hit", "Q6")


def test_half_widths_are_order_statistics():
    errors = np.array([-0.1, 0.2, 0.3, -0.4])
    assert half_width(errors, 0.6) == (0.3, 0.6)  # ceil(0.6 * 5) = 3rd
    assert half_width(errors, 0.9) == (0.4, 0.8)  # 4 errors promise 4 of 5 at most
    with pytest.raises(ValueError, match="has none"):
        half_width(np.array([]), 0.9)


def test_intervals_keep_their_promise():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(2000):
        errors = rng.standard_cauchy(20)
        width, promised = half_width(errors[:-1], 0.8)
        held.append(abs(errors[-1]) <= width)
    assert promised == 0.8
    assert 0.78 < np.mean(held) < 0.86


def predictions(errors: dict[str, float]) -> pd.DataFrame:
    rows = []
    for fold, (level, error) in enumerate(errors.items()):
        for block in range(4):
            at = {"model": "m", "scheme": LEVELS[level], "dataset": "arc", "fold": fold}
            measured = 0.9 + 0.02 * (block - 1.5)
            rows.append(at | {"measured": measured, "predicted": measured + error})
    return pd.DataFrame(rows)


def test_a_levels_interval_comes_of_the_other_levels():
    found = foreseen(predictions({"Q8": 0.5, "Q6": 0.01, "Q4": -0.02, "Q2": 0.03}), LEVELS, 0.9)
    q8 = found.set_index("level").loc["Q8"]
    assert q8["predicted"] == 1.0  # cut before the mean
    assert q8["lower"] == pytest.approx(1 - 0.03)
    q6 = found.set_index("level").loc["Q6"]
    assert q6["coverage"] == pytest.approx(3 / 4)
    assert q6["lower"] == pytest.approx(0.91 - 0.1)  # the error of Q8, cut to [0, 1]
    assert q6["measured"] == pytest.approx(0.9)


def test_a_level_is_safe_if_every_data_set_says_so():
    found = pd.DataFrame(
        {"model": "m", "level": ["Q8", "Q8", "Q6", "Q6"], "lower": [0.95, 0.91, 0.95, 0.89]}
    )
    assert safe_by(found, "lower", 0.9).set_index("level")["safe"].to_dict() == {
        "Q8": True,
        "Q6": False,
    }


def test_schemes_that_do_not_speak_for_a_level_are_left_out():
    rows = predictions({"Q8": 0.0, "Q6": 0.01, "Q4": 0.0})
    more = rows.assign(scheme="other", predicted=0.0)
    found = foreseen(pd.concat([rows, more]), LEVELS, 0.9)
    assert set(found["level"]) == {"Q8", "Q6", "Q4"}
