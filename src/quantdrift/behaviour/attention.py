"""What the last token attends to: one row of attention in every block, without T x T maps.

TopoQuant reads only the last query's row (eq. 9). Inside the attention function q and k are at
hand, rotated and normalised as the family does it, so that row costs O(T); all else is left to
PyTorch's `scaled_dot_product_attention`. Sliding windows come with the mask the function is given.
What lies above the scores of the last block is not needed, so the run ends there.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

IMPLEMENTATION = "quantdrift_last_row"
"""Name of our attention function in transformers."""


class NotFiniteError(ValueError):
    """A block's attention is NaN or infinite; the message names the block."""


@dataclass(frozen=True)
class LastRows:
    """Attention of the last query in every block, for a batch of prompts of one length."""

    weights: Float[Tensor, "batch block head token"]
    """float32; sums to 1 over the tokens."""
    reachable: Bool[Tensor, "block token"]
    """Whether the last query may look there: false beyond a sliding window."""

    def mean_over_heads(self) -> Float[Tensor, "batch block token"]:
        """TopoQuant eq. 9."""
        return self.weights.mean(2)


class _Done(Exception):  # noqa: N818 - no error: the last block's row is there
    pass


@dataclass
class _Recorder:
    blocks: int
    weights: dict[int, Tensor] = field(default_factory=dict)
    reachable: dict[int, Tensor] = field(default_factory=dict)


_RECORDER: ContextVar[_Recorder | None] = ContextVar("last rows", default=None)


def last_rows(model: torch.nn.Module, token_ids: Int[Tensor, "batch token"]) -> LastRows:
    """Run prompts through a model and keep the last query's attention of each block.

    Args:
        model: a transformers causal language model that `watched` holds, in evaluation mode.
        token_ids: prompts of one length, on the model's device; no padding.

    Raises:
        NotFiniteError: attention is NaN or infinite, naming the first such block.
    """
    recorder = _Recorder(model.config.num_hidden_layers)  # type: ignore[union-attr]
    token = _RECORDER.set(recorder)
    try:
        with torch.inference_mode(), suppress(_Done):
            model.base_model(input_ids=token_ids, use_cache=False)  # type: ignore[operator]
    finally:
        _RECORDER.reset(token)
    blocks = range(recorder.blocks)
    assert list(recorder.weights) == list(blocks), "a block's attention went elsewhere"
    weights = torch.stack([recorder.weights[block] for block in blocks], dim=1)
    for block in blocks:
        if not torch.isfinite(weights[:, block]).all():
            raise NotFiniteError(
                f"attention in block {block} is NaN or infinite. In half precision some models "
                "overflow: set behaviour.dtype=float32. Else the weights of this scheme are broken."
            )
    return LastRows(weights, torch.stack([recorder.reachable[block] for block in blocks]))


@contextmanager
def watched(model: Any) -> Iterator[Any]:
    """The model with our attention function, so that `last_rows` can read it; undone afterwards."""
    before = model.config._attn_implementation
    model.set_attn_implementation(IMPLEMENTATION)
    try:
        yield model
    finally:
        model.set_attn_implementation(before)


def last_row(
    query: Float[Tensor, "batch head token width"],
    key: Float[Tensor, "batch kv_head token width"],
    mask: Tensor | None,
    scaling: float,
) -> tuple[Float[Tensor, "batch head token"], Bool[Tensor, " token"]]:
    """softmax(q_T K^T * scaling + mask) of the last query, and where the mask lets it look.

    Args:
        query: all queries, positions already encoded; only the last is used.
        key: all keys; each serves head / kv_head consecutive query heads.
        mask: None for plain causal attention, else (batch or 1, 1, token, token): boolean (true
            where attention is allowed) or added to the scores.
        scaling: of the scores.
    """
    batch, heads, tokens, width = query.shape
    grouped = query[:, :, -1].reshape(batch, key.shape[1], -1, width)
    scores = (grouped @ key.transpose(2, 3)).reshape(batch, heads, tokens) * scaling
    reachable = torch.ones(tokens, dtype=torch.bool, device=query.device)
    if mask is not None:
        row = mask[:, :, -1, :tokens]
        if row.dtype == torch.bool:
            reachable = row[0, 0]
            scores = scores.masked_fill(~row, float("-inf"))
        else:
            reachable = row[0, 0] > torch.finfo(row.dtype).min
            scores = scores + row
    return torch.softmax(scores.float(), dim=-1), reachable


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    recorder = _RECORDER.get()
    if recorder is not None:
        block = int(module.layer_idx)  # type: ignore[arg-type]
        recorder.weights[block], recorder.reachable[block] = last_row(
            query, key, attention_mask, query.shape[-1] ** -0.5 if scaling is None else scaling
        )
        if block == recorder.blocks - 1:
            raise _Done
    return sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, **kwargs
    )


AttentionInterface.register(IMPLEMENTATION, _attention)
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)
