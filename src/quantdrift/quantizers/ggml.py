"""ggml's own row functions, by ctypes on the library that libggml-python brings.

The library must not share a process with `llama_cpp`: both bring a `libggml-base.so.0`, of
different versions, and one would run with parts of the other.
"""

import ctypes
import functools
import importlib.util
import sys
from pathlib import Path

import numpy as np
from jaxtyping import Float32, UInt8

VERSION = "0.20.2"
"""The ggml that our results were tested with; another may round differently."""

REMEDY = f"pip install libggml-python=={VERSION}.post1 (as envs/requirements.lock pins it)"


def library() -> ctypes.CDLL:
    """The library, loaded at the first call.

    Raises:
        ImportError: it is not installed, of another version, or `llama_cpp` is in this process.
    """
    if "llama_cpp" in sys.modules:
        raise ImportError(
            "llama_cpp is loaded in this process, and its libggml-base must not meet that of"
            " libggml-python: quantize in a process of its own"
        )
    return _load()


@functools.cache
def _load() -> ctypes.CDLL:
    spec = importlib.util.find_spec("libggml")
    roots = [Path(root) for root in (spec and spec.submodule_search_locations) or []]
    names = ("lib*/libggml-base.so", "lib*/libggml-base.dylib", "bin/ggml-base.dll")
    found = [path for root in roots for name in names for path in root.glob(name)]
    if not found:
        raise ImportError(f"libggml-base, ggml's library, was not found: {REMEDY}")
    lib = ctypes.CDLL(str(found[0]))
    lib.ggml_version.restype = ctypes.c_char_p
    if (version := lib.ggml_version().decode()) != VERSION:
        raise ImportError(f"{found[0]} is ggml {version}, not {VERSION}: {REMEDY}")
    pointer, int64 = ctypes.c_void_p, ctypes.c_int64
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, pointer, pointer, *[int64] * 3, pointer]
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    return lib


def quantize(
    matrix: Float32[np.ndarray, "rows cols"],
    ggml_id: int,
    row_bytes: int,
    importance: Float32[np.ndarray, " cols"] | None,
) -> UInt8[np.ndarray, "rows row_bytes"]:
    """The packed rows of `matrix`, C-contiguous and with whole blocks in each row.

    Thread-safe: ggml locks while it builds a type's tables, and runs without the GIL.

    Source: `ggml_quantize_chunk` in ggml's `ggml.h`.
    """
    assert matrix.flags.c_contiguous
    rows, cols = matrix.shape
    packed = np.empty((rows, row_bytes), np.uint8)
    n_bytes = library().ggml_quantize_chunk(
        ggml_id,
        matrix.ctypes.data,
        packed.ctypes.data,
        0,
        rows,
        cols,
        None if importance is None else importance.ctypes.data,
    )
    assert n_bytes == packed.nbytes, (n_bytes, packed.nbytes)
    return packed


def dequantize(
    packed: UInt8[np.ndarray, "rows row_bytes"], name: str, n_weights: int
) -> Float32[np.ndarray, " n_weights"]:
    """The `n_weights` weights in `packed`, row after row; `name` as in "q4_k" or "f16".

    Source: `dequantize_row_*` in ggml's `ggml-quants.h`, `ggml_fp16_to_fp32_row` in `ggml.h`.
    """
    assert packed.flags.c_contiguous
    if name == "f16":
        function = library().ggml_fp16_to_fp32_row
    else:
        function = library()[f"dequantize_row_{name.replace('_k', '_K')}"]
    weights = np.empty(n_weights, np.float32)
    function.restype = None
    function(
        ctypes.c_void_p(packed.ctypes.data),
        ctypes.c_void_p(weights.ctypes.data),
        ctypes.c_int64(n_weights),
    )
    return weights
