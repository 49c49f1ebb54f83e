"""Accuracy, flips and their errors by scheme and data set."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.accuracy_summary import accuracy_rows
from quantdrift.report.names import Names
from quantdrift.report.written import save_table
from quantdrift.tables.choices import ACCURACY_TABLE, CHOICES
from quantdrift.tables.io import provenance, read

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params, out = snakemake.params, snakemake.output
    source = Path(snakemake.input.choices)
    names = Names.of(params.levels, params.models, params.datasets)
    rows = accuracy_rows(read(CHOICES, source).to_pandas(), names)
    save_table(
        ACCURACY_TABLE,
        rows,
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=job.provenance(choices=provenance(source), code=params.code),
    )
    job.log.info("%d rows", len(rows))
