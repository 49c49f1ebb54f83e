import pytest
from report_tables import study
from test_checks import expected

from quantdrift.report.agreement_checks import claims, integrity


def failed(made, **changes):
    found = integrity(made.tables["agreement"], expected(made, **changes))
    return {check.name: check.numbers for check in found if not check.passed}


@pytest.mark.parametrize("shape", [{}, {"models": ("tiny", "other")}, {"heads": 2}], ids=str)
def test_sound_results_pass(shape):
    made = study(**shape)
    assert failed(made) == {}
    assert len(list(integrity(made.tables["agreement"], expected(made)))) == 6


def test_a_study_without_data_sets_is_not_checked():
    made = study(datasets=[])
    assert list(integrity(made.tables["agreement"], expected(made))) == []


def _first(table, **changes):
    return table.assign(
        **{name: table[name].where(table.index > 0, v) for name, v in changes.items()}
    )


BREAKS = {
    "agreement: runs are complete": lambda t: t[
        (t["scheme"] != "q4_0-paper") | (t["bos"] == "with") | (t["dataset"] == "arc")
    ],
    "agreement: every item has every block": lambda t: t.iloc[1:],
    "agreement: base is not compared with itself": lambda t: _first(t, scheme="base"),
    "agreement lies in [0, 1]": lambda t: _first(t, iou=1.01),
    "agreement: all schemes see the same prompts": lambda t: _first(t, n_tokens=99),
    "agreement: every run of a data set has the same items": lambda t: t[
        (t["scheme"] != "q4_0-paper") | (t["item"] != "item-03")
    ],
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_result_is_named(name):
    made = study()
    made.tables["agreement"] = BREAKS[name](made.tables["agreement"])
    assert name in failed(made)


def test_items_of_equal_number_are_not_the_same_items():
    made = study()
    rows = made.tables["agreement"]
    swap = (rows["scheme"] == "q4_0-paper") & (rows["item"] == "item-03")
    made.tables["agreement"] = rows.assign(item=rows["item"].mask(swap, "item-99"))
    assert list(failed(made)) == ["agreement: every run of a data set has the same items"]


def test_numbers_name_what_is_missing():
    made = study()
    numbers = failed(made, bos=["with"])["agreement: runs are complete"]
    assert "12 too many" in numbers
    assert "'bos': 'without'" in numbers


def held(made, table=None):
    found = claims(
        made.agreed.table if table is None else table, made.drift, made.errors, made.names
    )
    return {claim.name: claim for claim in found}


FALLS = "top-3 IoU falls Q8_0 > Q5_0 > Q4_0 > Q2_K on HellaSwag"
INVERSE = "the more Q drifts, the less attention agrees, without exception"
INVERSE_V = INVERSE.replace("Q", "V")


def test_claims_hold():
    found = held(study())
    # At Q2_K V has the type of Q4_0, so less agreement goes with equal drift.
    assert [name for name, claim in found.items() if not claim.passed] == [INVERSE_V]
    assert found[INVERSE_V].numbers.count("-0.97") == 2
    assert found[FALLS].numbers == "0.952 > 0.920 > 0.890 > 0.470"
    assert found["top-3 IoU at Q8_0 is at least 0.95 everywhere"].numbers == (
        "0.982 on Own ARC, 0.952 on HellaSwag"
    )
    sensitive = next(claim for name, claim in found.items() if "more sensitive" in name)
    assert sensitive.numbers == "top-1 exceeds top-3 IoU in 0 of 10 cells"
    assert "-1.00 on Own ARC and -1.00 on HellaSwag" in found[INVERSE].numbers


SPOILT = {
    FALLS: lambda t: t["iou"].mask((t["level"] == "Q5_0") & (t["dataset"] == "hella"), 0.99),
    "top-3 IoU at Q8_0 is at least 0.95 everywhere": lambda t: t["iou"].mask(
        (t["level"] == "Q8_0") & (t["dataset"] == "hella"), 0.94
    ),
    "top-3 IoU is above chance at every level": lambda t: t["iou"].mask(
        (t["level"] == "Q2_K") & (t["dataset"] == "hella"), 0.2
    ),
    INVERSE: lambda t: t["iou"].mask(t["level"] == "Q5_0", 0.965),
}


@pytest.mark.parametrize("name", SPOILT)
def test_claims_cease_to_hold(name):
    made = study()
    table = made.agreed.table
    assert not held(made, table.assign(iou=SPOILT[name](table)))[name].passed


def test_top1_above_top3():
    made = study()
    table = made.agreed.table.assign(top1=1.0)
    found = held(made, table)
    claim = next(claim for name, claim in found.items() if "more sensitive" in name)
    assert (claim.passed, claim.numbers) == (False, "top-1 exceeds top-3 IoU in 10 of 10 cells")


def test_claims_are_about_the_papers_policy():
    made = study()
    table = made.agreed.table
    spoilt = table.assign(iou=table["iou"].where(table["bos"] == "with", 0.0))
    assert held(made, spoilt) == held(made)
