"""Weight errors: known answers, invariances, and sums that float32 would lose."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdrift.sensitivity.weight_error import CHUNK, weight_error


def test_known_answers():
    error = weight_error(np.float32([[3, 0], [0, 4]]), np.float32([[3, 1], [0, 2]]))
    assert error.relative_frobenius == pytest.approx(np.sqrt(5) / 5)
    assert error.mae == 3 / 4
    assert error.max_abs == 2
    assert error.cosine == pytest.approx((9 + 8) / (5 * np.sqrt(14)))


def test_identical_matrices_have_no_error_at_all():
    weight = np.random.default_rng(0).normal(size=(300, 301)).astype(np.float32)
    error = weight_error(weight, weight.copy())
    assert (error.relative_frobenius, error.mae, error.max_abs, error.cosine) == (0, 0, 0, 1)


def test_no_quantized_weight_left():
    error = weight_error(np.float32([[1, -2]]), np.zeros((1, 2), np.float32))
    assert (error.relative_frobenius, error.cosine) == (1, 0)


@given(seed=st.integers(0, 2**32), exponent=st.integers(-40, 30), rows=st.integers(1, 5))
def test_scale_and_order_do_not_matter(seed, exponent, rows):
    rng = np.random.default_rng(seed)
    W, What = rng.normal(size=(2, rows, 7)).astype(np.float32)
    error, scale = weight_error(W, What), 2.0**exponent
    scaled = weight_error(W * np.float32(scale), What * np.float32(scale))
    assert scaled.relative_frobenius == pytest.approx(error.relative_frobenius, rel=1e-12)
    assert scaled.cosine == pytest.approx(error.cosine, rel=1e-12)
    assert scaled.mae == pytest.approx(error.mae * scale, rel=1e-12)
    assert scaled.max_abs == pytest.approx(error.max_abs * scale, rel=1e-12)
    turned = weight_error(W[::-1].T, What[::-1].T)
    assert turned.relative_frobenius == pytest.approx(error.relative_frobenius, rel=1e-12)


def test_chunks_and_layouts_agree_with_the_formulas():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(3, CHUNK)).astype(np.float32)
    What = W + rng.normal(scale=1e-3, size=W.shape).astype(np.float32)
    error = weight_error(np.asfortranarray(W), What)
    W, What = W.astype(np.float64), What.astype(np.float64)
    assert error.relative_frobenius == pytest.approx(
        np.linalg.norm(W - What) / np.linalg.norm(W), rel=1e-12
    )
    assert error.mae == pytest.approx(np.abs(W - What).mean(), rel=1e-12)
    assert error.max_abs == np.abs(W - What).max()
    assert error.cosine == pytest.approx(
        (W * What).sum() / np.linalg.norm(W) / np.linalg.norm(What), rel=1e-12
    )


def test_float32_would_lose_it():
    W = np.full((1, 2), 1e25, np.float32)
    assert weight_error(W, W * np.float32(0.5)).relative_frobenius == 0.5
    with np.errstate(over="ignore"):
        assert np.isinf(np.sum(W * W))


def test_errors():
    W = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"\(2, 3\), quantized \(3, 2\)"):
        weight_error(W, W.T)
    with pytest.raises(ValueError, match="all zeros"):
        weight_error(0 * W, W)
    with pytest.raises(ValueError, match="not finite"):
        weight_error(W, W * np.float32(np.nan))
