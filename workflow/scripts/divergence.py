"""The figure of divergence by level."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.divergence_figure import divergence_figure
from quantdrift.report.figure import save
from quantdrift.report.names import Names
from quantdrift.tables.io import read
from quantdrift.tables.text import PERPLEXITY_TABLE

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params, out = snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models)
    table = read(PERPLEXITY_TABLE, Path(snakemake.input.table)).to_pandas()
    figure = divergence_figure(table, names, {one[0]: one[1] for one in params.protocols})
    save(figure, *(Path(out[kind]) for kind in ("html", "svg", "png", "csv", "json")))
    job.log.info("%d points", len(figure.data))
