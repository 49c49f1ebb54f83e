import hashlib
import re
import shutil
from pathlib import Path

import pytest
import yaml

from quantdrift.config import (
    LEVELS,
    LINEAR_ROLES,
    ConfigurationError,
    load,
    members,
)
from quantdrift.quantizers.llamacpp import TYPES
from quantdrift.settings import Hub, HubFiles, Local, Wheel

CONFIG = Path(__file__).parents[1] / "config"


def asked(*overrides, study="demo", directory=CONFIG):
    return load(directory, {"study": study, "set": list(overrides)})


@pytest.fixture
def config(tmp_path):
    """A copy that tests may change."""
    return shutil.copytree(CONFIG, tmp_path / "config")


# -------------------------------------------------------------------- what stands in config/


@pytest.mark.parametrize("name", members(CONFIG, "study"))
def test_every_study_loads(name):
    study = load(CONFIG, {"study": name})
    assert study.name == name
    assert len(study.schemes) >= 8
    assert study.model(study.models[0].id) is study.models[0]
    assert study.scheme(study.schemes[-1].id) is study.schemes[-1]


def test_demo_is_the_default():
    assert load(CONFIG, {}) == load(CONFIG, {"study": "demo", "set": []})
    study = load(CONFIG, {})
    assert [model.id for model in study.models] == ["smollm2-135m-instruct"]
    assert isinstance(study.models[0].source, Wheel)
    assert study.models[0].regauge_seed is not None  # its weights lie on a lattice


@pytest.mark.parametrize("name", members(CONFIG, "model"))
def test_every_model_loads_and_says_what_it_must(name):
    terms = yaml.safe_load((CONFIG / f"model/{name}.yaml").read_text()).get("terms")
    accepted = [f"accept=[{terms}]"] if terms else []
    (model,) = asked(f"models=[{name}]", *accepted).models
    assert model.id == name
    assert model.license != "not stated"
    assert model.blocks is not None
    assert model.parameters is not None
    if isinstance(model.source, Hub):  # pinned, not a branch that moves
        assert re.fullmatch("[0-9a-f]{40}", model.source.revision)


@pytest.mark.parametrize("family", members(CONFIG, "scheme"))
def test_every_scheme_loads_at_every_level(family):
    pattern = yaml.safe_load((CONFIG / f"scheme/{family}.yaml").read_text())["id"]
    ids = [pattern.format(level=level) for level in LEVELS]
    schemes = asked(f"schemes=[{','.join(ids)}]", "gauge.schemes=[]").schemes
    assert [scheme.id for scheme in schemes] == ids
    assert [scheme.level for scheme in schemes] == list(LEVELS)
    for scheme in schemes:
        assert scheme.types.keys() == set(LINEAR_ROLES)
        assert set(scheme.types.values()) <= TYPES.keys()


def test_the_papers_rule_for_v():
    # TopoQuant, section V: V has more bits in four K-quants, and in no other level.
    instead = {"q5_k": "q6_k", "q4_k": "q6_k", "q3_k": "q5_k", "q2_k": "q4_k"}
    ids = [f"llamacpp-{level}-{variant}" for level in LEVELS for variant in ("paper", "pure")]
    study = asked(f"schemes=[{','.join(ids)}]", "gauge.schemes=[]")
    for level in LEVELS:
        paper = study.scheme(f"llamacpp-{level}-paper").types
        pure = study.scheme(f"llamacpp-{level}-pure").types
        assert pure == dict.fromkeys(LINEAR_ROLES, level)
        assert paper == pure | {"v": instead.get(level, level)}


# ------------------------------------------------------------------------------- overrides


def test_a_value_is_changed_by_one_override_or_a_list():
    assert load(CONFIG, {"set": "topology.threshold=0.7"}).topology.threshold == 0.7
    study = asked("topology.threshold=0.7", "roles=[q]", "topology.grids.tswd_depth=4")
    assert (study.topology.threshold, study.roles) == (0.7, ["q"])
    assert study.topology.grids["tswd_depth"] == 4
    assert load(CONFIG, {}).topology.threshold == 0.8  # nothing sticks


@pytest.mark.parametrize(
    ("override", "match"),
    [
        ("topology.treshold=0.7", r"'treshold' is not in struct"),
        ("topology.grids.nonsense=1", r"'nonsense' is not in struct"),
        ("thresold=0.7", r"'thresold' is not in struct"),
        ("+topology.treshold=0.7", r"topology.treshold: Unexpected keyword argument"),
        ("+extra=1", r"extra: Unexpected keyword argument"),
        ("~topology", r"topology: Field required"),
        ("~topology.points", r"topology.points: Field required"),
        ("topology.threshold=abc", r"topology.threshold: .*number.*given: 'abc'"),
        ("topology.threshold=0", r"topology.threshold: .*greater than 0.*given: 0"),
        ("topology.threshold=2.1", r"topology.threshold: .*less than or equal to 2"),
        ("topology.max_points=1", r"topology.max_points: .*greater than or equal to 2"),
        ("topology.points=row", r"topology.points: .*'rows', 'columns' or 'heads'.*'row'"),
        ("topology.filtrations=[clip,dorp]", r"topology.filtrations.1: .*'dorp'"),
        ("topology=x", r"topology: .*given: 'x'"),
        ("blocks_per_job=2.5", r"blocks_per_job: .*integer.*given: 2.5"),
        ("blocks_per_job=-1", r"blocks_per_job: .*greater than or equal to 0"),
        ("short_rows=flta", r"short_rows: .*'flat', 'fallback' or 'error'.*'flta'"),
        ("gauge.seeds=[-1]", r"gauge.seeds.0: .*given: -1"),
        (
            "gauge.schemes=[llamacpp-q9-pure]",
            r"gauge.schemes: There is no scheme 'llamacpp-q9-pure'",
        ),
        ("accuracy.datasets=[arc-hard]", r"accuracy.datasets: There is no data set 'arc-hard'"),
        ("data.dir=/not/there", r"data.dir: /not/there is not there"),
        ("results=[a]", r"results: .*string"),
        ("roles=[q,embed]", r"roles: 'embed' has no block"),
        ("roles=[q,kv]", r"roles.1: .*'kv'"),
        ("roles=[]", r"measures no role"),
        ("models=[]", r"names no model"),
        ("models=[smollm3]", r"There is no model 'smollm3': config/model/ has .*smollm2-135m"),
        ("models=[smollm2-135m,smollm2-135m]", r"names model smollm2-135m twice"),
        ("schemes=[base]", r"no scheme 'base'.*always measured"),
        ("schemes=[llamacpp-q9_k-paper]", r"no scheme 'llamacpp-q9_k-paper'.*{level}.*q8_0"),
        ("schemes=[xllamacpp-q4_k-paper]", r"no scheme 'xllamacpp-q4_k-paper'"),
        ("schemes=[llamacpp-q4_k-pure,llamacpp-q4_k-pure]", r"names scheme .* twice"),
        ("models=[smollm2-135m", r"config.yaml with .*a list is written"),
        ("topology.threshold", r"topology.threshold"),
    ],
)
def test_what_cannot_be_is_refused_by_name(override, match):
    with pytest.raises(ConfigurationError, match=f"(?s){match}"):
        asked(override)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"studdy": "demo"}, r"knows `study` and `set`, not 'studdy'"),
        ({"threshold": 0.7}, r"""--config set='\["threshold=..."\]'"""),
        ({"study": "dmeo"}, r"There is no study 'dmeo'; config/study/ has beyond, demo, "),
        ({"study": "../model/smollm2-135m"}, r"There is no study"),
    ],
)
def test_what_snakemake_passes_is_checked_too(given, match):
    with pytest.raises(ConfigurationError, match=match):
        load(CONFIG, given)


@pytest.mark.parametrize(
    "override",
    [
        "study=topoquant",  # measures one study under the other's name
        "+name=other",
        "models=null",
        "schemes=null",
        "models=[nowhere.gguf]",
        "blocks_per_job=true",
        "+topology.grids.nonsense=1",
        "topology.preset='A b/c'",  # stands in paths, where the rules want [a-z0-9_-]+
        "topology.filtrations=[]",
        "topology.filtrations=[clip,clip]",
        "roles=[q,q]",
        "gauge.seeds=[0,0]",
    ],
)
def test_what_would_fail_later_is_refused_at_the_door(override):
    with pytest.raises(ConfigurationError):
        asked(override)


def test_one_name_in_the_place_of_a_list_is_told():
    with pytest.raises(ConfigurationError, match=r"smollm2-135m'|list"):
        asked("models=smollm2-135m")


# ---------------------------------------------------------------------------- files in config/


@pytest.mark.parametrize(
    ("file", "old", "new", "match"),
    [
        ("model/smollm2-135m.yaml", "family:", "famly:", r"smollm2-135m.yaml.*famly: Unexpected"),
        ("model/smollm2-135m.yaml", "kind: hub", "kind: hbu", r"source: .*'hbu'"),
        ("model/smollm2-135m.yaml", "kind: hub", "kind: local", r"source.local.path: Field requi"),
        ("model/smollm2-135m.yaml", "  revision", "  #", r"source.hub.revision: Field required"),
        ("model/smollm2-135m.yaml", "blocks: 30", "blocks: 0", r"blocks: .*greater than 0"),
        ("model/smollm2-135m.yaml", "blocks: 30", "blocks: [30", r"model/smollm2-135m.yaml"),
        ("scheme/llamacpp-pure.yaml", "instead:", "insted:", r"llamacpp-pure.yaml.*'insted'"),
        ("study/demo.yaml", "models:", "modles:", r"modles"),
        ("config.yaml", "short_rows: flat", "short_row: flat", r"short_row"),
    ],
)
def test_a_slip_in_a_file_is_named(config, file, old, new, match):
    content = (config / file).read_text()
    assert old in content
    (config / file).write_text(content.replace(old, new))
    with pytest.raises(ConfigurationError, match=f"(?s){match}"):
        asked("models=[smollm2-135m]" if "model/" in file else "short_rows=flat", directory=config)


@pytest.mark.parametrize("digits", ["0" * 63, "G" * 64, "A" * 64])
def test_a_sha256_is_one(config, digits):
    file = config / "model/smollm2-135m-instruct.yaml"
    file.write_text(re.sub("sha256: .*", f"sha256: '{digits}'", file.read_text()))
    with pytest.raises(ConfigurationError, match=r"source.wheel.sha256"):
        asked(directory=config)


def test_ids_fit_the_paths_they_stand_in(config):
    shutil.copyfile(config / "model/smollm2-135m.yaml", config / "model/SmolLM2.yaml")
    with pytest.raises(ConfigurationError, match=r"model id 'SmolLM2': only a-z"):
        asked("models=[SmolLM2]", directory=config)


# ------------------------------------------------------------- a path in the place of a model


def test_a_directory_or_gguf_file_is_a_model(tmp_path, monkeypatch):
    (tmp_path / "My Model").mkdir()
    (tmp_path / "Tiny.Q4.gguf").write_bytes(b"")
    directory, gguf = asked(f"models=['{tmp_path}/My Model','{tmp_path}/Tiny.Q4.gguf']").models
    assert re.fullmatch(r"my-model-[0-9a-f]{6}", directory.id)
    assert re.fullmatch(r"tiny\.q4-[0-9a-f]{6}", gguf.id)
    assert gguf.source == Local(kind="local", path=str(tmp_path / "Tiny.Q4.gguf"))
    # A dot in a directory's name is no suffix.
    for name in ("Llama-3.1-8B", "Llama-3.2-3B"):
        (tmp_path / name).mkdir()
        (model,) = asked(f"models=['{tmp_path}/{name}']").models
        assert model.label == name
        assert model.id.startswith(f"{name.lower()}-")
    # However the path is written, it is the same model; from elsewhere it is another.
    monkeypatch.chdir(tmp_path / "My Model")
    assert asked("models=[../Tiny.Q4.gguf]").models[0].id == gguf.id
    (tmp_path / "My Model" / "Tiny.Q4.gguf").write_bytes(b"")
    assert asked("models=[Tiny.Q4.gguf]").models[0].id != gguf.id


def test_the_rule_for_ids_does_not_change(tmp_path):
    # Shards are named by them: another rule would measure everything anew.
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"")
    digits = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:6]
    assert asked(f"models=[{path}]").models[0].id == f"tiny-{digits}"


@pytest.mark.parametrize("name", ["nowhere", "./nowhere", "/nowhere/at/all"])
def test_a_path_that_is_none_is_told(name):
    with pytest.raises(
        ConfigurationError, match=f"There is no model '{name}'.*no Hugging Face dir"
    ):
        asked(f"models=[{name}]")


def test_a_name_in_config_stands_before_a_directory_of_that_name(tmp_path, monkeypatch):
    (tmp_path / "smollm2-135m").mkdir()
    monkeypatch.chdir(tmp_path)
    assert isinstance(asked("models=[smollm2-135m]").models[0].source, Hub)


def test_models_by_path_take_the_gauge_that_is_asked_for(tmp_path):
    plain = asked(f"models=[{tmp_path}]").models[0]
    moved = load(CONFIG, {"set": [f"models=[{tmp_path}]", "regauge_seed=3"]}).models[0]
    assert plain.regauge_seed is None
    assert moved.regauge_seed == 3
    assert moved.id == f"{plain.id}-gauge3"  # its shards are others


def test_gauges_without_seeds_are_refused():
    with pytest.raises(ConfigurationError, match=r"gauge.seeds is empty"):
        asked("gauge.seeds=[]")


# ------------------------------------------------------------------------- files as schemes

ONE = "llamacpp-q4_k_m-file"


@pytest.fixture
def gguf(tmp_path):
    path = tmp_path / "some x.gguf"
    path.write_bytes(b"")
    return path


def test_a_file_joins_the_schemes_at_the_end(gguf):
    study = asked(f"files={{{ONE}: '{gguf}'}}")
    assert [scheme.id for scheme in study.schemes[-2:]] == ["llamacpp-q2_k-pure", ONE]
    scheme = study.scheme(ONE)
    assert (scheme.method, scheme.level, scheme.variant) == ("file", "q4_k_m file", "file")
    assert scheme.types == {}
    assert study.models[0].files == {ONE: Local("local", str(gguf))}


def test_a_file_stands_where_schemes_name_it(gguf):
    study = asked(
        f"files={{{ONE}: '{gguf}'}}", f"schemes=[{ONE},llamacpp-q8_0-pure]", "gauge.schemes=[]"
    )
    assert [scheme.id for scheme in study.schemes] == [ONE, "llamacpp-q8_0-pure"]


def test_the_level_of_a_file_is_never_that_of_another_scheme(gguf):
    entries = ("llamacpp-q4_0-file", "gptq-4-128-file", "awq-4-128-file", "mine-file")
    study = asked("files={" + ", ".join(f"{entry}: '{gguf}'" for entry in entries) + "}")
    assert [scheme.level for scheme in study.schemes[-4:]] == [
        "q4_0 file",
        "gptq-4-128 file",
        "awq-4-128 file",
        "mine file",
    ]


def test_the_path_of_a_file_is_made_absolute(gguf, monkeypatch):
    monkeypatch.chdir(gguf.parent)
    (source,) = asked(f"files={{{ONE}: 'some x.gguf'}}").models[0].files.values()
    assert source == Local("local", str(gguf))


def test_a_gptq_directory_is_a_file(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    study = asked(f"files={{gptq-4-128-file: '{tmp_path}'}}")
    assert study.models[0].files["gptq-4-128-file"] == Local("local", str(tmp_path))


def test_files_of_the_hub_are_taken_as_they_are():
    one = "{kind: hub, repository: a/b, revision: main, files: [x.gguf]}"
    whole = "{kind: hub, repository: a/c, revision: main}"
    files = asked(f"files={{{ONE}: {one}, awq-4-128-file: {whole}}}").models[0].files
    assert files == {
        ONE: HubFiles("hub", "a/b", "main", ["x.gguf"]),
        "awq-4-128-file": Hub("hub", "a/c", "main"),
    }


def test_a_models_own_files_are_measured_where_schemes_name_them(config, gguf):
    model = config / "model/smollm2-135m.yaml"
    model.write_text(model.read_text() + f"files:\n  {ONE}: '{gguf}'\n")
    plain = asked("models=[smollm2-135m]", directory=config)
    assert ONE not in [scheme.id for scheme in plain.schemes]
    wanted = [f"schemes=[{ONE}]", "gauge.schemes=[]"]
    study = asked("models=[smollm2-135m]", *wanted, directory=config)
    assert study.models[0].files[study.schemes[0].id] == Local("local", str(gguf))
    with pytest.raises(ConfigurationError, match=r"model qwen2.5-0.5b names none of that id"):
        asked("models=[smollm2-135m,qwen2.5-0.5b]", *wanted, directory=config)
    gguf.unlink()  # a file that is not measured need not be there
    asked("models=[smollm2-135m]", directory=config)
    with pytest.raises(ConfigurationError, match=f"files.{ONE}: there is no .*some x.gguf"):
        asked("models=[smollm2-135m]", *wanted, directory=config)


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        ([f"files={{{ONE}: /no/such.gguf}}"], r"files.llamacpp-q4_k_m-file: there is no /no/such"),
        ([f"files={{{ONE}: {CONFIG}}}"], r"neither a .gguf file nor the directory"),
        (["files={q4_k_m: GGUF}"], r"files cannot.*q4_k_m.*should match pattern .*-file"),
        (["files={Q4-file: GGUF}"], r"files cannot.*Q4-file.*should match pattern"),
        (["files=GGUF"], r"it must map scheme ids to paths"),
        ([f"files={{{ONE}: {{kind: hub, repository: a/b}}}}"], r"revision: Field required"),
        ([f"files={{{ONE}: {{kind: hbu}}}}"], r"must be a path, or have a `kind`"),
        ([f"files={{{ONE}: [x]}}"], r"must be a path, or have a `kind`"),
        (
            [f"files={{{ONE}: GGUF}}", "models=[smollm2-135m,qwen2.5-0.5b]"],
            r"belong to one model, and this study names 2: .*config/model/NAME.yaml",
        ),
        ([f"schemes=[{ONE}]", "gauge.schemes=[]"], r"Scheme llamacpp-q4_k_m-file is a file, and m"),
    ],
)
def test_files_that_cannot_be_are_refused_by_name(overrides, match, tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"")
    with pytest.raises(ConfigurationError, match=f"(?s){match}"):
        asked(*(word.replace("GGUF", str(tmp_path / "x.gguf")) for word in overrides))


def test_a_study_that_shrinks_keeps_of_its_lists_what_is_left():
    study = asked("schemes=[llamacpp-q8_0-paper,llamacpp-q4_1-pure]")
    assert study.gauge.schemes == ["llamacpp-q8_0-paper"]
    study = asked("datasets=[own-arc]", "accuracy.datasets=[own-arc,own-hellaswag]")
    assert study.accuracy.datasets == ["own-arc"]


def test_a_model_under_terms_waits_until_they_are_accepted():
    one = [model.id for model in asked(study="prediction").models]
    assert one == ["smollm2-135m-instruct"]
    both = asked("accept=[gemma]", study="prediction").models
    assert [model.id for model in both] == [*one, "gemma3-270m"]
    assert both[1].terms == "gemma"
    assert next(part.package for part in both[1].source.parts).endswith("part1")
    with pytest.raises(
        ConfigurationError, match=r"gemma3-270m comes under terms.*accept=\[gemma\]"
    ):
        asked("models=[gemma3-270m]")
    assert asked("models=[gemma3-270m]", "accept=[gemma]").models[0].id == "gemma3-270m"
    with pytest.raises(ConfigurationError, match=r"accept names 'gemmma'.*there are: gemma"):
        asked("accept=[gemmma]", study="prediction")


def test_the_chosen_regressor_is_one_of_those_judged():
    with pytest.raises(ConfigurationError, match=r"'linear', which is none of .*: forest"):
        asked("prediction.regressors=[forest]")


def test_the_baseline_takes_all_projections():
    with pytest.raises(ConfigurationError, match=r"prediction.matrices must be KQV"):
        asked("prediction.features=weight_error", "prediction.matrices=Q")
