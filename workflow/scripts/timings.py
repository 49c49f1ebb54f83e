"""What each job of the study took, from the records beside their logs."""

from pathlib import Path

from quantdrift import job
from quantdrift.tables.io import write
from quantdrift.tables.topology import TIMINGS
from quantdrift.tables.usage import timings

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params = snakemake.params
    rows = timings(Path(params.folder), map(Path, params.logs))
    write(TIMINGS, rows, Path(snakemake.output[0]), {"code": params.code})
    job.log.info("%d of %d jobs left their timing", len(rows), len(params.logs))
