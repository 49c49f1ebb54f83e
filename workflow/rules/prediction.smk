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
        distances=STUDY.prediction.distances,
        bos=FORESEEN_BOS,
        regressors=STUDY.prediction.regressors,
        models=regressor_facts(),
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


rule stopping:
    """The level that each rule names that never runs the model: hits, early, late."""
    input:
        predictions=rules.regressors.output.predictions,
        agreement=rules.agreement_table.output.parquet,
        drift=rules.drift_table.output.parquet,
        errors=rules.weight_error_table.output.parquet,
    output:
        parquet=f"{PAGES}/tables/stopping.parquet",
        csv=f"{PAGES}/tables/stopping.csv",
        markdown=f"{PAGES}/tables/stopping.md",
        foreseen=f"{PAGES}/tables/foreseen.parquet",
    log:
        f"{LOGS}/stopping/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        choice=stopping_choice(),
        levels=levels(),
        models=model_facts(),
        datasets=dataset_facts(),
        code=digest("stopping.py"),
    message:
        "Stopping points of study {STUDY.name}"
    script:
        "../scripts/stopping.py"


rule predictor:
    """Regressors of agreement, saved with what they were fitted on; `predict` applies them."""
    input:
        distances=lambda w: needs_prediction(f"{PAGES}/tables/distances.parquet"),
        errors=f"{PAGES}/tables/weight_error.parquet",
        agreement=rules.agreement_table.output.blocks,
        predictions=rules.regressors.output.predictions,
    output:
        f"{PAGES}/predictor.skops",
    log:
        f"{LOGS}/predictor/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        choice=stopping_choice(),
        settings=drift_settings(),
        models=regressor_facts(),
        trained_on=[[m.id, m.label, m.parameters, m.blocks] for m in STUDY.models],
        labels={dataset.id: dataset.label for dataset in STUDY.datasets},
        code=digest("predictor.py"),
    message:
        "Fitting the predictor of study {STUDY.name}"
    script:
        "../scripts/predictor.py"


rule predict:
    """Agreement as a saved predictor foresees it from drift: the models are never run."""
    input:
        predictor=lambda w: chosen_predictor(),
        distances=f"{PAGES}/tables/distances.parquet",
        errors=f"{PAGES}/tables/weight_error.parquet",
    output:
        parquet=f"{PAGES}/tables/predict.parquet",
        csv=f"{PAGES}/tables/predict.csv",
        markdown=f"{PAGES}/tables/predict.md",
        blocks=f"{PAGES}/tables/predicted_blocks.parquet",
    log:
        f"{LOGS}/predict/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        mark=STUDY.prediction.marks[0],
        settings=drift_settings(),
        levels=levels(),
        models=model_facts(),
        facts=regressor_facts(),
        code=digest("predict.py"),
    message:
        "Predicting agreement for study {STUDY.name}"
    script:
        "../scripts/predict.py"


rule feature_importance:
    """What is lost when features are shuffled, one by one and in groups."""
    input:
        distances=rules.regressors.input.distances,
        errors=rules.regressors.input.errors,
        agreement=rules.regressors.input.agreement,
    output:
        parquet=f"{PAGES}/tables/feature_importance.parquet",
        csv=f"{PAGES}/tables/feature_importance.csv",
        markdown=f"{PAGES}/tables/feature_importance.md",
    log:
        f"{LOGS}/feature_importance/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        filtration=STUDY.prediction.filtration,
        distances=STUDY.prediction.distances,
        bos=FORESEEN_BOS,
        matrices=STUDY.prediction.matrices,
        regressors=STUDY.prediction.regressors,
        models=regressor_facts(),
        code=digest("feature_importance.py"),
    message:
        "Importance of features in study {STUDY.name}"
    script:
        "../scripts/feature_importance.py"


rule predicted_measured:
    """Agreement as foreseen against agreement as measured, block by block."""
    input:
        predictions=rules.regressors.output.predictions,
        templates=FIGURE_TEMPLATES,
    output:
        **{kind: f"{PAGES}/figures/predicted_measured.{kind}" for kind in FILES},
    log:
        f"{LOGS}/predicted_measured/{STUDY.name}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        choice=stopping_choice(),
        levels=levels(),
        models=model_facts(),
        datasets=dataset_facts(),
        top=AGREEMENT.top,
        code=digest("predicted_measured.py"),
    message:
        "Predicted against measured agreement"
    script:
        "../scripts/predicted_measured.py"


PREDICTION = [
    rules.topoquant_table_2.output,
    rules.stopping.output,
    rules.feature_importance.output,
    rules.predicted_measured.output,
    rules.predictor.output,
]
