"""How likely every choice of every item is under one scheme, on all data sets that are scored.

The model is loaded and quantized once, and only if a piece is missing from the stage.
"""

import hashlib
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from quantdrift import job
from quantdrift.behaviour.choices import Choice, batches, choices_of, scored
from quantdrift.behaviour.items import sample
from quantdrift.behaviour.prompts import WITH
from quantdrift.models.causal_lm import device_of, dtype_of, load, load_tokenizer
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.models.scheme_weights import change_of, provenance_of
from quantdrift.tables.behaviour import ITEMS
from quantdrift.tables.choices import CHOICES
from quantdrift.tables.io import provenance, read_rows, write
from quantdrift.tables.shard import Run
from quantdrift.tables.stage import Stage

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    run, params = Run.of(snakemake.wildcards), dict(snakemake.params.items())
    checkpoint = Checkpoint(Path(snakemake.input.checkpoint))
    stage_root, datasets = Path(params.pop("stage")), params.pop("datasets")
    device = device_of(params.pop("device"))
    dtype = dtype_of(params.pop("dtype"), device)
    batch_size = params.pop("batch")
    stored = snakemake.input.stored or None
    made = job.provenance(
        model_sha256=provenance(Path(snakemake.input.tensors))["model_sha256"],
        device=device.type,
        dtype=str(dtype).removeprefix("torch."),
        **params,
        **provenance_of(stored),
    )
    tokenizer = load_tokenizer(checkpoint)

    @cache
    def model() -> Any:
        job.log.info("loading %s as %s on %s", run.model, made["dtype"], device)
        change = change_of(params["types"], run.short_rows, stored, run.naming)
        its = None if run.is_base else change
        return load(checkpoint, device=device, dtype=dtype, change=its)

    def encoded(item: dict[str, Any]) -> list[Choice]:
        return choices_of(
            tokenizer,
            item["item"],
            item["contexts"],
            item["continuations"],
            bos=params["bos"] == WITH,
            bos_token=params["bos_token"],
            positions=checkpoint.geometry.positions,
        )

    def rows_of(dataset: str, items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        key = run.run_key() | {"dataset": dataset, "bos": params["bos"]}
        answers = {item["item"]: item["answer"] for item in items}
        groups = list(batches((one for item in items for one in encoded(item)), batch_size))
        for group in job.progress(groups, len(groups), f"Batches of {dataset}"):
            for choice, found in zip(group, scored(model(), group), strict=True):
                ids = np.asarray(choice.token_ids, "<i4").tobytes()
                yield key | {
                    "item": choice.item,
                    "choice": choice.number,
                    "is_answer": choice.number == answers[choice.item],
                    "n_tokens": choice.n_tokens,
                    "n_characters": choice.n_characters,
                    "token_sha256": hashlib.sha256(ids).hexdigest()[:16],
                    "log_likelihood": found.log_likelihood,
                    "is_greedy": found.is_greedy,
                }

    stages = []
    for dataset, file, output in zip(
        datasets, map(Path, snakemake.input.questions), map(Path, snakemake.output), strict=True
    ):
        items = sorted(read_rows(ITEMS, file), key=lambda item: item["number"])
        drawn = sample(items, params["n_items"], params["item_seed"])
        asked = [[item["contexts"], item["continuations"]] for item in drawn]
        stages.append(
            Stage(stage_root, CHOICES, {"output": str(output), "made": made, "asked": asked})
        )
        with run.naming(dataset):
            rows = stages[-1].rows("rows", partial(rows_of, dataset, drawn))
        write(CHOICES, rows, output, made)
    for stage in stages:
        stage.clear()
