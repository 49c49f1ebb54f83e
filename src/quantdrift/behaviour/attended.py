"""What prompts attend to: the positions of largest attention in every block."""

from collections.abc import Iterator
from typing import Any

import torch

from .agreement import eligible, top_positions
from .attention import last_rows
from .prompts import Prompt


def attended(
    model: Any, batch: list[Prompt], special: frozenset[int], top: int, heads: str
) -> Iterator[dict[str, Any]]:
    """One row an item and block, or an item, block and head: the columns of table `attention`.

    Args:
        model: as `last_rows` takes it.
        batch: prompts of one length.
        special: token ids that are not looked at.
        top: how many positions are kept.
        heads: `mean` over heads before they are taken (TopoQuant eq. 9), or `each`.
    """
    ids = torch.tensor([prompt.token_ids for prompt in batch], device=model.device)
    rows = last_rows(model, ids)
    for prompt, weights in zip(batch, rows.weights, strict=True):
        allowed = torch.from_numpy(eligible(prompt.token_ids, special)).to(weights.device)
        taken = weights if heads == "each" else weights.mean(1, keepdim=True)
        open_to_all = (rows.reachable & allowed)[:, None].expand(taken.shape)
        best = top_positions(taken, open_to_all, top)
        masked = taken.masked_fill(open_to_all, 0).sum(-1).flatten().tolist()
        n_eligible = open_to_all.sum(-1).flatten().tolist()
        values = taken.flatten(0, 1).cpu()
        for line, positions in enumerate(best):
            block, head = divmod(line, taken.shape[1])
            yield {
                "bos": prompt.bos,
                "item": prompt.item,
                "block": block,
                "head": head if heads == "each" else None,
                "n_tokens": len(prompt.token_ids),
                "n_eligible": n_eligible[line],
                "token_sha256": prompt.sha256,
                "positions": positions,
                "tokens": [prompt.token_ids[position] for position in positions],
                "weights": values[line, positions].tolist(),
                "masked": masked[line],
            }
