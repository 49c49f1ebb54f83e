import numpy as np
import pandas as pd
import pytest
from report_tables import study

from quantdrift.report.drift import bar_shifts, by_block, drift_rows
from quantdrift.report.names import Names, listed, third
from quantdrift.report.written import as_markdown, save_table
from quantdrift.tables.io import read
from quantdrift.tables.report import DRIFT_TABLE, WEIGHT_ERROR_TABLE


def test_parts_of_a_matrix_are_averaged():
    whole, parts = study(), study(parts=3)
    assert len(parts.tables["distances"]) == 3 * len(whole.tables["distances"])
    pd.testing.assert_frame_equal(whole.blocks, parts.blocks)
    pd.testing.assert_frame_equal(whole.drift, parts.drift)


def test_by_block_takes_the_mean_and_not_the_sum():
    distances = study(parts=2).tables["distances"]
    distances.loc[distances["part"] == 1, "value"] *= 3
    doubled = by_block(distances)["value"] / study().blocks["value"]
    assert doubled.to_numpy() == pytest.approx(2.0)


def test_bar_shift_is_relative_to_the_mean_bar():
    key = {"model": "m", "role": "q", "block": 0, "part": 0}
    diagrams = pd.DataFrame(
        [
            key | {"scheme": "base", "deaths": np.array([0.2, 0.4])},
            key | {"scheme": "s", "deaths": np.array([0.2, 0.43])},
        ]
    )
    assert bar_shifts(diagrams)["bar_shift"].tolist() == pytest.approx([0.015 / 0.3])


def test_bar_shift_of_a_base_without_length():
    key = {"model": "m", "role": "q", "block": 0, "part": 0}
    still, moved = np.zeros(2), np.array([0.0, 0.1])
    rows = [key | {"scheme": "base", "deaths": still}, key | {"scheme": "a", "deaths": still}]
    diagrams = pd.DataFrame([*rows, key | {"scheme": "b", "deaths": moved}])
    assert bar_shifts(diagrams)["bar_shift"].tolist() == [0.0, 1.0]


def test_bits_are_weighted_by_weights():
    made = study()
    errors = made.tables["weight_error"]
    assert set(made.errors["n_weights"]) == {6000}
    v = made.errors[(made.errors["scheme"] == "q2_k-paper") & (made.errors["role"] == "v")]
    assert v["type"].item() == "q4_0"
    assert v["bpw_full"].item() == 4.5
    assert len(made.errors) * 6 == len(errors)


@pytest.mark.parametrize(
    ("table", "name"), [(DRIFT_TABLE, "drift"), (WEIGHT_ERROR_TABLE, "errors")]
)
def test_a_summary_table_becomes_three_files(tmp_path, table, name):
    rows = getattr(study(), name)
    paths = {kind: tmp_path / kind for kind in ("parquet", "csv", "markdown")}
    save_table(table, rows, **paths, provenance={"code": "x"})
    assert read(table, paths["parquet"]).num_rows == len(rows)
    assert pd.read_csv(paths["csv"])["scheme"].tolist() == rows["scheme"].tolist()
    assert paths["markdown"].read_text().count("\n| ") == len(rows) + 2
    assert all(f"`{field.name}`" in paths["markdown"].read_text() for field in table.schema)


def test_one_block_has_no_deviation_but_a_row(tmp_path):
    made = study()
    one = made.blocks[made.blocks["block"] == 0]
    rows = drift_rows(one, bar_shifts(made.tables["diagrams"]), made.names)
    assert rows["swd_sd"].isna().all()
    paths = {kind: tmp_path / kind for kind in ("parquet", "csv", "markdown")}
    save_table(DRIFT_TABLE, rows, **paths, provenance={})
    assert read(DRIFT_TABLE, paths["parquet"])["swd_sd"].null_count == len(rows)


def test_markdown_escapes_what_would_end_a_cell():
    rows = study().errors[WEIGHT_ERROR_TABLE.schema.names].head(1).assign(type="a|b")
    assert "a\\|b" in as_markdown(WEIGHT_ERROR_TABLE, rows)


def test_names_keep_the_order_of_the_study():
    names = Names.of([["b", "q8_0", "paper"], ["a", "q2_k", "paper"], ["c", "q2_k", "pure"]], [])
    assert names.levels == ["Q8_0", "Q2_K"]
    assert names.leading == {"Q8_0": "b", "Q2_K": "a"}
    assert names.variants == ["paper", "pure"]


def test_small_words():
    assert [third(block, 4) for block in range(4)] == ["early", "early", "middle", "late"]
    assert [third(block, 30) for block in (9, 10, 19, 20)] == ["early", "middle", "middle", "late"]
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"], "or") == "a, b or c"
