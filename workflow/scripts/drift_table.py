"""Drift and bars by scheme, role and filtration."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.drift import bar_shifts, by_block, drift_rows
from quantdrift.report.names import Names
from quantdrift.report.written import save_table
from quantdrift.tables.io import provenance, read
from quantdrift.tables.report import DRIFT_TABLE
from quantdrift.tables.topology import DIAGRAMS, DISTANCES

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params, out = snakemake.params, snakemake.output
    source = Path(snakemake.input.distances)
    blocks = by_block(read(DISTANCES, source).to_pandas())
    shifts = bar_shifts(read(DIAGRAMS, Path(snakemake.input.diagrams)).to_pandas())
    rows = drift_rows(blocks, shifts, Names.of(params.levels, params.models))
    save_table(
        DRIFT_TABLE,
        rows,
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=job.provenance(distances=provenance(source), code=params.code),
    )
    job.log.info("%d rows", len(rows))
