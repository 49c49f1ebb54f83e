"""Exactly one BOS or none, whatever a tokenizer adds by itself; batches without padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from quantdrift.behaviour.prompts import (
    BosError,
    LengthError,
    Prompt,
    batches,
    bos_id,
    check_length,
    encode,
    special_ids,
)


def words(bos: str | None, adds_bos: bool = False) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words; it may add a BOS by itself, as Llama's does."""
    vocabulary = {"<s>": 0, "<pad>": 1, "the": 2, "cat": 3, "sat": 4, "<unk>": 5}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=bos, pad_token="<pad>", unk_token="<unk>"
    )


@pytest.mark.parametrize("adds_bos", [False, True])
def test_exactly_one_bos_whatever_the_tokenizer_adds(adds_bos):
    tokenizer = words("<s>", adds_bos)
    assert tokenizer("the cat")["input_ids"][0] == (0 if adds_bos else 2)
    first = bos_id(tokenizer, None)
    assert encode(tokenizer, "the cat sat", first) == (0, 2, 3, 4)
    assert encode(tokenizer, "the cat sat", None) == (2, 3, 4)


def test_a_model_without_bos_says_what_to_do_and_takes_no_eos_instead():
    tokenizer = words(None)
    with pytest.raises(BosError, match=r"bos_token.*config/model/.*agreement.bos=\[without\]"):
        bos_id(tokenizer, None)
    assert bos_id(tokenizer, "the") == 2
    with pytest.raises(BosError, match="no token '<bos>'"):
        bos_id(tokenizer, "<bos>")


def test_special_tokens_are_known():
    assert special_ids(words("<s>")) == {0, 1, 5}


def test_an_empty_text_is_refused():
    with pytest.raises(ValueError, match="no tokens"):
        encode(words("<s>"), "", 0)


def test_what_is_longer_than_the_model_is_refused_by_name():
    check_length("item 7", 8, 8)
    check_length("item 7", 9, None)
    with pytest.raises(LengthError, match="item 7 has 9 tokens, and the model has 8 positions"):
        check_length("item 7", 9, 8)


def test_the_hash_tells_prompts_apart():
    assert Prompt("a", "with", (1, 2)).sha256 == Prompt("b", "without", (1, 2)).sha256
    assert Prompt("a", "with", (1, 2)).sha256 != Prompt("a", "with", (2, 1)).sha256


@given(st.lists(st.integers(1, 6), max_size=40), st.integers(1, 5))
def test_batches_hold_every_prompt_once_and_one_length_each(lengths, size):
    """R8: nothing is padded, so a batch changes nothing."""
    prompts = [Prompt(f"i{k:02d}", "with", tuple(range(n))) for k, n in enumerate(lengths)]
    made = list(batches(prompts, size))
    assert sorted(p.item for batch in made for p in batch) == sorted(p.item for p in prompts)
    assert all(len({len(p.token_ids) for p in batch}) == 1 for batch in made)
    assert all(0 < len(batch) <= size for batch in made)
    least = sum(-(-lengths.count(n) // size) for n in np.unique(lengths))
    assert len(made) == least
