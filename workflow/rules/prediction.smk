"""Prediction: agreement from drift, judged by folds that leak and by folds that do not."""


rule regressors:
    """How well every regressor foresees agreement, on every set of features, by every split."""
    input:
        distances=lambda w: needs_prediction(f"{PAGES}/tables/distances.parquet"),
        errors=f"{PAGES}/tables/weight_error.parquet",
        agreement=rules.agreement_table.output.blocks,
    output:
        parquet=f"{PAGES}/tables/regressors.parquet",
        csv=f"{PAGES}/tables/regressors.csv",
        markdown=f"{PAGES}/tables/regressors.md",
        predictions=f"{PAGES}/tables/predictions.parquet",
    log:
        f"{LOGS}/regressors/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        filtration=STUDY.prediction.filtration,
        bos=AGREEMENT.bos[0],
        models=[[m.id, m.family, m.parameters] for m in STUDY.models],
        code=digest("regressors.py"),
    message:
        "Regressors of study {STUDY.name}"
    script:
        "../scripts/regressors.py"


rule topoquant_table_2:
    """TopoQuant's Table II: R2 of predicted agreement, ours beside what the paper prints."""
    input:
        regressors=rules.regressors.output.parquet,
        published=f"{PUBLISHED}/topoquant_table_2.yaml",
    output:
        parquet=f"{PAGES}/tables/topoquant_table_2.parquet",
        csv=f"{PAGES}/tables/topoquant_table_2.csv",
        markdown=f"{PAGES}/tables/topoquant_table_2.md",
    log:
        f"{LOGS}/topoquant_table_2/{STUDY.name}.log",
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
        code=digest("topoquant_table_2.py"),
    message:
        "Table II of TopoQuant"
    script:
        "../scripts/topoquant_table_2.py"
