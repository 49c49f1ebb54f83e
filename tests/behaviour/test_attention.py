"""The last row of attention against transformers' own eager maps, in every family."""

import pytest
import torch
from small_models import CONFIGS, WINDOW, tiny

from quantdrift.behaviour.attention import NotFiniteError, last_rows, watched


def eager_last_rows(model, ids: torch.Tensor) -> torch.Tensor:
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        attentions = model(ids, output_attentions=True).attentions
    return torch.stack([attention[:, :, -1] for attention in attentions], dim=1)


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.randint(0, 128, (3, 20), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", CONFIGS)
def test_equals_the_last_row_of_eager_attention(family, ids):
    model = tiny(family)
    with watched(model):
        rows = last_rows(model, ids)
    expected = eager_last_rows(model, ids)
    assert rows.weights.shape == expected.shape
    # A float32 softmax over 20 tokens: a few units in the last place.
    torch.testing.assert_close(rows.weights, expected, atol=1e-6, rtol=0)
    uniform = 1 / ids.shape[1]
    assert (expected - uniform).abs().max() > 0.1  # else anything would agree


@pytest.mark.parametrize("family", CONFIGS)
def test_rows_sum_to_one_where_the_query_may_look(family, ids):
    model = tiny(family)
    with watched(model):
        rows = last_rows(model, ids)
    torch.testing.assert_close(rows.weights.sum(-1), torch.ones(rows.weights.shape[:-1]))
    hidden = ~rows.reachable[None, :, None].expand(rows.weights.shape)
    assert not rows.weights[hidden].any()


@pytest.mark.parametrize(("family", "full"), [("mistral", []), ("gemma3", [5])])
def test_a_sliding_window_hides_what_lies_before_it(family, full, ids):
    model = tiny(family)
    with watched(model):
        reachable = last_rows(model, ids).reachable
    for block, row in enumerate(reachable):
        seen = ids.shape[1] if block in full else WINDOW
        assert row.tolist() == [False] * (ids.shape[1] - seen) + [True] * seen


def test_a_prompt_alone_and_in_a_batch_look_at_the_same(ids):
    model = tiny("llama")
    with watched(model):
        together = last_rows(model, ids).weights
        alone = torch.cat([last_rows(model, row[None]).weights for row in ids])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)


def test_nothing_above_the_last_scores_runs(ids):
    model = tiny("llama")
    for module in (model.lm_head, model.model.norm, model.model.layers[-1].mlp):
        module.register_forward_pre_hook(lambda *_: pytest.fail("more ran than is needed"))
    with watched(model):
        last_rows(model, ids)


def test_watching_is_undone(ids):
    model = tiny("llama")
    before = model.config._attn_implementation
    with pytest.raises(RuntimeError, match="stop"), watched(model):
        raise RuntimeError("stop")
    assert model.config._attn_implementation == before


def test_nan_is_refused_and_the_block_named(ids):
    model = tiny("llama")
    model.model.layers[1].self_attn.q_proj.weight.data[3, 5] = float("nan")
    with watched(model), pytest.raises(NotFiniteError, match=r"block 1 .*dtype=float32"):
        last_rows(model, ids)


def test_overflow_in_half_precision_is_refused(ids):
    """R19: what float16 does to Qwen2, forced by large keys."""
    model = tiny("qwen2").half()
    model.model.layers[2].self_attn.k_proj.weight.data *= 2e4
    with watched(model), pytest.raises(NotFiniteError, match="block 2"):
        last_rows(model, ids)


def test_sdpa_itself_gives_no_attention_which_is_why_the_row_is_taken_inside(ids):
    """R26: what transformers returns under sdpa."""
    model = tiny("llama")
    assert model.config._attn_implementation == "sdpa"
    with torch.inference_mode():
        assert not model(ids).attentions
    with watched(model):
        assert last_rows(model, ids).weights.shape == (3, 3, 4, 20)
