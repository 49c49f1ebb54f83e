"""Tables of a study, its figures, and the page."""


rule table:
    input:
        lambda w: SHARDS_OF[w.kind],
    output:
        f"{PAGES}/tables/{{kind}}.parquet",
    log:
        f"{LOGS}/table/{STUDY.name}/{{kind}}.log",
    benchmark:
        f"{BENCHMARKS}/table/{STUDY.name}/{{kind}}.tsv"
    wildcard_constraints:
        kind="|".join(SHARDS_OF),
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=digest("table.py"),
    message:
        "Table {wildcards.kind}"
    script:
        "../scripts/table.py"
