"""TopoQuant's Table II: how well agreement is predicted, ours beside what the paper prints."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.names import Names
from quantdrift.report.regressor_grid import as_markdown, grid_rows
from quantdrift.tables.io import provenance, read, write, write_text
from quantdrift.tables.prediction import REGRESSORS, TOPOQUANT_TABLE_2

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params, out = snakemake.input, snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models, params.datasets)
    source = Path(given.regressors)
    grid = grid_rows(read(REGRESSORS, source).to_pandas(), Path(given.published), names)
    made = job.provenance(regressors=provenance(source), code=params.code)
    records = grid.where(grid.notna(), None).to_dict("records")
    write(TOPOQUANT_TABLE_2, records, Path(out.parquet), made)  # type: ignore[arg-type]
    write_text(grid.to_csv(index=False), Path(out.csv))
    write_text(as_markdown(grid, names), Path(out.markdown))
    job.log.info("%d cells", len(grid))
