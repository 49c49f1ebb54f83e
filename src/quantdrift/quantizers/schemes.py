"""From the type a scheme gives a role to the quantizer that makes it."""

from collections.abc import Callable
from typing import cast

from .ledger import DTYPES, Base, Quantized
from .llamacpp import LlamaCpp, ShortRows

Quantizer = Callable[..., Quantized]

BASE_TYPE = "base"
"""The type the scheme `base` gives every role: whatever the checkpoint stores."""


def quantizer(type_name: str, short_rows: str | None, stored: str = "f32") -> Quantizer:
    """The quantizer of one type.

    Args:
        type_name: a ggml type, or `base` for the identity.
        short_rows: what to do with rows the type's blocks do not divide; unused by `base`.
        stored: dtype of the checkpoint as its manifest names it (f32, f16, bf16).
    """
    if type_name == BASE_TYPE:
        return Base(next(long for long, (short, _) in DTYPES.items() if short == stored))
    if short_rows is None:
        raise ValueError(f"type {type_name} needs to know what to do with short rows")
    return LlamaCpp(type_name, cast(ShortRows, short_rows))  # which checks it
