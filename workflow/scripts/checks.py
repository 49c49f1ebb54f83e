"""Check the results of a study; fail, naming what is wrong, if they break a promise."""

from pathlib import Path

from quantdrift import job
from quantdrift.report import agreement_checks
from quantdrift.report.checks import Expected, integrity, markdown, raise_for
from quantdrift.report.claims import claims
from quantdrift.report.drift import with_home
from quantdrift.report.names import Names
from quantdrift.tables.behaviour import AGREEMENT, AGREEMENT_TABLE
from quantdrift.tables.io import read, write_text
from quantdrift.tables.report import DRIFT_TABLE, WEIGHT_ERROR_TABLE
from quantdrift.tables.topology import TABLES

KINDS = ("weight_error", "ledger", "diagrams", "distances", "gauge_drift")

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    given, params = snakemake.input, snakemake.params
    names = Names.of(params.levels, params.models, params.datasets, params.top)
    tables = {
        kind: read(TABLES[kind], Path(given[kind])).to_pandas() for kind in KINDS if given.get(kind)
    }
    if "gauge_drift" not in tables:
        tables["gauge_drift"] = TABLES["gauge_drift"].schema.empty_table().to_pandas()
    tables["gauge_drift"] = with_home(tables["gauge_drift"], names)
    expected = Expected(
        blocks=params.blocks,
        schemes=[scheme for scheme, _, _ in params.levels],
        roles=params.roles,
        filtrations=params.filtrations,
        gauge_schemes=params.gauge_schemes,
        gauge_seeds=params.gauge_seeds,
        gauge_step=params.gauge_step,
        datasets=[dataset.id for dataset in names.datasets],
        bos=params.bos,
    )
    drift = names.described(read(DRIFT_TABLE, Path(given.drift)).to_pandas())
    errors = names.described(read(WEIGHT_ERROR_TABLE, Path(given.errors)).to_pandas())
    found = integrity(tables, expected)
    claimed = claims(drift, errors, tables["gauge_drift"], names)
    if given.get("agreement"):
        rows = read(AGREEMENT, Path(given.agreement)).to_pandas()
        table = names.described(read(AGREEMENT_TABLE, Path(given.agreement_table)).to_pandas())
        found += agreement_checks.integrity(rows, expected)
        claimed += agreement_checks.claims(table, drift, errors, names)
    for check in [*found, *claimed]:
        job.log.info("%s: %s (%s)", "yes" if check.passed else "NO", check.name, check.numbers)
    raise_for(found)
    write_text(markdown(params.study, found, claimed), Path(snakemake.output[0]))
