import pytest
from report_tables import BLOCKS, FILTRATIONS, LEVELS, study

from quantdrift.report.checks import (
    Expected,
    IntegrityError,
    integrity,
    markdown,
    raise_for,
)
from quantdrift.report.claims import claims


def expected(made, **changes):
    schemes = [scheme for scheme, _, _ in made.names.schemes]
    usual = {
        "blocks": {model.id: BLOCKS for model in made.names.models},
        "schemes": schemes,
        "roles": list(dict.fromkeys(made.drift["role"])),
        "filtrations": list(FILTRATIONS),
        "gauge_schemes": schemes if len(made.tables["gauge_drift"]) else [],
        "gauge_seeds": [0, 1, 2],
        "gauge_step": 3,
        "datasets": [one.id for one in made.names.datasets],
        "bos": ["with", "without"],
    }
    return Expected(**(usual | changes))


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"roles": ("q",)},
        {"models": ("tiny", "other")},
        {"gauges": False},
        {"levels": LEVELS[:1]},
        {"parts": 2},
    ],
    ids=str,
)
def test_sound_results_pass(shape):
    made = study(**shape)
    found = integrity(made.tables, expected(made))
    assert [check for check in found if not check.passed] == []
    raise_for(found)


def _drop_first(table):
    return table.iloc[1:]


BREAKS = {
    "weight_error is complete": ("weight_error", _drop_first),
    "ledger is complete": ("ledger", lambda t: t[t["block"] != 2]),
    "diagrams is complete": ("diagrams", lambda t: t[t["scheme"] != "base"]),
    "distances is complete": ("distances", _drop_first),
    "gauge_drift is complete": ("gauge_drift", _drop_first),
    "base is not compared with itself": (
        "distances",
        lambda t: t.assign(scheme=t["scheme"].where(t.index > 0, "base")),
    ),
    "all schemes of a matrix share one base diagram": (
        "distances",
        lambda t: t.assign(n_finite_base=t["n_finite_base"] + (t.index == 0)),
    ),
    "n_finite + n_essential = n_points": (
        "distances",
        lambda t: t.assign(n_finite=t["n_finite"] + (t.index == 0)),
    ),
    "a diagram of n points has n - 1 bars": (
        "diagrams",
        lambda t: t.assign(n_points=t["n_points"] + (t.index == 0)),
    ),
    "deaths are sorted and lie in [0, 2]": (
        "diagrams",
        lambda t: t.assign(deaths=[d[::-1] if i == 3 else d for i, d in enumerate(t["deaths"])]),
    ),
    "no distance is negative": ("distances", lambda t: t.assign(value=-t["value"])),
    "all filtrations agree on SWD where no bar crosses the threshold": (
        "distances",
        lambda t: t.assign(n_essential=1, n_essential_base=1),
    ),
    "bpw_full >= bpw_claimed": (
        "weight_error",
        lambda t: t.assign(bpw_claimed=t["bpw_claimed"] + 9 * (t.index == 0)),
    ),
    "the ledger adds up to bpw_full": (
        "ledger",
        lambda t: t.assign(bits=t["bits"] + (t.index == 0)),
    ),
    "drift in the home gauge is the drift of the study": (
        "gauge_drift",
        lambda t: t.assign(swd=t["swd"] * (1 + 1e-4)),
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_result_is_named(name):
    made = study()
    kind, spoil = BREAKS[name]
    made.tables[kind] = spoil(made.tables[kind])
    found = integrity(made.tables, expected(made))
    assert name in [check.name for check in found if not check.passed]
    with pytest.raises(IntegrityError, match=name.replace("[", r"\[").replace("+", r"\+")):
        raise_for(found)


def test_an_error_that_rises_with_bits_is_a_claim_that_fails_and_no_broken_result():
    made = study()
    name = "weight error falls with bits within a family"
    errors = made.errors.assign(
        relative_frobenius=made.errors["relative_frobenius"].where(
            made.errors["type"] != "q8_0", 0.5
        )
    )
    gauge = made.tables["gauge_drift"]
    held = {c.name: c.passed for c in claims(made.drift, made.errors, gauge, made.names)}
    broken = {c.name: c.passed for c in claims(made.drift, errors, gauge, made.names)}
    assert held[name]
    assert not broken[name]


def test_rows_of_another_study_are_too_many():
    made = study()
    found = integrity(made.tables, expected(made, roles=["q", "k"]))
    assert "too many" in next(c.numbers for c in found if c.name == "weight_error is complete")
    assert not found[0].passed


def test_claims_hold_and_cease_to_hold():
    made = study()
    args = (made.errors, made.tables["gauge_drift"], made.names)
    found = {claim.name: claim.passed for claim in claims(made.drift, *args)}
    assert all(found.values())
    rising = "SWD of Q rises Q8_0 < Q5_0 < Q4_0 < Q2_K (clip)"
    assert rising in found
    worst = made.drift["swd_mean"].where(made.drift["level"] != "Q8_0", 99.0)
    spoilt = {c.name: c.passed for c in claims(made.drift.assign(swd_mean=worst), *args)}
    assert not spoilt[rising]


def test_v_is_compared_at_the_type_of_the_others():
    made = study()
    found = claims(made.drift, made.errors, made.tables["gauge_drift"], made.names)
    numbers = [claim.numbers for claim in found if "V drifts least" in claim.name]
    assert len(numbers) == 3
    assert all("as Q2_K" in text.rpartition("V")[2] for text in numbers)


def test_a_failing_claim_never_fails_the_run():
    made = study()
    claimed = claims(made.drift, made.errors, made.tables["gauge_drift"], made.names)
    text = markdown("s", integrity(made.tables, expected(made)), claimed)
    assert "- pass: weight_error is complete (108 expected, 0 missing, 0 too many)" in text
    assert "- holds: SWD of Q" in text
