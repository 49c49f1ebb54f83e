"""Each projection at equal bits, and with the bits that the paper gives it."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.names import Names
from quantdrift.report.projection_summary import sensitivity_rows
from quantdrift.report.written import save_table
from quantdrift.tables.io import provenance, read
from quantdrift.tables.report import DRIFT_TABLE, PROJECTION_SENSITIVITY, WEIGHT_ERROR_TABLE

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params, out = snakemake.input, snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models)
    drift, errors = Path(given.drift), Path(given.errors)
    rows = sensitivity_rows(
        read(DRIFT_TABLE, drift).to_pandas(), read(WEIGHT_ERROR_TABLE, errors).to_pandas(), names
    )
    save_table(
        PROJECTION_SENSITIVITY,
        rows,
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=job.provenance(
            drift=provenance(drift), errors=provenance(errors), code=params.code
        ),
    )
    job.log.info("%d rows", len(rows))
