"""Seven distances between the diagrams of one role before and after quantization."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quantdrift import job
from quantdrift.tables.io import provenance, read_rows, write
from quantdrift.tables.topology import DIAGRAMS, DISTANCES
from quantdrift.topology.distances import Grids, all_distances
from quantdrift.topology.filtrations import count_bars

_KEY = ("model", "scheme", "short_rows", "seed", "preset", "block", "role", "part")


def measure(
    base: dict[str, Any], quantized: dict[str, Any], grids: Grids, filtrations: Iterable[str]
) -> Iterator[dict[str, Any]]:
    before, after = np.array(base["deaths"]), np.array(quantized["deaths"])
    finite_base, essential_base = count_bars(before, grids.threshold)
    finite, essential = count_bars(after, grids.threshold)
    common = {name: quantized[name] for name in (*_KEY, "n_points")} | {
        "n_finite_base": finite_base,
        "n_finite": finite,
        "n_essential_base": essential_base,
        "n_essential": essential,
    }
    for filtration in filtrations:
        for name, (value, per_point) in all_distances(before, after, grids, filtration).items():
            yield common | {
                "filtration": filtration,
                "distance": name,
                "value": value,
                "value_per_point": per_point,
            }


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params = snakemake.params
    grids = Grids(threshold=params.threshold, **params.grids)
    bases = {(r["block"], r["part"]): r for r in read_rows(DIAGRAMS, Path(snakemake.input.base))}
    quantized = read_rows(DIAGRAMS, Path(snakemake.input.quantized))
    rows: list[dict[str, Any]] = []
    for row in job.progress(quantized, len(quantized), "Distances"):
        rows += measure(bases[row["block"], row["part"]], row, grids, params.filtrations)
    above = provenance(Path(snakemake.input.quantized))
    made = job.provenance(
        model_sha256=above["model_sha256"],
        diagrams={name: above[name] for name in ("type", "points", "backend", "precision", "code")},
        threshold=params.threshold,
        grids=dict(params.grids),
        code=params.code,
    )
    write(DISTANCES, rows, Path(snakemake.output[0]), made)
