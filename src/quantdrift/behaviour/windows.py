"""A text as windows of token ids, and which tokens of each window are predicted."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """One input of the model.

    The logits at position i predict the token at i + 1; those of `first` and all later ones count.
    """

    number: int
    token_ids: tuple[int, ...]
    first: int
    """Position in `token_ids` of the first token whose prediction counts; at least 1."""

    @property
    def n_scored(self) -> int:
        """How many predictions count."""
        return len(self.token_ids) - self.first


def windows(
    token_ids: Sequence[int], *, length: int, stride: int, context: int, bos: int | None
) -> list[Window]:
    """Cut a text; a tail shorter than a window is dropped.

    Args:
        token_ids: of the whole text, without BOS.
        length: tokens of the text in a window.
        stride: tokens between the starts of two windows; below `length` they overlap, and a token
            counts in the first window that holds it alone.
        context: tokens at a window's start that never count: 1 or more without BOS (nothing
            predicts the first), half a window as in llama.cpp's llama-perplexity.
        bos: stands in front of every window, beside its tokens.

    Raises:
        ValueError: the text is shorter than one window, or no token of a window could count.
    """
    if len(token_ids) < length:
        raise ValueError(
            f"the text has {len(token_ids)} tokens, and one window needs {length}: take a longer "
            "text or a protocol with shorter windows."
        )
    if bos is None and context < 1:
        raise ValueError("without BOS nothing predicts a window's first token: context must be 1.")
    found, counted = [], 0
    for start in range(0, len(token_ids) - length + 1, stride):
        piece = tuple(token_ids[start : start + length])
        first = max(context, counted - start)
        counted = start + length
        shift = 0 if bos is None else 1
        front = () if bos is None else (bos,)
        found.append(Window(len(found), front + piece, first + shift))
    if any(window.n_scored < 1 for window in found):
        raise ValueError(f"context {context} leaves no token of a window of {length} to predict.")
    return found


def token_hash(cut: Sequence[Window]) -> str:
    """First 16 digits of a hash of what is predicted from what: same hash, same task."""
    packed = ";".join(f"{w.first}:{','.join(map(str, w.token_ids))}" for w in cut)
    return hashlib.sha256(packed.encode()).hexdigest()[:16]
