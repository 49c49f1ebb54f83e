"""TopoQuant's Figure 2, and the persistence diagram of the matrix that drifts most."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.diagram_figure import diagram_figure
from quantdrift.report.drift import by_block
from quantdrift.report.figure import save
from quantdrift.report.level_figure import level_figure
from quantdrift.report.names import Names
from quantdrift.tables.io import read
from quantdrift.tables.report import WEIGHT_ERROR_TABLE
from quantdrift.tables.topology import DIAGRAMS, DISTANCES

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params, out = snakemake.input, snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models)
    distances = read(DISTANCES, Path(given.distances)).to_pandas()
    diagrams = read(DIAGRAMS, Path(given.diagrams)).to_pandas()
    errors = read(WEIGHT_ERROR_TABLE, Path(given.errors)).to_pandas()
    levels = level_figure(by_block(distances), errors, names, params.threshold)
    diagram = diagram_figure(diagrams, distances, names, params.threshold)
    kinds = ("html", "svg", "png", "csv", "json")
    save(levels, *(Path(out[kind]) for kind in kinds))
    save(diagram, *(Path(out[f"diagram_{kind}"]) for kind in kinds))
    job.log.info("%d points; %s", len(levels.data), diagram.title)
