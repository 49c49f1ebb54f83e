"""Drift of one role's matrices from smaller clouds of rows, beside that of the whole ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quantdrift import job
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.models.scheme_weights import provenance_of, scheme_weights
from quantdrift.tables.io import provenance, write
from quantdrift.tables.shard import Shard
from quantdrift.tables.topology import SHORTCUTS
from quantdrift.topology.diagrams import Precision, h0_deaths, required_bytes
from quantdrift.topology.distances import GROWTH
from quantdrift.topology.filtrations import censor
from quantdrift.topology.shortcuts import shortcuts
from quantdrift.topology.sliced import sliced_wasserstein


def measure(
    before: np.ndarray,
    after: np.ndarray,
    *,
    sizes: list[int],
    ranks: list[int],
    draws: list[int],
    threshold: float,
    filtrations: list[str],
    backend: str,
    precision: Precision,
    directions: int,
) -> Iterator[dict[str, Any]]:
    job.require_memory(
        required_bytes(len(before), precision, before.shape[1]),
        "leave the role out of `roles`, or set topology.precision=float32",
    )
    for one in shortcuts(before, after, sizes=sizes, ranks=ranks, draws=draws):
        pair = [
            h0_deaths(cloud, backend=backend, precision=precision)
            for cloud in (one.before, one.after)
        ]
        for filtration in filtrations:
            a, b = (censor(deaths, filtration, threshold) for deaths in pair)
            swd = sliced_wasserstein(a, b, directions=directions)
            yield {
                "shortcut": one.name,
                "size": one.size,
                "draw": one.draw,
                "filtration": filtration,
                "swd": swd,
                "swd_per_point": swd / GROWTH["swd"](len(one.before)),
            }


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    shard, params = Shard.of(snakemake.wildcards), dict(snakemake.params.items())
    checkpoint = Checkpoint(Path(snakemake.input.checkpoint))
    stored = snakemake.input.stored or None
    made = job.provenance(
        model_sha256=provenance(Path(snakemake.input.tensors))["model_sha256"],
        **params,
        **provenance_of(stored),
    )
    del params["code"]
    quantize = scheme_weights({shard.role: params.pop("type")}, shard.short_rows, stored)
    step = params.pop("block_step")
    blocks = [block for block in shard.blocks if block % step == 0]
    rows: list[dict[str, Any]] = []
    for block in job.progress(blocks, len(blocks), "Shortcuts"):
        with shard.naming(shard.at(block)):
            base = checkpoint.matrix(shard.role, block)
            changed = quantize(shard.role, block, base).weight
            rows += [shard.key(block) | row for row in measure(base, changed, **params)]
    write(SHORTCUTS, rows, Path(snakemake.output[0]), made)
