"""Drift of every projection, and what smaller clouds make of it."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.beyond_summary import beyond_rows
from quantdrift.report.names import Names
from quantdrift.report.written import save_table
from quantdrift.tables.io import provenance, read
from quantdrift.tables.report import BEYOND_ATTENTION, WEIGHT_ERROR_TABLE
from quantdrift.tables.topology import SHORTCUTS

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params, out = snakemake.input, snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models)
    source = Path(given.shortcuts)
    errors = read(WEIGHT_ERROR_TABLE, Path(given.errors)).to_pandas()
    rows = beyond_rows(read(SHORTCUTS, source).to_pandas(), errors, names)
    save_table(
        BEYOND_ATTENTION,
        rows,
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=job.provenance(shortcuts=provenance(source), code=params.code),
    )
    job.log.info("%d rows", len(rows))
