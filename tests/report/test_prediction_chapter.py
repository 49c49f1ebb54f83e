"""The chapter on prediction, from the tables of a synthetic study: every number in its place."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
import vl_convert
from report_tables import study
from test_page import results

from quantdrift.prediction.features import inputs, rows
from quantdrift.prediction.judging import importances, verdicts
from quantdrift.prediction.regressors import SPLITS, SplitError
from quantdrift.report import prediction_chapter, prediction_findings
from quantdrift.report.accuracy_summary import accuracy_rows
from quantdrift.report.figure import VEGA_LITE
from quantdrift.report.forecast_summary import forecast_rows
from quantdrift.report.page import page
from quantdrift.report.prediction_figure import prediction_figure
from quantdrift.report.prediction_findings import Found, rule_label
from quantdrift.report.stopping_summary import (
    Choice,
    foreseen_rows,
    honest,
    rules_in_order,
    stopping_rows,
)
from quantdrift.tables.io import from_rows
from quantdrift.tables.prediction import FEATURE_IMPORTANCE, FORESEEN, STOPPING

CHOICE = Choice("linear", "tda", "KQV", 0.9, [0.9, 0.5])
REGRESSORS = ["linear"]


def silent(work, total, label):
    return iter(work)


def features(made, models: tuple[str, ...] = ("tiny",)) -> pd.DataFrame:
    its = inputs(
        made.tables["distances"],
        made.tables["weight_error"],
        filtration="clip",
        per_point=False,
        models=pd.DataFrame({"model": models, "family": "llama", "parameters": 1000}),
    )
    return rows(its, made.agreed.blocks, bos="with")


def predicted(models: tuple[str, ...] = ("tiny",)) -> SimpleNamespace:
    made = study(models=models)
    found = features(made, models)
    judged = list(verdicts(found, SPLITS, silent, REGRESSORS))
    bos = {"bos": "with"}
    predictions = pd.DataFrame([bos | row for one in judged for row in one.predictions()])
    seen = foreseen_rows(predictions, CHOICE, made.names)
    stopping = stopping_rows(seen, made.agreed.table, made.drift, made.errors, CHOICE, made.names)
    chosen = Found(
        regressors=pd.DataFrame([bos | one.numbers() for one in judged]),
        foreseen=seen,
        stopping=stopping,
        importance=pd.DataFrame(importances(found, "KQV", silent, REGRESSORS)),
        split=honest(predictions),
        choice=CHOICE,
    )
    return SimpleNamespace(made=made, found=chosen, predictions=predictions)


@pytest.fixture(scope="module")
def one() -> SimpleNamespace:
    return predicted()


@pytest.fixture(scope="module")
def two() -> SimpleNamespace:
    return predicted(("tiny", "other"))


def test_one_model_is_judged_by_level_and_several_by_model(one, two):
    assert one.found.split == "by_level"
    assert two.found.split == "by_model"
    assert "Of a level that the regressor never saw" in prediction_findings.honest_number(one.found)
    assert "Of a model that the regressor never saw" in prediction_findings.honest_number(two.found)


def test_rows_fit_their_tables_and_come_back_in_order(one):
    def through(table, frame):
        records = frame[table.schema.names].astype(object)
        return from_rows(table, records.where(records.notna(), None).to_dict("records"))

    assert through(FORESEEN, one.found.foreseen).num_rows == 3 * 5 * 2
    importance = one.found.importance.assign(bos="with")
    assert through(FEATURE_IMPORTANCE, importance).num_rows == len(importance)
    back = through(STOPPING, one.found.stopping).to_pandas()
    ordered = rules_in_order(back, CHOICE, one.made.names)
    assert ordered["rule"].tolist() == one.found.stopping["rule"].tolist()
    assert ordered["mark"].tolist() == one.found.stopping["mark"].tolist()


def test_the_best_level_is_the_measured_one(one):
    # Lowest mean IoU over data sets: Q5_K .93 and Q4_0 .89, at 5.5 and 4.5 bits.
    at = one.found.stopping["mark"] == 0.9
    assert set(one.found.stopping.loc[at, "best_level"]) == {"Q5_K"}
    rules = one.found.stopping["rule"].unique().tolist()
    assert rules == [
        "quiet", "knee", "tda", "tda lower", "weight_error", "weight_error lower",
        "level", "level lower",
    ]  # fmt: skip
    assert set(one.found.stopping["outcome"]) <= {"hit", "early", "late"}


@pytest.mark.parametrize("which", ["one", "two"])
def test_the_chapter_says_every_number(which, request):
    result = request.getfixturevalue(which)
    made = result.made
    figure = prediction_figure(result.predictions, CHOICE, made.names)
    shown = prediction_chapter.Prediction(result.found, [figure.packed()])
    chapter = prediction_chapter.chapter(
        shown, made.agreed.table, made.drift, made.errors, None, made.names
    )
    assert [point.label[:3] for point in chapter.points] == ["RQ1", "RQ2", "RQ3", "RQ4", "RQ5"]
    assert all(point.lines[-1].startswith("Tables: ") for point in chapter.points)
    stopping, r2, importance = chapter.tables
    assert len(stopping.rows) == len(result.found.stopping)
    assert len(r2.rows) == len(REGRESSORS) * 5
    assert all(len(row) == len(table.head) for table in chapter.tables for row in table.rows)
    assert {"all of Q", "all of K", "all of V"} <= {row[0] for row in importance.rows}
    values = result.found.r2("tda", "KQV")
    said = f"drift foresees it with R² {prediction_findings.spread(values)}, and"
    assert said in prediction_chapter.answer(shown, made.names)[0].lines[0]
    claimed = {claim.name: claim.passed for claim in chapter.claims}
    plain = result.found.r2("weight_error", "KQV")
    name = next(name for name in claimed if "better than plain weight error" in name)
    assert claimed[name] == bool((values > plain).all())


def test_the_figure_compiles_and_holds_both_kinds_of_folds(one, two):
    for result, folds in ((one, "folds by level"), (two, "folds by model")):
        figure = prediction_figure(result.predictions, CHOICE, result.made.names)
        assert set(figure.data["folds"]) == {"random folds, as the paper", folds}
        assert set(figure.data["features"]) == {"drift", "plain weight error", "bits alone"}
        for spec in (figure.packed(), figure.still):
            assert vl_convert.vegalite_to_vega(spec, vl_version=VEGA_LITE)["marks"]


def test_rules_in_words():
    assert rule_label("quiet") == "bars that hardly move"
    assert rule_label("tda lower") == "drift, lower end"


def test_one_level_of_one_model_foresees_nothing(one):
    few = one.predictions[one.predictions["split"] == "random"]
    with pytest.raises(ValueError, match="nothing can be foreseen of one level of one model"):
        foreseen_rows(few, CHOICE, one.made.names)


def test_the_page_has_the_chapter_and_the_one_on_accuracy(one):
    made = one.made
    scores = [
        {"model": "tiny", "scheme": scheme, "dataset": "arc", "bos": "without", "item": item}
        | {"choice": choice, "is_answer": choice == 0, "n_characters": 5, "token_sha256": "x"}
        | {"log_likelihood": -1.0 - (choice == 0) * (scheme == "q2_k-paper") - 0.5 * choice}
        for scheme in ["base", *(scheme for scheme, _, _ in made.names.schemes)]
        for item in ("a", "b", "c")
        for choice in (0, 1)
    ]
    figure = prediction_figure(one.predictions, CHOICE, made.names)
    html = page(
        replace(
            results(made),
            accuracy=accuracy_rows(pd.DataFrame(scores), made.names),
            prediction=prediction_chapter.Prediction(one.found, [figure.packed()]),
        )
    )
    assert html.index('<section id="accuracy"') < html.index('<section id="prediction"')
    assert "Q2_K 100%" in html
    assert "<dt>Foreseen from the weights</dt>" in html
    assert "<dt>RQ5: what does each set of features add?</dt>" in html


def test_one_level_of_one_model_is_refused_by_every_target():
    made = study()
    found = features(made)
    found = found[found["scheme"] == found["scheme"].iloc[0]].reset_index(drop=True)
    predictions = pd.DataFrame(
        {"bos": "with"} | row
        for one in verdicts(found, SPLITS, silent, REGRESSORS)
        for row in one.predictions()
    )
    refusal = "one level of one model: name more `schemes`"
    with pytest.raises(SplitError, match=refusal):
        honest(predictions)
    with pytest.raises(SplitError, match=refusal):
        foreseen_rows(predictions, CHOICE, made.names)
    with pytest.raises(SplitError, match=refusal):
        list(importances(found, "KQV", silent, REGRESSORS))


def test_a_scheme_outside_the_envelope_is_not_safe_and_bits_are_those_of_q_k_v():
    made = study()
    errors = made.tables["weight_error"]
    errors = pd.concat(
        [errors, errors.assign(role="down", bpw_full=16.0, n_weights=10**6)], ignore_index=True
    )
    levels = pd.DataFrame(
        {"scheme": scheme, "share_outside": share, "lower": 0.95, "features": "tda"}
        for scheme, share in zip(dict.fromkeys(errors["scheme"]), (1.0, 0.5), strict=False)
    ).assign(model="tiny", dataset=made.names.datasets[0].id)
    found = forecast_rows(levels, errors, 0.9, made.names).set_index("scheme")
    assert found["is_safe"].tolist() == [False, True]
    assert (found["bits"] < 16).all()
    qkv = made.tables["weight_error"].assign(
        all=lambda t: t["bpw_full"] * t["n_weights"]
    ).groupby("scheme")[["all", "n_weights"]].sum()  # fmt: skip
    for scheme, row in found.iterrows():
        expected = qkv.loc[scheme, "all"] / qkv.loc[scheme, "n_weights"]
        assert row["bits"] == pytest.approx(expected)
