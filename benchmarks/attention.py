"""The last row of attention beside eager maps: equality, speed and memory, in one run.

    PYTHONPATH=src python benchmarks/attention.py [--model results/models/smollm2-135m-instruct]

One thread, batch 1, interleaved repeats, the median of each. Both run the blocks without the head
on top. Memory is the peak of a fresh process above what it held with the model loaded and one
short prompt done. Without `--model` a random Llama of SmolLM2-135M's shape is taken.
Prints Markdown and writes it to `benchmarks/results/`.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from quantdrift.behaviour.attention import last_rows, watched

LENGTHS = (32, 128, 512, 1024, 2048)
REPEATS = 5
RESULT = Path(__file__).parent / "results" / "attention.md"
SMOLLM2 = LlamaConfig(
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    vocab_size=49152,
    max_position_embeddings=8192,
)


def loaded(directory: Path | None) -> Any:
    torch.manual_seed(0)
    if directory is None:
        return AutoModelForCausalLM.from_config(SMOLLM2).eval()
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


def eager_rows(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """What transformers offers: all T x T maps, of which the last rows are kept."""
    with torch.inference_mode():
        maps = model.base_model(ids, use_cache=False, output_attentions=True).attentions
        return torch.stack([one[:, :, -1] for one in maps], dim=1)


def run(model: Any, method: str) -> Callable[[torch.Tensor], torch.Tensor]:
    if method == "eager":
        model.set_attn_implementation("eager")
        return lambda ids: eager_rows(model, ids)

    def ours(ids: torch.Tensor) -> torch.Tensor:
        with watched(model):
            return last_rows(model, ids).weights

    return ours


def prompt(length: int) -> torch.Tensor:
    return torch.randint(10, 40000, (1, length), generator=torch.Generator().manual_seed(length))


def own_peak(method: str, length: int, directory: Path | None) -> int:
    measure = run(loaded(directory), method)
    measure(prompt(8))
    Path("/proc/self/clear_refs").write_text("5")
    before = status_bytes("VmRSS")
    measure(prompt(length))
    return status_bytes("VmHWM") - before


def status_bytes(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found, f"Linux reports no {field}"
    return int(found[1]) * 1024


def peak(method: str, length: int, directory: Path | None) -> float:
    command = [sys.executable, __file__, "--peak", method, str(length)]
    command += ["--model", str(directory)] if directory else []
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return int(done.stdout) / 2**20


def line(length: int, directory: Path | None) -> str:
    ids, seconds = prompt(length), {"last row": [], "eager": []}
    # Two models, since switching one back and forth would be part of the time.
    calls = {method: run(loaded(directory), method) for method in seconds}
    rows = {method: call(ids) for method, call in calls.items()}
    for _ in range(REPEATS):
        for method, call in calls.items():
            start = time.perf_counter()
            call(ids)
            seconds[method].append(time.perf_counter() - start)
    ours, eager = (statistics.median(seconds[method]) for method in seconds)
    ours_mib, eager_mib = (peak(method, length, directory) for method in seconds)
    difference = (rows["last row"] - rows["eager"]).abs().max().item()
    return (
        f"| {length} | {ours:.3f} | {eager:.3f} | {eager / ours:.2f} | {ours_mib:.0f} | "
        f"{eager_mib:.0f} | {eager_mib / ours_mib:.1f} | {difference:.1e} |"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--peak", nargs=2)
    arguments = parser.parse_args()
    if arguments.peak:
        print(own_peak(arguments.peak[0], int(arguments.peak[1]), arguments.model))
        sys.exit()
    lines = [
        "| tokens | last row, s | eager, s | eager / last row | last row, MiB | eager, MiB "
        "| eager / last row | largest difference |",
        "|---|---|---|---|---|---|---|---|",
        *(line(length, arguments.model) for length in LENGTHS),
    ]
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text("\n".join(lines) + "\n")
    print(RESULT.read_text())
