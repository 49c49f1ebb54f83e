from pathlib import Path

import pandas as pd
import pytest

from quantdrift.report.names import Names
from quantdrift.report.regressor_grid import FEATURES, MATRICES, as_markdown, grid_rows, printed
from quantdrift.tables.io import from_rows
from quantdrift.tables.prediction import TOPOQUANT_TABLE_2

PUBLISHED = Path(__file__).parents[2] / "config/published/topoquant_table_2.yaml"
PAPER = ["llama-3.2-3b", "vicuna-7b-v1.5", "mistral-7b-v0.1", "llama-3.1-8b"]


def names(models: list[str], is_ours: bool) -> Names:
    facts = [[model, model, "x", None, "hub"] for model in models]
    return Names.of([], facts, [["arc-x", "ARC", "arc", "MIT", is_ours]])


def regressors(r2: float) -> pd.DataFrame:
    rows = []
    for split, less in (("random", 0.0), ("by_scheme", 0.4)):
        for group in FEATURES:
            for matrices in ["all"] if group == "llm5" else MATRICES:
                row = {"dataset": "arc-x", "bos": "with", "split": split, "regressor": "linear"}
                rows.append(row | {"features": group, "matrices": matrices, "r2": r2 - less})
    return pd.DataFrame(rows)


def test_the_papers_models_and_data_are_compared():
    grid = grid_rows(regressors(0.7), PUBLISHED, names(PAPER, is_ours=False))
    q = grid.query("matrices == 'Q' and dataset == 'arc-x'").set_index("features")
    assert (q.loc["llm5", "published"], q.loc["llm5", "status"]) == (0.68, "reproduced")
    assert (q.loc["tda", "published"], q.loc["tda", "status"]) == (0.26, "differs")
    assert q.loc["tda", "difference"] == pytest.approx(0.44)
    assert q.loc["tda", "ours_by_scheme"] == pytest.approx(0.3)
    v = grid.query("matrices == 'V' and dataset == 'arc-x' and features == 'tda'")
    assert v["status"].item() == "dash"
    others = grid[grid["ours"].isna()]
    assert set(others["dataset"]) == {"hellaswag", "winogrande"}


@pytest.mark.parametrize(("models", "is_ours"), [(PAPER, True), (PAPER[:2], False), (["m"], True)])
def test_other_models_or_data_are_not(models, is_ours):
    grid = grid_rows(regressors(0.7), PUBLISHED, names(models, is_ours))
    assert grid["difference"].isna().all()
    assert set(grid.loc[grid["ours"].notna(), "status"]) == {"not comparable"}
    assert grid.loc[grid["ours"].isna(), "published"].notna().sum() == 63 - 11


def test_what_needs_no_matrix_stands_beside_all_of_them():
    grid = grid_rows(regressors(0.7), PUBLISHED, names(["m"], True))
    llm = grid.query("features == 'llm5' and dataset == 'arc-x'")
    assert list(llm["matrices"]) == list(MATRICES)
    assert set(llm["ours"]) == {0.7}


def test_the_print_is_read_whole():
    cells = printed(PUBLISHED)
    assert len(cells) == 7 * 9
    assert cells["is_dash"].sum() == 11
    assert (
        cells.query("matrices == 'V' and schema == 'winogrande'")["published"].tolist()[2] == 0.15
    )


def test_rows_fit_their_table_and_markdown_shows_both_folds():
    grid = grid_rows(regressors(0.7), PUBLISHED, names(["m"], True))
    records = grid.where(grid.notna(), None).to_dict("records")
    assert from_rows(TOPOQUANT_TABLE_2, records).num_rows == len(grid)
    text = as_markdown(grid, names(["m"], True))
    assert "**linear, folds random**" in text
    assert "| Q | 0.70 | 0.70 | 0.70 |" in text
    assert "| Q | 0.30 | 0.30 | 0.30 |" in text
