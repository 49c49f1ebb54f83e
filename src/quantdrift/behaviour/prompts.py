"""Prompts as token ids, with or without one BOS token in front, and batches of equal length."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

WITH, WITHOUT = "with", "without"


class BosError(ValueError):
    """A BOS token is asked for, and the model has none."""


class LengthError(ValueError):
    """A prompt or a window of text is longer than the model's positions."""


@dataclass(frozen=True)
class Prompt:
    """One item as a model sees it."""

    item: str
    bos: str
    """`with` or `without` a BOS token in front."""
    token_ids: tuple[int, ...]

    @property
    def sha256(self) -> str:
        """First 16 digits of the hash of the token ids: what is compared must be the same."""
        return hashlib.sha256(np.asarray(self.token_ids, "<i4").tobytes()).hexdigest()[:16]


def bos_id(tokenizer: Any, named: str | None) -> int:
    """The id of the token that stands for the beginning of a text.

    Args:
        tokenizer: a transformers tokenizer.
        named: the token the configuration names, for tokenizers that declare none.

    Raises:
        BosError: there is none, or the vocabulary lacks the named one.
    """
    remedy = (
        "name one by `bos_token` in the model's file in config/model/, or measure without: "
        """set='["agreement.bos=[without]"]'"""
    )
    token = named or tokenizer.bos_token
    if token is None:
        raise BosError(f"the tokenizer declares no BOS token; {remedy}.")
    if token not in tokenizer.get_vocab():
        raise BosError(f"the vocabulary has no token {token!r} to stand first; {remedy}.")
    return int(tokenizer.convert_tokens_to_ids(token))


def encode(tokenizer: Any, text: str, bos: int | None) -> tuple[int, ...]:
    """Token ids of a text after exactly one `bos`, or after none where `bos` is None.

    Whatever the tokenizer would add by itself is left out.
    """
    ids = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    if not ids:
        raise ValueError(f"{text!r} has no tokens.")
    return ids if bos is None else (bos, *ids)


def check_length(what: str, n_tokens: int, positions: int | None) -> None:
    """Refuse what is longer than the model was made for.

    Args:
        what: is so long; for the message.
        n_tokens: of it, BOS included.
        positions: that the model has; None where its config does not say.

    Raises:
        LengthError: it is longer.
    """
    if positions is not None and n_tokens > positions:
        raise LengthError(
            f"{what} has {n_tokens} tokens, and the model has {positions} positions: leave it out, "
            "or take shorter ones."
        )


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Ids that stand for no text: the set S of TopoQuant eq. 10."""
    declared = {token for token, about in tokenizer.added_tokens_decoder.items() if about.special}
    return frozenset(declared | set(tokenizer.all_special_ids))


def batches(prompts: Iterable[Prompt], size: int) -> Iterator[list[Prompt]]:
    """Groups of at most `size` prompts of one length, so that nothing is padded."""
    ordered = sorted(prompts, key=lambda prompt: (len(prompt.token_ids), prompt.item, prompt.bos))
    for _, same in groupby(ordered, key=lambda prompt: len(prompt.token_ids)):
        members = list(same)
        for start in range(0, len(members), size):
            yield members[start : start + size]
