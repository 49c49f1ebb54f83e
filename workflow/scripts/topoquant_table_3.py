"""TopoQuant's Table III: what drift costs beside running the model."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.cost_summary import cost_rows
from quantdrift.report.names import Names
from quantdrift.report.written import save_table
from quantdrift.tables.io import read
from quantdrift.tables.report import TOPOQUANT_TABLE_3
from quantdrift.tables.topology import TIMINGS

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params, out = snakemake.input, snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models)
    timings = read(TIMINGS, Path(given.timings)).to_pandas()
    rows = cost_rows(timings, Path(given.published), names)
    save_table(
        TOPOQUANT_TABLE_3,
        rows,
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=job.provenance(code=params.code),
    )
    job.log.info("%d rows", len(rows))
