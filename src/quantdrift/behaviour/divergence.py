"""How far two next-token distributions are apart, token by token, in float32.

KL is taken from the difference of logits d = b - a as log1p(E_p[expm1(d - E_p d)]), p being the
softmax of a: no two nearly equal logarithms are subtracted, so a KL of 1e-9 is one and not noise.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Logits = Float[Tensor, "token vocabulary"]
PerToken = Float[Tensor, " token"]


@dataclass(frozen=True)
class TokenNumbers:
    """One number a token; the base is p, the other model q."""

    nll: PerToken
    """-log q(target), nats."""
    nll_base: PerToken
    """-log p(target), nats."""
    kl: PerToken
    """KL(p || q), nats."""
    jsd: PerToken
    """Jensen-Shannon divergence, nats; at most log 2."""
    tv: PerToken
    """Total variation, half the sum of |p - q|."""
    p_top_base: PerToken
    """p of the token that p holds most likely."""
    p_top: PerToken
    """q of that same token."""
    same_top: PerToken
    """1 where p and q hold the same token most likely."""


def token_numbers(base: Logits, other: Logits, targets: Int[Tensor, " token"]) -> TokenNumbers:
    """Compare two sets of logits for the same tokens; memory is a few times their size.

    Args:
        base: logits of the unquantized model, any float type; taken to float32.
        other: of the quantized model.
        targets: the tokens that really follow.
    """
    a, b = base.float(), other.float()
    log_p, log_q = torch.log_softmax(a, -1), torch.log_softmax(b, -1)
    p, q = log_p.exp(), log_q.exp()
    top = a.argmax(-1, keepdim=True)
    at = targets[:, None]
    d = b - a
    # What all logits share says nothing, and times the rounding of sum p = 1 it would be noise.
    d = d - d.gather(-1, top)
    total = p.sum(-1, keepdim=True)
    mean = (p * d).sum(-1, keepdim=True) / total
    kl = torch.log1p((p * torch.expm1(d - mean)).sum(-1) / total[:, 0])
    middle = ((p + q) / 2).log()
    jsd = (_weighted(p, log_p - middle) + _weighted(q, log_q - middle)) / 2
    return TokenNumbers(
        nll=-log_q.gather(-1, at)[:, 0],
        nll_base=-log_p.gather(-1, at)[:, 0],
        kl=kl.clamp_min(0),
        jsd=jsd.clamp_min(0),
        tv=(p - q).abs().sum(-1) / 2,
        p_top_base=p.gather(-1, top)[:, 0],
        p_top=q.gather(-1, top)[:, 0],
        same_top=(top[:, 0] == b.argmax(-1)).float(),
    )


def _weighted(weights: Tensor, values: Tensor) -> Tensor:
    """Sum of weights x values; where a weight is 0 its value, perhaps infinite, does not count."""
    return torch.where(weights > 0, weights * values, 0.0).sum(-1)
