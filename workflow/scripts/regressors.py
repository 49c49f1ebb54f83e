"""Every regressor of attention agreement, on every set of features, by every kind of folds."""

from pathlib import Path
from typing import Any

import pandas as pd

from quantdrift import job
from quantdrift.prediction.features import inputs, rows
from quantdrift.prediction.judging import verdicts
from quantdrift.prediction.regressors import SPLITS
from quantdrift.report.written import save_table
from quantdrift.tables.behaviour import AGREEMENT_BLOCKS
from quantdrift.tables.io import provenance, read, write
from quantdrift.tables.prediction import PREDICTIONS, REGRESSORS
from quantdrift.tables.topology import DISTANCES, WEIGHT_ERROR

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params, out = snakemake.input, snakemake.params, snakemake.output
    its = inputs(
        read(DISTANCES, Path(given.distances)).to_pandas(),
        read(WEIGHT_ERROR, Path(given.errors)).to_pandas(),
        filtration=params.filtration,
        per_point=params.distances == "per_point",
        models=pd.DataFrame(params.models, columns=["model", "family", "parameters"]),
    )
    agreement = read(AGREEMENT_BLOCKS, Path(given.agreement)).to_pandas()
    found = rows(its, agreement, bos=params.bos)
    job.log.info("%d rows of %d models", len(found), found["model"].nunique())
    bos = {"bos": params.bos}
    numbers: list[dict[str, Any]] = []
    predictions: list[dict[str, Any]] = []
    for one in verdicts(found, SPLITS, job.progress, params.regressors):
        numbers.append(bos | one.numbers())
        predictions += (bos | row for row in one.predictions())
    made = job.provenance(
        filtration=params.filtration,
        distances_taken=params.distances,
        agreement=provenance(Path(given.agreement)),
        distances=provenance(Path(given.distances)),
        code=params.code,
    )
    save_table(
        REGRESSORS,
        pd.DataFrame(numbers),
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=made,
    )
    write(PREDICTIONS, predictions, Path(out.predictions), made)
