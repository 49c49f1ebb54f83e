"""Final hidden states of the base on the texts of the study: what every scheme is held against."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from quantdrift import job
from quantdrift.behaviour.text import final_hidden, read
from quantdrift.behaviour.windows import Window, token_hash
from quantdrift.models.causal_lm import device_of, dtype_of, load, load_tokenizer
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.tables.hidden import write_hidden
from quantdrift.tables.io import provenance, read_rows
from quantdrift.tables.text import TEXTS

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params = snakemake.params
    checkpoint = Checkpoint(Path(snakemake.input.checkpoint))
    device = device_of(params.device)
    dtype = dtype_of(params.dtype, device)
    tokenizer = load_tokenizer(checkpoint)

    @cache
    def model() -> Any:
        return load(checkpoint, device=device, dtype=dtype)

    def states(cut: list[Window], protocol: str) -> Iterator[np.ndarray]:
        groups = [cut[at : at + params.batch] for at in range(0, len(cut), params.batch)]
        for group in job.progress(groups, len(groups), f"Batches of {protocol}"):
            yield final_hidden(model(), group).float().cpu().numpy()

    for protocol, file, output in zip(
        params.protocols, snakemake.input.texts, snakemake.output.states, strict=True
    ):
        texts = [row["text"] for row in read_rows(TEXTS, Path(file))]
        cut = read(tokenizer, texts, protocol, params.bos_token, checkpoint.geometry.positions)
        job.log.info("%s: %d windows, %s", protocol["id"], len(cut), token_hash(cut))
        write_hidden(
            states(cut, protocol["id"]),
            len(cut),
            Path(output),
            {
                "token_sha256": token_hash(cut),
                "device": device.type,
                "dtype": str(dtype).removeprefix("torch."),
                "model_sha256": provenance(Path(snakemake.input.tensors))["model_sha256"],
            },
        )
