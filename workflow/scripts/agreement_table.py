"""Attention agreement, summed up by block and by data set."""

from pathlib import Path

import numpy as np

from quantdrift import job
from quantdrift.report.agreement_summary import summaries
from quantdrift.report.names import Names
from quantdrift.report.written import save_table
from quantdrift.tables.behaviour import AGREEMENT, AGREEMENT_BLOCKS, AGREEMENT_TABLE
from quantdrift.tables.io import provenance, read, write

BOOTSTRAP_SEED = 0

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params, out = snakemake.params, snakemake.output
    source = Path(snakemake.input.agreement)
    names = Names.of(params.levels, params.models, params.datasets, params.top)
    rows = read(AGREEMENT, source).to_pandas()
    made = job.provenance(agreement=provenance(source), code=params.code)
    found = summaries(rows, names, np.random.default_rng(BOOTSTRAP_SEED))
    blocks = found.blocks[AGREEMENT_BLOCKS.schema.names].to_dict("records")
    write(AGREEMENT_BLOCKS, blocks, Path(out.blocks), made)  # type: ignore[arg-type]
    save_table(
        AGREEMENT_TABLE,
        found.table,
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=made,
    )
    job.log.info("%d rows of %d rows by item and block", len(found.table), len(rows))
