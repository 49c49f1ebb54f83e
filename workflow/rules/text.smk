"""Behaviour on text: what is read, the base's states, and every predicted token of each scheme."""

# A study without protocols asks for none of these, but its rules need an output all the same.
READ = PROTOCOLS or ["none"]


rule text:
    """The documents of one protocol's text."""
    input:
        text_files,
    output:
        f"{SHARDS}/texts/{{protocol}}.parquet",
    log:
        f"{LOGS}/text/{{protocol}}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        source=lambda w: vars(STUDY.protocol(w.protocol).source),
        field=lambda w: STUDY.protocol(w.protocol).field,
        code=digest("text.py"),
    message:
        "Obtaining the text of {wildcards.protocol}"
    script:
        "../scripts/text.py"


rule reference:
    """Final hidden states of a base on all texts of the study."""
    input:
        checkpoint=rules.weights.output.checkpoint,
        tensors=rules.weights.output.tensors,
        texts=[f"{SHARDS}/texts/{protocol}.parquet" for protocol in READ],
    output:
        states=[f"{RESULTS}/reference/{{model}}/{protocol}.npy" for protocol in READ],
        about=[f"{RESULTS}/reference/{{model}}/{protocol}.json" for protocol in READ],
    log:
        f"{LOGS}/reference/{{model}}.log",
    conda:
        ENVIRONMENT
    threads: STUDY.behaviour.threads
    resources:
        mem_mb=lambda w: memory_of(STUDY.model(w.model)),
        runtime=240,
        gres="gpu:1" if STUDY.behaviour.device.startswith("cuda") else "",
    params:
        protocols=reading(),
        bos_token=lambda w: STUDY.model(w.model).bos_token,
        batch=STUDY.behaviour.batch,
        device=STUDY.behaviour.device,
        dtype=STUDY.behaviour.dtype,
        code=digest("reference.py"),
    message:
        "Reading with the base of {wildcards.model}"
    script:
        "../scripts/reference.py"


rule tokens:
    """Perplexity and divergence, token by token: all texts under one scheme in one load."""
    input:
        checkpoint=rules.weights.output.checkpoint,
        tensors=rules.weights.output.tensors,
        stored=stored_of,
        texts=rules.reference.input.texts,
        states=rules.reference.output.states,
    output:
        [
            f"{SHARDS}/tokens/{{model}}/{{scheme}}/{{short_rows}}/{protocol}.parquet"
            for protocol in READ
        ],
    log:
        f"{LOGS}/tokens/{{model}}/{{scheme}}/{{short_rows}}.log",
    conda:
        ENVIRONMENT
    threads: STUDY.behaviour.threads
    resources:
        mem_mb=lambda w: memory_of(STUDY.model(w.model)),
        runtime=480,
        gres="gpu:1" if STUDY.behaviour.device.startswith("cuda") else "",
    params:
        types=types_of,
        protocols=reading(),
        bos_token=lambda w: STUDY.model(w.model).bos_token,
        batch=STUDY.behaviour.batch,
        device=STUDY.behaviour.device,
        dtype=STUDY.behaviour.dtype,
        stage=STAGE,
        code=digest("tokens.py"),
    message:
        "Reading with {wildcards.model} under {wildcards.scheme}"
    script:
        "../scripts/tokens.py"
