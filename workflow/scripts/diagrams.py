"""H0 diagrams of one role's matrices under one scheme."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quantdrift import job
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.models.scheme_weights import provenance_of, scheme_weights
from quantdrift.tables.io import provenance, write
from quantdrift.tables.shard import Shard
from quantdrift.tables.stage import Stage
from quantdrift.tables.topology import DIAGRAMS
from quantdrift.topology.diagrams import Precision, clouds, h0_deaths, required_bytes, sample_rows


def measure(
    weight: np.ndarray,
    *,
    points: str,
    head_dim: int,
    backend: str,
    precision: Precision,
    max_points: int,
    sample_seed: int,
) -> Iterator[dict[str, Any]]:
    for part, cloud in clouds(weight, points, head_dim):
        # The same rows are drawn before and after quantization: the seed alone decides.
        kept = sample_rows(cloud, max_points, np.random.default_rng([sample_seed, part]))
        sampled = cloud if len(kept) == len(cloud) else cloud[kept]
        job.require_memory(
            required_bytes(len(sampled), precision, sampled.shape[1]),
            "lower topology.max_points, or set topology.precision=float32",
        )
        yield {
            "part": part,
            "n_points": len(sampled),
            "n_rows": len(cloud),
            "deaths": h0_deaths(sampled, backend=backend, precision=precision),
        }


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    shard, params = Shard.of(snakemake.wildcards), dict(snakemake.params.items())
    checkpoint = Checkpoint(Path(snakemake.input.checkpoint))
    stage_root, stored = params.pop("stage"), snakemake.input.stored or None
    made = job.provenance(
        model_sha256=provenance(Path(snakemake.input.tensors))["model_sha256"],
        **params,
        **provenance_of(stored),
    )
    del params["code"]
    quantize = scheme_weights({shard.role: params.pop("type")}, shard.short_rows, stored)
    stage = Stage(Path(stage_root), DIAGRAMS, {"output": snakemake.output[0], "made": made})

    def rows_of(block: int) -> list[dict[str, Any]]:
        with shard.naming(shard.at(block)):
            base = checkpoint.matrix(shard.role, block)
            weight = quantize(shard.role, block, base).weight
            found = measure(weight, head_dim=checkpoint.geometry.head_dim, **params)
            return [shard.key(block) | row for row in found]

    rows: list[dict[str, Any]] = []
    for block in job.progress(shard.blocks, len(shard.blocks), "Diagrams"):
        rows += stage.rows(f"{block:03d}", lambda block=block: rows_of(block))
    write(DIAGRAMS, rows, Path(snakemake.output[0]), made)
    stage.clear()
