"""Heat map of attention agreement, block x level."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.agreement_figure import agreement_figure
from quantdrift.report.figure import save
from quantdrift.report.names import Names
from quantdrift.tables.behaviour import AGREEMENT_BLOCKS
from quantdrift.tables.io import read

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params, out = snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models, params.datasets, params.top)
    blocks = read(AGREEMENT_BLOCKS, Path(snakemake.input.blocks)).to_pandas()
    figure = agreement_figure(blocks, names)
    save(figure, *(Path(out[kind]) for kind in ("html", "svg", "png", "csv", "json")))
    job.log.info("%d cells", len(figure.data))
