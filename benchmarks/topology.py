"""H0 by Prim beside ripser, and the seven distances beside persim and gudhi.

    PYTHONPATH=src python benchmarks/topology.py [--weights model.safetensors ...]

Everything runs on one thread, in the same run, in interleaved repeats: the ratios are what counts.
Rows are Gaussian and, with `--weights`, the query matrices of a Llama-like checkpoint stacked in
the order of their blocks. Peak memory is that of a fresh process, above what it held before.
Prints Markdown and writes it, with the raw numbers as JSON, to `benchmarks/results/`.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from gudhi.representations import (
    BettiCurve,
    Entropy,
    Landscape,
    PersistenceFisherDistance,
    SlicedWassersteinDistance,
)
from persim import PersistenceImager, sliced_wasserstein
from persim.persistent_entropy import persistent_entropy
from ripser import ripser
from safetensors import safe_open
from threadpoolctl import threadpool_limits

from quantdrift.topology.diagrams import cosine_distances, deaths_of_distances, h0_deaths
from quantdrift.topology.distances import DISTANCES, Grids

QUERY = re.compile(r"model\.layers\.(\d+)\.self_attn\.q_proj\.weight")
GRIDS = Grids()
Stage = Callable[[np.ndarray], object]

STAGES: dict[str, Stage] = {
    "prim": deaths_of_distances,
    "ripser": lambda D: ripser(D, maxdim=0, distance_matrix=True),
    "ripser 0.8": lambda D: ripser(D, maxdim=0, distance_matrix=True, thresh=GRIDS.threshold),
}


def gaussian_rows(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, 576))


def query_rows(n: int, paths: list[Path]) -> np.ndarray:
    """The first n rows of a checkpoint's query matrices, stacked in the order of the blocks."""
    blocks: dict[int, np.ndarray] = {}
    for path in paths:
        with safe_open(path, framework="numpy") as checkpoint:
            for name in checkpoint.keys():  # noqa: SIM118
                if match := QUERY.fullmatch(name):
                    blocks[int(match[1])] = checkpoint.get_tensor(name)
    rows = np.concatenate([blocks[block] for block in sorted(blocks)])
    if len(rows) < n:
        raise ValueError(f"there are {len(rows)} query rows, {n} are asked for")
    return rows[:n].copy()


def interleaved(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Wall seconds of every call, one round after another; a call over 10 s runs twice at most."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            if len(seconds[name]) >= 2 and min(seconds[name]) > 10:
                continue
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def status_bytes(field: str) -> int:
    """A size that Linux keeps of this process: VmRSS now, VmHWM at most so far.

    Not `ru_maxrss`: that also knows the size of the process that started this one.
    """
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found, f"Linux reports no {field}"
    return int(found[1]) * 1024


def peak_bytes(rows: str, n: int, stage: str, weights: list[Path]) -> int:
    """Peak memory of distances and stage, in a process of its own."""
    command = [sys.executable, __file__, "--peak", rows, str(n), stage]
    command += ["--weights", *map(str, weights)] if weights else []
    # glibc then hands every freed array back, instead of reusing what the weights' reading left.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return int(result.stdout)


def own_peak_bytes(cloud: np.ndarray, stage: str) -> int:
    STAGES[stage](cosine_distances(cloud[:50]))  # imports and compiles
    Path("/proc/self/clear_refs").write_text("5")  # forgets what reading the weights took
    before = status_bytes("VmRSS")
    STAGES[stage](cosine_distances(cloud))
    return status_bytes("VmHWM") - before


def h0_row(name: str, n: int, cloud: np.ndarray, repeats: int, weights: list[Path]) -> dict:
    D = cosine_distances(cloud)
    single = cosine_distances(cloud, precision="float32")
    for compiled in (D, single):
        deaths_of_distances(compiled)
    calls: dict[str, Callable[[], object]] = {
        stage: (lambda run=run: run(D)) for stage, run in STAGES.items()
    }
    calls["prim, float32"] = lambda: deaths_of_distances(single)
    calls["distances"] = lambda: cosine_distances(cloud)
    calls["distances, float32"] = lambda: cosine_distances(cloud, precision="float32")
    seconds = interleaved(calls, repeats)
    peaks = {stage: peak_bytes(name, n, stage, weights) for stage in STAGES}
    deaths = deaths_of_distances(D)
    finite = float(np.mean(deaths <= GRIDS.threshold))
    return {"rows": name, "n": n, "finite": finite, "seconds": seconds, "peak_bytes": peaks}


def h0_table(rows: list[dict]) -> str:
    lines = [
        "| rows | N | finite at 0.8 | distances, ms | Prim, ms | ripser, ms | at 0.8, ms "
        "| ratio | at 0.8 | with distances | at 0.8 | peak Prim, MB | ripser | at 0.8 |",
        "|---|" + "---:|" * 13,
    ]
    for row in rows:
        t = {name: 1e3 * statistics.median(values) for name, values in row["seconds"].items()}
        both, mb = t["distances"], {name: v / 1e6 for name, v in row["peak_bytes"].items()}
        lines.append(
            f"| {row['rows']} | {row['n']} | {row['finite']:.0%} | {both:.0f} | {t['prim']:.1f} "
            f"| {t['ripser']:.0f} | {t['ripser 0.8']:.0f} "
            f"| {t['ripser'] / t['prim']:.0f} x | {t['ripser 0.8'] / t['prim']:.1f} x "
            f"| {(both + t['ripser']) / (both + t['prim']):.1f} x "
            f"| {(both + t['ripser 0.8']) / (both + t['prim']):.2f} x "
            f"| {mb['prim']:.0f} | {mb['ripser']:.0f} | {mb['ripser 0.8']:.0f} |"
        )
    return "\n".join(lines)


def plane(deaths: np.ndarray) -> np.ndarray:
    return np.stack([np.zeros(len(deaths)), deaths], axis=1)


def others(a: np.ndarray, b: np.ndarray, upper: float) -> dict[str, dict[str, Callable[[], float]]]:
    """What persim and gudhi have, brought to our conventions."""
    A, B = plane(a), plane(b)
    points = 1000
    step = upper / (points - 1)

    def difference(representation: Callable[[np.ndarray], np.ndarray]) -> float:
        return float(np.linalg.norm(representation(A) - representation(B)))

    def images() -> float:
        pixel = GRIDS.image_pixel
        imager = PersistenceImager(
            birth_range=(0, upper),
            pers_range=(0, upper),
            pixel_size=pixel,
            weight="linear_ramp",
            weight_params={"low": 0.0, "high": 1.0, "start": 0.0, "end": upper},
            kernel_params={"sigma": GRIDS.image_sigma**2 * np.eye(2)},
        )
        return difference(lambda points: np.asarray(imager.transform(points)))

    betti = BettiCurve(resolution=points, sample_range=[0, upper])
    landscape = Landscape(num_landscapes=len(a), resolution=points, sample_range=[0, upper])
    many = SlicedWassersteinDistance(num_directions=GRIDS.swd_directions + 1)
    return {
        "betti": {"gudhi": lambda: difference(betti) * step**0.5},
        "entropy": {
            "persim": lambda: float(abs(np.diff(persistent_entropy([A, B]))[0])),
            "gudhi": lambda: difference(Entropy(mode="scalar")),
        },
        "landscape": {"gudhi": lambda: difference(landscape) * (step / 2) ** 0.5},
        "pfd": {"gudhi": lambda: PersistenceFisherDistance(bandwidth=GRIDS.pfd_sigma)(A, B)},
        "pi": {"persim": images},
        "swd": {
            "persim": lambda: sliced_wasserstein(A, B, M=GRIDS.swd_directions),
            "gudhi": lambda: many(A, B),
        },
        "tswd": {},
    }


def distance_rows(a: np.ndarray, b: np.ndarray, repeats: int) -> list[dict]:
    upper = GRIDS.upper("clip")
    rows = []
    for name, theirs in others(a, b, upper).items():
        calls = {"ours": lambda name=name: DISTANCES[name](a, b, GRIDS, upper), **theirs}
        values = {who: float(call()) for who, call in calls.items()}
        rows.append({"distance": name, "values": values, "seconds": interleaved(calls, repeats)})
    return rows


def distance_table(rows: list[dict]) -> str:
    lines = ["| distance | ours | ms | persim | ratio | gudhi | ratio |", "|---|" + "---:|" * 6]
    for row in rows:
        t = {who: 1e3 * statistics.median(values) for who, values in row["seconds"].items()}
        cells = [row["distance"], f"{row['values']['ours']:.5g}", f"{t['ours']:.2f}"]
        for who in ("persim", "gudhi"):
            known = who in t
            cells += (
                [f"{row['values'][who]:.5g}", f"{t[who] / t['ours']:.0f} x"] if known else [""] * 2
            )
        lines.append("| " + " | ".join(cells) + " |")
    total = sum(1e3 * statistics.median(row["seconds"]["ours"]) for row in rows)
    return "\n".join([*lines, f"| all seven | | {total:.1f} | | | | |"])


def rounded(rows: np.ndarray) -> np.ndarray:
    """The rows on 15 levels with one scale a row: a crude 4-bit quantizer."""
    scale = np.abs(rows).max(axis=1, keepdims=True) / 7
    return np.round(rows / scale) * scale


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time H0 and the seven distances.")
    parser.add_argument(
        "--weights", type=Path, nargs="+", default=[], help="safetensors files of a checkpoint"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[576, 1024, 2048, 4096])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--peak", nargs=3, metavar=("ROWS", "N", "STAGE"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    sources = {"gaussian": gaussian_rows}
    if args.weights:
        sources["query"] = lambda n: query_rows(n, args.weights)
    if args.peak:
        name, n, stage = args.peak
        print(own_peak_bytes(sources[name](int(n)), stage))
        return
    h0 = [
        h0_row(name, n, rows(n), args.repeats, args.weights)
        for name, rows in sources.items()
        for n in args.sizes
    ]
    name, n = list(sources)[-1], args.sizes[-1]
    cloud = sources[name](n).astype(np.float64)
    a, b = (np.minimum(h0_deaths(rows), GRIDS.threshold) for rows in (cloud, rounded(cloud)))
    if np.all(a == GRIDS.threshold):  # Gaussian rows have no bar below 0.8: show what is beyond
        a, b = (h0_deaths(rows) - 0.1 for rows in (cloud, rounded(cloud)))
    distances = distance_rows(a, b, args.repeats)
    text = (
        f"# Topology\n\n## H0\n\n{h0_table(h0)}\n\n"
        f"## The seven distances ({len(a)} bars, {name} rows and their 4-bit rounding)\n\n"
        f"{distance_table(distances)}\n"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "topology.md").write_text(text)
    (args.out / "topology.json").write_text(
        json.dumps({"h0": h0, "distances": distances}, indent=1)
    )
    print(text)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # persim and gudhi warn of their own futures
    with threadpool_limits(1):
        main()
