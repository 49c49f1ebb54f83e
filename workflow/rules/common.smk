"""Every helper of the workflow: the study, the names of its shards, what a job depends on."""

import dataclasses
import os
from pathlib import Path

import quantdrift.config
import quantdrift.data.rows
import quantdrift.digest
import quantdrift.models.headers

# Relative: a checkout that is moved or copied with its results has nothing to do again.
ROOT = Path(os.path.relpath(Path(workflow.basedir).resolve()))
try:
    STUDY = quantdrift.config.load(ROOT / "config", config)
except quantdrift.config.ConfigurationError as error:
    raise WorkflowError(str(error)) from None
RESULTS = STUDY.results
SHARDS = f"{RESULTS}/shards"
LOGS = f"{RESULTS}/logs"
PAGES = f"{RESULTS}/{STUDY.name}"
STAGE = f"{RESULTS}/.stage"
TOPOLOGY = STUDY.topology
AGREEMENT = STUDY.agreement
# What statements are made of and predictors foresee: as the paper has it, where it was measured.
FORESEEN_BOS = "with" if "with" in AGREEMENT.bos else AGREEMENT.bos[0]
DATASETS = [dataset.id for dataset in STUDY.datasets]
PROTOCOLS = [protocol.id for protocol in STUDY.protocols]
ENVIRONMENT = "../../envs/quantdrift.yaml"


wildcard_constraints:
    model=r"[a-z0-9._-]+",
    scheme=r"[a-z0-9._-]+",
    short_rows="flat|fallback|error|none",
    preset=r"[a-z0-9_-]+",
    role="q|k|v|o|gate|up|down",
    dataset=r"[a-z0-9._-]+",
    protocol=r"[a-z0-9._-]+",
    blocks=r"\d+-\d+",


def digest(script):
    """The hash of a script's code and of all library code it reaches."""
    return quantdrift.digest.digest(ROOT / "workflow" / "scripts" / script)


def blocks_of(model):
    """How many blocks a model has: from its config, else from its header."""
    if model.blocks is None:
        return quantdrift.models.headers.count_blocks(Path(model.source.path))
    return model.blocks


def slices_of(model):
    """The ranges of blocks that one job each measures, as they stand in paths."""
    blocks = blocks_of(model)
    step = STUDY.blocks_per_job or blocks
    starts = range(0, blocks, step)
    return [f"{start:03d}-{min(start + step, blocks) - 1:03d}" for start in starts]


def short_rows_of(scheme):
    """The short_rows part of a shard's path: none for the base and files, which fit as they are."""
    if scheme == "base" or STUDY.scheme(scheme).method == "file":
        return "none"
    return STUDY.short_rows


def type_of(wildcards):
    """The type that a job's scheme gives its role; `file` where the file has it."""
    if wildcards.scheme == "base":
        return "base"
    return STUDY.scheme(wildcards.scheme).types.get(wildcards.role, "file")


def types_of(wildcards):
    """The type that a job's scheme gives each role; none for the base and for files."""
    if wildcards.scheme == "base":
        return {}
    return dict(STUDY.scheme(wildcards.scheme).types)


def stored_of(wildcards):
    """The written weights of a scheme that is a file; those of others are made on the fly."""
    if wildcards.scheme == "base" or STUDY.scheme(wildcards.scheme).method != "file":
        return []
    return f"{RESULTS}/files/{wildcards.model}/{wildcards.scheme}"


def file_of(wildcards):
    """Where the quantized file lies that a scheme measures."""
    return STUDY.model(wildcards.model).files[wildcards.scheme]


def memory_of(model):
    """MB that a whole model needs: its weights with a quarter of air, and the interpreter."""
    n_bytes = 2 if STUDY.behaviour.dtype == "bfloat16" else 4
    return round(1.25 * n_bytes * (model.parameters or 2_000_000_000) / 1e6) + 2000


def levels():
    """What figures need of each scheme: its id, level and variant, in the study's order."""
    return [[scheme.id, scheme.level, scheme.variant] for scheme in STUDY.schemes]


def model_facts():
    """What the page says about each model."""
    return [
        [
            model.id,
            model.label,
            model.license,
            model.regauge_seed,
            describe(model.source),
        ]
        for model in STUDY.models
    ]


def dataset_facts():
    """What the page says about each data set; the last tells whether its items are ours."""
    return [
        [
            dataset.id,
            dataset.label,
            dataset.schema,
            dataset.license,
            dataset.source.kind == "own",
        ]
        for dataset in STUDY.datasets
    ]


def dataset_files(wildcards):
    """The local copy of a hub's data set, where the study names a folder for those."""
    return local_copy(STUDY.dataset(wildcards.dataset))


def text_files(wildcards):
    """The same of a protocol's text."""
    return local_copy(STUDY.protocol(wildcards.protocol))


def local_copy(named):
    """The file under data.dir that a data set or a protocol is read from instead of the hub."""
    if STUDY.data.dir is None or named.source.kind == "own":
        return []
    try:
        return str(quantdrift.data.rows.local_file(Path(STUDY.data.dir), named.local))
    except quantdrift.data.rows.DataError as error:
        raise WorkflowError(str(error)) from None


def reading():
    """What the jobs that read need of each protocol."""
    shaping = ("id", "join", "tokens", "window", "stride", "context", "bos")
    return [{name: getattr(p, name) for name in shaping} for p in STUDY.protocols]


def protocol_facts():
    """What tables and pages say about each protocol."""
    return [[p.id, p.label, p.license, p.source.kind == "own"] for p in STUDY.protocols]


def needs_prediction(path):
    """The path, if the study measures what is predicted and from what; else say what does."""
    lacking = [role for role in ("q", "k", "v") if role not in STUDY.roles]
    if lacking or not DATASETS:
        raise WorkflowError(
            f"study {STUDY.name} cannot predict agreement: it "
            + (
                f"lacks the roles {', '.join(lacking)}"
                if lacking
                else "names no data sets"
            )
            + ". The study demo can: --config study=demo."
        )
    return path


def stopping_choice():
    """Which predictions name stopping points, and what counts as safe."""
    shaping = ("regressor", "features", "matrices", "coverage", "marks")
    return {name: getattr(STUDY.prediction, name) for name in shaping}


def needs_accuracy(path):
    """The path, if the study scores choices; else say how one does."""
    if not STUDY.accuracy.datasets:
        raise WorkflowError(
            f"study {STUDY.name} names no accuracy.datasets, so it scores no choices. The study "
            "prediction does; or name some of its data sets: "
            """--config set='["accuracy.datasets=[own-arc]"]'."""
        )
    return path


def drift_settings():
    """How this study takes drift and agreement: a predictor of other settings does not fit."""
    return {
        "filtration": STUDY.prediction.filtration,
        "distances": STUDY.prediction.distances,
        "points": TOPOLOGY.points,
        "threshold": TOPOLOGY.threshold,
        "grids": TOPOLOGY.grids,
        "max_points": TOPOLOGY.max_points,
        "heads": AGREEMENT.heads,
        "top": AGREEMENT.top,
        "bos": FORESEEN_BOS,
    }


def regressor_facts():
    """What regressors know of each model without looking at a weight."""
    return [[model.id, model.family, model.parameters] for model in STUDY.models]


def chosen_predictor():
    """The predictor that the study names; else say how to make one."""
    lacking = [role.upper() for role in ("q", "k", "v") if role not in STUDY.roles]
    if lacking:
        raise WorkflowError(
            f"study {STUDY.name} lacks the roles {', '.join(lacking)}, which predictors read."
        )
    path = STUDY.prediction.predictor
    if path is None or not Path(path).is_file():
        raise WorkflowError(
            "predict needs a predictor"
            + (f", and there is no {path}" if path else "")
            + ". Fit one: snakemake predictor --config study=prediction; then name it: "
            """set='["prediction.predictor=results/prediction/predictor.skops"]'."""
        )
    return path


def needs_text(path):
    """The path, if the study reads text; else say what does."""
    if not PROTOCOLS:
        raise WorkflowError(
            f"study {STUDY.name} names no protocols, so it reads no text. The study demo does: "
            """--config study=demo; or add one: --config set='["protocols=[sample-4k]"]'."""
        )
    return path


def needs_agreement(path):
    """The path, if the study measures attention; else say what does."""
    if not DATASETS:
        raise WorkflowError(
            f"study {STUDY.name} names no data sets, so it measures no attention. The studies "
            "demo and topoquant do: --config study=demo; or add some: "
            """--config set='["datasets=[own-arc]"]'."""
        )
    return path


def plain(source):
    """A source as leaves, whose change Snakemake sees."""
    return dataclasses.asdict(source)


def describe(source):
    """Where a checkpoint comes from, in words."""
    if source.kind == "wheel":
        return f"wheel {source.package} {source.version}"
    if source.kind == "wheels":
        return f"{source.filename} from {len(source.parts)} wheels"
    if source.kind == "hub":
        return f"hub {source.repository} at {source.revision[:8]}"
    return f"local {Path(source.path).name}"


def shards(kind, schemes, preset=None, with_roles=STUDY.roles):
    """The shards of one kind for this study: models x schemes x roles x slices of blocks."""
    return [
        "/".join(
            [SHARDS, kind, model.id, scheme, short_rows_of(scheme)]
            + ([preset] if preset else [])
            + [role, f"{blocks}.parquet"]
        )
        for model in STUDY.models
        for scheme in schemes
        for role in with_roles
        for blocks in slices_of(model)
    ]


def run_shards(kind, schemes, preset, datasets):
    """The shards of one kind that whole models give: models x schemes x data sets."""
    return [
        f"{SHARDS}/{kind}/{model.id}/{scheme}/{short_rows_of(scheme)}/{preset}/{dataset}.parquet"
        for model in STUDY.models
        for scheme in schemes
        for dataset in datasets
    ]


def text_shards(schemes):
    """The shards of tokens: models x schemes x protocols."""
    return [
        f"{SHARDS}/tokens/{model.id}/{scheme}/{short_rows_of(scheme)}/{protocol}.parquet"
        for model in STUDY.models
        for scheme in schemes
        for protocol in PROTOCOLS
    ]


def needs_shortcuts(path):
    """The path, if the study takes shortcuts; else say what does."""
    if not STUDY.shortcuts.schemes:
        raise WorkflowError(
            f"study {STUDY.name} names no shortcuts.schemes, so it holds no smaller clouds against "
            "whole ones. The study beyond does: --config study=beyond."
        )
    return path


def source_files(wildcards):
    """A local checkpoint's own files and its tokenizer's: changing them makes it anew."""
    source = STUDY.model(wildcards.model).source
    words = ("tokenizer*", "special_tokens*", "added_tokens*", "vocab*", "merges*")
    return local_files(source, *words)


def quantized_files(wildcards):
    """A local quantized file, or the files of its directory."""
    return local_files(file_of(wildcards))


def local_files(source, *more):
    """What a source on this machine consists of; nothing for all others."""
    if source.kind != "local":
        return []
    path = Path(source.path)
    if path.is_file():
        return [str(path)]
    patterns = ("config.json", "*.safetensors", "pytorch_model*.bin", *more)
    return sorted(str(file) for pattern in patterns for file in path.glob(pattern))


SCHEMES = [scheme.id for scheme in STUDY.schemes]
SHARDS_OF = {
    "tensors": [f"{SHARDS}/tensors/{model.id}.parquet" for model in STUDY.models],
    "weight_error": shards("weight_error", SCHEMES),
    "ledger": shards("ledger", SCHEMES),
    "diagrams": shards("diagrams", ["base", *SCHEMES], TOPOLOGY.preset),
    "distances": shards("distances", SCHEMES, TOPOLOGY.preset),
    "gauge_drift": shards("gauge_drift", STUDY.gauge.schemes, TOPOLOGY.preset),
    "shortcuts": shards("shortcuts", STUDY.shortcuts.schemes, TOPOLOGY.preset),
    "agreement": run_shards("agreement", SCHEMES, AGREEMENT.preset, DATASETS),
    "choices": run_shards(
        "choices", ["base", *SCHEMES], STUDY.accuracy.preset, STUDY.accuracy.datasets
    ),
    "tokens": text_shards(["base", *SCHEMES]),
}
KINDS = [kind for kind, files in SHARDS_OF.items() if files]
