"""Drift of one role's matrices under one scheme, in several gauges of the same model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quantdrift import job
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.models.gauge import Gauge, regauge
from quantdrift.models.scheme_weights import provenance_of, scheme_weights
from quantdrift.tables.io import provenance, write
from quantdrift.tables.shard import Shard
from quantdrift.tables.stage import Stage
from quantdrift.tables.topology import GAUGE_DRIFT
from quantdrift.topology.diagrams import Precision, clouds, h0_deaths, sample_rows
from quantdrift.topology.filtrations import censor
from quantdrift.topology.sliced import sliced_wasserstein


def measure(
    weight: np.ndarray,
    quantized: np.ndarray,
    *,
    points: str,
    head_dim: int,
    backend: str,
    precision: Precision,
    max_points: int,
    sample_seed: int,
    threshold: float,
    filtrations: list[str],
    directions: int,
) -> Iterator[dict[str, Any]]:
    both = zip(
        clouds(weight, points, head_dim),
        clouds(quantized, points, head_dim),
        strict=True,
    )
    for (part, base), (_, changed) in both:
        kept = sample_rows(base, max_points, np.random.default_rng([sample_seed, part]))
        before, after = (
            h0_deaths(cloud[kept], backend=backend, precision=precision)
            for cloud in (base, changed)
        )
        for filtration in filtrations:
            a, b = (censor(deaths, filtration, threshold) for deaths in (before, after))
            swd = sliced_wasserstein(a, b, directions=directions)
            yield {"part": part, "filtration": filtration, "swd": swd}


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    shard, params = Shard.of(snakemake.wildcards), dict(snakemake.params.items())
    checkpoint = Checkpoint(Path(snakemake.input.checkpoint))
    if not checkpoint.layout.regauged:
        raise ValueError(
            f"{shard.model} is a {checkpoint.layout.name} model, which has no gauges to compare "
            "(its MLP has no gate beside the nonlinearity): set gauge.schemes=[]."
        )
    stage_root, stored = Path(params.pop("stage")), snakemake.input.stored or None
    made = job.provenance(
        model_sha256=provenance(Path(snakemake.input.tensors))["model_sha256"],
        **params,
        **provenance_of(stored),
    )
    stage = Stage(stage_root, GAUGE_DRIFT, {"output": snakemake.output[0], "made": made})
    quantize = scheme_weights({shard.role: params.pop("type")}, shard.short_rows, stored)
    seeds, step, code = params.pop("seeds"), params.pop("block_step"), params.pop("code")
    home = Gauge(params.pop("home_seed"), checkpoint.geometry)
    blocks = [block for block in shard.blocks if block % step == 0]

    def quantized_there(moved: np.ndarray, block: int, there: Gauge) -> np.ndarray:
        if stored is None:
            return quantize(shard.role, block, moved).weight
        # What was quantized once, in one gauge, is not quantized anew: it moves along.
        return regauge(quantize(shard.role, block, moved).weight, shard.role, block, home, there)

    def rows_of(block: int) -> list[dict[str, Any]]:
        rows = []
        weight = checkpoint.matrix(shard.role, block)
        for seed in seeds:
            there = Gauge(seed, checkpoint.geometry)
            with shard.naming(shard.at(block)):
                moved = regauge(weight, shard.role, block, home, there)
                key = {k: v for k, v in shard.key(block).items() if k != "seed"}
                quantized = quantized_there(moved, block, there)
                found = measure(moved, quantized, head_dim=checkpoint.geometry.head_dim, **params)
                rows += [key | {"gauge_seed": seed} | row for row in found]
        return rows

    rows: list[dict[str, Any]] = []
    for block in job.progress(blocks, len(blocks), "Drift over gauges"):
        rows += stage.rows(f"{block:03d}", lambda block=block: rows_of(block))
    write(GAUGE_DRIFT, rows, Path(snakemake.output[0]), made)
    stage.clear()
