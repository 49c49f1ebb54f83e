import numpy as np
import pandas as pd

from quantdrift.prediction.judging import questions, verdicts
from quantdrift.tables.io import from_rows
from quantdrift.tables.prediction import PREDICTIONS, REGRESSORS


def silent(work, total, label):
    return iter(work)


def test_baselines_stand_beside_the_papers_features(found):
    asked = questions(found)
    assert asked[:4] == [
        ("level", "all"),
        ("weight_error", "KQV"),
        ("llm5", "all"),
        ("llm7", "all"),
    ]
    assert len(asked) == 4 + 14
    assert ("llm7", "all") not in questions(found.assign(parameters=None))


def test_what_explains_wins_and_what_does_not_loses(found):
    by = {
        (one.features, one.matrices): one.numbers()
        for one in verdicts(found, ["by_scheme"], silent, ["linear"])
    }
    assert by["weight_error", "KQV"]["r2"] > 0.999
    assert by["tda", "KQV"]["r2"] < 0
    assert by["llm5", "all"]["n_features"] == 6
    assert by["level", "all"]["n_folds"] == 5


def test_folds_by_level_keep_all_schemes_of_a_level_on_one_side(found):
    (one,) = (
        one for one in verdicts(found, ["by_level"], silent, ["linear"]) if one.features == "level"
    )
    fold = pd.Series(one.found.fold).groupby(one.rows["level"].to_numpy())
    assert (fold.nunique() == 1).all()
    assert one.numbers()["n_folds"] == 3


def test_one_model_cannot_be_left_out(found):
    assert list(verdicts(found, ["by_model"], silent, ["linear"])) == []
    two = pd.concat([found, found.assign(model="n")], ignore_index=True)
    assert {one.split for one in verdicts(two, ["by_model"], silent, ["linear"])} == {"by_model"}


def test_rows_fit_their_tables(found):
    one = next(verdicts(found, ["random"], silent, ["linear"]))
    bos = {"bos": "with"}
    assert from_rows(REGRESSORS, [bos | one.numbers()]).num_rows == 1
    predictions = [bos | row for row in one.predictions()]
    assert from_rows(PREDICTIONS, predictions).num_rows == 24
    assert [row["measured"] for row in predictions] == found["iou"].tolist()


def test_three_blocks_and_two_schemes_are_enough_to_answer(found):
    few = found[(found["block"] < 3) & found["scheme"].isin(["s0", "s1"])]
    answers = list(verdicts(few, ["random", "by_scheme"], silent, ["linear"]))
    assert len(answers) == 2 * 18
    assert all(np.isfinite(one.numbers()["r2"]) for one in answers)
