"""A saved predictor: the same answers after reading, its envelope, and what it refuses."""

import argparse
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import skops.io

from quantdrift.prediction.judging import verdicts
from quantdrift.prediction.predictor import (
    Predictor,
    PredictorError,
    check,
    fit,
    levels,
    predict,
    warnings,
)
from quantdrift.prediction.regressors import REGRESSORS
from quantdrift.tables.predictor_file import read_predictor, write_predictor

QUESTIONS = [("tda", "KQV"), ("weight_error", "KQV")]
SETTINGS = {"filtration": "clip", "threshold": 0.8, "grids": {"swd_directions": 64, "levels": None}}
MODELS = [{"id": "m", "label": "Tiny", "parameters": 1000, "blocks": 4}]


def silent(work, total, label):
    return iter(work)


def fitted(found: pd.DataFrame, name: str = "linear") -> Predictor:
    rows = [
        row for one in verdicts(found, ["by_level"], silent, [name]) for row in one.predictions()
    ]
    about = {"settings": SETTINGS, "models": MODELS, "labels": {"arc": "ARC"}}
    return fit(found, pd.DataFrame(rows), QUESTIONS, name, 0.9, **about)


@pytest.mark.parametrize("name", REGRESSORS)
def test_what_is_read_predicts_what_was_written(name, found, tmp_path):
    predictor = fitted(found, name)
    write_predictor(predictor, tmp_path / "p.skops", {"code": "x"})
    read, made = read_predictor(tmp_path / "p.skops")
    assert made == {"code": "x"}
    pd.testing.assert_frame_equal(predict(read, found), predict(predictor, found))
    assert (read.settings, list(read.models)) == (SETTINGS, MODELS)
    assert read.envelope == predictor.envelope


def test_it_foresees_what_depends_on_its_features(found):
    predictor = fitted(found)
    blocks = predict(predictor, found)
    its = blocks[blocks["features"] == "weight_error"]
    np.testing.assert_allclose(its["predicted"], found["iou"], atol=1e-6)
    assert its["outside"].isna().all()
    means = levels(predictor, blocks).set_index(["scheme", "features"])
    row = means.loc["s3", "weight_error"]
    truth = found[found["scheme"] == "s3"]
    assert row["predicted"] == pytest.approx(truth["iou"].mean())
    assert row["lower"] <= truth["iou"].mean() <= row["upper"]
    worst = truth.sort_values("iou")["block"].head(3).tolist()
    assert row["worst_blocks"] == worst


def test_blocks_outside_the_envelope_are_marked_by_their_first_feature(found):
    predictor = fitted(found)
    strange = found.assign(q_error=found["q_error"].where(found["block"] != 2, 9.0))
    blocks = predict(predictor, strange)
    its = blocks[blocks["features"] == "weight_error"].set_index(["scheme", "block"])["outside"]
    assert its["s0", 2] == "q_error"
    assert its.notna().sum() == 6
    share = levels(predictor, blocks).set_index(["scheme", "features"])["share_outside"]
    assert share["s0", "weight_error"] == 0.25
    assert share["s0", "tda"] == 0


def test_predictions_stay_between_none_and_all(found):
    far = found.assign(q_error=50.0)
    blocks = predict(fitted(found), far)
    assert blocks[["predicted", "lower", "upper"]].to_numpy().min() == 0
    assert blocks[["predicted", "lower", "upper"]].to_numpy().max() <= 1


def test_warnings_say_what_it_was_trained_on(found):
    predictor = fitted(found)
    other = found.assign(model="big")
    said = warnings(predictor, levels(predictor, predict(predictor, other)), {"big": 8_000_000_000})
    assert said[0] == "Trained on 1 model (Tiny): not yet to be trusted on others."
    assert any(line.startswith("big has 8 billion weights") for line in said)
    own = warnings(predictor, levels(predictor, predict(predictor, found)), {"m": 1000})
    assert any("m is one of the models it was trained on" in line for line in own)


def test_drift_that_was_taken_in_another_way_is_refused(found):
    predictor = fitted(found)
    check(predictor, SETTINGS)
    with pytest.raises(PredictorError, match=r"fitted with threshold 0.8, and this study has 0.7"):
        check(predictor, SETTINGS | {"threshold": 0.7})
    with pytest.raises(PredictorError, match=r"fitted with bos None, and this study has with"):
        check(predictor, SETTINGS | {"bos": "with"})


def test_another_schema_is_refused(found, tmp_path):
    write_predictor(replace(fitted(found), schema=7), tmp_path / "p.skops", {})
    with pytest.raises(PredictorError, match=r"p.skops is a predictor of schema 7.*reads 1"):
        read_predictor(tmp_path / "p.skops")


def test_what_is_no_predictor_is_refused(tmp_path):
    path = tmp_path / "p.skops"
    path.write_bytes(b"not a zip")
    with pytest.raises(PredictorError, match=r"p.skops is no predictor"):
        read_predictor(path)
    path.write_bytes(skops.io.dumps([1, 2]))
    with pytest.raises(PredictorError, match=r"schema None"):
        read_predictor(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", "{}")
    with pytest.raises(PredictorError, match=r"is no predictor"):
        read_predictor(path)


def test_a_type_that_is_not_ours_is_not_opened(tmp_path):
    path = tmp_path / "p.skops"
    path.write_bytes(skops.io.dumps({"schema": 1, "parts": argparse.Namespace(x=1)}))
    with pytest.raises(PredictorError, match=r"holds the type argparse.Namespace"):
        read_predictor(path)
