"""TopoQuant's Figure 3: attention agreement against drift."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.drift import by_block
from quantdrift.report.figure import save
from quantdrift.report.names import Names
from quantdrift.report.trajectory_figure import trajectory_figure
from quantdrift.tables.behaviour import AGREEMENT_TABLE
from quantdrift.tables.io import read
from quantdrift.tables.topology import DISTANCES

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params, out = snakemake.input, snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models, params.datasets, params.top)
    blocks = by_block(read(DISTANCES, Path(given.distances)).to_pandas())
    table = read(AGREEMENT_TABLE, Path(given.table)).to_pandas()
    figure = trajectory_figure(blocks, table, names, params.threshold)
    save(figure, *(Path(out[kind]) for kind in ("html", "svg", "png", "csv", "json")))
    job.log.info("%d points", len(figure.data))
