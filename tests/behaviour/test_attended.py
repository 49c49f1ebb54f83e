"""Rows of a batch on a tiny model: what is masked, how heads are averaged, windows."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from quantdrift.behaviour.attended import attended
from quantdrift.behaviour.attention import last_rows, watched
from quantdrift.behaviour.prompts import Prompt

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
}
PROMPTS = [Prompt("a", "with", (1, 9, 8, 9, 7, 6)), Prompt("b", "with", (1, 5, 1, 4, 3, 2))]
SPECIAL = frozenset({1})


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES)).eval()
    for weight in model.parameters():
        weight.data += 0.2 * torch.randn_like(weight)
    with watched(model):
        yield model


@pytest.fixture(scope="module")
def rows(model):
    return list(attended(model, PROMPTS, SPECIAL, 3, "mean"))


def test_one_row_an_item_and_block(rows):
    assert [(row["item"], row["block"], row["head"]) for row in rows] == [
        ("a", 0, None),
        ("a", 1, None),
        ("b", 0, None),
        ("b", 1, None),
    ]


def test_positions_are_the_largest_of_the_mean_over_heads(model, rows):
    weights = last_rows(model, torch.tensor([p.token_ids for p in PROMPTS])).weights
    for row, prompt, index in zip(
        rows, [*PROMPTS[:1] * 2, *PROMPTS[1:] * 2], (0, 0, 1, 1), strict=True
    ):
        mean = weights[index, row["block"]].mean(0)
        allowed = [p for p in range(5) if prompt.token_ids[p] not in SPECIAL]
        best = sorted(allowed, key=lambda p: -mean[p])[:3]
        assert row["positions"] == best
        assert row["tokens"] == [prompt.token_ids[p] for p in best]
        assert row["weights"] == pytest.approx([mean[p].item() for p in best])
        assert row["n_eligible"] == len(allowed)
        assert row["masked"] == pytest.approx(1 - mean[allowed].sum().item(), abs=1e-6)


def test_heads_apart_have_the_mean_as_their_mean(model, rows):
    each = list(attended(model, PROMPTS, SPECIAL, 5, "each"))
    assert [row["head"] for row in each[:5]] == [0, 1, 2, 3, 0]
    assert len(each) == 4 * len(rows)
    for row in rows:
        heads = [r for r in each if (r["item"], r["block"]) == (row["item"], row["block"])]
        at = row["positions"][0]
        values = [r["weights"][r["positions"].index(at)] for r in heads]
        assert sum(values) / 4 == pytest.approx(row["weights"][0], rel=1e-5)


def test_what_lies_beyond_the_window_is_no_candidate():
    torch.manual_seed(0)
    config = MistralConfig(**SIZES, sliding_window=3)
    with watched(MistralForCausalLM(config).eval()) as model:
        for row in attended(model, PROMPTS[:1], SPECIAL, 3, "mean"):
            assert row["n_eligible"] == 2
            assert set(row["positions"]) == {3, 4}
