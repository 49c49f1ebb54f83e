"""The page of a study, from everything that was measured."""


rule report:
    """The page of the study: the answer, the evidence, and how it was made."""
    input:
        **(
            {
                "agreement": f"{PAGES}/tables/agreement.parquet",
                "agreement_table": rules.agreement_table.output.parquet,
                "agreement_blocks": rules.agreement_table.output.blocks,
                "agreement_grid": rules.topoquant_table_1.output.parquet,
                "published": f"{PUBLISHED}/topoquant_table_1.yaml",
            }
            if WITH_AGREEMENT
            else {}
        ),
        **(
            {
                "regressors": rules.regressors.output.parquet,
                "stopping": rules.stopping.output.parquet,
                "foreseen": rules.stopping.output.foreseen,
                "importance": rules.feature_importance.output.parquet,
                "prediction_figures": [rules.predicted_measured.output.json],
            }
            if STUDY.prediction.on_page
            else {}
        ),
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
        agreement_figures=(
            [
                rules.topoquant_figure_3.output.json,
                rules.agreement_blocks.output.json,
            ]
            if WITH_AGREEMENT
            else []
        ),
        accuracy=rules.accuracy_table.output.parquet if STUDY.accuracy.datasets else [],
        text=rules.perplexity_table.output.parquet if WITH_TEXT else [],
        text_figures=[rules.divergence.output.json] if WITH_TEXT else [],
        timings=rules.timings.output[0],
        tensors=SHARDS_OF["tensors"],
        templates=PAGE_TEMPLATES,
    output:
        f"{PAGES}/report.html",
    log:
        f"{LOGS}/report/{STUDY.name}.log",
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
        datasets=dataset_facts(),
        protocols=protocol_facts(),
        choice=stopping_choice(),
        top=AGREEMENT.top,
        threshold=TOPOLOGY.threshold,
        points=TOPOLOGY.points,
        code=digest("report.py"),
    message:
        "The page of study {STUDY.name}"
    script:
        "../scripts/report.py"
