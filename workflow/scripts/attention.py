"""What the last token of every prompt attends to, under one scheme, on all data sets of the study.

The model is loaded and quantized once, and only if a piece is missing from the stage.
"""

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from quantdrift import job
from quantdrift.behaviour.attended import attended
from quantdrift.behaviour.attention import watched
from quantdrift.behaviour.items import sample
from quantdrift.behaviour.prompts import (
    WITH,
    Prompt,
    batches,
    bos_id,
    check_length,
    encode,
    special_ids,
)
from quantdrift.models.causal_lm import device_of, dtype_of, load, load_tokenizer
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.models.scheme_weights import change_of, provenance_of
from quantdrift.tables.behaviour import ATTENTION, ITEMS
from quantdrift.tables.io import provenance, read_rows, write
from quantdrift.tables.shard import Run
from quantdrift.tables.stage import Stage


def prompts_of(
    tokenizer: Any, items: list[dict[str, Any]], bos: str, bos_token: str | None
) -> list[Prompt]:
    first = bos_id(tokenizer, bos_token) if bos == WITH else None
    prompts = [
        Prompt(item["item"], bos, encode(tokenizer, item["prompt"], first)) for item in items
    ]
    lengths = [len(prompt.token_ids) for prompt in prompts]
    job.log.info(
        "%s BOS: %d prompts of %d to %d tokens; the first begins with the ids %s",
        bos,
        len(prompts),
        min(lengths),
        max(lengths),
        list(prompts[0].token_ids[:4]),
    )
    return prompts


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    run, params = Run.of(snakemake.wildcards), dict(snakemake.params.items())
    checkpoint = Checkpoint(Path(snakemake.input.checkpoint))
    stage_root, datasets = Path(params.pop("stage")), params.pop("datasets")
    device = device_of(params.pop("device"))
    dtype = dtype_of(params.pop("dtype"), device)
    stored = snakemake.input.stored or None
    made = job.provenance(
        model_sha256=provenance(Path(snakemake.input.tensors))["model_sha256"],
        device=device.type,
        dtype=str(dtype).removeprefix("torch."),
        **params,
        **provenance_of(stored),
    )
    tokenizer = load_tokenizer(checkpoint)
    special = special_ids(tokenizer)

    @cache
    def model() -> Any:
        job.log.info("loading %s as %s on %s", run.model, made["dtype"], device)
        change = change_of(params["types"], run.short_rows, stored, run.naming)
        its = None if run.is_base else change
        return load(checkpoint, device=device, dtype=dtype, change=its)

    def rows_of(dataset: str, items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        key = run.run_key() | {"dataset": dataset}
        # Prompts of all BOS policies run together: more of them have one length.
        prompts = [
            prompt
            for bos in params["bos"]
            for prompt in prompts_of(tokenizer, items, bos, params["bos_token"])
        ]
        for prompt in prompts:
            check_length(
                f"item {prompt.item}", len(prompt.token_ids), checkpoint.geometry.positions
            )
        groups = list(batches(prompts, params["batch"]))
        with watched(model()):
            for batch in job.progress(groups, len(groups), f"Batches of {dataset}"):
                for row in attended(model(), batch, special, params["top"], params["heads"]):
                    yield key | row

    stages = []
    for dataset, file, output in zip(
        datasets, map(Path, snakemake.input.questions), map(Path, snakemake.output), strict=True
    ):
        items = sorted(read_rows(ITEMS, file), key=lambda item: item["number"])
        drawn = sample(items, params["n_items"], params["item_seed"])
        prompts = [item["prompt"] for item in drawn]
        stages.append(
            Stage(stage_root, ATTENTION, {"output": str(output), "made": made, "prompts": prompts})
        )
        with run.naming(dataset):
            rows = stages[-1].rows("rows", partial(rows_of, dataset, drawn))
        write(ATTENTION, rows, output, made)
    for stage in stages:
        stage.clear()
