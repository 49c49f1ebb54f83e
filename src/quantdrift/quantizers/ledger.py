"""What a quantizer returns: the matrix it makes, and a ledger of every bit it stores.

Bits per weight are counted in two ways. `bpw_claimed` follows the paper that proposes a method (for
llama.cpp the number in the name of a level: 4 for Q4_K); `bpw_full` counts all that is stored,
scales and padding included.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32


@dataclass(frozen=True)
class Entry:
    """One kind of stored bits, say "scales": how many there are, in bits."""

    name: str
    bits: int


@dataclass(frozen=True)
class Ledger:
    """All bits stored for a matrix (or for several, see `total`).

    `n_weights` counts the weights of the matrix without padding; `bits_claimed` is what the paper's
    formula gives for all of them.
    """

    entries: tuple[Entry, ...]
    n_weights: int
    bits_claimed: float

    def __post_init__(self):
        if self.n_weights <= 0:
            raise ValueError(f"a ledger needs at least one weight, not {self.n_weights}")
        if negative := [entry for entry in self.entries if entry.bits < 0]:
            raise ValueError(f"a ledger cannot hold negative bits: {negative}")

    @property
    def bits_full(self) -> int:
        """All stored bits."""
        return sum(entry.bits for entry in self.entries)

    @property
    def bpw_full(self) -> float:
        """Stored bits per weight."""
        return self.bits_full / self.n_weights

    @property
    def bpw_claimed(self) -> float:
        """Bits per weight by the paper's formula."""
        return self.bits_claimed / self.n_weights


def total(ledgers: Iterable[Ledger]) -> Ledger:
    """The ledger of several matrices together; entries of one name are added.

    Raises:
        ValueError: there are no ledgers.
    """
    ledgers = tuple(ledgers)
    bits: dict[str, int] = {}
    for ledger in ledgers:
        for entry in ledger.entries:
            bits[entry.name] = bits.get(entry.name, 0) + entry.bits
    return Ledger(
        entries=tuple(Entry(name, n) for name, n in bits.items()),
        n_weights=sum(ledger.n_weights for ledger in ledgers),
        bits_claimed=float(sum(ledger.bits_claimed for ledger in ledgers)),
    )


@dataclass(frozen=True)
class Quantized:
    """A matrix after quantization and dequantization, with its bits.

    `type` is the type really stored, in lower case ("q4_k", "f16"): with short rows it may not be
    the one that was asked for.
    """

    weight: Float32[np.ndarray, "rows cols"]
    ledger: Ledger
    type: str


def is_finite(array: Float[np.ndarray, "..."]) -> bool:
    """Whether no value is NaN or infinite; unlike `np.isfinite` it makes no array to tell."""
    return bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def finite_matrix(weight: Float[np.ndarray, "rows cols"]) -> Float32[np.ndarray, "rows cols"]:
    """`weight` as a C-contiguous float32 matrix; `weight` itself where it is one already.

    Raises:
        ValueError: it is empty, or a value is NaN or infinite (in float32).
    """
    with np.errstate(over="ignore"):
        matrix = np.ascontiguousarray(weight, dtype=np.float32)
    if matrix.size == 0:
        raise ValueError(f"a matrix of shape {matrix.shape} has no weights to quantize")
    if not is_finite(matrix):
        bad = np.argwhere(~np.isfinite(matrix))
        row, col = bad[0]
        raise ValueError(
            f"{len(bad)} of {matrix.size} weights are not finite in float32; the first is"
            f" {weight[row, col]} at row {row}, column {col}. A common cause is a checkpoint that"
            " overflowed in float16: take its bfloat16 or float32 version"
        )
    return matrix


DTYPES = {"float32": ("f32", 32), "float16": ("f16", 16), "bfloat16": ("bf16", 16)}
"""How checkpoints store what is not quantized: the type's short name, and its bits per weight."""


@dataclass(frozen=True)
class Base:
    """The identity: the scheme `base`. `dtype` names how the checkpoint stores its weights."""

    dtype: str = "float32"

    def __post_init__(self):
        if self.dtype not in DTYPES:
            raise ValueError(f"unknown dtype {self.dtype!r}; known: {', '.join(DTYPES)}")

    def __call__(
        self, weight: Float[np.ndarray, "rows cols"], statistics: object = None
    ) -> Quantized:
        """A copy of `weight` in float32, values as they are; `statistics` is ignored.

        Raises:
            ValueError: `weight` is empty or not finite.
        """
        name, bits = DTYPES[self.dtype]
        n_bits = bits * weight.size
        return Quantized(
            weight=np.array(finite_matrix(weight), order="C"),
            ledger=Ledger((Entry("weights", n_bits),), weight.size, float(n_bits)),
            type=name,
        )
