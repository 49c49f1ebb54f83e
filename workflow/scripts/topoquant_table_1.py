"""TopoQuant's Table I: attention agreement, ours beside what the paper prints."""

from pathlib import Path

import pandas as pd

from quantdrift import job
from quantdrift.report.agreement_grid import as_markdown, grid_rows, wide
from quantdrift.report.names import Names
from quantdrift.report.published import read_grid
from quantdrift.tables.behaviour import AGREEMENT_TABLE, TOPOQUANT_TABLE_1
from quantdrift.tables.io import provenance, read, write, write_text

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params, out = snakemake.input, snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models, params.datasets, params.top)
    published = read_grid(Path(given.published))
    source = Path(given.table)
    table = names.described(read(AGREEMENT_TABLE, source).to_pandas())
    grid = grid_rows(table, published, names)
    records = grid.astype(object).where(grid.notna(), None).to_dict("records")
    made = job.provenance(table=provenance(source), source=published.source, code=params.code)
    write(TOPOQUANT_TABLE_1, records, Path(out.parquet), made)  # type: ignore[arg-type]
    write_text(wide(grid).to_csv(index=False), Path(out.csv))
    write_text(as_markdown(grid, names, published), Path(out.markdown))
    counts = pd.Series(grid["status"]).value_counts()
    job.log.info("%s", ", ".join(f"{n} cells {status}" for status, n in counts.items()))
