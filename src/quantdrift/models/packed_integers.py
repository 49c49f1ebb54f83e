"""Integers of 2, 3, 4 or 8 bits, packed into 32-bit words as GPTQ and AWQ checkpoints have them.

GPTQ's words are one stream of bits, the lowest first, along the first axis: integer i occupies the
bits from bits * i on. For 3 bits that is what AutoGPTQ's `pack` writes as 11 + 10 + 11 integers in
three words. AWQ's word holds eight neighbours of a row, in the order `_AWQ_ORDER`.

Sources: `QuantLinear.pack` of AutoGPTQ's `qlinear_cuda_old.py`; `WQLinear_GEMM.from_linear` of
AutoAWQ's `gemm.py` and `reverse_awq_order` of its `packing_utils.py`.
"""

import numpy as np
from jaxtyping import Int32, UInt8

_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight neighbours stands in the lowest four bits, in the next, ..."""


def unpack_stream(
    words: Int32[np.ndarray, "words columns"], bits: int
) -> UInt8[np.ndarray, "integers columns"]:
    """The integers of each column: 32 / bits of them a word.

    Raises:
        ValueError: the words are no whole number of integers.
    """
    count, rest = divmod(32 * len(words), bits)
    if rest:
        raise ValueError(f"{len(words)} words of 32 bits are no whole number of {bits}-bit ones")
    start = bits * np.arange(count)
    stream = words.view(np.uint32)
    low = stream[start // 32] >> (start % 32).astype(np.uint32)[:, None]
    crossing = np.flatnonzero(start % 32 + bits > 32)  # the rest stands in the next word
    shift = (32 - start[crossing] % 32).astype(np.uint32)[:, None]
    low[crossing] |= stream[start[crossing] // 32 + 1] << shift
    return (low & np.uint32(2**bits - 1)).astype(np.uint8)


def unpack_awq(words: Int32[np.ndarray, "rows words"]) -> UInt8[np.ndarray, "rows integers"]:
    """The 4-bit integers of each row: eight a word."""
    shifts = 4 * np.argsort(_AWQ_ORDER).astype(np.uint32)
    integers = (words.view(np.uint32)[:, :, None] >> shifts) & np.uint32(15)
    return integers.astype(np.uint8).reshape(len(words), -1)
