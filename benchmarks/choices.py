r"""Our scores of choices beside lm-evaluation-harness's own, on the same items and model.

    python -m venv other && other/bin/pip install torch==2.13.0
    other/bin/pip install lm_eval==0.4.13 transformers accelerate
    PYTHONPATH=src python benchmarks/choices.py --python other/bin/python \
        --model results/models/smollm2-135m-instruct [--data DIR]

The harness's `HFLM.loglikelihood` gets each pair of context and continuation of our items (and,
with DIR, of 40 real ones of each public data set); float32, CPU, batch 1. Writes Markdown.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from quantdrift.behaviour.choices import batches, choices_of, scored
from quantdrift.behaviour.items import Item, items, sample
from quantdrift.data.rows import file_rows, own_rows
from quantdrift.models.causal_lm import load, load_tokenizer
from quantdrift.models.checkpoint import Checkpoint

RESULT = Path(__file__).parent / "results" / "choices.md"
REAL = {
    "arc": "arc_easy_validation.jsonl",
    "hellaswag": "hellaswag_val_1000.jsonl",
    "winogrande": "winogrande_dev.jsonl",
}
PROGRAM = """
import json, sys, time
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
model, given, out = sys.argv[1:]
pairs = json.load(open(given))
lm = HFLM(pretrained=model, device="cpu", dtype="float32", batch_size=1)
asked = [Instance("loglikelihood", {}, tuple(pair), at) for at, pair in enumerate(pairs)]
start = time.perf_counter()
found = lm.loglikelihood(asked, disable_tqdm=True)
json.dump([found, time.perf_counter() - start], open(out, "w"))
"""


def harness(python: Path, model: Path, pairs: list[tuple[str, str]]) -> tuple[np.ndarray, float]:
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "given.json"), Path(folder, "out.json")
        given.write_text(json.dumps(pairs))
        command = [str(python), "-c", PROGRAM, str(model), str(given), str(out)]
        subprocess.run(command, check=True)
        found, seconds = json.loads(out.read_text())
    return np.array(found, dtype=float), seconds


def chosen(
    likelihood: np.ndarray, lengths: np.ndarray, asked: list[Item], normed: bool
) -> list[int]:
    """The choice of each item, the first of ties."""
    values = likelihood / lengths if normed else likelihood
    ends = np.cumsum([len(item.contexts) for item in asked])
    return [int(np.argmax(part)) for part in np.split(values, ends[:-1])]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    checkpoint = Checkpoint(arguments.model)
    tokenizer = load_tokenizer(checkpoint)
    model = load(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    sets = {f"own {name}": items(name, own_rows(name), name) for name in REAL}
    if arguments.data:
        for name, file in REAL.items():
            rows = file_rows(arguments.data / file)
            sets[f"real {name}"] = sample(items(name, rows, file), 40, 0)
    lines = [
        "| data set | items | choices | largest difference of log-likelihoods | other choices | "
        "acc | acc_norm | ours, s | harness, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, asked in sets.items():
        pairs = [
            pair for item in asked for pair in zip(item.contexts, item.continuations, strict=True)
        ]
        ours = [
            choice
            for item in asked
            for choice in choices_of(
                tokenizer,
                item.id,
                item.contexts,
                item.continuations,
                bos=False,
                bos_token=None,
                positions=None,
            )
        ]
        start = time.perf_counter()
        by_choice = {
            (choice.item, choice.number): found.log_likelihood
            for batch in batches(ours, 8)
            for choice, found in zip(batch, scored(model, batch), strict=True)
        }
        seconds = time.perf_counter() - start
        own = np.array([by_choice[one.item, one.number] for one in ours])
        theirs, their_seconds = harness(arguments.python, arguments.model, pairs)
        lengths = np.array([one.n_characters or 1 for one in ours], dtype=float)
        answers = [item.answer for item in asked]
        told, different = [], 0
        for normed in (False, True):
            mine, others = (chosen(x, lengths, asked, normed) for x in (own, theirs[:, 0]))
            different += sum(a != b for a, b in zip(mine, others, strict=True))
            rights = (np.mean(np.equal(one, answers)) for one in (mine, others))
            told.append(" / ".join(f"{value:.3f}" for value in rights))
        lines.append(
            f"| {name} | {len(asked)} | {len(ours)} | {np.abs(own - theirs[:, 0]).max():.1e} | "
            f"{different} | {told[0]} | {told[1]} | {seconds:.1f} | {their_seconds:.1f} |"
        )
        print(lines[-1], flush=True)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text("\n".join(lines) + "\n")
