"""All shards of one kind as one table of the study."""

from pathlib import Path

from quantdrift import job
from quantdrift.tables.declared import TABLES
from quantdrift.tables.io import merge

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    table = TABLES[snakemake.wildcards.kind]
    merged = merge(table, map(Path, snakemake.input), Path(snakemake.output[0]))
    job.log.info("%d rows of %s", merged.num_rows, table.kind)
