"""Turn one checkpoint into a directory of safetensors and a manifest of its tensors."""

import json
from dataclasses import asdict
from pathlib import Path

from quantdrift import job
from quantdrift.models.checkpoint import model_sha256, prepare
from quantdrift.tables.io import write
from quantdrift.tables.topology import TENSORS

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    source = json.loads(Path(snakemake.input.source).read_text())
    records = prepare(
        Path(source.pop("lies_at")),
        Path(snakemake.output.checkpoint),
        regauge_seed=snakemake.params.regauge_seed,
        progress=job.progress,
    )
    sha256 = model_sha256(records)
    job.log.info("%d tensors, model sha256 %s", len(records), sha256)
    write(
        TENSORS,
        [{"model": snakemake.wildcards.model} | asdict(record) for record in records],
        Path(snakemake.output.tensors),
        job.provenance(
            source=source,
            regauge_seed=snakemake.params.regauge_seed,
            model_sha256=sha256,
            code=snakemake.params.code,
        ),
    )
