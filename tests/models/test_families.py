"""Every family of architectures: roles, fused storage, what becomes of it, and what is refused."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import (
    BLOCKS,
    CONFIGS,
    F16,
    F32,
    HEADS,
    HIDDEN,
    KV_HEADS,
    VOCABULARY,
    logits_of,
    silent,
    tiny,
    weights_of,
    write_gguf,
)
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
)

from quantdrift.models.checkpoint import Checkpoint, RoleError, prepare
from quantdrift.models.families import LAYOUTS
from quantdrift.models.gguf_source import GgufSource
from quantdrift.models.layouts import UnsupportedArchitectureError

WITHOUT_GATE = ("q", "k", "v", "o", "up", "down")
WITH_GATE = ("q", "k", "v", "o", "gate", "up", "down")
INTERMEDIATE = 96


def prepared(model, tmp_path, seed: int | None = None) -> Checkpoint:
    model.save_pretrained(tmp_path / "source")
    prepare(tmp_path / "source", tmp_path / "out", regauge_seed=seed, progress=silent)
    return Checkpoint(tmp_path / "out")


def loaded(checkpoint: Checkpoint):
    """The prepared directory in transformers, which must miss nothing and find nothing more."""
    model, report = AutoModelForCausalLM.from_pretrained(
        checkpoint.directory, output_loading_info=True
    )
    assert not any(report.values()), report
    return model


def own_split(family: str, model, block: int) -> dict[str, torch.Tensor]:
    """What a block's q, k, v (and gate, up) make of an input, split as transformers' code does."""
    x = torch.randn(1, 5, HIDDEN, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        if family == "phi3":
            layer = model.model.layers[block]
            qkv, gate_up = layer.self_attn.qkv_proj(x), layer.mlp.gate_up_proj(x)
            q, kv = HEADS * layer.self_attn.head_dim, KV_HEADS * layer.self_attn.head_dim
            gate, up = gate_up.chunk(2, dim=-1)
            q, k, v = qkv[..., :q], qkv[..., q : q + kv], qkv[..., q + kv :]
            return {"x": x, "q": q, "k": k, "v": v, "gate": gate, "up": up}
        if family == "gpt2":
            attention = model.transformer.h[block].attn
            q, k, v = (attention.c_attn(x) - attention.c_attn.bias).split(HIDDEN, dim=2)
            return {"x": x, "q": q, "k": k, "v": v}
        dense = model.gpt_neox.layers[block].attention.query_key_value
        by_head = (dense(x) - dense.bias).view(1, 5, -1, 3 * (HIDDEN // HEADS)).transpose(1, 2)
        heads = (part.transpose(1, 2).reshape(1, 5, -1) for part in by_head.chunk(3, dim=-1))
        return {"x": x} | dict(zip("qkv", heads, strict=True))


@pytest.mark.parametrize("family", CONFIGS)
def test_every_role_is_found_in_its_shape(tmp_path, family):
    model = tiny(family)
    checkpoint = prepared(model, tmp_path)
    gate = family not in ("gpt2", "gpt_neox")
    assert checkpoint.roles == (WITH_GATE if gate else WITHOUT_GATE)
    kv_heads = KV_HEADS if gate else HEADS
    head_dim = 32 if family in ("qwen3", "gemma3") else HIDDEN // HEADS
    assert (checkpoint.geometry.heads, checkpoint.geometry.kv_heads) == (HEADS, kv_heads)
    assert checkpoint.geometry.head_dim == head_dim
    q, kv = HEADS * head_dim, kv_heads * head_dim
    shapes = {"q": (q, HIDDEN), "k": (kv, HIDDEN), "v": (kv, HIDDEN), "o": (HIDDEN, q)}
    shapes |= dict.fromkeys(("gate", "up"), (INTERMEDIATE, HIDDEN))
    shapes |= {"down": (HIDDEN, INTERMEDIATE)}
    for role in checkpoint.roles:
        for block in range(BLOCKS):
            matrix = checkpoint.matrix(role, block)
            assert matrix.shape == shapes[role]
            assert matrix.dtype == np.float32
            assert matrix.flags.c_contiguous
    for role in ("embed", "head"):
        assert checkpoint.matrix(role).shape == (VOCABULARY, HIDDEN)


@pytest.mark.parametrize("family", ["phi3", "gpt2", "gpt_neox"])
def test_fused_views_are_what_the_module_splits(tmp_path, family):
    """R23: Phi-3 and others store several roles as one tensor."""
    model = tiny(family)
    checkpoint = prepared(model, tmp_path)
    for block in range(BLOCKS):
        outputs = own_split(family, model, block)
        x = outputs.pop("x").double()
        for role, expected in outputs.items():
            ours = x @ torch.from_numpy(checkpoint.matrix(role, block)).double().T
            np.testing.assert_allclose(ours, expected, atol=2e-5)


def test_fused_views_are_exact_slices(tmp_path):
    phi3, gpt2, neox = (prepared(tiny(f), tmp_path / f) for f in ("phi3", "gpt2", "gpt_neox"))
    stored = weights_of(tiny("phi3"))
    qkv = stored["model.layers.1.self_attn.qkv_proj.weight"]
    gate_up = stored["model.layers.1.mlp.gate_up_proj.weight"]
    for role, rows in {"q": qkv[:64], "k": qkv[64:96], "v": qkv[96:]}.items():
        np.testing.assert_array_equal(phi3.matrix(role, 1), rows)
    for role, rows in {"gate": gate_up[:96], "up": gate_up[96:]}.items():
        np.testing.assert_array_equal(phi3.matrix(role, 1), rows)
    stored = weights_of(tiny("gpt2"))
    c_attn = stored["transformer.h.1.attn.c_attn.weight"]
    assert c_attn.shape == (64, 192)
    for i, role in enumerate("qkv"):
        np.testing.assert_array_equal(gpt2.matrix(role, 1), c_attn[:, 64 * i : 64 * (i + 1)].T)
    for role, name in {"o": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}.items():
        expected = stored[f"transformer.h.1.{name}.weight"].T
        np.testing.assert_array_equal(gpt2.matrix(role, 1), expected)
    stored = weights_of(tiny("gpt_neox"))["gpt_neox.layers.1.attention.query_key_value.weight"]
    for i, role in enumerate("qkv"):
        by_head = np.concatenate([stored[48 * h + 16 * i : 48 * h + 16 * i + 16] for h in range(4)])
        np.testing.assert_array_equal(neox.matrix(role, 1), by_head)


# ------------------------------------------------------------------------------- replacing


@pytest.mark.parametrize("family", CONFIGS)
def test_linear_tensors_are_listed_once_and_hold_every_role(tmp_path, family):
    checkpoint = prepared(tiny(family), tmp_path)
    names = checkpoint.linear_tensors()
    assert len(set(names)) == len(names)
    held = [checkpoint.layout.place(name) for name in names]
    assert [place.block for place in held] == sorted(place.block for place in held)
    each = [(role, place.block) for place in held for role in place.roles]
    assert sorted(each) == sorted((role, b) for role in checkpoint.roles for b in range(BLOCKS))


@pytest.mark.parametrize("family", CONFIGS)
def test_the_identity_gives_the_tensor_back_bit_for_bit(tmp_path, family):
    model = tiny(family)
    checkpoint = prepared(model, tmp_path)
    seen = []

    def same(role: str, block: int, weight: np.ndarray) -> np.ndarray:
        np.testing.assert_array_equal(weight, checkpoint.matrix(role, block))
        seen.append((role, block))
        return weight.copy()

    for name in checkpoint.linear_tensors():
        np.testing.assert_array_equal(checkpoint.replaced(name, same), weights_of(model)[name])
    assert len(seen) == len(set(seen)) == BLOCKS * len(checkpoint.roles)


@pytest.mark.parametrize("family", CONFIGS)
def test_replacing_one_role_changes_that_role_alone(tmp_path, family):
    checkpoint = prepared(tiny(family), tmp_path)
    for role in checkpoint.roles:
        name = checkpoint.layout.tensor(checkpoint.layout.part_of(role), 1)

        def doubled(its: str, _block: int, weight: np.ndarray, role: str = role) -> np.ndarray:
            return weight * 2 if its == role else weight

        after = checkpoint.replaced(name, doubled)
        views = checkpoint.layout.views(checkpoint.layout.part_of(role), after, checkpoint.geometry)
        for its, view in views.items():
            before = checkpoint.matrix(its, 1)
            factor = 2 if its == role else 1
            np.testing.assert_array_equal(view.reshape(before.shape), before * factor)


def test_replacing_refuses_what_it_cannot_do(tmp_path):
    checkpoint = prepared(tiny("gpt2"), tmp_path)
    q = checkpoint.linear_tensors()[0]
    with pytest.raises(ValueError, match=r"q of block 0 has shape \(64, 64\); .* has \(32, 128\)"):
        checkpoint.replaced(q, lambda role, block, weight: weight.reshape(32, 128))
    for name in ("transformer.wte.weight", "transformer.h.0.ln_1.weight", "lm_head.weight"):
        with pytest.raises(ValueError, match=f"{name} holds no linear weights of a block"):
            checkpoint.replaced(name, lambda role, block, weight: weight)


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox"])
def test_a_role_that_is_lacking_is_named(tmp_path, family):
    checkpoint = prepared(tiny(family), tmp_path)
    expected = rf"out \({family}\) has no matrix of role 'gate'; it has q, k, v, o, up, down, embed"
    with pytest.raises(RoleError, match=expected):
        checkpoint.matrix("gate", 0)


def test_the_manifest_names_all_roles_of_a_tensor(tmp_path):
    tiny("phi3").save_pretrained(tmp_path / "source")
    records = prepare(tmp_path / "source", tmp_path / "out", regauge_seed=None, progress=silent)
    roles = {r.tensor.rsplit(".", 2)[-2]: r.role for r in records if r.block in (0, None)}
    assert roles["qkv_proj"] == "q k v"
    assert roles["gate_up_proj"] == "gate up"
    assert roles["o_proj"] == "o"
    assert roles["input_layernorm"] is None


# -------------------------------------------------------------- from directory to directory


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("family", CONFIGS)
def test_a_directory_is_the_same_model_in_transformers(tmp_path, family, tied):
    model = tiny(family, tie_word_embeddings=tied)
    checkpoint = prepared(model, tmp_path)
    assert checkpoint.tied == tied
    assert torch.equal(logits_of(loaded(checkpoint)), logits_of(model))


@pytest.mark.parametrize("family", CONFIGS)
def test_where_the_config_is_silent_we_take_what_transformers_takes(family):
    config_type, _ = CONFIGS[family]
    layout = next(x for x in LAYOUTS if config_type.model_type in x.classes)
    silent_config = config_type()
    assert layout.tied == silent_config.tie_word_embeddings
    for key, value in layout.defaults.items():
        assert getattr(silent_config, key) == value
    model = AutoModelForCausalLM.from_config(tiny(family).config)
    assert type(model).__name__ == layout.classes[config_type.model_type]


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "pickle"])
@pytest.mark.parametrize(
    ("family", "prefix", "buffers"),
    [
        ("gpt2", "transformer.", ["h.0.attn.bias", "h.1.attn.masked_bias"]),
        (
            "gpt_neox",
            "gpt_neox.",
            [f"layers.1.attention.{x}" for x in ("bias", "masked_bias", "rotary_emb.inv_freq")],
        ),
    ],
)
@pytest.mark.parametrize("with_prefix", [True, False])
def test_old_names_and_buffers(tmp_path, family, prefix, buffers, with_prefix, pickled):
    # Why it exists: the hub's gpt2 has no prefix and stores the causal mask of every block.
    model = tiny(family, tie_word_embeddings=True)
    (tmp_path / "source").mkdir()
    model.config.save_pretrained(tmp_path / "source")
    tensors = {name: p.detach().clone() for name, p in model.named_parameters()}
    tensors |= {prefix + name: torch.ones(1, 1, 8, 8) for name in buffers}
    if not with_prefix:
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    if pickled:
        torch.save(tensors, tmp_path / "source/pytorch_model.bin")
    else:
        save_file(tensors, tmp_path / "source/model.safetensors", {"format": "pt"})
    prepare(tmp_path / "source", tmp_path / "out", regauge_seed=None, progress=silent)
    checkpoint = Checkpoint(tmp_path / "out")
    assert torch.equal(logits_of(loaded(checkpoint)), logits_of(model))
    assert checkpoint.linear_tensors()[0].startswith(prefix)
    checkpoint.matrix("q", 0)


def test_one_tensor_under_two_names_is_refused(tmp_path):
    model = tiny("gpt2")
    model.save_pretrained(tmp_path / "source")
    file = tmp_path / "source/model.safetensors"
    tensors = load_file(file)
    save_file(tensors | {"wte.weight": tensors["transformer.wte.weight"] * 2}, file)
    with pytest.raises(ValueError, match=r"holds transformer.wte.weight under two names"):
        prepare(tmp_path / "source", tmp_path / "out", regauge_seed=None, progress=silent)


def test_gpt2_is_as_wide_as_its_config_implies(tmp_path):
    checkpoint = prepared(tiny("gpt2", n_inner=None), tmp_path)
    assert checkpoint.matrix("up", 0).shape == (4 * HIDDEN, HIDDEN)


# ------------------------------------------------------------------------------ multimodal


def multimodal(tmp_path, dtype: torch.dtype = torch.float32, **text: Any):
    """A tiny Gemma 3 with eyes, as transformers saves it; its tensors are random."""
    inner = tiny("gemma3", tie_word_embeddings=True).config.to_dict() | text
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    config = Gemma3Config(
        text_config=inner,
        vision_config=vision,
        mm_tokens_per_image=4,
        image_token_index=5,
        boi_token_index=6,
        eoi_token_index=7,
    )
    model = Gemma3ForConditionalGeneration(config).to(dtype).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.15 if parameter.ndim == 2 else 0.3, generator=generator)
    model.save_pretrained(tmp_path / "source")
    return model


def renamed(file, names) -> None:
    tensors = {names(name): tensor for name, tensor in load_file(file).items()}
    assert tensors.keys() != load_file(file).keys()
    save_file(tensors, file, {"format": "pt"})


def to_new_names(name: str) -> str:
    """As transformers 4.52 and later hold them in memory, and some checkpoints store them."""
    if name.startswith("language_model.model."):
        return name.replace("language_model.model.", "model.language_model.")
    return name if name.startswith("lm_head") else f"model.{name}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("new_names", [False, True], ids=["as published", "newer"])
def test_a_multimodal_checkpoint_is_read_as_its_language_model(tmp_path, new_names, dtype):
    model = multimodal(tmp_path, dtype)
    file = tmp_path / "source/model.safetensors"
    assert any(name.startswith("language_model.model.layers") for name in load_file(file))
    if new_names:
        renamed(file, to_new_names)
    records = prepare(tmp_path / "source", tmp_path / "out", regauge_seed=None, progress=silent)
    assert {record.tensor for record in records} == set(weights_of(tiny("gemma3"))) - {
        "lm_head.weight"
    }
    checkpoint = Checkpoint(tmp_path / "out")
    assert checkpoint.config["architectures"] == ["Gemma3ForCausalLM"]
    text = loaded(checkpoint)
    assert type(text).__name__ == "Gemma3ForCausalLM"
    assert text.dtype == dtype
    for name, parameter in text.model.named_parameters():
        assert torch.equal(parameter, model.model.language_model.get_parameter(name)), name
    if dtype == torch.float32:
        ids = torch.arange(10, 34)[None]
        with torch.no_grad():
            assert torch.equal(text(ids).logits, model(ids).logits)


def test_a_multimodal_checkpoint_in_another_gauge(tmp_path):
    model = multimodal(tmp_path)
    prepare(tmp_path / "source", tmp_path / "out", regauge_seed=3, progress=silent)
    text = loaded(Checkpoint(tmp_path / "out"))
    ids = torch.arange(10, 34)[None]
    with torch.no_grad():
        before, after = model(ids).logits, text(ids).logits
    assert (after - before).abs().max() / before.std() < 1e-4


def test_a_multimodal_config_that_says_little(tmp_path):
    # The config.json of google/gemma-3-4b-it: transformers fills in the rest.
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
    config = AutoConfig.from_pretrained(tmp_path).text_config
    (tmp_path / "config.json").write_text(json.dumps(text))
    checkpoint = Checkpoint(tmp_path)
    geometry = checkpoint.geometry
    assert checkpoint.tied == config.tie_word_embeddings
    assert geometry.head_dim == config.head_dim
    assert geometry.vocabulary == config.vocab_size
    assert (geometry.heads, geometry.kv_heads) == (
        config.num_attention_heads,
        config.num_key_value_heads,
    )


# ------------------------------------------------------------------------------------ GGUF


@pytest.mark.parametrize("stored", [F32, F16], ids=lambda kind: kind.name)
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma3", "phi3"])
def test_a_gguf_file_is_the_model_it_was_made_of(tmp_path, family, tied, stored):
    model = tiny(family, tie_word_embeddings=tied)
    if stored == F16:
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.copy_(parameter.half().float())
    path = write_gguf(model, tmp_path / "t.gguf", stored)
    prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)
    checkpoint = Checkpoint(tmp_path / "out")
    assert checkpoint.entries.keys() == weights_of(model).keys()
    for name, values in weights_of(model).items():
        ours = checkpoint.entries[name].float32()
        if family == "gemma3" and values.ndim == 1:  # 1 + w in float32, and back
            np.testing.assert_allclose(ours, values, rtol=0, atol=2**-23)
        else:
            np.testing.assert_array_equal(ours, values, err_msg=name)
    logits, again = logits_of(model), logits_of(loaded(checkpoint))
    if family == "gemma3":
        assert (again - logits).abs().max() / logits.std() < 1e-4
    else:
        assert torch.equal(again, logits)


def test_gemma_3_from_gguf_slides_and_scales_as_it_did(tmp_path):
    # Seven blocks, so that one of them is global; rotary scaling as the 4B model has it.
    rope = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    model = tiny("gemma3", num_hidden_layers=7, rope_parameters=rope)
    assert set(model.config.layer_types) == {"full_attention", "sliding_attention"}
    path = write_gguf(model, tmp_path / "t.gguf")
    prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)
    again = loaded(Checkpoint(tmp_path / "out"))
    logits = logits_of(model, 64)
    assert (logits_of(again, 64) - logits).abs().max() / logits.std() < 1e-4
    want, have = model.config.to_dict(), again.config.to_dict()
    left_out = {"architectures", "dtype", "_name_or_path", "pad_token_id", "transformers_version"}
    assert have.pop("rms_norm_eps") == np.float32(want.pop("rms_norm_eps"))
    assert {k: have[k] for k in want.keys() - left_out} == {
        k: want[k] for k in want.keys() - left_out
    }
    # The control: each of these is seen in the logits.
    for changes in (
        {"sliding_window": 64},
        {"query_pre_attn_scalar": 16},
        {"layer_types": ["sliding_attention"] * 7},
        {"rope_parameters": rope | {"full_attention": rope["sliding_attention"]}},
    ):
        other = tiny("gemma3", **{"num_hidden_layers": 7, "rope_parameters": rope} | changes)
        assert (logits_of(other, 64) - logits).abs().max() / logits.std() > 1e-2, changes


def test_gemma_3_of_62_blocks_scales_its_queries_otherwise(tmp_path):
    # llama.cpp knows the 27B model by its number of blocks: the file does not say.
    model = tiny("gemma3", num_hidden_layers=62, query_pre_attn_scalar=HIDDEN // HEADS)
    path = write_gguf(model, tmp_path / "t.gguf")
    assert GgufSource(path).config["query_pre_attn_scalar"] == HIDDEN // HEADS


def test_longrope_is_refused_by_name(tmp_path):
    factors = {f"rope_factors_{name}.weight": np.ones(8) for name in ("long", "short")}
    path = write_gguf(tiny("phi3"), tmp_path / "t.gguf", extra=factors)
    with pytest.raises(ValueError, match=r"rope_factors_long and rope_factors_short \(longrope\)"):
        GgufSource(path)


@pytest.mark.parametrize("architecture", ["gpt2", "gptneox"])
def test_families_that_are_not_read_from_gguf_are_refused_by_name(tmp_path, architecture):
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "t.gguf", architecture)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(UnsupportedArchitectureError, match=rf"'{architecture}' is not supported"):
        GgufSource(tmp_path / "t.gguf")


# ----------------------------------------------------------------------------------- gauge


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox"])
def test_a_family_without_a_gauge_says_what_to_do(tmp_path, family):
    with pytest.raises(ValueError, match=rf"a {family} model cannot .* set regauge_seed: null"):
        prepared(tiny(family), tmp_path, seed=0)
    assert not (tmp_path / "out").exists()
