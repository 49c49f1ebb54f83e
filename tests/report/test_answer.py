import pytest
from report_tables import LEVELS, THRESHOLD, study

from quantdrift.report.answer import answer, headline, number, percent, times
from quantdrift.report.caveats import caveats
from quantdrift.report.findings import verdicts


def told(made):
    found = verdicts(made.drift, made.errors, made.names)
    points = answer(made.drift, made.errors, made.blocks, made.names, found)
    return {"headline": headline(found)} | {p.label: " ".join(p.lines) for p in points}


def warned(made):
    points = caveats(
        made.drift, made.errors, made.tables["gauge_drift"], made.names, THRESHOLD, "flat"
    )
    return {point.label: " ".join(point.lines) for point in points}


def test_the_answer_in_words():
    said = told(study())
    assert said["headline"] == (
        "Q8_0, Q5_0 and Q5_K leave the weights' topology nearly alone; Q4_0 and Q2_K reshape it."
    )
    assert said["Smallest quiet format"].startswith("Q5_0, at 5.5 bits a weight")
    assert said["At equal bits"].startswith(
        "Q5_K drifts less than Q5_0 at the same 5.5 bits: by 21 %"
    )
    assert said["Where it climbs"] == (
        "Drift grows faster than the rounding error itself in Q from Q4_0 on, in K from Q2_K on "
        "and in V from Q2_K on."
    )
    assert "in V (which gets Q4_0 there; with Q2_K itself it moves by" in said["How far"]
    assert "Q is hit hardest in block 4 (1.7\u00a0× the mean block)" in said["Which blocks"]
    assert "late 1.3\u00a0×" in said["Which blocks"]


def test_the_answer_follows_the_tables():
    made = study()
    made.drift.loc[made.drift["level"] == "Q5_0", ["bar_shift_mean", "bar_shift_max"]] = 0.02
    said = told(made)
    assert said["headline"].startswith("Q8_0 and Q5_K leave")
    assert said["Smallest quiet format"].startswith("Q5_K")


def test_with_nothing_quiet_the_answer_says_so():
    made = study()
    made.drift = made.drift.assign(bar_shift_max=0.5, bar_shift_mean=0.5)
    said = told(made)
    assert said["headline"].startswith("Q8_0, Q5_0, Q5_K, Q4_0 and Q2_K reshape the weights'")
    assert said["Smallest quiet format"].startswith("No level")


def test_one_level():
    said = told(study(levels=LEVELS[:1]))
    assert said["headline"] == "Q8_0 leaves the weights' topology nearly alone."
    assert said["Where it climbs"] == "With one level there is no climb to speak of."
    assert "against" not in said["How far"]
    assert "At equal bits" not in said


def test_one_role():
    assert " K " not in " ".join(told(study(roles=("q",))).values())


def test_sentences_name_the_model_where_there_are_two():
    said = told(study(models=("tiny", "other")))
    assert "Other-1M: Drift grows" in said["Where it climbs"]
    assert "Tiny-1M: " not in told(study())["Where it climbs"]


def test_caveats_carry_their_numbers():
    said = warned(study())
    assert "75 % in Q, 75 % in K and 10 % in V" in said["What the threshold hides"]
    assert "V is nearly empty" in said["What the threshold hides"]
    assert "(clip)" in said["What the threshold hides"]
    assert "Over 3 such gauges" in said["The gauge"]
    assert "4.0 % (median" in said["The gauge"]
    assert "31 % (Q2_K: 2 by name, 2.625 stored)" in said["Bits"]
    assert "give V another type" in said["Bits"]


def test_without_gauges_a_sentence_says_so():
    assert "gauge.schemes is empty" in warned(study(gauges=False))["The gauge"]


def test_without_a_nearly_empty_role_nothing_is_said_of_censoring():
    assert "nearly empty" not in warned(study(roles=("q", "k")))["What the threshold hides"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (percent(0.00033), "0.033 %"),
        (percent(0.02), "2.0 %"),
        (percent(0.0996), "10 %"),
        (percent(0.176), "18 %"),
        (percent(0.0), "0.0 %"),
        (number(2.625, 4), "2.625"),
        (number(1234.5), "1230"),
        (number(0.0000123), "1.23e-05"),
        (times(1.0), "1.0\u00a0×"),
        (times(12.3), "12\u00a0×"),
    ],
)
def test_numbers(text, wanted):
    assert text == wanted
