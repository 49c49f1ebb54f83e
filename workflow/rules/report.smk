"""Tables of a study, its figures, and the page."""

TEMPLATES = f"{ROOT}/src/quantdrift/report"
FILES = ("html", "svg", "png", "csv", "json")
WITH_GAUGES = bool(STUDY.gauge.schemes)
# Benchmark files mirror the shards; two kinds come from rules of other names.
MADE_BY = {"ledger": [], "tensors": ["checkpoint", "weights"]}


rule table:
    """One table of the study: all shards of its kind."""
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


rule weight_error_table:
    """Weight error and bits by scheme and projection (Parquet, CSV, Markdown)."""
    input:
        weight_error=f"{PAGES}/tables/weight_error.parquet",
    output:
        parquet=f"{PAGES}/tables/weight_error_table.parquet",
        csv=f"{PAGES}/tables/weight_error_table.csv",
        markdown=f"{PAGES}/tables/weight_error_table.md",
    log:
        f"{LOGS}/weight_error_table/{STUDY.name}.log",
    benchmark:
        f"{BENCHMARKS}/weight_error_table/{STUDY.name}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        code=digest("weight_error_table.py"),
    message:
        "Table of weight errors"
    script:
        "../scripts/weight_error_table.py"


rule drift_table:
    """Drift (SWD) and bars by scheme, projection and filtration (Parquet, CSV, Markdown)."""
    input:
        distances=f"{PAGES}/tables/distances.parquet",
        diagrams=f"{PAGES}/tables/diagrams.parquet",
    output:
        parquet=f"{PAGES}/tables/drift_table.parquet",
        csv=f"{PAGES}/tables/drift_table.csv",
        markdown=f"{PAGES}/tables/drift_table.md",
    log:
        f"{LOGS}/drift_table/{STUDY.name}.log",
    benchmark:
        f"{BENCHMARKS}/drift_table/{STUDY.name}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        code=digest("drift_table.py"),
    message:
        "Table of drift"
    script:
        "../scripts/drift_table.py"


rule topoquant_figure_2:
    """TopoQuant's Figure 2: drift by level, a panel each for Q, K, V; and one diagram up close."""
    input:
        distances=f"{PAGES}/tables/distances.parquet",
        diagrams=f"{PAGES}/tables/diagrams.parquet",
        errors=rules.weight_error_table.output.parquet,
        templates=expand(
            f"{TEMPLATES}/{{name}}",
            name=[
                "figure.html.jinja",
                "chart.html.jinja",
                "head.html.jinja",
                "page.css",
                "page.js",
            ],
        ),
    output:
        **{kind: f"{PAGES}/figures/topoquant_figure_2.{kind}" for kind in FILES},
        **{
            f"diagram_{kind}": f"{PAGES}/figures/topoquant_figure_2_diagram.{kind}"
            for kind in FILES
        },
    log:
        f"{LOGS}/topoquant_figure_2/{STUDY.name}.log",
    benchmark:
        f"{BENCHMARKS}/topoquant_figure_2/{STUDY.name}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        threshold=TOPOLOGY.threshold,
        code=digest("topoquant_figure_2.py"),
    message:
        "Figure 2 of TopoQuant"
    script:
        "../scripts/topoquant_figure_2.py"


rule block_drift:
    """Heat map of drift, block x level for each projection: where quantization hurts most."""
    input:
        distances=f"{PAGES}/tables/distances.parquet",
        templates=expand(
            f"{TEMPLATES}/{{name}}",
            name=[
                "figure.html.jinja",
                "chart.html.jinja",
                "head.html.jinja",
                "page.css",
                "page.js",
            ],
        ),
    output:
        **{kind: f"{PAGES}/figures/block_drift.{kind}" for kind in FILES},
    log:
        f"{LOGS}/block_drift/{STUDY.name}.log",
    benchmark:
        f"{BENCHMARKS}/block_drift/{STUDY.name}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        threshold=TOPOLOGY.threshold,
        code=digest("block_drift.py"),
    message:
        "Heat map of drift"
    script:
        "../scripts/block_drift.py"


rule gauge_drift_figure:
    """Drift of one model in several gauges: how much of it is convention."""
    input:
        gauge_drift=f"{PAGES}/tables/gauge_drift.parquet" if WITH_GAUGES else [],
        templates=expand(
            f"{TEMPLATES}/{{name}}",
            name=[
                "figure.html.jinja",
                "chart.html.jinja",
                "head.html.jinja",
                "page.css",
                "page.js",
            ],
        ),
    output:
        **{kind: f"{PAGES}/figures/gauge_drift_figure.{kind}" for kind in FILES},
    log:
        f"{LOGS}/gauge_drift_figure/{STUDY.name}.log",
    benchmark:
        f"{BENCHMARKS}/gauge_drift_figure/{STUDY.name}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        threshold=TOPOLOGY.threshold,
        code=digest("gauge_drift_figure.py"),
    message:
        "Figure of drift over gauges"
    script:
        "../scripts/gauge_drift_figure.py"


rule timings:
    """What each job of the study took: time and peak memory."""
    input:
        [f"{PAGES}/tables/{kind}.parquet" for kind in SHARDS_OF if SHARDS_OF[kind]],
    output:
        f"{PAGES}/tables/timings.parquet",
    log:
        f"{LOGS}/timings/{STUDY.name}.log",
    benchmark:
        f"{BENCHMARKS}/timings/{STUDY.name}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        folder=BENCHMARKS,
        benchmarks=[
            f"{BENCHMARKS}/{maker}/{Path(shard).relative_to(f'{SHARDS}/{kind}').with_suffix('.tsv')}"
            for kind in SHARDS_OF
            for maker in MADE_BY.get(kind, [kind])
            for shard in SHARDS_OF[kind]
        ],
        code=digest("timings.py"),
    message:
        "Timings"
    script:
        "../scripts/timings.py"


rule checks:
    """Tests of the results: integrity (a failure fails the run) and claims (reported)."""
    input:
        **{
            kind: f"{PAGES}/tables/{kind}.parquet"
            for kind in (
                "weight_error",
                "ledger",
                "diagrams",
                "distances",
                "gauge_drift",
            )
            if SHARDS_OF[kind]
        },
        errors=rules.weight_error_table.output.parquet,
        drift=rules.drift_table.output.parquet,
    output:
        f"{PAGES}/checks.md",
    log:
        f"{LOGS}/checks/{STUDY.name}.log",
    benchmark:
        f"{BENCHMARKS}/checks/{STUDY.name}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.name,
        levels=levels(),
        models=model_facts(),
        blocks={model.id: blocks_of(model) for model in STUDY.models},
        roles=STUDY.roles,
        filtrations=TOPOLOGY.filtrations,
        gauge_schemes=STUDY.gauge.schemes,
        gauge_seeds=STUDY.gauge.seeds,
        gauge_step=STUDY.gauge.block_step,
        code=digest("checks.py"),
    message:
        "Checking the results of study {STUDY.name}"
    script:
        "../scripts/checks.py"


rule report:
    """The page of the study: the answer, the evidence, and how it was made."""
    input:
        figures=[
            rules.topoquant_figure_2.output.json,
            rules.topoquant_figure_2.output.diagram_json,
            rules.block_drift.output.json,
            *([rules.gauge_drift_figure.output.json] if WITH_GAUGES else []),
        ],
        errors=rules.weight_error_table.output.parquet,
        drift=rules.drift_table.output.parquet,
        distances=f"{PAGES}/tables/distances.parquet",
        diagrams=f"{PAGES}/tables/diagrams.parquet",
        weight_error=f"{PAGES}/tables/weight_error.parquet",
        gauge_drift=f"{PAGES}/tables/gauge_drift.parquet" if WITH_GAUGES else [],
        timings=rules.timings.output[0],
        tensors=SHARDS_OF["tensors"],
        templates=expand(
            f"{TEMPLATES}/{{name}}",
            name=[
                "page.html.jinja",
                "chart.html.jinja",
                "head.html.jinja",
                "page.css",
                "page.js",
            ],
        ),
    output:
        f"{PAGES}/report.html",
    log:
        f"{LOGS}/report/{STUDY.name}.log",
    benchmark:
        f"{BENCHMARKS}/report/{STUDY.name}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.name,
        levels=levels(),
        models=model_facts(),
        short_rows=STUDY.short_rows,
        threshold=TOPOLOGY.threshold,
        points=TOPOLOGY.points,
        code=digest("report.py"),
    message:
        "The page of study {STUDY.name}"
    script:
        "../scripts/report.py"
