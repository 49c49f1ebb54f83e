"""Heat map of drift: block x level for each projection."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.block_figure import block_figure
from quantdrift.report.drift import by_block
from quantdrift.report.figure import save
from quantdrift.report.names import Names
from quantdrift.tables.io import read
from quantdrift.tables.topology import DISTANCES

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params, out = snakemake.params, snakemake.output
    blocks = by_block(read(DISTANCES, Path(snakemake.input.distances)).to_pandas())
    figure = block_figure(blocks, Names.of(params.levels, params.models), params.threshold)
    save(figure, *(Path(out[kind]) for kind in ("html", "svg", "png", "csv", "json")))
    job.log.info("%d matrices", len(figure.data))
