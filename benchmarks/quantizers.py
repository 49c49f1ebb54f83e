"""Speed of llama.cpp's quantizers on one thread: ours (quantize) beside libgguf's `quantize_rows`.

    OMP_WAIT_POLICY=passive PYTHONPATH=src python benchmarks/quantizers.py

MB/s of float32 weights, the best of some rounds that alternate between the two. Ours includes the
check for finite values; "and back" adds the dequantized matrix and its check, as studies use it.
"""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import libgguf
import numpy as np

from quantdrift.quantizers.llamacpp import TYPES, LlamaCpp, quantized_bytes

SHAPE = (1024, 2048)
ROUNDS = 5
RESULT = Path(__file__).parent / "results" / "quantizers.md"


def best_seconds(functions: list[Callable[[], object]]) -> list[float]:
    best = [np.inf] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            start = perf_counter()
            function()
            best[i] = min(best[i], perf_counter() - start)
    return best


def table() -> str:
    weight = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    lines = [
        "| type | bits per weight | ours, MB/s | libgguf, MB/s | ours / libgguf | and back, MB/s |",
        "|---|---|---|---|---|---|",
    ]
    for name, type_ in TYPES.items():
        packed = quantized_bytes(weight, name)  # warms up, and builds the tables of IQ3_S
        assert np.array_equal(packed, libgguf.quantize_rows(weight, type_.ggml_id))
        seconds = best_seconds(
            [
                lambda name=name: quantized_bytes(weight, name),
                lambda type_=type_: libgguf.quantize_rows(weight, type_.ggml_id),
                lambda name=name: LlamaCpp(name)(weight),
            ]
        )
        ours, other, both = (weight.nbytes / 1e6 / s for s in seconds)
        lines.append(
            f"| {name} | {type_.bpw:.4g} | {ours:.0f} | {other:.0f} | {ours / other:.2f}"
            f" | {both:.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = table()
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text)
    print(text)
