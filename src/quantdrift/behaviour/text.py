"""Final hidden states of a text, and the numbers of its tokens from those of two models.

Hidden states are kept and not logits, which are a vocabulary wide: logits are made anew in chunks
of tokens, so memory does not grow with the text (llama.cpp keeps 16-bit log-probabilities).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from .divergence import TokenNumbers, token_numbers
from .prompts import bos_id, check_length, encode
from .windows import Window, windows

CHUNK = 128
"""Tokens whose logits are in memory at once."""
_ROWS = 16
"""Of those a CPU compares so many at once: what it touches then stays in its cache (3 x faster)."""

Hidden = Float[Tensor, "window token hidden"]


class NotFiniteError(ValueError):
    """A model's output is NaN or infinite; the message names the window."""


def read(
    tokenizer: Any,
    texts: Sequence[str],
    protocol: Mapping[str, Any],
    bos_token: str | None,
    positions: int | None,
) -> list[Window]:
    """A protocol's text as windows of token ids.

    Args:
        tokenizer: of the model.
        texts: its documents.
        protocol: join, tokens, window, stride, context and bos, as `settings.Protocol` means them.
        bos_token: what stands first where the tokenizer declares nothing.
        positions: that the model has.

    Raises:
        ValueError: the text is too short, there is no BOS token to stand first, or a window is
            longer than the model's positions.
    """
    ids = encode(tokenizer, protocol["join"].join(texts), None)
    has_bos = protocol["bos"] == "with"
    check_length("a window", protocol["window"] + has_bos, positions)
    return windows(
        ids[: protocol["tokens"] or None],
        length=protocol["window"],
        stride=protocol["stride"] or protocol["window"],
        context=protocol["context"],
        bos=bos_id(tokenizer, bos_token) if has_bos else None,
    )


def final_hidden(model: Any, batch: list[Window]) -> Hidden:
    """What the output embedding reads, for windows of one length.

    Raises:
        NotFiniteError: a value is NaN or infinite.
    """
    ids = torch.tensor([window.token_ids for window in batch], device=model.device)
    with torch.inference_mode():
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    for window, states in zip(batch, hidden, strict=True):
        if not torch.isfinite(states).all():
            raise NotFiniteError(
                f"the model's output in window {window.number} is NaN or infinite. In half "
                "precision some models overflow: set behaviour.dtype=float32. Else the weights of "
                "this scheme are broken."
            )
    return hidden


def logits_of(head: Any, hidden: Float[Tensor, "token hidden"], cap: float | None) -> Tensor:
    """Logits of some tokens; `cap` is Gemma 2's soft cap, which most families lack."""
    logits = head(hidden)
    return logits if cap is None else cap * torch.tanh(logits / cap)


def soft_cap(model: Any) -> float | None:
    """The soft cap of a model's logits, if it has one."""
    return getattr(model.config.get_text_config(), "final_logit_softcapping", None)


def compared(
    model: Any,
    window: Window,
    base: Float[Tensor, "token hidden"],
    own: Float[Tensor, "token hidden"],
) -> TokenNumbers:
    """The numbers of a window's scored tokens.

    Args:
        model: whose head reads both: embeddings and head are never quantized here.
        window: what was run.
        base: final hidden states of the unquantized model.
        own: of the quantized one.
    """
    head, cap = model.get_output_embeddings(), soft_cap(model)
    pieces = []
    with torch.inference_mode():
        for first, last in _chunks(window.first, len(window.token_ids)):
            before = slice(first - 1, last - 1)
            targets = torch.tensor(window.token_ids[first:last], device=own.device)
            logits = (logits_of(head, states[before].to(own), cap) for states in (base, own))
            rows = _ROWS if own.device.type == "cpu" else CHUNK
            parts = zip(*(one.split(rows) for one in (*logits, targets)), strict=True)
            pieces += [token_numbers(*part) for part in parts]
    names = [entry.name for entry in fields(TokenNumbers)]
    return TokenNumbers(
        **{name: torch.cat([getattr(piece, name) for piece in pieces]).cpu() for name in names}
    )


def _chunks(first: int, last: int) -> Iterator[tuple[int, int]]:
    for start in range(first, last, CHUNK):
        yield start, min(start + CHUNK, last)
