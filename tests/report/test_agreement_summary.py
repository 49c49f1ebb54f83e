import numpy as np
import pandas as pd
import pytest
from report_tables import BLOCKS, DEEP, HARD_BLOCK, ITEMS, SPREAD, iou_of, study

from quantdrift.report.agreement_summary import (
    RESAMPLES,
    one_per_block,
    policies,
    resampled_shares,
    standard_errors,
    summaries,
)
from quantdrift.tables.behaviour import AGREEMENT, AGREEMENT_BLOCKS, AGREEMENT_TABLE
from quantdrift.tables.io import from_rows


def draw():
    return np.random.default_rng(5)


def five_sigma(error):
    """A standard deviation of n normal draws has relative deviation 1 / sqrt(2 n)."""
    return 5 * error / np.sqrt(2 * RESAMPLES)


def test_the_bootstrap_is_the_closed_form():
    values = np.random.default_rng(0).normal(size=(60, 7, 2))
    found = standard_errors(values, resampled_shares(60, RESAMPLES, draw()))
    closed = values.std(axis=0) / np.sqrt(60)
    assert found.shape == (7, 2)
    assert (np.abs(found - closed) < five_sigma(closed)).all()


def test_blocks_of_one_item_are_no_independent_draws():
    """Thirty copies of one value an item tell no more than one: sd / sqrt(30 n) would be wrong."""
    one = np.random.default_rng(0).normal(size=50)
    copies = np.repeat(one[:, None], 30, axis=1)
    error = standard_errors(copies.mean(1), resampled_shares(50, RESAMPLES, draw()))
    closed = one.std() / np.sqrt(50)
    assert error == pytest.approx(closed, abs=five_sigma(closed))
    assert error > 4 * closed / np.sqrt(30)


def test_shares_are_means_and_a_seed_repeats_them():
    shares = resampled_shares(9, 100, draw())
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert shares.mean(axis=0) == pytest.approx(1 / 9, abs=5 / 9 / np.sqrt(100))
    assert (shares == resampled_shares(9, 100, draw())).all()
    assert (shares != resampled_shares(9, 100, np.random.default_rng(6))).any()


def test_a_single_item_has_no_error_to_tell():
    assert standard_errors(np.ones((1, 3)), resampled_shares(1, 10, draw())).tolist() == [0, 0, 0]


def test_summaries_have_the_means_that_were_put_in():
    made = study()
    table = made.agreed.table.set_index(["level", "variant", "dataset", "bos"])
    row = table.loc[("Q4_0", "paper", "hella", "without")]
    assert row["iou"] == pytest.approx(iou_of("q4_0", "hella", "without"))
    assert row["iou_se"] == pytest.approx(SPREAD / np.sqrt(ITEMS), rel=0.1)
    assert row["top1"] == pytest.approx(row["iou"] - 0.005)
    assert (row["n_items"], row["n_blocks"]) == (ITEMS, BLOCKS)
    assert row["chance_iou"] == pytest.approx(0.2)
    blocks = made.agreed.blocks
    its = blocks[(blocks["scheme"] == "q4_0-paper") & (blocks["dataset"] == "arc")]
    iou = its[its["bos"] == "with"].set_index("block")["iou"]
    assert iou.drop(HARD_BLOCK).to_numpy() == pytest.approx(0.92 + DEEP / BLOCKS)
    assert iou[HARD_BLOCK] == pytest.approx(0.92 + DEEP / BLOCKS - DEEP)


def test_summaries_keep_the_order_of_the_study_and_fit_their_tables():
    made = study()
    table = made.agreed.table
    assert list(dict.fromkeys(table["scheme"])) == [scheme for scheme, _, _ in made.names.schemes]
    assert list(dict.fromkeys(table["dataset"])) == ["arc", "hella"]
    for definition, rows in ((AGREEMENT_TABLE, table), (AGREEMENT_BLOCKS, made.agreed.blocks)):
        from_rows(definition, rows[definition.schema.names].to_dict("records"))


def test_the_generated_rows_are_rows_of_the_table():
    rows = study().tables["agreement"].head(200)
    records = rows.astype(object).where(rows.notna(), None).to_dict("records")
    assert from_rows(AGREEMENT, records).num_rows == 200


def test_heads_are_averaged_first():
    whole, heads = study(), study(heads=4)
    assert len(heads.tables["agreement"]) == 4 * len(whole.tables["agreement"])
    pd.testing.assert_frame_equal(whole.agreed.table, heads.agreed.table)


def test_the_mean_over_heads_stands_where_there_is_one():
    made = study()
    rows = made.tables["agreement"]
    single = rows.assign(head=0, iou=0.0)
    found = summaries(pd.concat([rows, single]), made.names, np.random.default_rng(0))
    pd.testing.assert_frame_equal(found.table, made.agreed.table)
    assert one_per_block(single)["iou"].max() == 0


def test_an_item_without_a_block_is_named():
    made = study()
    with pytest.raises(ValueError, match="some item lacks a block"):
        summaries(made.tables["agreement"].iloc[1:], made.names, draw())


def test_items_in_any_order_give_the_same_summaries():
    made = study()
    rows = made.tables["agreement"].sample(frac=1, random_state=0)
    found = summaries(rows, made.names, np.random.default_rng(0))
    pd.testing.assert_frame_equal(found.table[["iou", "top1"]], made.agreed.table[["iou", "top1"]])


def test_the_papers_policy_comes_first():
    assert policies(pd.DataFrame({"bos": ["without", "with"]})) == ["with", "without"]
    assert policies(pd.DataFrame({"bos": ["without"]})) == ["without"]
