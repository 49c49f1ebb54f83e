"""Numbers of a text's tokens against transformers' own logits and loss, in every family."""

import math
from dataclasses import fields

import pytest
import torch
from small_models import CONFIGS, tiny

from quantdrift.behaviour import text
from quantdrift.behaviour.divergence import TokenNumbers, token_numbers
from quantdrift.behaviour.text import NotFiniteError, compared, final_hidden, read
from quantdrift.behaviour.windows import Window, windows


@pytest.fixture(scope="module")
def cut() -> list[Window]:
    ids = torch.randint(0, 128, (60,), generator=torch.Generator().manual_seed(3)).tolist()
    return windows(ids, length=20, stride=20, context=1, bos=None)


def changed(model):
    with torch.no_grad():
        for name, parameter in model.base_model.named_parameters():
            if not any(part in name for part in ("embed", "wte", "wpe")):  # which may be the head
                parameter += 0.02 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("family", CONFIGS)
def test_numbers_equal_those_of_transformers_logits(family, cut):
    base, other = tiny(family), changed(tiny(family))
    base_hidden, own_hidden = final_hidden(base, cut), final_hidden(other, cut)
    for window in cut:
        ids = torch.tensor([window.token_ids])
        with torch.no_grad():
            p, q = (model(ids).logits[0, :-1] for model in (base, other))
            loss = float(other(ids, labels=ids).loss)
        expected = token_numbers(p, q, ids[0, 1:])
        found = compared(other, window, base_hidden[window.number], own_hidden[window.number])
        assert float(found.nll.mean()) == pytest.approx(loss, rel=1e-5)
        for name in (entry.name for entry in fields(TokenNumbers)):
            torch.testing.assert_close(
                getattr(found, name), getattr(expected, name), atol=2e-5, rtol=1e-3
            )
        assert found.kl.mean() > 1e-3  # else anything would be equal


def test_soft_caps_are_applied(cut):
    """Gemma caps its logits where its config says so."""
    model = tiny("gemma3")
    model.config.final_logit_softcapping = 5.0
    with torch.no_grad():
        expected = model(torch.tensor([cut[0].token_ids])).logits[0]
    with torch.inference_mode():
        hidden, cap = final_hidden(model, cut[:1])[0], text.soft_cap(model)
        found = text.logits_of(model.get_output_embeddings(), hidden, cap)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert expected.abs().max() <= 5


def test_chunks_change_nothing(cut, monkeypatch):
    model = tiny("llama")
    hidden = final_hidden(model, cut)
    whole = compared(model, cut[0], hidden[0], hidden[0])
    monkeypatch.setattr(text, "CHUNK", 3)
    monkeypatch.setattr(text, "_ROWS", 2)
    pieces = compared(model, cut[0], hidden[0], hidden[0])
    torch.testing.assert_close(whole.nll, pieces.nll)
    assert len(pieces.kl) == cut[0].n_scored


def test_a_model_against_itself_has_no_divergence(cut):
    model = tiny("llama")
    hidden = final_hidden(model, cut)
    found = compared(model, cut[1], hidden[1], hidden[1])
    assert float(found.kl.max()) == 0
    assert float(found.same_top.min()) == 1


def test_windows_together_and_alone_are_the_same(cut):
    model = tiny("llama")
    together = final_hidden(model, cut)
    alone = torch.cat([final_hidden(model, [window]) for window in cut])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_nan_names_the_window(cut):
    model = tiny("llama")
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[0, 0] = math.nan
    with pytest.raises(NotFiniteError, match="in window 0 is NaN"):
        final_hidden(model, cut)


class Words:
    """A tokenizer whose tokens are words."""

    bos_token = "<s>"

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [len(word) for word in text.split()]}

    def get_vocab(self) -> dict[str, int]:
        return {"<s>": 99}

    def convert_tokens_to_ids(self, token: str) -> int:
        return self.get_vocab()[token]


PROTOCOL = {"join": " ", "tokens": 0, "window": 2, "stride": None, "context": 1, "bos": "without"}


def test_a_text_is_joined_and_cut():
    cut = read(Words(), ["a bb", "ccc dddd e"], PROTOCOL, None, None)
    assert [window.token_ids for window in cut] == [(1, 2), (3, 4)]
    cut = read(Words(), ["a bb", "ccc dddd e"], PROTOCOL | {"tokens": 3, "stride": 1}, None, None)
    assert [window.token_ids for window in cut] == [(1, 2), (2, 3)]


def test_one_bos_in_front_of_every_window():
    cut = read(Words(), ["a bb ccc dddd"], PROTOCOL | {"bos": "with", "context": 0}, None, None)
    assert [window.token_ids for window in cut] == [(99, 1, 2), (99, 3, 4)]
    assert [window.n_scored for window in cut] == [2, 2]
