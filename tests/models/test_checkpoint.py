import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import BLOCKS, logits_of, silent, tiny, weights_of
from transformers import AutoModelForCausalLM

from quantdrift.models.checkpoint import Checkpoint, RoleError, TensorRecord, model_sha256, prepare
from quantdrift.models.layouts import UnsupportedArchitectureError

K1 = "model.layers.1.self_attn.k_proj.weight"
INDEX = "model.safetensors.index.json"


def save_config(model, directory: Path, **changes: Any) -> Path:
    directory.mkdir(exist_ok=True, parents=True)
    config = json.loads(model.config.to_json_string()) | changes
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def tensors_of(model) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.named_parameters()}


def save_single(model, directory: Path, **changes: Any) -> Path:
    save_config(model, directory, **changes)
    save_file(tensors_of(model), directory / "model.safetensors", {"format": "pt"})
    return directory


def save_sharded(model, directory: Path, shards: int = 3) -> Path:
    """Tensors dealt out one by one, so that every block lies in every shard."""
    save_config(model, directory)
    dealt: list[dict[str, torch.Tensor]] = [{} for _ in range(shards)]
    for i, (name, tensor) in enumerate(tensors_of(model).items()):
        dealt[i % shards][name] = tensor
    files = [f"model-{i + 1:05d}-of-{shards:05d}.safetensors" for i in range(shards)]
    for file, tensors in zip(files, dealt, strict=True):
        save_file(tensors, directory / file, {"format": "pt"})
    weight_map = {name: file for file, some in zip(files, dealt, strict=True) for name in some}
    (directory / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return directory


def save_pickled(model, directory: Path, *, files: int = 2, zipped: bool = True) -> Path:
    """As Vicuna is published: pytorch_model-*.bin with the rotary frequencies as buffers."""
    save_config(model, directory)
    tensors = tensors_of(model)
    for b in range(model.config.num_hidden_layers):
        tensors[f"model.layers.{b}.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    for i in range(files):
        some = {name: tensors[name] for name in list(tensors)[i::files]}
        file = directory / f"pytorch_model-{i + 1:05d}-of-{files:05d}.bin"
        torch.save(some, file, _use_new_zipfile_serialization=zipped)
    return directory


def made_from(source: Path, seed: int | None = None) -> list[TensorRecord]:
    return prepare(source, source.parent / "out", regauge_seed=seed, progress=silent)


def assert_same_model(model, directory: Path, dtype: torch.dtype = torch.float32) -> None:
    loaded, loading = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    assert not any(loading.values()), loading
    assert loaded.dtype == dtype
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter), name
    if dtype == torch.float32:  # .to(dtype) rounds the rotary frequencies, loading does not
        assert torch.equal(logits_of(loaded), logits_of(model))


SAVERS = {
    "single": save_single,
    "sharded": save_sharded,
    "pickled": save_pickled,
    "one pickle": lambda model, directory: save_pickled(model, directory, files=1),
    "old pickles": lambda model, directory: save_pickled(model, directory, zipped=False),
}


@pytest.mark.parametrize("seed", [None, 5], ids=["as it came", "regauged"])
@pytest.mark.parametrize("saver", SAVERS.values(), ids=SAVERS.keys())
def test_directories_come_through(tmp_path, saver, seed):
    model = tiny()
    records = made_from(saver(model, tmp_path / "source"), seed)
    out = tmp_path / "out"
    assert [record.tensor for record in records] == sorted(weights_of(model))
    weight_map = json.loads((out / INDEX).read_text())["weight_map"]
    for record in records:
        assert weight_map[record.tensor] == record.file
        assert (out / record.file).exists()
        assert not record.on_lattice
    if seed is None:
        assert_same_model(model, out)
    else:
        names = {f"block-{b:03d}.safetensors" for b in range(BLOCKS)} | {"outside.safetensors"}
        assert {file.name for file in out.iterdir()} == names | {"config.json", INDEX}
        loaded = AutoModelForCausalLM.from_pretrained(out)
        sd = logits_of(model).std()
        assert (logits_of(loaded) - logits_of(model)).abs().max() / sd < 1e-5
        assert not np.array_equal(Checkpoint(out).matrix("k", 1), weights_of(model)[K1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_as_it_came_and_is_float32_in_a_gauge(tmp_path, dtype):
    model = tiny().to(dtype)
    source = save_single(model, tmp_path / "source", torch_dtype=str(dtype).removeprefix("torch."))
    records = made_from(source)
    assert {record.dtype for record in records} == {
        {torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
    }
    assert_same_model(model, tmp_path / "out", dtype)
    from_source = AutoModelForCausalLM.from_pretrained(source)
    from_out = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert torch.equal(logits_of(from_out), logits_of(from_source))
    np.testing.assert_array_equal(
        Checkpoint(tmp_path / "out").matrix("k", 1), model.get_parameter(K1).float().detach()
    )
    assert {record.dtype for record in made_from(source, seed=0)} == {"f32"}
    # Rounded to bfloat16 again the gauge would be another model: the config must not say so.
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").dtype == torch.float32


def test_safetensors_are_linked_not_copied(tmp_path):
    source = save_sharded(tiny(), tmp_path / "source")
    made_from(source)
    links = [file for file in (tmp_path / "out").iterdir() if file.is_symlink()]
    assert len(links) == 3
    assert {link.resolve().parent for link in links} == {source.resolve()}


def test_what_a_directory_needs_elsewhere_comes_along(tmp_path):
    source = save_single(tiny(), tmp_path / "source")
    needed = {
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
        "chat_template.jinja",
        "generation_config.json",
    }
    for name in needed | {"README.md", "training_args.bin"}:
        (source / name).write_text("{}")
    made_from(source)
    have = {file.name for file in (tmp_path / "out").iterdir()}
    assert have == needed | {"config.json", "model.safetensors", INDEX}


def test_a_prepared_directory_is_a_source(tmp_path):
    # Why it exists: its files have the names that regauging writes.
    model = tiny()
    made_from(save_single(model, tmp_path / "source"), seed=0)
    (tmp_path / "out").rename(tmp_path / "again")
    once = {r.tensor: r for r in made_from(tmp_path / "again", seed=None)}
    moved = {r.tensor: r for r in made_from(tmp_path / "again", seed=1)}
    assert once.keys() == moved.keys() == weights_of(model).keys()
    assert once[K1].sha256 != moved[K1].sha256
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    sd = logits_of(model).std()
    assert (logits_of(loaded) - logits_of(model)).abs().max() / sd < 1e-5


def test_the_source_is_never_removed(tmp_path):
    source = save_single(tiny(), tmp_path / "source")
    for directory in (source, tmp_path):
        with pytest.raises(ValueError, match="is the source itself"):
            prepare(source, directory, regauge_seed=None, progress=silent)
    assert (source / "model.safetensors").exists()


def test_what_lies_beside_the_model_is_left_alone(tmp_path):
    # Mistral's own format and adapters are published in the same directory.
    model = tiny()
    for saver in (save_single, save_sharded):
        source = saver(model, tmp_path / "source")
        save_file({"layers.0.wq": torch.ones(2, 2)}, source / "consolidated.safetensors")
        made_from(source)
        assert_same_model(model, tmp_path / "out")
        shutil.rmtree(source)


def test_rotary_buffers_are_no_weights(tmp_path):
    model = tiny()
    source = save_config(model, tmp_path / "source")
    buffers = {f"model.layers.{b}.self_attn.rotary_emb.inv_freq": torch.ones(8) for b in range(3)}
    save_file(tensors_of(model) | buffers, source / "model.safetensors", {"format": "pt"})
    records = {record.tensor: record for record in made_from(source)}
    assert all(records[name].role is None for name in buffers)
    assert_same_model(model, tmp_path / "out")


# ------------------------------------------------------------------------------- manifest


def test_the_manifest_says_what_lies_there(tmp_path):
    model = tiny()
    records = {r.tensor: r for r in made_from(save_single(model, tmp_path / "source"))}
    k = records[K1]
    assert (k.role, k.block, k.shape, k.dtype) == ("k", 1, (32, 64), "f32")
    assert records["lm_head.weight"].role == "head"
    assert records["model.norm.weight"].role is None
    assert sum(record.role is not None for record in records.values()) == 7 * BLOCKS + 2


def test_the_model_hash_is_of_contents_not_of_files(tmp_path):
    model = tiny()
    hashes = {
        name: model_sha256(made_from(saver(model, tmp_path / name / "source")))
        for name, saver in SAVERS.items()
    }
    assert len(set(hashes.values())) == 1
    assert hashes["single"] != model_sha256(made_from(save_single(tiny(seed=1), tmp_path / "o")))
    records = made_from(save_single(model, tmp_path / "p"))
    assert model_sha256(reversed(records)) == hashes["single"]


# ----------------------------------------------------------------------------------- ties


def test_a_tied_model_has_no_head(tmp_path):
    model = tiny(tie_word_embeddings=True)
    records = made_from(save_single(model, tmp_path / "source"))
    assert [r.role for r in records].count("embed") == 1
    assert "head" not in {r.role for r in records}
    with pytest.raises(RoleError, match=r"no matrix of role 'head' \(it is tied to embed\)"):
        Checkpoint(tmp_path / "out").matrix("head")
    assert_same_model(model, tmp_path / "out")


@pytest.mark.parametrize("kind", ["safetensors", "pickle"])
@pytest.mark.parametrize("seed", [None, 0])
def test_a_tied_head_that_is_stored_is_counted_once(tmp_path, kind, seed):
    model = tiny(tie_word_embeddings=True)
    source = save_config(model, tmp_path / "source")
    tensors = tensors_of(model)
    embed = tensors["model.embed_tokens.weight"]
    if kind == "pickle":  # one storage under two names
        torch.save(tensors | {"lm_head.weight": embed}, source / "pytorch_model.bin")
    else:
        both = tensors | {"lm_head.weight": embed.clone()}
        save_file(both, source / "model.safetensors", {"format": "pt"})
    assert "lm_head.weight" not in {record.tensor for record in made_from(source, seed)}
    if seed is None:
        assert_same_model(model, tmp_path / "out")


def test_a_tie_that_is_none_is_refused(tmp_path):
    # transformers would take the stored head, other readers the embedding.
    model = tiny(tie_word_embeddings=True)
    source = save_config(model, tmp_path / "source")
    tensors = tensors_of(model) | {"lm_head.weight": torch.ones(128, 64)}
    save_file(tensors, source / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="tie_word_embeddings"):
        made_from(source)


# --------------------------------------------------------------------------------- errors


def assert_refused(source: Path, kind: type[Exception], match: str) -> None:
    """Refused in every gauge, and nothing that looks like a prepared directory is left."""
    out = source.parent / "out"
    for seed in (None, 0):
        out.mkdir(exist_ok=True)
        (out / "old").write_text("from another run")
        with pytest.raises(kind, match=match):
            made_from(source, seed)
        assert not out.exists()
        assert not list(source.parent.glob(".out*"))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"tie_word_embeddings": False, "_tied": True}, r"lacks lm_head.weight"),
        ({"num_hidden_layers": 5}, r"lacks model.layers.3.input_layernorm.weight.*18 missing"),
        ({"num_hidden_layers": 2}, r"model.layers.2.* its config has 2 blocks"),
        (
            {"hidden_size": 32, "head_dim": 16},
            r"weight has shape \(128, 64\); the config says \(128, 32\)",
        ),
        ({"num_key_value_heads": 4}, r"k_proj.weight has shape \(32, 64\); the config says \(64"),
        ({"num_key_value_heads": 3}, r"4 query heads cannot share 3"),
        ({"head_dim": 32}, r"q_proj.weight has shape|o_proj.weight has shape|k_proj"),
        ({"vocab_size": 127}, r"has shape \(128, 64\); the config says \(127, 64\)"),
        ({"intermediate_size": None}, r"intermediate_size is None"),
        ({"num_attention_heads": "4"}, r"num_attention_heads is '4'"),
        (
            {"model_type": "opt"},
            r"'opt' is not supported; known are llama, mistral, .*, gpt_neox\.",
        ),
        ({"quantization_config": {"quant_method": "gptq"}}, r"already quantized \(gptq\)"),
    ],
)
def test_a_config_that_lies_is_refused(tmp_path, changes, match):
    model = tiny(tie_word_embeddings=changes.pop("_tied", False))
    source = save_single(model, tmp_path / "source", **changes)
    assert_refused(source, ValueError, match)


def test_a_missing_matrix_and_an_unknown_tensor_are_named(tmp_path):
    model = tiny()
    source = save_config(model, tmp_path / "source")
    tensors = tensors_of(model)
    k = tensors.pop(K1)
    save_file(tensors, source / "model.safetensors")
    assert_refused(source, ValueError, f"lacks {K1}")
    tensors |= {K1: k, "model.layers.0.self_attn.q_proj.lora_A.weight": torch.ones(2, 64)}
    save_file(tensors, source / "model.safetensors")
    assert_refused(source, UnsupportedArchitectureError, r"lora_A.*adapter that must be merged")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_not_finite_are_refused(tmp_path, bad):
    model = tiny()
    with torch.no_grad():
        model.get_parameter(K1)[3, 5] = bad
    assert_refused(save_single(model, tmp_path / "source"), ValueError, f"{K1} holds NaN")


def test_shards_that_are_missing_or_hold_a_tensor_twice_are_named(tmp_path):
    source = save_sharded(tiny(), tmp_path / "source")
    second = source / "model-00002-of-00003.safetensors"
    content = load_file(second)
    save_file(content | {K1: torch.ones(32, 64)}, second)
    assert_refused(
        source,
        ValueError,
        f"{K1} is both in model-0000. and in model-0000.".replace(
            "0000.", "0000.-of-00003.safetensors"
        ),
    )
    second.unlink()
    assert_refused(source, ValueError, r"lacks model-00002-of-00003.safetensors, which its index")


@pytest.mark.parametrize("saver", [save_single, save_pickled])
def test_a_file_cut_short_is_named(tmp_path, saver):
    source = saver(tiny(), tmp_path / "source")
    file = max(source.iterdir(), key=lambda file: file.stat().st_size)
    whole = file.read_bytes()
    for part in (0.0, 0.001, 0.5, 0.99):
        file.write_bytes(whole[: int(len(whole) * part)])
        assert_refused(source, ValueError, file.name)


def test_a_directory_that_is_none_is_refused(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    assert_refused(source, ValueError, "has no config.json")
    save_config(tiny(), source)
    assert_refused(source, ValueError, r"neither \*.safetensors nor pytorch_model")
    (source / "config.json").write_text('{"model_type": "llama"')
    assert_refused(source, ValueError, r"config.json is no JSON")


@pytest.mark.parametrize("text_config", [True, False])
def test_quantized_checkpoints_are_refused_wherever_they_say_so(tmp_path, text_config):
    model = tiny()
    inner = json.loads(model.config.to_json_string())
    about = {"quantization_config": {"quant_method": "awq"}}
    outer = {"model_type": "x", "text_config": inner | (about if text_config else {})}
    source = save_single(model, tmp_path / "source")
    (source / "config.json").write_text(json.dumps(outer | ({} if text_config else about)))
    assert_refused(source, ValueError, "already quantized")


@pytest.mark.parametrize("seed", [None, 0])
def test_a_job_that_is_killed_leaves_nothing_that_looks_finished(tmp_path, monkeypatch, seed):
    class Killed(BaseException):
        """Like SIGKILL: even `finally` is not run."""

    source = save_single(tiny(), tmp_path / "source")
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    steps = 0

    def dying(items, _total, _label):
        nonlocal steps
        for item in items:
            steps += 1
            if steps == 20:
                raise Killed
            yield item

    with pytest.raises(Killed):
        prepare(source, tmp_path / "out", regauge_seed=seed, progress=dying)
    assert not (tmp_path / "out").exists()
    assert (tmp_path / ".out.part").exists()
    monkeypatch.undo()
    assert len(made_from(source, seed)) == len(weights_of(tiny()))
    assert not (tmp_path / ".out.part").exists()


def test_text_config_is_read(tmp_path):
    model = tiny()
    source = save_single(model, tmp_path / "source")
    inner = json.loads(model.config.to_json_string())
    (source / "config.json").write_text(json.dumps({"model_type": "x", "text_config": inner}))
    assert len(made_from(source)) == len(weights_of(model))
    np.testing.assert_array_equal(
        Checkpoint(tmp_path / "out").matrix("k", 1), weights_of(model)[K1]
    )
