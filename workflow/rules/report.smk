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
    params:
        code=digest("table.py"),
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    wildcard_constraints:
        kind="|".join(SHARDS_OF),
    conda:
        ENVIRONMENT
    message:
        "Table {wildcards.kind}"
    script:
        "../scripts/table.py"
