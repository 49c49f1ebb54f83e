"""Where a scheme's quantized weights come from: made on the fly, or read where they lie."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from quantdrift.quantizers.ledger import Quantized
from quantdrift.quantizers.schemes import quantizer

from .causal_lm import Change
from .stored_weights import StoredWeights

SchemeWeights = Callable[[str, int, np.ndarray], Quantized]
"""(role, block, weight of the base in its gauge) to what the scheme makes of that matrix."""


def scheme_weights(
    types: Mapping[str, str], short_rows: str | None, stored: str | Path | None = None
) -> SchemeWeights:
    """The weights of one scheme, one matrix at a time.

    Args:
        types: role to type, for a scheme that quantizes on the fly.
        short_rows: what that does with rows its types' blocks do not divide.
        stored: the directory of a scheme whose weights were written (see `stored_weights`).

    Raises:
        ValueError: see `quantizer`.
    """
    if stored is not None:
        return _stored(StoredWeights(Path(stored)))
    made = {role: quantizer(name, short_rows) for role, name in types.items()}
    return lambda role, block, weight: made[role](weight)


def change_of(
    types: Mapping[str, str],
    short_rows: str | None,
    stored: str | Path | None,
    naming: Callable[[str], AbstractContextManager[None]],
) -> Change:
    """The weights of one scheme as `causal_lm.load` puts them in place.

    Args:
        types: as `scheme_weights` takes them.
        short_rows: too.
        stored: too.
        naming: a context that says of which matrix a complaint is.
    """
    quantize = scheme_weights(types, short_rows, stored)

    def change(role: str, block: int, weight: np.ndarray) -> np.ndarray:
        with naming(f"{role} of block {block}"):
            return quantize(role, block, weight).weight

    return change


def provenance_of(stored: str | Path | None) -> dict[str, str]:
    """What a result is to say about written weights; nothing where there are none."""
    return {} if stored is None else {"weights_sha256": StoredWeights(Path(stored)).about["sha256"]}


def _stored(weights: StoredWeights) -> SchemeWeights:
    def read(role: str, block: int, weight: np.ndarray) -> Quantized:
        found = weights.quantized(role, block)
        if found.weight.shape != weight.shape:
            raise ValueError(
                f"{weights.directory} has shape {found.weight.shape}, the base {weight.shape}"
            )
        return found

    return read
