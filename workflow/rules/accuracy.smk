"""Multiple choice: how likely each scheme holds every choice, and accuracy beside the base's."""

# A study that scores no choices asks for none of these, but its rules need an output all the same.
SCORED = STUDY.accuracy.datasets or ["none"]


rule choices:
    """Log-likelihood of every choice: all data sets that are scored, under one scheme in one load."""
    input:
        checkpoint=rules.weights.output.checkpoint,
        tensors=rules.weights.output.tensors,
        stored=stored_of,
        questions=[f"{SHARDS}/items/{dataset}.parquet" for dataset in SCORED],
    output:
        [f"{SHARDS}/choices/{RUN}/{dataset}.parquet" for dataset in SCORED],
    log:
        f"{LOGS}/choices/{RUN}.log",
    conda:
        ENVIRONMENT
    threads: STUDY.behaviour.threads
    resources:
        mem_mb=lambda w: memory_of(STUDY.model(w.model)),
        runtime=480,
        gres="gpu:1" if STUDY.behaviour.device.startswith("cuda") else "",
    params:
        types=types_of,
        datasets=STUDY.accuracy.datasets,
        n_items=STUDY.accuracy.items,
        item_seed=STUDY.accuracy.item_seed,
        bos=STUDY.accuracy.bos,
        bos_token=lambda w: STUDY.model(w.model).bos_token,
        batch=STUDY.behaviour.batch,
        device=STUDY.behaviour.device,
        dtype=STUDY.behaviour.dtype,
        stage=STAGE,
        code=digest("choices.py"),
    message:
        "Choices of {wildcards.model} under {wildcards.scheme}"
    script:
        "../scripts/choices.py"


rule accuracy_table:
    """Accuracy (acc, acc_norm), flips and their errors by scheme (Parquet, CSV, Markdown)."""
    input:
        choices=lambda w: needs_accuracy(f"{PAGES}/tables/choices.parquet"),
    output:
        parquet=f"{PAGES}/tables/accuracy_table.parquet",
        csv=f"{PAGES}/tables/accuracy_table.csv",
        markdown=f"{PAGES}/tables/accuracy_table.md",
    log:
        f"{LOGS}/accuracy_table/{STUDY.name}.log",
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
        code=digest("accuracy_table.py"),
    message:
        "Accuracy"
    script:
        "../scripts/accuracy_table.py"
