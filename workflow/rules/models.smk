"""Checkpoints: obtained once, then one directory of safetensors and a manifest a model."""


rule checkpoint:
    """One checkpoint on this machine: from a wheel, the hub, or where it lies."""
    input:
        source_files,
    output:
        f"{RESULTS}/sources/{{model}}.json",
    log:
        f"{LOGS}/checkpoint/{{model}}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=240,
    params:
        source=lambda w: plain(STUDY.model(w.model).source),
        downloads=STUDY.downloads,
        code=digest("checkpoint.py"),
    message:
        "Obtaining the checkpoint of {wildcards.model}"
    script:
        "../scripts/checkpoint.py"


rule weights:
    """A directory of safetensors, moved to its gauge, and a manifest of its tensors."""
    input:
        source=rules.checkpoint.output[0],
    output:
        checkpoint=directory(f"{RESULTS}/models/{{model}}"),
        tensors=f"{SHARDS}/tensors/{{model}}.parquet",
    log:
        f"{LOGS}/weights/{{model}}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=120,
    params:
        regauge_seed=lambda w: STUDY.model(w.model).regauge_seed,
        code=digest("weights.py"),
    message:
        "Preparing the weights of {wildcards.model}"
    script:
        "../scripts/weights.py"


rule file_source:
    """One quantized file on this machine: from the hub, a wheel, or where it lies."""
    input:
        quantized_files,
    output:
        f"{RESULTS}/sources/{{model}}/{{scheme}}.json",
    log:
        f"{LOGS}/file_source/{{model}}/{{scheme}}.log",
    wildcard_constraints:
        scheme=r"[a-z0-9._-]+-file",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=240,
    params:
        source=lambda w: plain(file_of(w)),
        downloads=STUDY.downloads,
        code=digest("checkpoint.py"),
    message:
        "Obtaining {wildcards.scheme} of {wildcards.model}"
    script:
        "../scripts/checkpoint.py"


rule quantized_file:
    """The matrices of a quantized file in the gauge of its base, with their types and bits."""
    input:
        source=rules.file_source.output[0],
        checkpoint=rules.weights.output.checkpoint,
    output:
        # Dense float32 is not kept: it is made again where it is needed.
        weights=temp(directory(f"{RESULTS}/files/{{model}}/{{scheme}}")),
        manifest=f"{RESULTS}/files/{{model}}/{{scheme}}.json",
    log:
        f"{LOGS}/quantized_file/{{model}}/{{scheme}}.log",
    wildcard_constraints:
        scheme=r"[a-z0-9._-]+-file",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=120,
    params:
        regauge_seed=lambda w: STUDY.model(w.model).regauge_seed,
        code=digest("quantized_file.py"),
    message:
        "Opening {wildcards.scheme} of {wildcards.model}"
    script:
        "../scripts/quantized_file.py"
