"""TopoQuant's weight side: errors and bits, diagrams, distances, and what a gauge does to drift."""

MEASURED = "{model}/{scheme}/{short_rows}/{role}/{blocks}"
TOPOLOGICAL = "{model}/{scheme}/{short_rows}/{preset}/{role}/{blocks}"


rule weight_error:
    """Weight error and bits of one role's matrices under one scheme."""
    input:
        checkpoint=rules.weights.output.checkpoint,
        tensors=rules.weights.output.tensors,
        stored=stored_of,
    output:
        weight_error=f"{SHARDS}/weight_error/{MEASURED}.parquet",
        ledger=f"{SHARDS}/ledger/{MEASURED}.parquet",
    log:
        f"{LOGS}/weight_error/{MEASURED}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        type=type_of,
        code=digest("weight_error.py"),
    message:
        "Weight error: {wildcards.role} of {wildcards.model} under {wildcards.scheme}"
    script:
        "../scripts/weight_error.py"


rule diagrams:
    """H0 diagrams of one role's matrices under one scheme, uncensored."""
    input:
        checkpoint=rules.weights.output.checkpoint,
        tensors=rules.weights.output.tensors,
        stored=stored_of,
    output:
        f"{SHARDS}/diagrams/{TOPOLOGICAL}.parquet",
    log:
        f"{LOGS}/diagrams/{TOPOLOGICAL}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        type=type_of,
        points=TOPOLOGY.points,
        backend=TOPOLOGY.backend,
        precision=TOPOLOGY.precision,
        max_points=TOPOLOGY.max_points,
        sample_seed=TOPOLOGY.sample_seed,
        stage=STAGE,
        code=digest("diagrams.py"),
    message:
        "Diagrams: {wildcards.role} of {wildcards.model} under {wildcards.scheme}"
    script:
        "../scripts/diagrams.py"


rule distances:
    """Seven distances, under each filtration, between the diagrams of a scheme and of the base."""
    input:
        base=f"{SHARDS}/diagrams/{{model}}/base/none/{{preset}}/{{role}}/{{blocks}}.parquet",
        quantized=rules.diagrams.output[0],
    output:
        f"{SHARDS}/distances/{TOPOLOGICAL}.parquet",
    log:
        f"{LOGS}/distances/{TOPOLOGICAL}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
        runtime=120,
    params:
        threshold=TOPOLOGY.threshold,
        filtrations=TOPOLOGY.filtrations,
        grids=TOPOLOGY.grids,
        code=digest("distances.py"),
    message:
        "Distances: {wildcards.role} of {wildcards.model} under {wildcards.scheme}"
    script:
        "../scripts/distances.py"


rule gauge_drift:
    """Drift of the same matrices in several gauges of the model."""
    input:
        checkpoint=rules.weights.output.checkpoint,
        tensors=rules.weights.output.tensors,
        stored=stored_of,
    output:
        f"{SHARDS}/gauge_drift/{TOPOLOGICAL}.parquet",
    log:
        f"{LOGS}/gauge_drift/{TOPOLOGICAL}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        type=type_of,
        seeds=STUDY.gauge.seeds,
        block_step=STUDY.gauge.block_step,
        home_seed=lambda w: STUDY.model(w.model).regauge_seed,
        threshold=TOPOLOGY.threshold,
        filtrations=TOPOLOGY.filtrations,
        points=TOPOLOGY.points,
        backend=TOPOLOGY.backend,
        directions=TOPOLOGY.grids["swd_directions"],
        precision=TOPOLOGY.precision,
        max_points=TOPOLOGY.max_points,
        sample_seed=TOPOLOGY.sample_seed,
        stage=STAGE,
        code=digest("gauge_drift.py"),
    message:
        "Drift over gauges: {wildcards.role} of {wildcards.model} under {wildcards.scheme}"
    script:
        "../scripts/gauge_drift.py"


rule shortcuts:
    """Drift of the same matrices from a sample of their rows, and in fewer dimensions."""
    input:
        checkpoint=rules.weights.output.checkpoint,
        tensors=rules.weights.output.tensors,
        stored=stored_of,
    output:
        f"{SHARDS}/shortcuts/{TOPOLOGICAL}.parquet",
    log:
        f"{LOGS}/shortcuts/{TOPOLOGICAL}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        type=type_of,
        sizes=STUDY.shortcuts.sizes,
        ranks=STUDY.shortcuts.ranks,
        draws=STUDY.shortcuts.draws,
        block_step=STUDY.shortcuts.block_step,
        threshold=TOPOLOGY.threshold,
        filtrations=TOPOLOGY.filtrations,
        backend=TOPOLOGY.backend,
        directions=TOPOLOGY.grids["swd_directions"],
        precision=TOPOLOGY.precision,
        code=digest("shortcuts.py"),
    message:
        "Shortcuts: {wildcards.role} of {wildcards.model} under {wildcards.scheme}"
    script:
        "../scripts/shortcuts.py"
