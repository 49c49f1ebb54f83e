"""Ledgers add up, and the base is the identity."""

import numpy as np
import pytest

from quantdrift.quantizers.ledger import Base, Entry, Ledger, total
from quantdrift.quantizers.llamacpp import LlamaCpp


def test_bits_per_weight():
    ledger = Ledger(
        (Entry("indices", 1024), Entry("scales", 128)), n_weights=256, bits_claimed=1024.0
    )
    assert (ledger.bits_full, ledger.bpw_full, ledger.bpw_claimed) == (1152, 4.5, 4.0)


def test_total_is_that_of_the_stacked_matrix():
    weight = np.random.default_rng(0).normal(size=(8, 512)).astype(np.float32)
    ledger = total(LlamaCpp("q4_k")(part).ledger for part in np.split(weight, 4))
    assert ledger == LlamaCpp("q4_k")(weight).ledger


def test_total_of_two_types_weighs_them_by_size():
    small = Ledger((Entry("indices", 100), Entry("zeros", 4)), 10, 100.0)
    large = Ledger((Entry("indices", 400), Entry("scales", 16)), 100, 400.0)
    both = total([small, large])
    assert both.entries == (Entry("indices", 500), Entry("zeros", 4), Entry("scales", 16))
    assert (both.bpw_full, both.bpw_claimed) == (520 / 110, 500 / 110)


def test_impossible_ledgers_are_refused():
    with pytest.raises(ValueError, match="at least one weight"):
        Ledger((), 0, 0.0)
    with pytest.raises(ValueError, match="at least one weight"):
        total([])
    with pytest.raises(ValueError, match="negative"):
        Ledger((Entry("scales", -1),), 1, 0.0)


@pytest.mark.parametrize(
    ("dtype", "name", "bits"),
    [("float32", "f32", 32), ("float16", "f16", 16), ("bfloat16", "bf16", 16)],
)
def test_base_is_the_identity_in_a_fresh_array(dtype, name, bits):
    weight = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    quantized = Base(dtype)(weight)
    np.testing.assert_array_equal(quantized.weight, weight)
    assert not np.shares_memory(quantized.weight, weight)
    assert quantized.type == name
    assert quantized.ledger.bpw_full == quantized.ledger.bpw_claimed == bits


def test_base_errors():
    with pytest.raises(ValueError, match="unknown dtype 'int8'; known: float32"):
        Base("int8")
    with pytest.raises(ValueError, match="1 of 2 weights are not finite"):
        Base()(np.float32([[1, np.nan]]))
