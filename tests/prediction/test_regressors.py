"""Against closed-form least squares and scikit-learn's cross-validation, with a planted leak."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, cross_val_predict

from quantdrift.prediction.regressors import (
    REGRESSORS,
    SEED,
    SplitError,
    folds,
    judged,
    regressor,
)


@pytest.fixture(scope="module")
def linear() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) * [1, 100, 1e-3]
    return X, X @ [1.0, 0.02, 300] + 0.5 + 0.1 * rng.standard_normal(60)


def test_out_of_fold_predictions_are_those_of_least_squares(linear):
    X, y = linear
    found = judged("linear", X, y, "random")
    expected = np.empty(60)
    for train, test in KFold(5, shuffle=True, random_state=SEED).split(X):
        with_one = np.column_stack([np.ones(len(X)), X])
        weights, *_ = np.linalg.lstsq(with_one[train], y[train], rcond=None)
        expected[test] = with_one[test] @ weights
    np.testing.assert_allclose(found.predicted, expected, rtol=1e-8)
    residual = ((y - expected) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert found.r2_pooled == pytest.approx(1 - residual)
    assert found.mae == pytest.approx(np.abs(y - expected).mean())


@pytest.mark.parametrize("name", REGRESSORS)
def test_predictions_are_those_of_scikit_learn(name, linear):
    X, y = linear
    found = judged(name, X, y, "random")
    cv = KFold(5, shuffle=True, random_state=SEED)
    np.testing.assert_allclose(found.predicted, cross_val_predict(regressor(name), X, y, cv=cv))


@pytest.mark.parametrize("name", REGRESSORS)
def test_two_runs_agree_to_the_bit(name, linear):
    np.testing.assert_array_equal(*(judged(name, *linear, "random").predicted for _ in range(2)))


def test_folds_by_scheme_expose_what_random_folds_leak():
    """The target is a random number of each scheme and the feature names the scheme: random folds
    find it, folds by scheme cannot."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(10), 12)
    y = rng.standard_normal(10)[groups] + 0.01 * rng.standard_normal(120)
    X = groups[:, None].astype(float)
    assert judged("forest", X, y, "random").r2_pooled > 0.9
    assert judged("forest", X, y, "by_scheme", groups).r2_pooled < 0.2


@pytest.mark.parametrize(("split", "n_folds"), [("by_scheme", 5), ("by_level", 5), ("by_model", 7)])
def test_no_group_stands_on_both_sides(split, n_folds):
    groups = np.repeat(np.arange(7), 4)
    cut = list(folds(split, 28, groups))
    assert len(cut) == n_folds
    for train, test in cut:
        assert not set(groups[train]) & set(groups[test])
    assert sorted(np.concatenate([test for _, test in cut])) == list(range(28))


def test_one_group_cannot_be_split():
    with pytest.raises(SplitError, match="by_model needs two groups or more, and there is 1"):
        list(folds("by_model", 4, np.zeros(4, int)))
