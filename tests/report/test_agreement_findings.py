import numpy as np
import pytest
from report_tables import DATASETS, DEEP, HARD_BLOCK, LEVELS, NO_BOS, study

from quantdrift.report import agreement_findings as findings
from quantdrift.report.agreement_answer import answer, headline
from quantdrift.report.findings import verdicts


def levels_of(made):
    found = verdicts(made.drift, made.errors, made.names)
    return findings.level_agreements(made.agreed.table, found, made.names)


def told(made):
    levels = levels_of(made)
    tables = (made.agreed.table, made.agreed.blocks, made.drift, made.errors)
    points = answer(*tables, levels, made.names)
    return {"headline": headline(levels)} | {p.label: " ".join(p.lines) for p in points}


def with_iou(made, values, dataset=None):
    """The study with other means: `values` by level."""
    table = made.agreed.table
    for level, value in values.items():
        at = table["level"] == level
        if dataset:
            at &= table["dataset"] == dataset
        table.loc[at, "iou"] = value
    return made


def test_a_level_agrees_on_its_worst_data_set():
    found = {one.level: one for one in levels_of(study())}
    assert {level: one.agrees for level, one in found.items()} == {
        "Q8_0": True,
        "Q5_0": True,
        "Q5_K": True,
        "Q4_0": False,  # 0.92 on arc, 0.89 on hella
        "Q2_K": False,
    }
    assert (found["Q4_0"].dataset, found["Q4_0"].iou) == ("hella", pytest.approx(0.89))
    assert {one.dataset for one in found.values()} == {"hella"}
    alone = {one.level: one.agrees for one in levels_of(study(datasets=DATASETS[:1]))}
    assert alone["Q4_0"]


def test_with_bos_decides_where_it_is_measured():
    both = {one.level: one.iou for one in levels_of(study())}
    without = {one.level: one.iou for one in levels_of(study(policies=("without",)))}
    assert all(both[level] - without[level] == pytest.approx(NO_BOS) for level in both)


def test_the_lowest_and_the_first_to_break():
    found = findings.outcome(levels_of(study()))
    # Q5_0 and Q5_K store 5.5 bits both: the one that agrees more is named.
    assert (found.lowest.level, found.lowest.bits) == ("Q5_K", 5.5)
    assert (found.breaks.level, found.breaks.bits) == ("Q4_0", 4.5)
    assert found.gaps == ()


def test_a_finer_level_that_fails_is_a_gap():
    made = with_iou(study(), {"Q5_0": 0.5, "Q4_0": 0.95})
    found = findings.outcome(levels_of(made))
    assert (found.lowest.level, found.breaks.level, found.gaps) == ("Q4_0", "Q5_0", ("Q5_0",))
    said = told(made)
    assert said["headline"] == "Attention agrees with the base down to Q4_0, but not at Q5_0."
    assert "Q5_0, though finer, does not" in said["Lowest level that agrees"]


def test_all_and_none():
    every = told(with_iou(study(), dict.fromkeys(["Q4_0", "Q2_K"], 0.95)))
    assert every["headline"] == "Attention agrees with the base at every level."
    assert every["Where it breaks first"].startswith("Nowhere")
    levels = ["Q8_0", "Q5_0", "Q5_K", "Q4_0", "Q2_K"]
    none = told(with_iou(study(), dict.fromkeys(levels, 0.5)))
    assert none["headline"] == "Attention agrees with the base at none of these levels."
    assert none["Lowest level that agrees"].startswith("None")


def test_the_mark_itself_agrees():
    found = {one.level: one for one in levels_of(with_iou(study(), {"Q4_0": findings.AGREES}))}
    assert found["Q4_0"].agrees
    assert found["Q4_0"].is_close
    assert not found["Q2_K"].is_close


def test_where_models_disagree_the_worst_counts():
    made = study(models=("tiny", "other"))
    of_other = (made.agreed.table["model"] == "other") & (made.agreed.table["level"] == "Q5_K")
    made.agreed.table.loc[of_other, "iou"] = 0.2
    assert headline(levels_of(made)).startswith("Attention agrees with the base down to Q5_0")
    assert "Other-1M: Q5_0" in told(made)["Lowest level that agrees"]
    assert "Tiny-1M: Q5_K" in told(made)["Lowest level that agrees"]


def test_the_block_where_it_breaks():
    made = study()
    found = findings.break_of(made.agreed.blocks, "tiny", "q4_0-paper")
    # Mean of 0.92 and 0.89; block 4 of 6 lies in the late third.
    assert (found.block, found.third) == (HARD_BLOCK, "late")
    assert found.iou == pytest.approx(0.905 + DEEP / 6 - DEEP)
    assert found.thirds["early"] == pytest.approx(0.905 + DEEP / 6)
    assert found.thirds["late"] == pytest.approx(0.905 + DEEP / 6 - DEEP / 2)


def test_rank_correlation():
    one = np.array([1.0, 2.0, 3.0, 4.0])
    assert findings.spearman(one, one**3) == pytest.approx(1)
    assert findings.spearman(one, -one) == pytest.approx(-1)
    # Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * 4 / (4 * 15).
    assert findings.spearman(one, np.array([2.0, 1.0, 4.0, 3.0])) == pytest.approx(0.6)
    assert findings.spearman(one, np.ones(4)) is None
    assert findings.spearman(one[:1], one[:1]) is None


def test_drift_and_agreement_order_the_levels():
    made = study()
    found = findings.orders(made.agreed.table, made.drift, made.errors, "tiny", made.names)
    by_role = found.set_index("role")
    # At Q2_K v has the type of Q4_0, so two levels share one drift.
    tied = -np.corrcoef([1, 3, 2, 4.5, 4.5], [1, 3, 2, 4, 5])[0, 1]
    assert by_role["drift"].to_numpy() == pytest.approx([-1, -1, tied])
    assert set(found["n_levels"]) == {5}
    made.agreed.table["iou"] = 1 - made.agreed.table["iou"]
    turned = findings.orders(made.agreed.table, made.drift, made.errors, "tiny", made.names)
    assert turned["drift"].to_numpy() == pytest.approx([1, 1, -tied])


def test_the_answer_in_words():
    said = told(study())
    assert said["headline"] == (
        "Attention agrees with the base down to Q5_K; it breaks first at Q4_0."
    )
    assert said["Lowest level that agrees"].startswith(
        "Q5_K, at 5.5 bits a weight. Its mean IoU is 0.930 ± 0.00"
    )
    assert "(16 items); every finer level agrees too." in said["Lowest level that agrees"]
    assert "Q4_0, at 4.5 bits: mean IoU 0.890 ± 0.00" in said["Where it breaks first"]
    assert "on HellaSwag, where it is lowest, 0.010 short." in said["Where it breaks first"]
    assert "block 4 (late) agrees least, with 0.86" in said["Where it breaks first"]
    assert "changes by -0.015 when" in said["Without BOS"]
    assert "no verdict changes" in said["Without BOS"]
    assert "0.200 on Own ARC (top-1 0.100)" in said["By chance"]
    assert "-1.00 in Q, -1.00 in K and -0.97 in V" in said["Drift and attention"]
    assert "each data set by itself" in said["Drift and attention"]
    assert said["Whose items"].startswith("The items of Own ARC were written for this project")


def test_where_data_sets_differ_the_correlation_is_a_range():
    made = study()
    table = made.agreed.table
    here = table["dataset"].eq("hella") & table["bos"].eq("with")
    table.loc[here & table["level"].eq("Q4_0"), "iou"] = 0.99
    assert "-1.00 to -0." in told(made)["Drift and attention"]


def test_the_finest_level_has_none_above_it():
    made = with_iou(study(), {"Q8_0": 0.95, "Q5_0": 0.2, "Q5_K": 0.2, "Q4_0": 0.2, "Q2_K": 0.2})
    assert told(made)["Lowest level that agrees"].endswith("(16 items).")


def test_a_verdict_that_turns_without_bos_is_named():
    made = with_iou(study(), {"Q4_0": 0.95})
    at = (made.agreed.table["level"] == "Q4_0") & (made.agreed.table["bos"] == "without")
    made.agreed.table.loc[at, "iou"] = 0.85
    assert "Q4_0 does not agree without it" in told(made)["Without BOS"]


@pytest.mark.parametrize(
    "shape", [{"policies": ("with",)}, {"policies": ("without",)}, {"levels": LEVELS[:1]}], ids=str
)
def test_what_is_not_measured_is_not_told(shape):
    said = told(study(**shape))
    assert ("Without BOS" in said) == ("policies" not in shape)
    assert ("Drift and attention" in said) == ("levels" not in shape)
