"""Tables of a study, its figures, and the page."""

TEMPLATES = str(ROOT / "src" / "quantdrift" / "report")
FILES = ("html", "svg", "png", "csv", "json")
STYLED = ["chart.html.jinja", "head.html.jinja", "page.css", "page.js"]
FIGURE_TEMPLATES = [f"{TEMPLATES}/{name}" for name in ["figure.html.jinja", *STYLED]]
PAGE_TEMPLATES = [f"{TEMPLATES}/{name}" for name in ["page.html.jinja", *STYLED]]
WITH_GAUGES = bool(STUDY.gauge.schemes)
WITH_AGREEMENT = bool(DATASETS)
WITH_TEXT = bool(PROTOCOLS)
WITH_SHORTCUTS = bool(STUDY.shortcuts.schemes)
PUBLISHED = str(ROOT / "config" / "published")
# Logs mirror the shards; two kinds come from rules of other names, and agreement, choices and
# tokens from rules that measure all data sets or texts of a run at once.
MADE_BY = {
    "ledger": [],
    "tensors": ["checkpoint", "weights"],
    "agreement": [],
    "choices": [],
    "tokens": [],
}
RUNS = sorted(
    {
        str(Path(shard).parent.relative_to(f"{SHARDS}/agreement"))
        for shard in SHARDS_OF["agreement"]
    }
)
BASE_RUNS = [
    f"{model.id}/base/none/{AGREEMENT.preset}" for model in STUDY.models if DATASETS
]


rule table:
    """One table of the study: all shards of its kind."""
    input:
        lambda w: SHARDS_OF[w.kind],
    output:
        f"{PAGES}/tables/{{kind}}.parquet",
    log:
        f"{LOGS}/table/{STUDY.name}/{{kind}}.log",
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


rule projection_sensitivity:
    """Each projection at equal bits, and with the bits that the paper gives it."""
    input:
        drift=rules.drift_table.output.parquet,
        errors=rules.weight_error_table.output.parquet,
    output:
        parquet=f"{PAGES}/tables/projection_sensitivity.parquet",
        csv=f"{PAGES}/tables/projection_sensitivity.csv",
        markdown=f"{PAGES}/tables/projection_sensitivity.md",
    log:
        f"{LOGS}/projection_sensitivity/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        code=digest("projection_sensitivity.py"),
    message:
        "Table of projections at equal bits"
    script:
        "../scripts/projection_sensitivity.py"


rule beyond_attention:
    """Drift of every projection, and what smaller clouds make of it."""
    input:
        shortcuts=lambda w: needs_shortcuts(f"{PAGES}/tables/shortcuts.parquet"),
        errors=rules.weight_error_table.output.parquet,
    output:
        parquet=f"{PAGES}/tables/beyond_attention.parquet",
        csv=f"{PAGES}/tables/beyond_attention.csv",
        markdown=f"{PAGES}/tables/beyond_attention.md",
    log:
        f"{LOGS}/beyond_attention/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        code=digest("beyond_attention.py"),
    message:
        "Table of all projections and of smaller clouds"
    script:
        "../scripts/beyond_attention.py"


rule topoquant_figure_2:
    """TopoQuant's Figure 2: drift by level, a panel each for Q, K, V; and one diagram up close."""
    input:
        distances=f"{PAGES}/tables/distances.parquet",
        diagrams=f"{PAGES}/tables/diagrams.parquet",
        errors=rules.weight_error_table.output.parquet,
        templates=FIGURE_TEMPLATES,
    output:
        **{kind: f"{PAGES}/figures/topoquant_figure_2.{kind}" for kind in FILES},
        **{
            f"diagram_{kind}": f"{PAGES}/figures/topoquant_figure_2_diagram.{kind}"
            for kind in FILES
        },
    log:
        f"{LOGS}/topoquant_figure_2/{STUDY.name}.log",
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
        templates=FIGURE_TEMPLATES,
    output:
        **{kind: f"{PAGES}/figures/block_drift.{kind}" for kind in FILES},
    log:
        f"{LOGS}/block_drift/{STUDY.name}.log",
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
        templates=FIGURE_TEMPLATES,
    output:
        **{kind: f"{PAGES}/figures/gauge_drift_figure.{kind}" for kind in FILES},
    log:
        f"{LOGS}/gauge_drift_figure/{STUDY.name}.log",
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


rule agreement_table:
    """Attention agreement by level, data set and BOS policy (Parquet, CSV, Markdown)."""
    input:
        agreement=lambda w: needs_agreement(f"{PAGES}/tables/agreement.parquet"),
    output:
        parquet=f"{PAGES}/tables/agreement_table.parquet",
        csv=f"{PAGES}/tables/agreement_table.csv",
        markdown=f"{PAGES}/tables/agreement_table.md",
        blocks=f"{PAGES}/tables/agreement_blocks.parquet",
    log:
        f"{LOGS}/agreement_table/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        datasets=dataset_facts(),
        top=AGREEMENT.top,
        code=digest("agreement_table.py"),
    message:
        "Table of attention agreement"
    script:
        "../scripts/agreement_table.py"


rule topoquant_table_1:
    """TopoQuant's Table I: attention agreement, ours beside what the paper prints."""
    input:
        table=rules.agreement_table.output.parquet,
        published=f"{PUBLISHED}/topoquant_table_1.yaml",
    output:
        parquet=f"{PAGES}/tables/topoquant_table_1.parquet",
        csv=f"{PAGES}/tables/topoquant_table_1.csv",
        markdown=f"{PAGES}/tables/topoquant_table_1.md",
    log:
        f"{LOGS}/topoquant_table_1/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        datasets=dataset_facts(),
        top=AGREEMENT.top,
        code=digest("topoquant_table_1.py"),
    message:
        "Table I of TopoQuant"
    script:
        "../scripts/topoquant_table_1.py"


rule topoquant_figure_3:
    """TopoQuant's Figure 3: attention agreement against drift, a panel each for Q, K, V."""
    input:
        distances=f"{PAGES}/tables/distances.parquet",
        table=rules.agreement_table.output.parquet,
        templates=FIGURE_TEMPLATES,
    output:
        **{kind: f"{PAGES}/figures/topoquant_figure_3.{kind}" for kind in FILES},
    log:
        f"{LOGS}/topoquant_figure_3/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        datasets=dataset_facts(),
        top=AGREEMENT.top,
        threshold=TOPOLOGY.threshold,
        code=digest("topoquant_figure_3.py"),
    message:
        "Figure 3 of TopoQuant"
    script:
        "../scripts/topoquant_figure_3.py"


rule agreement_blocks:
    """Heat map of attention agreement, block x level: where it breaks first."""
    input:
        blocks=rules.agreement_table.output.blocks,
        templates=FIGURE_TEMPLATES,
    output:
        **{kind: f"{PAGES}/figures/agreement_blocks.{kind}" for kind in FILES},
    log:
        f"{LOGS}/agreement_blocks/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        datasets=dataset_facts(),
        top=AGREEMENT.top,
        code=digest("agreement_blocks.py"),
    message:
        "Heat map of attention agreement"
    script:
        "../scripts/agreement_blocks.py"


rule perplexity_table:
    """Perplexity, KL and top-token agreement by scheme and text (Parquet, CSV, Markdown)."""
    input:
        tokens=lambda w: needs_text(f"{PAGES}/tables/tokens.parquet"),
    output:
        parquet=f"{PAGES}/tables/perplexity_table.parquet",
        csv=f"{PAGES}/tables/perplexity_table.csv",
        markdown=f"{PAGES}/tables/perplexity_table.md",
    log:
        f"{LOGS}/perplexity_table/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        code=digest("perplexity_table.py"),
    message:
        "Table of perplexity and divergence"
    script:
        "../scripts/perplexity_table.py"


rule divergence:
    """Figure: KL, rise of perplexity and changed top tokens by level."""
    input:
        table=rules.perplexity_table.output.parquet,
        templates=FIGURE_TEMPLATES,
    output:
        **{kind: f"{PAGES}/figures/divergence.{kind}" for kind in FILES},
    log:
        f"{LOGS}/divergence/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        protocols=protocol_facts(),
        code=digest("divergence.py"),
    message:
        "Figure of divergence"
    script:
        "../scripts/divergence.py"


rule timings:
    """What each job of the study took: time and peak memory."""
    input:
        [f"{PAGES}/tables/{kind}.parquet" for kind in SHARDS_OF if SHARDS_OF[kind]],
    output:
        f"{PAGES}/tables/timings.parquet",
    log:
        f"{LOGS}/timings/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        folder=LOGS,
        logs=[
            f"{LOGS}/{maker}/{Path(shard).relative_to(f'{SHARDS}/{kind}').with_suffix('.log')}"
            for kind in SHARDS_OF
            for maker in MADE_BY.get(kind, [kind])
            for shard in SHARDS_OF[kind]
        ]
        + [f"{LOGS}/dataset/{dataset}.log" for dataset in DATASETS]
        + [f"{LOGS}/attention/{run}.log" for run in [*BASE_RUNS, *RUNS]]
        + [f"{LOGS}/agreement/{run}.log" for run in RUNS]
        + [f"{LOGS}/text/{protocol}.log" for protocol in PROTOCOLS]
        + [f"{LOGS}/reference/{model.id}.log" for model in STUDY.models if PROTOCOLS]
        + sorted(
            {
                f"{Path(shard.replace(SHARDS, LOGS)).parent}.log"
                for shard in SHARDS_OF["tokens"] + SHARDS_OF["choices"]
            }
        ),
        code=digest("timings.py"),
    message:
        "Timings"
    script:
        "../scripts/timings.py"


rule topoquant_table_3:
    """TopoQuant's Table III: what drift costs beside running the model."""
    input:
        timings=rules.timings.output[0],
        published=f"{PUBLISHED}/topoquant_table_3.yaml",
    output:
        parquet=f"{PAGES}/tables/topoquant_table_3.parquet",
        csv=f"{PAGES}/tables/topoquant_table_3.csv",
        markdown=f"{PAGES}/tables/topoquant_table_3.md",
    log:
        f"{LOGS}/topoquant_table_3/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        levels=levels(),
        models=model_facts(),
        code=digest("topoquant_table_3.py"),
    message:
        "Table III of TopoQuant"
    script:
        "../scripts/topoquant_table_3.py"


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
                "agreement",
            )
            if SHARDS_OF[kind]
        },
        errors=rules.weight_error_table.output.parquet,
        drift=rules.drift_table.output.parquet,
        agreement_table=(rules.agreement_table.output.parquet if WITH_AGREEMENT else []),
    output:
        f"{PAGES}/checks.md",
    log:
        f"{LOGS}/checks/{STUDY.name}.log",
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
        datasets=dataset_facts(),
        top=AGREEMENT.top,
        bos=AGREEMENT.bos,
        code=digest("checks.py"),
    message:
        "Checking the results of study {STUDY.name}"
    script:
        "../scripts/checks.py"
