"""CPU-seconds of drift a level at the shapes of Llama-3.1-8B, on random blocks of true width.

    PYTHONPATH=src python benchmarks/drift_cost.py [--blocks 1]

What one level costs beyond the base: quantize q, k and v of a block, their H0 diagrams, the seven
distances under three filtrations; taken 32 times. The rows have low rank plus noise, since a random
Gaussian has no bars below the threshold. One thread. Prints Markdown and writes it to
`benchmarks/results/`.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from quantdrift.models.scheme_weights import scheme_weights
from quantdrift.topology.diagrams import h0_deaths
from quantdrift.topology.distances import Grids, all_distances

HIDDEN, KEYS, BLOCKS, RANK = 4096, 1024, 32, 64
SHAPES = {"q": (HIDDEN, HIDDEN), "k": (KEYS, HIDDEN), "v": (KEYS, HIDDEN)}
LEVELS = ("q8_0", "q6_k", "q5_0", "q5_k", "q4_0", "q4_k", "q3_k", "q2_k")
RESULT = Path(__file__).parent / "results" / "drift_cost.md"
Seconds = dict[str, float]


def random_weight(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    rows, columns = shape
    shared = rng.standard_normal((rows, RANK)) @ rng.standard_normal((RANK, columns))
    noise = 0.5 * rng.standard_normal(shape)
    return ((shared / RANK**0.5 + noise) / columns**0.5).astype(np.float32)


def costs(level: str, base: dict[str, np.ndarray], deaths: dict[str, np.ndarray]) -> Seconds:
    """CPU-seconds of one block at one level, by stage."""
    spent = {"quantize": 0.0, "diagrams": 0.0, "distances": 0.0}
    grids = Grids(threshold=0.8)
    quantize = scheme_weights(dict.fromkeys(SHAPES, level), "error")
    for role, weight in base.items():
        start = time.process_time()
        changed = quantize(role, 0, weight).weight
        then = time.process_time()
        after = h0_deaths(changed)
        later = time.process_time()
        for filtration in ("clip", "drop", "full"):
            all_distances(deaths[role], after, grids, filtration)
        spent["quantize"] += then - start
        spent["diagrams"] += later - then
        spent["distances"] += time.process_time() - later
    return spent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=1)
    blocks = parser.parse_args().blocks
    rng = np.random.default_rng(0)
    totals: dict[str, Seconds] = {level: {} for level in LEVELS}
    with threadpool_limits(1):
        h0_deaths(random_weight((64, 64), rng))  # compiles
        for _ in range(blocks):
            base = {role: random_weight(shape, rng) for role, shape in SHAPES.items()}
            deaths = {role: h0_deaths(weight) for role, weight in base.items()}
            costs("q8_0", {"k": base["k"]}, deaths)
            for level in LEVELS:
                for stage, seconds in costs(level, base, deaths).items():
                    share = seconds * BLOCKS / blocks
                    totals[level][stage] = totals[level].get(stage, 0.0) + share
    lines = ["| level | quantize | diagrams | distances | CPU-s a level |", "|---|---|---|---|---|"]
    lines += [
        f"| {level.upper()} | {one['quantize']:.1f} | {one['diagrams']:.1f} | "
        f"{one['distances']:.1f} | {sum(one.values()):.1f} |"
        for level, one in totals.items()
    ]
    text = "\n".join(lines) + "\n"
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text)
    print(text)
