"""Against scikit-learn's permutation importance, and on targets whose causes are known."""

import numpy as np
import pytest
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GroupKFold

from quantdrift.prediction.features import columns_of
from quantdrift.prediction.permutation import groups_of, losses
from quantdrift.prediction.regressors import regressor


@pytest.fixture(scope="module")
def known() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The target is the first column and, less, the twins; the last is noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    X[:, 2] = X[:, 1] + 1e-6 * rng.standard_normal(400)
    return X, 2 * X[:, 0] + X[:, 1], np.arange(400) % 10


def by_feature(name, known, shuffled):
    X, y, groups = known
    return {one["feature"]: one for one in losses(name, X, y, "by_level", groups, shuffled)}


def test_what_matters_is_lost_and_noise_is_not(known):
    shuffled = {"first": [0], "twins": [1, 2], "noise": [3]}
    found = by_feature("linear", known, shuffled)
    # Shuffling doubles a column's share of the variance: 4 of 5, 1 of 5.
    assert found["first"]["loss"] == pytest.approx(2 * 4 / 5, rel=0.1)
    assert found["twins"]["loss"] == pytest.approx(2 * 1 / 5, rel=0.2)
    assert abs(found["noise"]["loss"]) < 1e-6
    assert found["twins"]["n_columns"] == 2


def test_twins_hide_each_other_from_a_forest(known):
    shuffled = {"one": [1], "both": [1, 2]}
    found = by_feature("forest", known, shuffled)
    assert found["both"]["loss"] > 2 * found["one"]["loss"]


def test_it_is_scikit_learns_on_each_fold(known):
    X, y, groups = known
    (ours,) = losses("linear", X, y, "by_level", groups, {"first": [0]})
    theirs = [
        permutation_importance(
            regressor("linear").fit(X[train], y[train]), X[test], y[test], n_repeats=20,
            random_state=0,
        ).importances_mean[0]
        for train, test in GroupKFold(5).split(X, groups=groups)
    ]  # fmt: skip
    assert ours["loss"] == pytest.approx(np.mean(theirs), rel=0.1)


def test_groups_are_projections_distances_and_the_rest():
    columns = columns_of("combined", "KQV")
    found = groups_of(columns)
    assert found["q_swd"] == [columns.index("q_swd")]
    assert [columns[at] for at in found["all swd"]] == ["k_swd", "q_swd", "v_swd"]
    assert len(found["all of V"]) == 7
    assert [columns[at] for at in found["all but topology"]] == columns_of("llm5", "Q")
    assert "all swd" not in groups_of(columns_of("tda", "Q"))
