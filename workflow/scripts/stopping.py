"""Which level each rule names that never runs the model, held against measured agreement."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.names import Names
from quantdrift.report.stopping_summary import Choice, foreseen_rows, stopping_rows
from quantdrift.report.written import save_table
from quantdrift.tables.behaviour import AGREEMENT_TABLE
from quantdrift.tables.io import provenance, read, write
from quantdrift.tables.prediction import FORESEEN, PREDICTIONS, STOPPING
from quantdrift.tables.report import DRIFT_TABLE, WEIGHT_ERROR_TABLE

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params, out = snakemake.input, snakemake.params, snakemake.output
    names = Names.of(params.levels, params.models, params.datasets)
    choice = Choice(**params.choice)
    predictions = read(PREDICTIONS, Path(given.predictions)).to_pandas()
    seen = foreseen_rows(predictions, choice, names)
    rows = stopping_rows(
        seen,
        names.described(read(AGREEMENT_TABLE, Path(given.agreement)).to_pandas()),
        names.described(read(DRIFT_TABLE, Path(given.drift)).to_pandas()),
        names.described(read(WEIGHT_ERROR_TABLE, Path(given.errors)).to_pandas()),
        choice,
        names,
    )
    made = job.provenance(
        **params.choice, predictions=provenance(Path(given.predictions)), code=params.code
    )
    save_table(
        STOPPING,
        rows,
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=made,
    )
    write(FORESEEN, seen[FORESEEN.schema.names].to_dict("records"), Path(out.foreseen), made)
    held = ((seen["lower"] <= seen["measured"]) & (seen["measured"] <= seen["upper"])).mean()
    job.log.info("%d of %d intervals hold", round(held * len(seen)), len(seen))
