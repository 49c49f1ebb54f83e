"""How likely a model holds each choice of an item, as lm-evaluation-harness scores it.

A continuation is scored by the sum of log p over its tokens, given its context. Tokens are those of
the whole, context and continuation; where the context ends is where its own tokens would, and its
trailing spaces belong to the continuation. Source: lm-evaluation-harness 0.4.13, `TemplateLM`
(`_encode_pair`) and `HFLM` (`_loglikelihood_tokens`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from .items import DELIMITER
from .prompts import bos_id, check_length
from .text import NotFiniteError, logits_of, soft_cap


@dataclass(frozen=True)
class Choice:
    """One continuation of one item as token ids."""

    item: str
    number: int
    token_ids: tuple[int, ...]
    """Of context and continuation."""
    first: int
    """Position of the continuation's first token; at least 1."""
    n_characters: int | None
    """Of the choice without its delimiter: what `acc_norm` divides by. None where all choices of an
    item end in one text, as WinoGrande's do."""

    @property
    def n_tokens(self) -> int:
        """Tokens that are scored."""
        return len(self.token_ids) - self.first


@dataclass(frozen=True)
class Scored:
    """What a model makes of a choice."""

    log_likelihood: float
    is_greedy: bool
    """Every token of the continuation is the likeliest one at its place."""


def encode_pair(tokenizer: Any, context: str, continuation: str) -> tuple[list[int], int]:
    """Token ids of both together, and how many are the context's.

    Raises:
        ValueError: the continuation has no token of its own.
    """
    spaces = len(context) - len(context.rstrip())
    if spaces:
        context, continuation = context[:-spaces], context[-spaces:] + continuation
    whole = tokenizer(context + continuation, add_special_tokens=False)["input_ids"]
    n_context = len(tokenizer(context, add_special_tokens=False)["input_ids"])
    if n_context >= len(whole):
        raise ValueError(f"{continuation!r} has no token of its own after {context[-20:]!r}.")
    return list(whole), n_context


def choices_of(
    tokenizer: Any,
    item: str,
    contexts: Sequence[str],
    continuations: Sequence[str],
    *,
    bos: bool,
    bos_token: str | None,
    positions: int | None,
) -> list[Choice]:
    """The choices of one item.

    Args:
        tokenizer: of the model.
        item: its id.
        contexts: of each choice.
        continuations: of each choice, delimiter included.
        bos: whether one BOS token stands first.
        bos_token: which, where the tokenizer declares nothing.
        positions: that the model has.

    Raises:
        ValueError: there is no BOS token to stand first, nothing stands before a continuation, or
            a choice is longer than the model's positions.
    """
    front = [bos_id(tokenizer, bos_token)] if bos else []
    differ = len(set(continuations)) > 1
    found = []
    for number, (context, continuation) in enumerate(zip(contexts, continuations, strict=True)):
        ids, n_context = encode_pair(tokenizer, context, continuation)
        if not front and not n_context:
            raise ValueError(
                f"item {item}: nothing stands before {continuation!r}; measure it with BOS."
            )
        check_length(f"choice {number} of item {item}", len(front) + len(ids), positions)
        n_characters = len(continuation.removeprefix(DELIMITER)) if differ else None
        found.append(Choice(item, number, (*front, *ids), len(front) + n_context, n_characters))
    return found


def batches(choices: Iterable[Choice], size: int) -> Iterator[list[Choice]]:
    """Groups of at most `size` choices of like length."""
    ordered = sorted(choices, key=lambda one: (len(one.token_ids), one.item, one.number))
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


def scored(model: Any, batch: Sequence[Choice]) -> list[Scored]:
    """Log-likelihood of each choice; shorter ones are padded behind their end.

    What stands behind a token cannot change what a causal model makes of it, so padding needs no
    mask.

    Raises:
        NotFiniteError: a logit is NaN or infinite.
    """
    longest = max(len(one.token_ids) for one in batch)
    ids = [[*one.token_ids, *[one.token_ids[-1]] * (longest - len(one.token_ids))] for one in batch]
    head, cap = model.get_output_embeddings(), soft_cap(model)
    found = []
    with torch.inference_mode():
        hidden = model.base_model(
            input_ids=torch.tensor(ids, device=model.device), use_cache=False
        ).last_hidden_state
        for one, states in zip(batch, hidden, strict=True):
            before = states[one.first - 1 : len(one.token_ids) - 1]
            logits = logits_of(head, before, cap).float()
            found.append(_likelihood(one, logits))
    return found


def _likelihood(choice: Choice, logits: Float[Tensor, "token vocabulary"]) -> Scored:
    if not torch.isfinite(logits).all():
        raise NotFiniteError(
            f"the model's output on choice {choice.number} of item {choice.item} is NaN or "
            "infinite. In half precision some models overflow: set behaviour.dtype=float32. Else "
            "the weights of this scheme are broken."
        )
    targets = torch.tensor(choice.token_ids[choice.first :], device=logits.device)
    log_p = torch.log_softmax(logits, dim=-1)
    return Scored(
        log_likelihood=float(log_p.gather(1, targets[:, None]).double().sum()),
        is_greedy=bool((logits.argmax(1) == targets).all()),
    )
