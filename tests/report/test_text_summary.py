import numpy as np
import pandas as pd
import pytest

from quantdrift.report.names import Names
from quantdrift.report.text_summary import numbers, perplexity_rows, ratio_error
from quantdrift.tables.io import from_rows
from quantdrift.tables.text import PERPLEXITY_TABLE

NAMES = Names.of([["llamacpp-q4_0-paper", "q4_0", "paper"]], [["m", "M", "MIT", None, "local"]])


def tokens(scheme: str, rise: float = 0.5, n_windows: int = 6, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    n = 40 * n_windows
    base = rng.exponential(2, n)
    changed = base + rise + 0.1 * rng.standard_normal(n)
    return pd.DataFrame(
        {
            "model": "m",
            "scheme": scheme,
            "protocol": "p",
            "token_sha256": "abc",
            "window": np.repeat(np.arange(n_windows), 40),
            "nll": changed.astype(np.float32),
            "nll_base": base.astype(np.float32),
            "kl": rng.exponential(0.1, n).astype(np.float32) if scheme != "base" else 0.0,
            "jsd": np.float32(0.1),
            "tv": np.float32(0.2),
            "p_top_base": np.float32(0.5),
            "p_top": np.float32(0.4),
            "same_top": rng.integers(0, 2, n).astype(np.float32),
        }
    )


def both(**changes) -> pd.DataFrame:
    quantized = tokens("llamacpp-q4_0-paper").assign(**changes)
    return pd.concat([tokens("base", rise=0), quantized], ignore_index=True)


def test_means_and_quantiles_are_those_of_numpy():
    its = tokens("x")
    found = numbers(its)
    assert found["perplexity"] == pytest.approx(np.exp(its["nll"].mean()), rel=1e-6)
    assert found["kl_99"] == pytest.approx(np.quantile(its["kl"], 0.99), rel=1e-6)
    change = np.exp(-its["nll"]) - np.exp(-its["nll_base"])
    assert found["dp_rms"] == pytest.approx(np.sqrt((change**2).mean()), rel=1e-5)
    assert found["p_top_rms"] == pytest.approx(0.1, rel=1e-5)
    assert (found["n_windows"], found["n_tokens"]) == (6, 240)


def test_windows_of_one_length_have_the_plain_standard_error():
    its = tokens("x")
    means = its.groupby("window")["kl"].mean().to_numpy(dtype=float)
    assert numbers(its)["kl_se"] == pytest.approx(means.std(ddof=1) / np.sqrt(6), rel=1e-6)


def test_the_error_of_a_ratio_covers_unequal_windows():
    """Against the spread of the estimate over fresh samples."""
    rng = np.random.default_rng(4)
    estimates, errors = [], []
    for _ in range(400):
        counts = rng.integers(20, 200, 30).astype(float)
        sums = counts * (1 + 0.3 * rng.standard_normal(30))
        estimates.append(sums.sum() / counts.sum())
        errors.append(ratio_error(sums, counts))
    assert np.mean(errors) == pytest.approx(np.std(estimates), rel=0.1)


def test_pairing_shrinks_the_error():
    found = numbers(tokens("x"))
    assert found["log_ratio"] == pytest.approx(0.5, abs=0.05)
    assert found["log_ratio_se"] < found["perplexity_se"] / found["perplexity"] / 3


def test_one_window_has_no_error():
    found = numbers(tokens("x", n_windows=1))
    assert found["kl_se"] is found["perplexity_se"] is found["nll_correlation"] is None


def test_rows_fit_their_table_and_leave_the_base_out():
    rows = perplexity_rows(both(), NAMES)
    assert list(rows["scheme"]) == ["llamacpp-q4_0-paper"]
    assert list(rows["kl_floor"]) == [0.0]
    assert from_rows(PERPLEXITY_TABLE, rows.to_dict("records")).num_rows == 1


def test_ten_times_the_perplexity_is_broken():
    assert numbers(tokens("x", rise=2.2))["status"] == "sound"
    assert numbers(tokens("x", rise=2.5))["status"] == "broken"


def test_other_tokens_are_not_compared():
    with pytest.raises(ValueError, match="read the tokens other, the base abc"):
        perplexity_rows(both(token_sha256="other"), NAMES)
