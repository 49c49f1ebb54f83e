r"""The whole topoquant study on a model of the 3B's true width: seconds per block and item, memory.

    PYTHONPATH=src python benchmarks/real_size.py --data DIR \
        --tokenizer results/models/smollm2-135m-instruct

The model is a random Llama of Llama-3.2-3B's width (3072, 24 query and 8 key-value heads, 8192 in
the MLP) with 2 blocks. Its rows are of low rank plus noise, so that diagrams are not those of
Gaussian clouds; the tokenizer and its vocabulary are the demo's. DIR holds the real data sets as
files (config/dataset/ has their names); 8 items of each are measured. The times are those of the
jobs themselves, imports included, two jobs at a time on two cores. Writes Markdown.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from quantdrift.tables.behaviour import AGREEMENT_TABLE
from quantdrift.tables.io import read
from quantdrift.tables.topology import TIMINGS

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results" / "real_size.md"
BLOCKS, ITEMS, DATASETS, SCHEMES, BOS = 2, 8, 3, 8, 2
RANK = 48


def write_model(directory: Path, tokenizer: Path) -> None:
    torch.manual_seed(0)
    words = AutoTokenizer.from_pretrained(tokenizer)
    config = LlamaConfig(
        hidden_size=3072,
        intermediate_size=8192,
        num_hidden_layers=BLOCKS,
        num_attention_heads=24,
        num_key_value_heads=8,
        vocab_size=len(words),
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        tie_word_embeddings=True,
        dtype=torch.bfloat16,
    )
    model = LlamaForCausalLM(config).bfloat16()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "proj" in name:
                rows, columns = weight.shape
                shared = torch.randn(rows, RANK) @ torch.randn(RANK, columns) / RANK**0.5
                weight.copy_((shared + 0.5 * torch.randn(rows, columns)) / columns**0.5)
    model.save_pretrained(directory)
    words.save_pretrained(directory)


def run(folder: Path, model: Path, data: Path) -> float:
    settings = [
        f"models=[{model}]",
        f"data.dir={data.resolve()}",
        f"agreement.items={ITEMS}",
        f"results={folder / 'results'}",
        "behaviour.threads=1",
        "behaviour.device=cpu",
        "blocks_per_job=0",
    ]
    start = time.perf_counter()
    subprocess.run(
        [
            *(sys.executable, "-m", "snakemake", "--cores", "2"),
            *("--config", "study=topoquant", f"set={settings}"),
        ],
        cwd=ROOT,
        check=True,
    )
    return time.perf_counter() - start


def table(timings: pd.DataFrame, wall: float) -> str:
    """Seconds per unit of each stage."""
    runs = SCHEMES + 1
    units = {
        "weight_error": ("matrix", SCHEMES * 3 * BLOCKS),
        "diagrams": ("matrix", runs * 3 * BLOCKS),
        "distances": ("matrix", SCHEMES * 3 * BLOCKS),
        "attention": ("block and item", runs * DATASETS * ITEMS * BOS * BLOCKS),
    }
    lines = [
        f"Whole study: {wall:.0f} s on 2 cores, {timings['cpu_seconds'].sum():.0f} CPU-s.",
        "",
        "| stage | jobs | CPU-s in all | CPU-s per | peak of a job, MiB |",
        "|---|---|---|---|---|",
    ]
    for stage, rows in timings.groupby("stage", sort=False):
        cpu = rows["cpu_seconds"].sum()
        per = ""
        if str(stage) in units:
            unit, count = units[str(stage)]
            per = f"{cpu / count:.3g} {unit}"
        lines.append(
            f"| {stage} | {len(rows)} | {cpu:.1f} | {per} | {rows['peak_mib'].max():.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="real-size-"))
    try:
        write_model(folder / "model", arguments.tokenizer)
        wall = run(folder, folder / "model", arguments.data)
        tables = folder / "results" / "topoquant" / "tables"
        text = table(read(TIMINGS, tables / "timings.parquet").to_pandas(), wall)
        means = read(AGREEMENT_TABLE, tables / "agreement_table.parquet").to_pandas()
    finally:
        shutil.rmtree(folder)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text)
    print(text)
    print(means[["scheme", "dataset", "bos", "iou", "chance_iou", "n_items"]].to_string())
