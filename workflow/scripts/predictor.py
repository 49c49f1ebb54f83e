"""Fit the predictor of a study on all it measured, and save it with what it may be used for."""

from pathlib import Path

import pandas as pd

from quantdrift import job
from quantdrift.prediction.features import inputs, rows
from quantdrift.prediction.predictor import fit
from quantdrift.report.stopping_summary import Choice, honest
from quantdrift.tables.behaviour import AGREEMENT_BLOCKS
from quantdrift.tables.io import provenance, read
from quantdrift.tables.prediction import PREDICTIONS
from quantdrift.tables.predictor_file import write_predictor
from quantdrift.tables.topology import DISTANCES, WEIGHT_ERROR

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params = snakemake.input, snakemake.params
    choice = Choice(**params.choice)
    models = pd.DataFrame(params.models, columns=["model", "family", "parameters"])
    settings = dict(params.settings)
    its = inputs(
        read(DISTANCES, Path(given.distances)).to_pandas(),
        read(WEIGHT_ERROR, Path(given.errors)).to_pandas(),
        filtration=settings["filtration"],
        per_point=settings["distances"] == "per_point",
        models=models,
    )
    agreement = read(AGREEMENT_BLOCKS, Path(given.agreement)).to_pandas()
    found = rows(its, agreement, bos=settings["bos"])
    predictions = read(PREDICTIONS, Path(given.predictions)).to_pandas()
    predictions = predictions[
        predictions["split"].eq(honest(predictions)) & predictions["regressor"].eq(choice.regressor)
    ]
    predictor = fit(
        found,
        predictions,
        [question for question in choice.questions if question[0] != "level"],
        choice.regressor,
        choice.coverage,
        settings=settings,
        labels=params.labels,
        models=[
            {"id": id, "label": label, "parameters": parameters, "blocks": blocks}
            for id, label, parameters, blocks in params.trained_on
        ],
    )
    made = job.provenance(
        **params.choice, predictions=provenance(Path(given.predictions)), code=params.code
    )
    write_predictor(predictor, Path(snakemake.output[0]), made)
    job.log.info("%d regressors of %d rows", len(predictor.parts), len(found))
