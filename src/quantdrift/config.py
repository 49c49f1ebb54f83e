"""The configuration: composed by Hydra, parsed once, at the door, into the types of `settings`.

`load` composes `config/config.yaml` with one study and the user's overrides, then each model and
scheme the study names, once each. A misspelt key, an unknown name or a value out of range stops the
run before any job, with a message that names it. Nothing here imports torch or pandas: every
cluster job parses the workflow again.
"""

import hashlib
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import TypeAdapter, ValidationError

from quantdrift.settings import (
    Dataset,
    FileId,
    FileSource,
    Local,
    Model,
    Protocol,
    Role,
    Scheme,
    Study,
    Topology,
)

_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")


class ConfigurationError(ValueError):
    """Something the user wrote cannot be; the message says what, where and what would do."""


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
FILE_SUFFIX = "-file"
"""How the id of a scheme ends whose weights are a file's."""
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
        dataset_names, files = raw.pop("datasets"), raw.pop("files") or {}
        protocol_names = _names("protocols", raw.pop("protocols"))
        seed = raw.pop("regauge_seed")
        accepted = _names("accept", raw.pop("accept"))
        optional = _names("optional_models", raw.pop("optional_models"))
        models = [_model(directory, entry, seed) for entry in _names("models", model_names)]
        joining = [_model(directory, entry, seed) for entry in optional]
        models = _accepted(models, joining, accepted)
        datasets = [_dataset(directory, entry) for entry in _names("datasets", dataset_names)]
        protocols = [_protocol(directory, entry) for entry in protocol_names]
        families = {
            entry: _compose(f"scheme/{entry}", [])["scheme"]
            for entry in members(directory, "scheme")
        }
    models = _with_files(models, files)
    scheme_ids = _names("schemes", scheme_ids)
    scheme_ids += [str(entry) for entry in files if entry not in scheme_ids]
    schemes = [_scheme(entry, families) for entry in scheme_ids]
    for part, key in (("gauge", "schemes"), ("shortcuts", "schemes"), ("accuracy", "datasets")):
        if isinstance(raw.get(part), dict) and key in raw[part]:
            given = _names(f"{part}.{key}", raw[part][key])
            for entry in given:
                _check_named(f"{part}.{key}", entry, directory, families)
            named_here = scheme_ids if key == "schemes" else [one.id for one in datasets]
            raw[part][key] = [entry for entry in given if entry in named_here]
    named = {"name": name, "models": models, "schemes": schemes, "datasets": datasets}
    named |= {"protocols": protocols}
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
        name = path.resolve().name.removesuffix(".gguf")  # a version may have a dot: Llama-3.1-8B
        slug = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._") or "model"
        model_id = f"{slug}-{hashlib.sha256(absolute.encode()).hexdigest()[:6]}"
        if regauge_seed is not None:
            model_id += f"-gauge{regauge_seed}"
        source = {"kind": "local", "path": absolute}
        raw = {
            "id": model_id,
            "label": path.name.removesuffix(".gguf") or name,
            "source": source,
            "regauge_seed": regauge_seed,
        }
        return _parse(Model, raw, entry)
    raise ConfigurationError(
        f"There is no model {entry!r}: config/model/ has {_listed(known)}, and there is no "
        "Hugging Face directory and no .gguf file of that path."
    )


def _accepted(named: list[Model], optional: list[Model], accepted: list[str]) -> list[Model]:
    """The models named, and those optional ones whose terms are accepted or that have none."""
    known = [model.terms for model in [*named, *optional] if model.terms]
    for model in named:
        if model.terms and model.terms not in accepted:
            raise ConfigurationError(
                f"model {model.id} comes under terms ({model.license}). Read them; if you accept "
                f"""them, say so: --config set='["accept=[{model.terms}]"]'."""
            )
    for entry in accepted:
        if entry not in known:
            raise ConfigurationError(
                f"accept names {entry!r}, but no model of this study comes under terms of that "
                f"name; there are: {_listed(dict.fromkeys(known))}."
            )
    ids = [model.id for model in named]
    return [
        *named,
        *(
            model
            for model in optional
            if model.id not in ids and (model.terms is None or model.terms in accepted)
        ),
    ]


def _with_files(models: list[Model], files: Any) -> list[Model]:
    """The models, the only one of them with the study's own files, too."""
    if not files:
        return models
    if not isinstance(files, dict):
        raise ConfigurationError(
            f"files is {files!r}; it must map scheme ids to paths: "
            "set='[\"files={llamacpp-q4_k_m-file: path/to/x.gguf}\"]'."
        )
    if len(models) != 1:
        raise ConfigurationError(
            f"files belong to one model, and this study names {len(models)}: name each file in its "
            "model's own config/model/NAME.yaml (`files: {ID-file: PATH}`), and its id in schemes."
        )
    parsed = _parse(dict[FileId, FileSource], files, "files")
    return [replace(models[0], files=models[0].files | parsed)]


def _dataset(directory: Path, entry: str) -> Dataset:
    """A file of config/dataset/."""
    _check_dataset(directory, entry)
    raw = _compose(f"dataset/{entry}", [])["dataset"]
    return _parse(Dataset, {"id": entry, "label": entry} | raw, f"config/dataset/{entry}.yaml")


def _check_dataset(directory: Path, entry: str) -> None:
    known = members(directory, "dataset")
    if entry not in known:
        raise ConfigurationError(
            f"There is no data set {entry!r}: config/dataset/ has {_listed(known)}."
        )


def _protocol(directory: Path, entry: str) -> Protocol:
    """A file of config/protocol/."""
    known = members(directory, "protocol")
    if entry not in known:
        raise ConfigurationError(
            f"There is no protocol {entry!r}: config/protocol/ has {_listed(known)}."
        )
    where = f"config/protocol/{entry}.yaml"
    raw = _compose(f"protocol/{entry}", [])["protocol"]
    found: Protocol = _parse(Protocol, {"id": entry, "label": entry} | raw, where)
    if found.bos == "without" and found.context < 1:
        raise ConfigurationError(
            f"{where}: context is 0, but without BOS nothing predicts a window's first token."
        )
    if found.context >= found.window:
        raise ConfigurationError(
            f"{where}: context {found.context} leaves nothing of a window of {found.window}."
        )
    return found


def _check_named(key: str, entry: str, directory: Path, families: dict[str, Any]) -> None:
    """Refuse an unknown name; one that the study leaves out is none: `schemes` can shrink."""
    try:
        if key.endswith("schemes"):
            _scheme(entry, families)
        else:
            _check_dataset(directory, entry)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}: {error}") from error


def _scheme(entry: str, families: dict[str, dict[str, Any]]) -> Scheme:
    """The scheme that an id names: a file, or the family whose pattern it fits, at its level."""
    if entry.endswith(FILE_SUFFIX):
        # Named as a file, so that it never stands for the level that is made on the fly.
        level = entry.removeprefix("llamacpp-").removesuffix(FILE_SUFFIX)
        return Scheme(entry, "file", f"{level} file", "file", {})
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
        f"with a level of {_listed(LEVELS)}; and ids that end in {FILE_SUFFIX}, for the `files` of "
        "a model. `base` is always measured and need not be named."
    )


def _check(study: Study) -> None:
    """What types alone do not say."""
    for kind, ids in (
        ("model", [model.id for model in study.models]),
        ("scheme", [scheme.id for scheme in study.schemes]),
        ("data set", [dataset.id for dataset in study.datasets]),
        ("protocol", [protocol.id for protocol in study.protocols]),
    ):
        if not ids and kind in ("model", "scheme"):
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
        ("prediction.regressors", study.prediction.regressors),
        ("prediction.marks", study.prediction.marks),
    ):
        if len(set(values)) < len(values):
            raise ConfigurationError(f"{key} names one entry twice: {values}.")
    if study.gauge.schemes and not study.gauge.seeds:
        raise ConfigurationError("gauge.schemes names schemes, but gauge.seeds is empty.")
    if not study.topology.filtrations:
        raise ConfigurationError("topology.filtrations is empty, so there is nothing to compare.")
    _check_grids(study.topology)
    if study.data.dir is not None and not Path(study.data.dir).is_dir():
        raise ConfigurationError(f"data.dir: {study.data.dir} is not there, or is no folder.")
    if study.prediction.filtration not in study.topology.filtrations:
        raise ConfigurationError(
            f"prediction.filtration is {study.prediction.filtration!r}, which is none of "
            f"topology.filtrations: {_listed(study.topology.filtrations)}."
        )
    if study.prediction.regressor not in study.prediction.regressors:
        raise ConfigurationError(
            f"prediction.regressor is {study.prediction.regressor!r}, which is none of "
            f"prediction.regressors: {_listed(study.prediction.regressors)}."
        )
    if study.prediction.features == "weight_error" and study.prediction.matrices != "KQV":
        raise ConfigurationError(
            "prediction.matrices must be KQV for prediction.features weight_error: the baseline "
            "takes all three."
        )
    _check_files(study)
    if not study.roles:
        raise ConfigurationError(f"study {study.name} measures no role.")
    for role in study.roles:
        if role not in LINEAR_ROLES:
            raise ConfigurationError(
                f"roles: {role!r} has no block, so this study cannot measure it; "
                f"known: {_listed(LINEAR_ROLES)}."
            )


def _check_files(study: Study) -> None:
    """Every model has the files that the schemes want, and they are there."""
    for model in study.models:
        for scheme in study.schemes:
            if scheme.method == "file":
                _check_file(model, scheme.id)


def _check_file(model: Model, entry: str) -> None:
    if entry not in model.files:
        raise ConfigurationError(
            f"Scheme {entry} is a file, and model {model.id} names none of that id (it has "
            f"{_listed(model.files)}): add it to `files` of config/model/{model.id}.yaml; in a "
            f"""study of one model, set='["files={{{entry}: path/to/x.gguf}}"]' does."""
        )
    source = model.files[entry]
    if not isinstance(source, Local):
        return
    path = Path(source.path)
    if not path.exists():
        raise ConfigurationError(f"files.{entry}: there is no {path}.")
    if not (path.suffix == ".gguf" and path.is_file()) and not (path / "config.json").exists():
        raise ConfigurationError(
            f"files.{entry}: {path} is neither a .gguf file nor the directory of a GPTQ or AWQ "
            "checkpoint (it has no config.json)."
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
