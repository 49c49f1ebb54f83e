"""Against SciPy and NumPy in float64, and where the plain formula loses every digit."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import log_softmax, rel_entr

from quantdrift.behaviour.divergence import token_numbers


@pytest.fixture(params=[0.01, 0.3, 4.0], ids=["near", "apart", "far"])
def logits(request):
    rng = np.random.default_rng(1)
    base = 3 * rng.standard_normal((20, 300)) + 50
    return base, base + request.param * rng.standard_normal((20, 300)) - 7


def found(base, other, targets=None):
    targets = torch.arange(len(base)) if targets is None else targets
    return token_numbers(torch.from_numpy(base), torch.from_numpy(other), targets)


def test_kl_jsd_and_tv_equal_scipys(logits):
    p, q = (np.exp(log_softmax(one, axis=1)) for one in logits)
    numbers = found(*logits)
    np.testing.assert_allclose(numbers.kl, rel_entr(p, q).sum(1), rtol=2e-3, atol=2e-7)
    np.testing.assert_allclose(numbers.jsd, jensenshannon(p, q, axis=1) ** 2, rtol=5e-3, atol=3e-7)
    np.testing.assert_allclose(numbers.tv, np.abs(p - q).sum(1) / 2, rtol=1e-4, atol=1e-6)


def test_nll_and_top_probabilities(logits):
    log_p, log_q = (log_softmax(one, axis=1) for one in logits)
    rows, targets = np.arange(20), np.arange(20)[::-1].copy()
    numbers = found(*logits, torch.from_numpy(targets))
    top = log_p.argmax(1)
    np.testing.assert_allclose(numbers.nll, -log_q[rows, targets], rtol=1e-5)
    np.testing.assert_allclose(numbers.nll_base, -log_p[rows, targets], rtol=1e-5)
    np.testing.assert_allclose(numbers.p_top_base, np.exp(log_p[rows, top]), rtol=1e-5)
    np.testing.assert_allclose(numbers.p_top, np.exp(log_q[rows, top]), rtol=1e-4)
    np.testing.assert_array_equal(numbers.same_top, top == log_q.argmax(1))


def test_a_kl_of_a_billionth_is_not_noise():
    """In the second order KL is half the variance of d under p; float32 logarithms lose it."""
    rng = np.random.default_rng(2)
    base = 2 * rng.standard_normal((8, 5000))
    # Steps of 2^-12 that float32 holds exactly, so that only the formula is tested.
    base = np.round(base * 4096) / 4096
    change = rng.integers(-1, 2, base.shape) / 16384
    p = np.exp(log_softmax(base, axis=1))
    second_order = ((p * change**2).sum(1) - (p * change).sum(1) ** 2) / 2
    assert second_order.max() < 2e-9
    np.testing.assert_allclose(found(base, base + change).kl, second_order, rtol=1e-2)


def test_equal_logits_and_shifted_logits_are_no_divergence():
    base = np.random.default_rng(3).standard_normal((4, 50))
    for other in (base, base + 2.0):
        numbers = found(base, other)
        assert numbers.kl.max() < 1e-12
        assert numbers.jsd.max() < 1e-6
        assert numbers.same_top.min() == 1


def test_a_token_that_one_model_excludes_keeps_jsd_finite():
    base = np.zeros((1, 4))
    other = np.array([[0.0, 0.0, 0.0, -1e4]])
    numbers = found(base, other, torch.tensor([0]))
    assert torch.isfinite(numbers.jsd).all()
    assert 0 < float(numbers.jsd[0]) <= np.log(2)
    assert float(numbers.tv[0]) == pytest.approx(0.25, abs=1e-6)
