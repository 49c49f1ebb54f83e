"""Every predicted token of the study's texts under one scheme, beside the base."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quantdrift import job
from quantdrift.behaviour.divergence import TokenNumbers
from quantdrift.behaviour.text import compared, final_hidden, read
from quantdrift.behaviour.windows import Window, token_hash
from quantdrift.models.causal_lm import device_of, dtype_of, load, load_tokenizer
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.models.scheme_weights import change_of, provenance_of
from quantdrift.tables.hidden import read_hidden
from quantdrift.tables.io import provenance, read_rows, write
from quantdrift.tables.shard import Run
from quantdrift.tables.stage import Stage
from quantdrift.tables.text import TEXTS, TOKENS

NUMBERS = [entry.name for entry in fields(TokenNumbers)]

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    run, params = Run.of(snakemake.wildcards), dict(snakemake.params.items())
    checkpoint = Checkpoint(Path(snakemake.input.checkpoint))
    stage_root, protocols = Path(params.pop("stage")), params.pop("protocols")
    device = device_of(params.pop("device"))
    dtype = dtype_of(params.pop("dtype"), device)
    batch = params.pop("batch")
    stored = snakemake.input.stored or None
    alike = {
        "device": device.type,
        "dtype": str(dtype).removeprefix("torch."),
        "model_sha256": provenance(Path(snakemake.input.tensors))["model_sha256"],
    }
    made = job.provenance(**alike, **params, **provenance_of(stored))
    tokenizer = load_tokenizer(checkpoint)

    @cache
    def model() -> Any:
        job.log.info("loading %s as %s on %s", run.model, alike["dtype"], device)
        change = change_of(params["types"], run.short_rows, stored, run.naming)
        its = None if run.is_base else change
        return load(checkpoint, device=device, dtype=dtype, change=its)

    def rows_of(protocol: str, cut: list[Window], base: np.ndarray) -> Iterator[dict[str, Any]]:
        key = run.run_key() | {"protocol": protocol, "token_sha256": token_hash(cut)}
        groups = [cut[at : at + batch] for at in range(0, len(cut), batch)]
        for group in job.progress(groups, len(groups), f"Batches of {protocol}"):
            for window, own in zip(group, final_hidden(model(), group), strict=True):
                reference = torch.from_numpy(base[window.number].copy())
                found = compared(model(), window, reference, own)
                columns = [getattr(found, name).tolist() for name in NUMBERS]
                for position, values in enumerate(zip(*columns, strict=True), window.first):
                    at = {"window": window.number, "position": position}
                    yield key | at | dict(zip(NUMBERS, values, strict=True))

    stages = []
    for protocol, file, states, output in zip(
        protocols,
        snakemake.input.texts,
        snakemake.input.states,
        snakemake.output,
        strict=True,
    ):
        texts = [row["text"] for row in read_rows(TEXTS, Path(file))]
        with run.naming(protocol["id"]):
            positions = checkpoint.geometry.positions
            cut = read(tokenizer, texts, protocol, params["bos_token"], positions)
            alike["token_sha256"] = token_hash(cut)
            base = read_hidden(Path(states), alike)
            about = made | {"protocol": protocol}
            stages.append(Stage(stage_root, TOKENS, {"output": str(output), "made": about} | alike))
            rows = stages[-1].rows("rows", partial(rows_of, protocol["id"], cut, base))
        write(TOKENS, rows, Path(output), about)
    for stage in stages:
        stage.clear()
