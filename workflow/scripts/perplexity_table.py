"""Perplexity and divergence by scheme and text."""

from pathlib import Path

from quantdrift import job
from quantdrift.report.names import Names
from quantdrift.report.text_summary import perplexity_rows
from quantdrift.report.written import save_table
from quantdrift.tables.io import provenance, read
from quantdrift.tables.text import PERPLEXITY_TABLE, TOKENS

if __name__ == "__main__":
    job.start(snakemake.log[0], snakemake.threads)
    params, out = snakemake.params, snakemake.output
    source = Path(snakemake.input.tokens)
    names = Names.of(params.levels, params.models)
    rows = perplexity_rows(read(TOKENS, source).to_pandas(), names)
    save_table(
        PERPLEXITY_TABLE,
        rows,
        parquet=Path(out.parquet),
        csv=Path(out.csv),
        markdown=Path(out.markdown),
        provenance=job.provenance(tokens=provenance(source), code=params.code),
    )
    job.log.info("%d rows", len(rows))
