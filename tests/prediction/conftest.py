"""Rows as `features.rows` gives them, whose one cause is known."""

import numpy as np
import pandas as pd
import pytest

from quantdrift.prediction.features import DISTANCES


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    """IoU falls with the weight error of Q, and nothing else matters."""
    rng = np.random.default_rng(0)
    rows = []
    for scheme in range(6):
        for block in range(4):
            error = 0.05 * (scheme + 1) + 0.01 * rng.random()
            row = {"model": "m", "scheme": f"s{scheme}", "block": block, "dataset": "arc"}
            row |= {"level": f"L{scheme // 2}"}
            row |= {
                "iou": 1 - 2 * error,
                "bits": 8 - scheme,
                "third": ("early", "middle")[block % 2],
            }
            row |= {"family": "llama", "parameters": 100}
            for role in "qkv":
                row |= {f"{role}_bits": 8 - scheme, f"{role}_error": error if role == "q" else 0.1}
                row |= {f"{role}_{name}": rng.random() for name in DISTANCES}
            rows.append(row)
    return pd.DataFrame(rows)
