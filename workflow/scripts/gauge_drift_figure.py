"""Drift of one model in several gauges, as a figure."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.figure import save
from quantdrift.report.gauge_figure import gauge_figure
from quantdrift.report.names import Names
from quantdrift.tables.io import read
from quantdrift.tables.topology import GAUGE_DRIFT

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params, out = snakemake.params, snakemake.output
    if not snakemake.input.get("gauge_drift"):
        raise ValueError(
            "This study measures drift in one gauge only: its gauge.schemes is empty. Name schemes "
            """there (--config set='["gauge.schemes=[...]"]'), or take study demo."""
        )
    gauge = read(GAUGE_DRIFT, Path(snakemake.input.gauge_drift)).to_pandas()
    figure = gauge_figure(gauge, Names.of(params.levels, params.models), params.threshold)
    save(figure, *(Path(out[kind]) for kind in ("html", "svg", "png", "csv", "json")))
    job.log.info("%d points", len(figure.data))
