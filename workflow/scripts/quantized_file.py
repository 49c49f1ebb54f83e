"""The matrices of a quantized file that someone else made, in the gauge of its base."""

import json
from pathlib import Path

from quantdrift import job
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.models.quantized_file import convert
from quantdrift.tables.io import write_text

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    source = json.loads(Path(snakemake.input.source).read_text())
    manifest = convert(
        Path(source["lies_at"]),
        Checkpoint(Path(snakemake.input.checkpoint)),
        Path(snakemake.output.weights),
        regauge_seed=snakemake.params.regauge_seed,
        progress=job.progress,
    )
    write_text(json.dumps(manifest, indent=1), Path(snakemake.output.manifest))
    types = sorted({matrix["type"] for matrix in manifest["matrices"]})
    job.log.info("%s of types %s", manifest["format"], ", ".join(types))
    for role, kind in manifest["outside"].items():
        if kind is not None:
            job.log.info("%s is %s in the file, and the base's here", role, kind)
    if manifest["rows_fitted"]:
        job.log.info("rows fitted to the base: %s", manifest["rows_fitted"])
