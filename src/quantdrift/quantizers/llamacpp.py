"""llama.cpp's quantization types as quantizers.

A row is cut into blocks of 32 weights (legacy types, IQ4_NL) or 256 (K-quants, other I-quants). A
row that is no multiple of the block is *short*, and `short_rows` says what becomes of it:

- `flat`: the matrix, row after row, is one long row. Only its last block is padded, with zeros
  whose index bits are the ledger's "padding". No GGUF file holds this: it studies the type.
- `fallback`: the matrix gets another type, the one llama.cpp writes (`FALLBACK`).
- `error`: the matrix is refused.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Float32, UInt8

from quantdrift.quantizers import ggml
from quantdrift.quantizers.ledger import Entry, Ledger, Quantized, finite_matrix, is_finite

ShortRows = Literal["flat", "fallback", "error"]


@dataclass(frozen=True)
class GgmlType:
    """A ggml type: `block` weights share `block_bytes` bytes, itemised in `parts` (bits per block).

    `nominal_bits` is the number in the name, the papers' b(c).

    Source: the `block_*` structs of ggml's `ggml-common.h`; ids from `ggml.h`.
    """

    name: str
    ggml_id: int
    block: int
    block_bytes: int
    nominal_bits: int
    parts: tuple[Entry, ...]

    def __post_init__(self):
        assert sum(part.bits for part in self.parts) == 8 * self.block_bytes, self

    @property
    def bpw(self) -> float:
        """Stored bits per weight, where rows are not short."""
        return 8 * self.block_bytes / self.block


def _type(
    name: str, ggml_id: int, block: int, block_bytes: int, nominal_bits: int, **parts: int
) -> GgmlType:
    entries = tuple(Entry(part, bits) for part, bits in parts.items())
    return GgmlType(name, ggml_id, block, block_bytes, nominal_bits, entries)


# "scales" and "minima" belong to a block of 32 (f16) or a sub-block of 16 or 32 (4, 6 or 8 bits);
# the "super" ones scale those of 256 weights (f16). IQ3_S's indices: 512 + 64 bits point into a
# codebook of 512 quadruples, and each weight has a sign bit.
TYPES: dict[str, GgmlType] = {
    type_.name: type_
    for type_ in (
        _type("q8_0", 8, 32, 34, 8, indices=256, scales=16),
        _type("q6_k", 14, 256, 210, 6, indices=1536, scales=128, super_scales=16),
        _type("q5_0", 6, 32, 22, 5, indices=160, scales=16),
        _type("q5_1", 7, 32, 24, 5, indices=160, scales=16, minima=16),
        _type(
            "q5_k", 13, 256, 176, 5,
            indices=1280, scales=48, minima=48, super_scales=16, super_minima=16,
        ),
        _type("q4_0", 2, 32, 18, 4, indices=128, scales=16),
        _type("q4_1", 3, 32, 20, 4, indices=128, scales=16, minima=16),
        _type(
            "q4_k", 12, 256, 144, 4,
            indices=1024, scales=48, minima=48, super_scales=16, super_minima=16,
        ),
        _type("q3_k", 11, 256, 110, 3, indices=768, scales=96, super_scales=16),
        _type(
            "q2_k", 10, 256, 84, 2,
            indices=512, scales=64, minima=64, super_scales=16, super_minima=16,
        ),
        _type("iq4_nl", 20, 32, 18, 4, indices=128, scales=16),
        _type("iq4_xs", 23, 256, 136, 4, indices=1024, scales=48, super_scales=16),
        _type("iq3_s", 21, 256, 110, 3, indices=832, scales=32, super_scales=16),
    )
}  # fmt: skip
"""The types a scheme can ask for, by name."""

F16 = _type("f16", 1, 1, 2, 16, weights=16)
"""llama.cpp's last resort, where rows are no multiple of 32 either."""

FALLBACK = {
    "q6_k": "q8_0",
    "q5_k": "q5_1",
    "q4_k": "q5_0",
    "q3_k": "q4_0",
    "q2_k": "q4_0",
    "iq4_xs": "iq4_nl",
    "iq3_s": "iq4_nl",
}
"""What llama.cpp writes instead, if a row is no multiple of 256.

Source: `tensor_type_fallback`, ggml-org/llama.cpp `src/llama-quant.cpp` at commit 007dbbf3.
"""

MAX_WEIGHT = float(np.finfo(np.float16).max)
"""The largest |weight| that is taken: the types store their scales and minima in float16."""


@dataclass(frozen=True)
class Layout:
    """How a matrix goes to ggml: as `n_rows` rows of `row_length`, `padding` zeros included."""

    type: GgmlType
    n_rows: int
    row_length: int
    padding: int = 0

    @property
    def row_bytes(self) -> int:
        """Bytes of one packed row."""
        return self.row_length // self.type.block * self.type.block_bytes

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All stored bits of the matrix."""
        n_blocks = self.n_rows * self.row_length // self.type.block
        entries = [Entry(part.name, part.bits * n_blocks) for part in self.type.parts]
        if self.padding:
            indices = self.type.parts[0]
            n_bits = indices.bits * self.padding // self.type.block
            entries[0] = Entry(indices.name, entries[0].bits - n_bits)
            entries.append(Entry("padding", n_bits))
        return tuple(entries)


def layout(rows: int, cols: int, type: str, short_rows: ShortRows = "flat") -> Layout:
    """The layout of a (rows, cols) matrix that asks for `type`.

    Raises:
        ValueError: the rows are short, and `short_rows` is "error"; or it is "fallback", and
            llama.cpp has none for this type (those with blocks of 32).
    """
    asked = TYPES[type]
    if cols % asked.block == 0:
        return Layout(asked, rows, cols)
    if short_rows == "flat":
        padding = -(rows * cols) % asked.block
        return Layout(asked, 1, rows * cols + padding, padding)
    if short_rows == "fallback" and type in FALLBACK:
        fallback = TYPES[FALLBACK[type]]
        return Layout(fallback if cols % fallback.block == 0 else F16, rows, cols)
    why = "llama.cpp has no fallback" if short_rows == "fallback" else "short_rows is 'error'"
    remedies = ["short_rows='flat' (the type on the row-major matrix; fits no GGUF file)"]
    if type in FALLBACK:
        remedies.append("short_rows='fallback' (the type that llama.cpp would write)")
    if fitting := [t.name for t in TYPES.values() if cols % t.block == 0]:
        remedies.append(f"a type that fits ({', '.join(fitting)})")
    raise ValueError(
        f"rows of {cols} weights are no multiple of the {asked.block} in a block of {type}, and"
        f" {why}. Try {'; or '.join(remedies)}"
    )


@dataclass(frozen=True)
class LlamaCpp:
    """A llama.cpp type as a quantizer. `type` is a name in `TYPES`.

    The ledger claims the nominal bits of the type asked for, even where a fallback is stored.
    """

    type: str
    short_rows: ShortRows = "flat"

    def __post_init__(self):
        if self.type not in TYPES:
            raise ValueError(f"unknown type {self.type!r}; known: {', '.join(TYPES)}")
        if self.short_rows not in get_args(ShortRows):
            raise ValueError(
                f"unknown short_rows {self.short_rows!r}; known: {', '.join(get_args(ShortRows))}"
            )

    def __call__(
        self,
        weight: Float[np.ndarray, "rows cols"],
        statistics: Float[np.ndarray, " _cols"] | None = None,
    ) -> Quantized:
        """Quantize and dequantize `weight`; see `quantized_bytes` for `statistics` and errors."""
        packed, plan = _pack(weight, self.type, self.short_rows, statistics)
        flat = ggml.dequantize(packed, plan.type.name, plan.n_rows * plan.row_length)
        if not is_finite(flat):
            raise ValueError(
                f"{plan.type.name} overflows on these weights: a scale is beyond float16"
            )
        bits_claimed = float(TYPES[self.type].nominal_bits * weight.size)
        return Quantized(
            weight=flat[: weight.size].reshape(weight.shape),
            ledger=Ledger(plan.entries, weight.size, bits_claimed),
            type=plan.type.name,
        )


def quantized_bytes(
    weight: Float[np.ndarray, "rows cols"],
    type: str,
    short_rows: ShortRows = "flat",
    statistics: Float[np.ndarray, " _cols"] | None = None,
) -> UInt8[np.ndarray, "n_rows row_bytes"]:
    """The bytes ggml stores for `weight`: a line for each row, or one in all where it went flat.

    `statistics` is llama.cpp's importance matrix: for each column the mean square of its
    activations. It weighs the squared errors, and only its ratios matter. Q8_0 and F16 ignore it.
    A flat matrix repeats it, row by row.

    Raises:
        ValueError: the weights are empty, not finite, or above `MAX_WEIGHT`; `statistics` has
            another length, a negative or non-finite value, or zeros only; or see `layout`.
        ImportError: see `ggml.library`.
    """
    return _pack(weight, type, short_rows, statistics)[0]


def _pack(
    weight: np.ndarray, type: str, short_rows: ShortRows, statistics: np.ndarray | None
) -> tuple[np.ndarray, Layout]:
    matrix = finite_matrix(weight)
    if (largest := max(-matrix.min(), matrix.max())) > MAX_WEIGHT:
        raise ValueError(
            f"a weight of magnitude {largest} is beyond {MAX_WEIGHT}, where the float16 scales of"
            " llama.cpp's types end"
        )
    rows, cols = matrix.shape
    plan = layout(rows, cols, type, short_rows)
    if plan.padding:
        matrix = np.append(matrix, np.zeros(plan.padding, np.float32))
    matrix = matrix.reshape(plan.n_rows, plan.row_length)
    importance = None
    if statistics is not None:
        importance = np.resize(_importance(statistics, cols), plan.row_length)  # repeats it
    return ggml.quantize(matrix, plan.type.ggml_id, plan.row_bytes, importance), plan


def _importance(statistics: np.ndarray, cols: int) -> Float32[np.ndarray, " cols"]:
    with np.errstate(over="ignore"):
        importance = np.ascontiguousarray(statistics, dtype=np.float32)
    if importance.shape != (cols,):
        raise ValueError(f"statistics of shape {importance.shape} for rows of {cols} weights")
    if not is_finite(importance) or importance.min() < 0 or not importance.any():
        raise ValueError("statistics must be finite in float32, not negative, and not all zero")
    # ggml squares sums of these in float32: where they overflow, K-quants store infinite scales and
    # IQ3_S aborts the process. A power of two brings them into range, and rounds nothing.
    return np.ldexp(importance, -np.frexp(importance.max())[1])
