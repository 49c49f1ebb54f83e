"""Figure: agreement foreseen against agreement measured, block by block."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.figure import save
from quantdrift.report.names import Names
from quantdrift.report.prediction_figure import prediction_figure
from quantdrift.report.stopping_summary import Choice
from quantdrift.tables.io import read
from quantdrift.tables.prediction import PREDICTIONS

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params, out = snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models, params.datasets, params.top)
    predictions = read(PREDICTIONS, Path(snakemake.input.predictions)).to_pandas()
    figure = prediction_figure(predictions, Choice(**params.choice), names)
    save(figure, *(Path(out[kind]) for kind in ("html", "svg", "png", "csv", "json")))
