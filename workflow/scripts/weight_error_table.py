"""Weight error and bits by scheme and role."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.drift import error_rows
from quantdrift.report.names import Names
from quantdrift.report.written import save_table
from quantdrift.tables.io import provenance, read
from quantdrift.tables.report import WEIGHT_ERROR_TABLE
from quantdrift.tables.topology import WEIGHT_ERROR

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params, out = snakemake.params, snakemake.output
    source = Path(snakemake.input.weight_error)
    rows = error_rows(
        read(WEIGHT_ERROR, source).to_pandas(), Names.of(params.levels, params.models)
    )
    save_table(
        WEIGHT_ERROR_TABLE,
        rows,
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=job.provenance(weight_error=provenance(source), code=params.code),
    )
    job.log.info("%d rows", len(rows))
