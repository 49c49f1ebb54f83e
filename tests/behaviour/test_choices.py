"""Log-likelihoods against transformers' own logits, one choice at a time; and what is refused."""

import pytest
import torch
from small_models import CONFIGS, tiny
from test_prompts import words

from quantdrift.behaviour.choices import Choice, batches, choices_of, encode_pair, scored
from quantdrift.behaviour.prompts import BosError, LengthError
from quantdrift.behaviour.text import NotFiniteError

IDS = torch.Generator().manual_seed(5)


def drawn(lengths: list[tuple[int, int]]) -> list[Choice]:
    """Choices of so many tokens, the last so many of which are scored."""
    return [
        Choice(
            "item",
            number,
            tuple(torch.randint(0, 128, (n,), generator=IDS).tolist()),
            n - n_scored,
            7,
        )
        for number, (n, n_scored) in enumerate(lengths)
    ]


@pytest.mark.parametrize("family", CONFIGS)
def test_likelihoods_equal_those_of_transformers_logits(family):
    model = tiny(family)
    choices = drawn([(30, 5), (9, 1), (17, 16), (30, 1), (24, 8)])
    for choice, found in zip(choices, scored(model, choices), strict=True):
        ids = torch.tensor([choice.token_ids])
        with torch.no_grad():
            log_p = torch.log_softmax(model(ids).logits[0].double(), -1)
        places = range(choice.first, len(choice.token_ids))
        expected = sum(float(log_p[at - 1, choice.token_ids[at]]) for at in places)
        greedy = all(int(log_p[at - 1].argmax()) == choice.token_ids[at] for at in places)
        assert found.log_likelihood == pytest.approx(expected, abs=2e-4)
        assert found.is_greedy == greedy


def test_what_a_model_likes_best_is_greedy():
    model = tiny("llama")
    (start,) = drawn([(6, 1)])
    ids = list(start.token_ids)
    with torch.no_grad():
        for _ in range(3):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    liked = Choice("item", 0, tuple(ids), 6, 3)
    (found,) = scored(model, [liked])
    assert found.is_greedy
    other = Choice("item", 0, (*ids[:-1], (ids[-1] + 1) % 128), 6, 3)
    assert not scored(model, [other])[0].is_greedy


def test_trailing_spaces_belong_to_what_follows():
    """The harness's rule: else "the" and " cat" would be cut otherwise than "the cat"."""
    seen = []

    class Recorder:
        def __call__(self, text, add_special_tokens):
            seen.append(text)
            assert not add_special_tokens
            return {"input_ids": list(range(len(text)))}

    assert encode_pair(Recorder(), "the  ", "cat") == (list(range(8)), 3)
    assert seen == ["the  cat", "the"]


def test_choices_count_characters_without_their_delimiter():
    asked = {"bos": False, "bos_token": None, "positions": None}
    found = choices_of(words("<s>"), "i", ["the cat"] * 2, [" sat", " the cat"], **asked)
    assert [(one.token_ids, one.first) for one in found] == [((2, 3, 4), 2), ((2, 3, 2, 3), 2)]
    assert [(one.n_characters, one.n_tokens) for one in found] == [(3, 1), (7, 2)]
    alike = choices_of(words("<s>"), "i", ["the", "cat"], [" sat"] * 2, **asked)
    assert [one.n_characters for one in alike] == [None, None]
    (first, _) = choices_of(words("<s>"), "i", ["the", "the"], [" sat", " cat"], bos=True,
                            bos_token=None, positions=3)  # fmt: skip
    assert (first.token_ids, first.first) == ((0, 2, 4), 2)


@pytest.mark.parametrize(
    ("contexts", "continuations", "changes", "kind", "match"),
    [
        (["the"], [" cat"], {"positions": 1}, LengthError, "choice 0 of item i has 2 tokens"),
        ([""], ["cat"], {}, ValueError, "item i: nothing stands before 'cat'; measure it with BOS"),
        (["the"], [""], {}, ValueError, "'' has no token of its own after 'the'"),
        (["the"], [" cat"], {"bos": True}, BosError, "declares no BOS token"),
    ],
)
def test_what_cannot_be_scored_is_refused_by_name(contexts, continuations, changes, kind, match):
    asked = {"bos": False, "bos_token": None, "positions": None} | changes
    with pytest.raises(kind, match=match):
        choices_of(words(None), "i", contexts, continuations, **asked)


def test_broken_weights_are_told():
    model = tiny("llama")
    with torch.no_grad():
        model.lm_head.weight[3] = float("nan")
    with pytest.raises(NotFiniteError, match="choice 0 of item item is NaN"):
        scored(model, drawn([(5, 2)]))


def test_every_choice_is_in_one_batch_and_lengths_are_alike():
    choices = drawn([(n, 1) for n in (9, 2, 5, 3, 8, 4, 7)])
    cut = list(batches(choices, 3))
    assert [len(batch) for batch in cut] == [3, 3, 1]
    lengths = [len(one.token_ids) for batch in cut for one in batch]
    assert lengths == sorted(lengths)
    assert {one.number for batch in cut for one in batch} == set(range(7))
