"""Checkpoints: obtained once, then one directory of safetensors and a manifest a model."""


def source_files(wildcards):
    """A local checkpoint's own files, so that changing them remakes its weights."""
    source = STUDY.model(wildcards.model).source
    if source.kind != "local":
        return []
    path = Path(source.path)
    if path.is_file():
        return [str(path)]
    patterns = ("config.json", "*.safetensors", "pytorch_model*.bin")
    return sorted(str(file) for pattern in patterns for file in path.glob(pattern))


rule checkpoint:
    input:
        source_files,
    output:
        f"{RESULTS}/models/{{model}}.source.json",
    log:
        f"{LOGS}/checkpoint/{{model}}.log",
    benchmark:
        f"{BENCHMARKS}/checkpoint/{{model}}.tsv"
    params:
        source=lambda w: vars(STUDY.model(w.model).source),
        downloads=STUDY.downloads,
        code=digest("checkpoint.py"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=240,
    conda:
        ENVIRONMENT
    message:
        "Obtaining the checkpoint of {wildcards.model}"
    script:
        "../scripts/checkpoint.py"


rule weights:
    input:
        source=rules.checkpoint.output[0],
    output:
        checkpoint=directory(f"{RESULTS}/models/{{model}}"),
        tensors=f"{SHARDS}/tensors/{{model}}.parquet",
    log:
        f"{LOGS}/weights/{{model}}.log",
    benchmark:
        f"{BENCHMARKS}/weights/{{model}}.tsv"
    params:
        regauge_seed=lambda w: STUDY.model(w.model).regauge_seed,
        code=digest("weights.py"),
    threads: 1
    resources:
        mem_mb=8000,
        runtime=120,
    conda:
        ENVIRONMENT
    message:
        "Preparing the weights of {wildcards.model}"
    script:
        "../scripts/weights.py"
