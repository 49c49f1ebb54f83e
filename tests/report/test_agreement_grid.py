from io import StringIO

import numpy as np
import pandas as pd
import pytest
from report_tables import DATASETS, ITEMS, LEVELS, PUBLISHED, study

from quantdrift.report.agreement_grid import (
    as_markdown,
    grid_rows,
    in_order,
    is_compared,
    our_cells,
    our_tables,
    paper_table,
    top1_exceeds,
    wide,
)
from quantdrift.report.published import PublishedError, read_grid
from quantdrift.tables.behaviour import TOPOQUANT_TABLE_1
from quantdrift.tables.io import from_rows

PAPERS = "mistral-7b-v0.1"


def compared(top=3, **shape):
    """A study of one of the paper's models: HellaSwag is theirs, ARC ours."""
    made = study(models=(PAPERS,), **shape)
    names = made.names.__class__(made.names.schemes, made.names.models, made.names.datasets, top)
    return grid_rows(made.agreed.table, PUBLISHED, names), names


def cell(grid, level, metric="iou", dataset="hella", bos="with"):
    key = ["level", "metric", "dataset", "bos"]
    rows = grid[grid["model"] == PAPERS].set_index(key)
    return rows.loc[(level, metric, dataset, bos)]


def test_what_the_paper_prints_and_what_is_lost():
    cells = PUBLISHED.cells.set_index(["metric", "level", "model", "schema"])["published"]
    assert len(cells) == 2 * 8 * 12
    assert cells["top1", "Q2_K", "llama-3.2-3b", "winogrande"] == 0.56
    assert cells["iou", "Q4_0", "llama-3.1-8b", "arc"] == 0.70
    assert np.isnan(cells["top1", "Q4_0", "llama-3.1-8b", "arc"])
    assert cells.notna().sum() == 7 * 12


def test_the_papers_own_count_of_top1_over_top3():
    """Requirement T-C13: 18 of 36 comparable cells."""
    table = PUBLISHED.cells.pivot(
        index=["level", "model", "schema"], columns="metric", values="published"
    )
    assert top1_exceeds(table) == (18, 36)
    assert "18 of the 36 cells" in paper_table(PUBLISHED).caption


@pytest.mark.parametrize("printed", ["gone", "[0.1, 0.2]", "[1.2, 0, 0]", "[a, 0, 0]"])
def test_a_published_row_of_another_shape_is_refused(tmp_path, printed):
    path = tmp_path / "grid.yaml"
    text = "source: s\ndecimals: 2\ntop: 3\nmodels: {m: M}\ndatasets: {a: A, b: B, c: C}\n"
    path.write_text(text + "values: {iou: {q8_0: " + printed + "}}")
    with pytest.raises(PublishedError, match=r"values.iou.q8_0"):
        read_grid(path)
    path.write_text(text + "values: {iou: {q8_0: lost, q2_k: [0, 0.5, 1]}}")
    assert read_grid(path).cells["published"].isna().sum() == 3


def test_with_other_models_ours_stands_alone_and_theirs_apart():
    made = study()
    grid = made.agreed.grid
    ours = our_cells(grid)
    assert not is_compared(grid)
    assert set(ours["status"]) == {"not comparable"}
    assert ours["published"].isna().all()
    theirs = grid[grid["ours"].isna()]
    assert set(theirs["model"]) == set(PUBLISHED.models)
    assert set(theirs["dataset"]) == {"ARC", "HellaSwag", "WinoGrande"}
    assert (theirs["status"] == "lost").sum() == theirs["published"].isna().sum() == 9 * 12
    assert theirs["difference"].isna().all()


def test_the_papers_models_are_compared_where_the_data_are_the_papers():
    grid, _ = compared()
    assert is_compared(grid)
    differs = cell(grid, "Q2_K")  # ours 0.47, theirs 0.82
    assert differs["status"] == "differs"
    assert differs["difference"] == pytest.approx(0.47 - 0.82)
    assert cell(grid, "Q8_0")["status"] == "lost"
    assert cell(grid, "Q8_0")["ours"] > 0.9
    assert cell(grid, "Q4_0", dataset="arc")["status"] == "not comparable"
    assert cell(grid, "Q4_0", bos="without")["status"] == "not comparable"
    theirs = grid[(grid["model"] == PAPERS) & grid["ours"].isna()]
    assert set(theirs["dataset"]) == {"ARC", "WinoGrande"}


@pytest.mark.parametrize(("off", "status"), [(0.004, "reproduced"), (0.05, "differs")])
def test_reproduced_means_within_two_errors_and_the_last_digit(off, status):
    made = study(models=(PAPERS,))
    table = made.agreed.table
    at = (table["level"] == "Q4_0") & (table["dataset"] == "hella")
    table.loc[at, "iou"] = 0.92 + off
    table.loc[at, "iou_se"] = 0.0
    assert cell(grid_rows(table, PUBLISHED, made.names), "Q4_0")["status"] == status
    table.loc[at, "iou_se"] = 0.0175  # 2 sqrt(2) 0.0175 = 0.0495
    assert cell(grid_rows(table, PUBLISHED, made.names), "Q4_0")["status"] == "reproduced"


@pytest.mark.parametrize(("off", "status"), [(0.0, "too few items"), (0.2, "differs")])
def test_a_test_without_power_reproduces_nothing(off, status):
    made = study(models=(PAPERS,))
    table = made.agreed.table
    at = (table["level"] == "Q4_0") & (table["dataset"] == "hella")
    table.loc[at, "iou"] = 0.92 - off
    table.loc[at, "iou_se"] = 0.02  # 2 sqrt(2) 0.02 = 0.057, more than 0.05
    found = cell(grid_rows(table, PUBLISHED, made.names), "Q4_0")
    assert (found["status"], found["n_items"]) == (status, ITEMS)


def test_sets_of_another_size_are_not_compared():
    grid, names = compared(top=5)
    assert cell(grid, "Q2_K")["status"] == "not comparable"
    assert cell(grid, "Q2_K", metric="top1")["status"] == "differs"
    assert our_tables(grid, names, PUBLISHED)[0].rows[-2][0] == "Top-5 IoU"


def test_levels_the_paper_has_not():
    grid, names = compared(levels=[*LEVELS[:1], ["q4_0-file", "odd_m", "file"]])
    assert cell(grid, "ODD_M")["status"] == "not printed"
    assert "paper not printed" in as_markdown(grid, names, PUBLISHED)


def test_every_grid_fits_its_table_and_comes_back_in_order():
    for grid, names in (compared(), (study().agreed.grid, study().names)):
        records = grid.astype(object).where(grid.notna(), None).to_dict("records")
        table = from_rows(TOPOQUANT_TABLE_1, records).to_pandas()
        pd.testing.assert_frame_equal(
            our_cells(in_order(table, names)).astype({"n_items": float}).reset_index(drop=True),
            our_cells(grid)[table.columns].astype({"n_items": float}).reset_index(drop=True),
        )


def test_the_layout_is_the_papers():
    made = study()
    first, second = our_tables(made.agreed.grid, made.names, PUBLISHED)
    assert first.head == ["Metric", "Level", "Own ARC", "HellaSwag"]
    assert [row[1] for row in first.rows[:6]] == ["Q8_0", "Q5_0", "Q5_K", "Q4_0", "Q2_K", "chance"]
    assert first.rows[3][2].startswith("0.915 ± 0.00")
    assert first.rows[-2] == ["Top-3 IoU", "chance", "0.200", "0.200"]
    assert first.rows[-1] == ["Items", "all", str(ITEMS), str(ITEMS)]
    assert not first.summary
    assert "without BOS" in second.summary
    two = study(models=("tiny", "other"))
    heads = our_tables(two.agreed.grid, two.names, PUBLISHED)[0].head
    assert heads[2:4] == ["Tiny-1M Own ARC", "Tiny-1M HellaSwag"]


def test_files_for_people_and_sheets():
    grid, names = compared()
    text = as_markdown(grid, names, PUBLISHED)
    assert "· paper 0.82 · differs by -0.350" in text
    assert "| lost |" in text
    sheet = pd.read_csv(StringIO(wide(grid).to_csv(index=False)))
    assert list(sheet.columns[:4]) == ["bos", "metric", "level", f"{PAPERS} arc ours"]
    assert len(sheet) == 2 * 2 * 5
    row = sheet[(sheet["bos"] == "with") & (sheet["metric"] == "iou") & (sheet["level"] == "Q2_K")]
    assert row[f"{PAPERS} hella published"].item() == 0.82
    alone = wide(study(datasets=DATASETS[:1]).agreed.grid)
    assert not any("published" in name for name in alone.columns)
