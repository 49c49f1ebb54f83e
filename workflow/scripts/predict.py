"""Apply a saved predictor to drift alone: the models of the study are never run."""

from pathlib import Path

import pandas as pd

from quantdrift import job
from quantdrift.prediction.features import inputs
from quantdrift.prediction.predictor import check, levels, predict, warnings
from quantdrift.report.forecast_summary import as_markdown, forecast_rows, sentences
from quantdrift.report.names import Names
from quantdrift.tables.io import provenance, read, write, write_text
from quantdrift.tables.prediction import PREDICT, PREDICTED_BLOCKS
from quantdrift.tables.predictor_file import read_predictor
from quantdrift.tables.topology import DISTANCES, WEIGHT_ERROR

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params, out = snakemake.input, snakemake.params, snakemake.output
    predictor, about = read_predictor(Path(given.predictor))
    settings = dict(params.settings)
    check(predictor, settings)
    # The data sets are the predictor's: this study need not name any.
    datasets = [[id, label, "", "", False] for id, label in predictor.labels.items()]
    names = Names.of(params.levels, params.models, datasets)
    errors = read(WEIGHT_ERROR, Path(given.errors)).to_pandas()
    its = inputs(
        read(DISTANCES, Path(given.distances)).to_pandas(),
        errors,
        filtration=settings["filtration"],
        per_point=settings["distances"] == "per_point",
        models=pd.DataFrame(params.facts, columns=["model", "family", "parameters"]),
    )
    blocks = predict(predictor, its)
    means = levels(predictor, blocks)
    found = forecast_rows(means, errors, params.mark, names)
    parameters = {model: size for model, _, size in params.facts}
    said = [
        *(f"**{line}**" for line in warnings(predictor, means, parameters)),
        *sentences(found, params.mark, names),
    ]
    for line in said:
        job.log.info("%s", line.strip("*"))
    made = job.provenance(
        mark=params.mark,
        predictor=about,
        distances=provenance(Path(given.distances)),
        code=params.code,
    )
    write(PREDICT, found[PREDICT.schema.names].to_dict("records"), Path(out.parquet), made)
    named = names.described(blocks)[PREDICTED_BLOCKS.schema.names]
    records = named.astype(object).where(named.notna(), None).to_dict("records")
    write(PREDICTED_BLOCKS, records, Path(out.blocks), made)  # type: ignore[arg-type]
    write_text(found.to_csv(index=False), Path(out.csv))
    write_text(as_markdown(found, said, params.mark, names), Path(out.markdown))
