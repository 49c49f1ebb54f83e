"""Top positions, overlap and chance against brute force and the definitions of the paper."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quantdrift.behaviour.agreement import (
    chances,
    compare,
    eligible,
    iou,
    top1,
    top_positions,
)
from quantdrift.tables.behaviour import AGREEMENT

ROW = torch.tensor([0.5, 0.1, 0.2, 0.05, 0.1, 0.05])


def test_special_tokens_and_the_query_are_not_looked_at():
    allowed = eligible([1, 7, 8, 1, 9], frozenset({1}))
    assert allowed.tolist() == [False, True, True, False, False]


def test_a_prompt_of_special_tokens_alone_has_no_position():
    assert not eligible([1, 1, 5], frozenset({1})).any()


def test_the_largest_come_first_and_ties_go_to_the_earlier():
    allowed = torch.tensor([False, True, True, True, True, False])
    assert top_positions(ROW, allowed, 3) == [[2, 1, 4]]


def test_fewer_allowed_than_wanted():
    allowed = torch.tensor([False, False, True, False, False, False])
    assert top_positions(ROW, allowed, 3) == [[2]]
    assert top_positions(ROW, torch.zeros(6, dtype=torch.bool), 3) == [[]]


def test_an_allowed_position_without_weight_comes_before_a_forbidden_one():
    rows = torch.tensor([[0.9, 0.0, 0.0, 0.1]])
    assert top_positions(rows, torch.tensor([[False, True, True, False]]), 3) == [[1, 2]]


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=12),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_top_positions_against_sorting_by_hand(weights, count, random):
    allowed = [random.random() < 0.7 for _ in weights]
    by_hand = sorted(
        (position for position, yes in enumerate(allowed) if yes),
        key=lambda position: (-np.float32(weights[position]), position),
    )[:count]
    row = torch.tensor(weights, dtype=torch.float32)
    assert top_positions(row, torch.tensor(allowed), count) == [by_hand]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3], [3, 2, 1], 1.0),
        ([1, 2, 3], [1, 2, 4], 0.5),
        ([1, 2, 3], [1, 4, 5], 0.2),
        ([1, 2, 3], [4, 5, 6], 0.0),
        ([], [], 1.0),
        ([], [1], 0.0),
        ([1, 1, 2], [1, 2, 2], 1.0),  # token ids: equal words collapse
    ],
)
def test_iou(one, other, expected):
    assert iou(one, other) == expected


def test_top1_compares_the_first_alone():
    assert top1([3, 1], [3, 2]) == 1.0
    assert top1([1, 3], [3, 1]) == 0.0
    assert top1([], []) == 1.0
    assert top1([], [1]) == 0.0


@pytest.mark.parametrize("n", range(9))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_chance_against_all_pairs_of_sets(n, k):
    sets = list(combinations(range(n), min(k, n)))
    expected = np.mean([iou(one, other) for one in sets for other in sets])
    found_top1, found_iou = chances(n, k)
    assert found_iou == pytest.approx(expected, rel=1e-12)
    assert found_top1 == pytest.approx(1 / n if n else 1.0)


# ---------------------------------------------------------------------- whole runs, paired

RUN = {"model": "m", "scheme": "s", "short_rows": None, "seed": None, "preset": "last"}


def attention_row(item: str, block: int, positions: list[int], **changed) -> dict:
    return {
        **RUN,
        "dataset": "d",
        "bos": "with",
        "item": item,
        "block": block,
        "head": None,
        "n_tokens": 9,
        "n_eligible": 7,
        "token_sha256": "abc",
        "positions": positions,
        "tokens": [position % 2 for position in positions],
        "weights": [0.5] * len(positions),
        "masked": 0.1,
    } | changed


def test_rows_are_paired_whatever_their_order():
    base = [attention_row("a", 0, [1, 2, 3], scheme="base"), attention_row("a", 1, [4, 5, 6])]
    found = list(compare(base, [attention_row("a", 1, [4, 5, 7]), attention_row("a", 0, [3])], 3))
    assert [row["block"] for row in found] == [1, 0]
    assert [row["iou"] for row in found] == [0.5, pytest.approx(1 / 3)]
    assert [row["top1"] for row in found] == [1.0, 0.0]
    assert [row["iou_tokens"] for row in found] == [1.0, 0.5]
    assert found[0]["chance_iou"] == chances(7, 3)[1]
    assert {row["scheme"] for row in found} == {"s"}
    assert found[0].keys() == set(AGREEMENT.schema.names)


def test_a_run_against_itself_agrees_fully():
    rows = [attention_row("a", block, [block, 2, 3]) for block in range(4)]
    for row in compare(rows, rows, 3):
        assert row["top1"] == row["iou"] == row["iou_tokens"] == 1.0


def test_other_tokens_are_never_compared():
    """R7: the same item under another tokenizer or BOS policy is another prompt."""
    base = [attention_row("a", 0, [1, 2, 3])]
    other = [attention_row("a", 0, [1, 2, 3], token_sha256="def")]
    with pytest.raises(ValueError, match="item a, with BOS: the base saw other tokens"):
        list(compare(base, other, 3))


def test_a_missing_partner_is_an_error():
    base = [attention_row("a", 0, [1, 2, 3])]
    with pytest.raises(ValueError, match="other items, blocks or heads"):
        list(compare(base, [*base, attention_row("b", 0, [1, 2, 3])], 3))
    with pytest.raises(ValueError, match="other items, blocks or heads"):
        list(compare([*base, attention_row("b", 0, [1, 2, 3])], base, 3))
