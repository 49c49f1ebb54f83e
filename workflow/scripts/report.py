"""The page of a study."""

import json
from pathlib import Path
from typing import Any

from quantdrift import job
from quantdrift.report.agreement_chapter import Agreement
from quantdrift.report.agreement_grid import in_order
from quantdrift.report.drift import by_block, with_home
from quantdrift.report.names import Names
from quantdrift.report.page import Results, page
from quantdrift.report.prediction_chapter import Prediction
from quantdrift.report.prediction_findings import Found
from quantdrift.report.published import read_grid
from quantdrift.report.stopping_summary import Choice, rules_in_order
from quantdrift.report.text_chapter import ProtocolFacts, TextResults
from quantdrift.tables.behaviour import AGREEMENT_BLOCKS, AGREEMENT_TABLE, TOPOQUANT_TABLE_1
from quantdrift.tables.choices import ACCURACY_TABLE
from quantdrift.tables.io import provenance, read, write_text
from quantdrift.tables.prediction import FEATURE_IMPORTANCE, FORESEEN, REGRESSORS, STOPPING
from quantdrift.tables.report import DRIFT_TABLE, WEIGHT_ERROR_TABLE
from quantdrift.tables.text import PERPLEXITY_TABLE
from quantdrift.tables.topology import DISTANCES, GAUGE_DRIFT, TENSORS, TIMINGS

KINDS = ("weight_error", "diagrams", "distances", "gauge_drift", "agreement")


def agreement(given: Any, names: Names) -> Agreement | None:
    """The chapter on attention, if the study has it."""
    if not given.get("agreement_figures"):
        return None
    grid = read(TOPOQUANT_TABLE_1, Path(given.agreement_grid)).to_pandas()
    return Agreement(
        table=names.described(read(AGREEMENT_TABLE, Path(given.agreement_table)).to_pandas()),
        blocks=names.described(read(AGREEMENT_BLOCKS, Path(given.agreement_blocks)).to_pandas()),
        grid=in_order(grid, names),
        published=read_grid(Path(given.published)),
        figures=figures(given.agreement_figures),
    )


def text(given: Any, params: Any, names: Names) -> TextResults | None:
    """The chapter on text, if the study has it."""
    if not given.get("text"):
        return None
    return TextResults(
        table=names.described(read(PERPLEXITY_TABLE, Path(given.text)).to_pandas()),
        protocols=[ProtocolFacts(*facts) for facts in params.protocols],
        figures=figures(given.text_figures),
    )


def prediction(given: Any, params: Any, names: Names) -> Prediction | None:
    """The chapter on prediction, if the study has it."""
    if not given.get("stopping"):
        return None
    seen = read(FORESEEN, Path(given.foreseen)).to_pandas()
    choice = Choice(**params.choice)
    stopping = read(STOPPING, Path(given.stopping)).to_pandas()
    found = Found(
        regressors=read(REGRESSORS, Path(given.regressors)).to_pandas(),
        foreseen=seen,
        stopping=rules_in_order(stopping, choice, names),
        importance=read(FEATURE_IMPORTANCE, Path(given.importance)).to_pandas(),
        split=str(seen["split"].iloc[0]),
        choice=choice,
    )
    return Prediction(found=found, figures=figures(given.prediction_figures))


def figures(files: list[str]) -> list[dict[str, Any]]:
    """Figures as `figure.save` wrote them."""
    return [json.loads(Path(file).read_text()) for file in files]


if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params = snakemake.input, snakemake.params
    names = Names.of(params.levels, params.models, params.datasets, params.top)
    distances = Path(given.distances)
    tensors = {
        model.id: Path(file) for model, file in zip(names.models, given.tensors, strict=True)
    }
    gauge = GAUGE_DRIFT.schema.empty_table()
    if given.get("gauge_drift"):
        gauge = read(GAUGE_DRIFT, Path(given.gauge_drift))
    results = Results(
        study=params.study,
        names=names,
        threshold=params.threshold,
        short_rows=params.short_rows,
        points=params.points,
        drift=names.described(read(DRIFT_TABLE, Path(given.drift)).to_pandas()),
        errors=names.described(read(WEIGHT_ERROR_TABLE, Path(given.errors)).to_pandas()),
        blocks=by_block(read(DISTANCES, distances).to_pandas()),
        gauge=with_home(gauge.to_pandas(), names),
        timings=read(TIMINGS, Path(given.timings)).to_pandas(),
        figures=figures(given.figures),
        tensors={key: read(TENSORS, path).to_pandas() for key, path in tensors.items()},
        made={key: provenance(path) for key, path in tensors.items()}
        | {kind: provenance(Path(given[kind])) for kind in KINDS if given.get(kind)},
        agreement=agreement(given, names),
        text=text(given, params, names),
        accuracy=(
            names.described(read(ACCURACY_TABLE, Path(given.accuracy)).to_pandas())
            if given.get("accuracy")
            else None
        ),
        prediction=prediction(given, params, names),
    )
    html = page(results)
    write_text(html, Path(snakemake.output[0]))
    job.log.info("%d bytes", len(html.encode()))
