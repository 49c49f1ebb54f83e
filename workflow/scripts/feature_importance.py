"""What regressors lean on: permutation importance of features and of groups of them."""

from pathlib import Path
from typing import Any

import pandas as pd

from quantdrift import job
from quantdrift.prediction.features import inputs, rows
from quantdrift.prediction.judging import importances
from quantdrift.report.written import save_table
from quantdrift.tables.behaviour import AGREEMENT_BLOCKS
from quantdrift.tables.io import provenance, read
from quantdrift.tables.prediction import FEATURE_IMPORTANCE
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
    records: list[dict[str, Any]] = [
        {"bos": params.bos} | row
        for row in importances(found, params.matrices, job.progress, params.regressors)
    ]
    save_table(
        FEATURE_IMPORTANCE,
        pd.DataFrame(records),
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=job.provenance(
            filtration=params.filtration,
            distances_taken=params.distances,
            agreement=provenance(Path(given.agreement)),
            distances=provenance(Path(given.distances)),
            code=params.code,
        ),
    )
