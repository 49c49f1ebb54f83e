from pathlib import Path

import pandas as pd
import pytest

from quantdrift.report.cost_summary import cost_rows
from quantdrift.report.names import Names
from quantdrift.tables.io import from_rows
from quantdrift.tables.report import TOPOQUANT_TABLE_3

PUBLISHED = Path(__file__).parents[2] / "config/published/topoquant_table_3.yaml"
NAMES = Names.of(
    [["llamacpp-q8_0-paper", "q8_0", "paper"], ["llamacpp-q8_0-pure", "q8_0", "pure"]],
    [["m", "M", "MIT", None, "local"]],
)
JOBS = {
    "diagrams/m/llamacpp-q8_0-paper/flat/rows/q/000-002": 10.0,
    "diagrams/m/llamacpp-q8_0-paper/flat/rows/k/000-002": 5.0,
    "distances/m/llamacpp-q8_0-paper/flat/rows/q/000-002": 5.0,
    "diagrams/m/llamacpp-q8_0-pure/flat/rows/q/000-002": 1000.0,
    "diagrams/m/base/none/rows/q/000-002": 7.0,
    "attention/m/base/none/last": 3.0,
    "attention/m/llamacpp-q8_0-paper/flat/last": 30.0,
    "agreement/m/llamacpp-q8_0-paper/flat/last": 10.0,
    "tokens/m/llamacpp-q8_0-paper/flat": 80.0,
    "weights/m": 99.0,
}


def timings(jobs: dict[str, float]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"stage": job.partition("/")[0], "job": f"{job}.log", "seconds": seconds}
            | {"cpu_seconds": None, "peak_mib": None, "machine": "a laptop"}
            for job, seconds in jobs.items()
        ]
    )


def rows(jobs: dict[str, float]) -> pd.DataFrame:
    return cost_rows(timings(jobs), PUBLISHED, NAMES)


def test_seconds_and_shares_of_a_level():
    (ours,) = rows(JOBS).query("model == 'm'").to_dict("records")
    assert (ours["drift"], ours["attention"], ours["downstream"], ours["base"]) == (20, 40, 80, 10)
    assert ours["drift_over_downstream"] == 0.25
    assert ours["drift_share"] == 0.2
    assert ours["topoquant_over_downstream"] == 0.75
    assert ours["topoquant_share"] == pytest.approx(60 / 140)
    assert ours["machine"] == "a laptop"


def test_what_was_not_run_costs_nothing_known():
    jobs = {job: seconds for job, seconds in JOBS.items() if not job.startswith("tokens")}
    (ours,) = rows(jobs).query("model == 'm'").to_dict("records")
    assert pd.isna(ours["downstream"])
    assert pd.isna(ours["drift_share"])


def test_both_ratios_of_the_paper_stand_beside_each_other():
    """It quotes 16 % to 17 %, which is T / (T + D), and 26.5 %, which is T / D (Q3_K)."""
    found = rows(JOBS).query("model == 'llama-3.1-8b'").set_index("level")
    assert len(found) == 8
    assert 100 * found.loc["Q8_0", "topoquant_share"] == pytest.approx(15.73, abs=0.005)
    assert 100 * found.loc["Q8_0", "topoquant_over_downstream"] == pytest.approx(18.66, abs=0.005)
    assert 100 * found.loc["Q3_K", "topoquant_over_downstream"] == pytest.approx(26.55, abs=0.005)
    assert set(found["status"]) == {"not comparable"}
    assert found["drift"].isna().all()


def test_rows_fit_their_table():
    found = rows(JOBS)
    records = found.astype(object).where(found.notna(), None)[TOPOQUANT_TABLE_3.schema.names]
    assert from_rows(TOPOQUANT_TABLE_3, records.to_dict("records")).num_rows == 9
