"""Behaviour: the items of each data set, what each scheme attends to, agreement with the base."""

# A study without data sets asks for none of these, but its rules need an output all the same.
MEASURED_ON = DATASETS or ["none"]
RUN = "{model}/{scheme}/{short_rows}/{preset}"


rule dataset:
    """The items of one data set, as they are put to a model."""
    input:
        dataset_files,
    output:
        f"{SHARDS}/items/{{dataset}}.parquet",
    log:
        f"{LOGS}/dataset/{{dataset}}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        source=lambda w: vars(STUDY.dataset(w.dataset).source),
        schema=lambda w: STUDY.dataset(w.dataset).schema,
        code=digest("dataset.py"),
    message:
        "Obtaining the items of {wildcards.dataset}"
    script:
        "../scripts/dataset.py"


rule attention:
    """Top positions of the last token's attention: all data sets under one scheme in one load."""
    input:
        checkpoint=rules.weights.output.checkpoint,
        tensors=rules.weights.output.tensors,
        stored=stored_of,
        questions=[f"{SHARDS}/items/{dataset}.parquet" for dataset in MEASURED_ON],
    output:
        [f"{SHARDS}/attention/{RUN}/{dataset}.parquet" for dataset in MEASURED_ON],
    log:
        f"{LOGS}/attention/{RUN}.log",
    conda:
        ENVIRONMENT
    threads: STUDY.behaviour.threads
    resources:
        mem_mb=lambda w: memory_of(STUDY.model(w.model)),
        runtime=480,
        gres="gpu:1" if STUDY.behaviour.device.startswith("cuda") else "",
    params:
        types=types_of,
        datasets=DATASETS,
        n_items=AGREEMENT.items,
        item_seed=AGREEMENT.item_seed,
        top=AGREEMENT.top,
        bos=AGREEMENT.bos,
        heads=AGREEMENT.heads,
        bos_token=lambda w: STUDY.model(w.model).bos_token,
        batch=STUDY.behaviour.batch,
        device=STUDY.behaviour.device,
        dtype=STUDY.behaviour.dtype,
        stage=STAGE,
        code=digest("attention.py"),
    message:
        "Attention of {wildcards.model} under {wildcards.scheme}"
    script:
        "../scripts/attention.py"


rule agreement:
    """Top-1 match and top-k IoU of a scheme's attention with the base's, item by item."""
    input:
        base=[
            f"{SHARDS}/attention/{{model}}/base/none/{{preset}}/{dataset}.parquet"
            for dataset in MEASURED_ON
        ],
        quantized=rules.attention.output,
    output:
        [f"{SHARDS}/agreement/{RUN}/{dataset}.parquet" for dataset in MEASURED_ON],
    log:
        f"{LOGS}/agreement/{RUN}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        top=AGREEMENT.top,
        code=digest("agreement.py"),
    message:
        "Agreement of {wildcards.model} under {wildcards.scheme} with its base"
    script:
        "../scripts/agreement.py"
