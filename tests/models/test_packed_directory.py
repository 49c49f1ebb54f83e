"""GPTQ and AWQ checkpoints as schemes, against packers that follow AutoGPTQ and AutoAWQ."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from packed_models import (
    GROUP,
    awq_tensors,
    awq_words,
    gptq_tensors,
    linear_layers,
    put,
    rounded,
    save_gptq,
    save_packed,
    stacked,
)
from safetensors.torch import load_file, save_file
from stored_models import base_of, converted
from tiny_models import logits_of, tiny

from quantdrift.models.causal_lm import load
from quantdrift.models.checkpoint import Checkpoint
from quantdrift.models.file_match import MatchError
from quantdrift.models.packed_integers import unpack_awq, unpack_stream
from quantdrift.models.stored_weights import StoredWeights
from quantdrift.sensitivity.weight_error import weight_error

CPU: Any = {"device": torch.device("cpu"), "dtype": torch.float32}


def running(base: Checkpoint, stored: StoredWeights) -> Any:
    return load(base, change=lambda role, block, _: stored.quantized(role, block).weight, **CPU)


def assert_same_function(one: Any, other: Any, within: float = 1e-4) -> None:
    reference = logits_of(other)
    assert (logits_of(one) - reference).abs().max() < within * reference.std()


# ------------------------------------------------------------------------------------ integers


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_a_stream_of_integers_comes_back(bits):
    integers = torch.randint(2**bits, (96, 7), generator=torch.Generator().manual_seed(bits))
    words = stacked(integers, bits).numpy()
    assert words.shape == (96 * bits // 32, 7)
    np.testing.assert_array_equal(unpack_stream(words, bits), integers.numpy())


def test_awqs_order_comes_back():
    integers = torch.randint(16, (5, 64), generator=torch.Generator().manual_seed(0))
    words = awq_words(integers).numpy()
    np.testing.assert_array_equal(unpack_awq(words), integers.numpy())


def test_words_that_are_no_whole_number_are_refused():
    with pytest.raises(ValueError, match="4 words of 32 bits are no whole number of 3-bit"):
        unpack_stream(np.zeros((4, 2), np.int32), 3)


# ---------------------------------------------------------------------------------------- GPTQ


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize(
    ("sym", "desc_act", "v2"), [(True, False, False), (False, True, False), (False, False, True)]
)
def test_gptq_holds_scale_times_integer_less_zero(bits, sym, desc_act, v2, tmp_path):
    model = tiny()
    base = base_of(model, tmp_path)
    weights = save_gptq(model, tmp_path / "q", bits, sym=sym, desc_act=desc_act, v2=v2)
    stored = converted(tmp_path / "q", base)
    for name, weight in weights.items():
        role = name.rpartition(".")[2].removesuffix("_proj")
        block = int(name.split(".")[2])
        found = stored.quantized(role, block)
        np.testing.assert_array_equal(found.weight, weight.numpy())
        assert found.type == f"gptq-{bits}-{GROUP}"
        assert found.ledger.bpw_claimed == bits


def test_the_ledger_counts_the_bytes_of_the_tensors(tmp_path):
    model = tiny("phi3")
    base = base_of(model, tmp_path)
    save_gptq(model, tmp_path / "q")
    tensors = load_file(tmp_path / "q/model.safetensors")
    packed = ("qweight", "qzeros", "scales", "g_idx")
    n_bytes = sum(t.nbytes for name, t in tensors.items() if name.endswith(packed))
    stored = converted(tmp_path / "q", base)
    ledgers = [stored.quantized(role, b).ledger for b in range(3) for role in base.roles]
    assert sum(ledger.bits_full for ledger in ledgers) == 8 * n_bytes
    assert {entry.name for entry in ledgers[0].entries} == {
        "indices",
        "scales",
        "zero_points",
        "g_idx",
    }


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "phi3", "gpt2", "gpt_neox"])
@pytest.mark.parametrize("seed", [None, 2])
def test_the_running_model_is_the_gptq_model(family, seed, tmp_path):
    if family.startswith("gpt") and seed is not None:
        pytest.skip("has no gauge")
    model = tiny(family)
    base = base_of(model, tmp_path, seed)
    weights = save_gptq(model, tmp_path / "q", 3, sym=False, desc_act=True)
    here = running(base, converted(tmp_path / "q", base, seed))
    assert_same_function(here, put(tiny(family), weights))


def test_layers_that_were_left_alone_or_have_other_bits_are_told(tmp_path):
    model = tiny()
    base = base_of(model, tmp_path)
    groups = torch.arange(64) // 64
    packed = {
        name: gptq_tensors(rounded(weight, 8 if "v_proj" in name else 4, sym=True, groups=groups),
                           8 if "v_proj" in name else 4, v2=False)
        for name, weight in linear_layers(model).items()
        if "o_proj" not in name and "down" not in name
    }  # fmt: skip
    about = {"quant_method": "gptq", "bits": 4, "group_size": -1}
    save_packed(model, tmp_path / "q", packed, about)
    stored = converted(tmp_path / "q", base)
    types = {role: stored.quantized(role, 0).type for role in ("q", "v", "o", "down")}
    assert types == {"q": "gptq-4-64", "v": "gptq-8-64", "o": "f16", "down": "f16"}
    assert stored.quantized("o", 0).ledger.bpw_full == 16
    assert stored.about["outside"] == {"embed": "f16", "head": "f16"}


def test_a_checkpoint_without_g_idx_takes_its_groups_in_order(tmp_path):
    model = tiny()
    base = base_of(model, tmp_path)
    weights = save_gptq(model, tmp_path / "q")
    tensors = load_file(tmp_path / "q/model.safetensors")
    kept = {name: t for name, t in tensors.items() if not name.endswith("g_idx")}
    save_file(kept, tmp_path / "q/model.safetensors")
    found = converted(tmp_path / "q", base).quantized("k", 1)
    expected = weights["model.layers.1.self_attn.k_proj"]
    np.testing.assert_array_equal(found.weight, expected.numpy())


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_biases_that_old_packers_added_must_be_zero(value, tmp_path):
    model = tiny()
    base = base_of(model, tmp_path)
    save_gptq(model, tmp_path / "q")
    tensors = load_file(tmp_path / "q/model.safetensors")
    tensors["model.layers.0.self_attn.q_proj.bias"] = torch.full((64,), value).half()
    save_file(tensors, tmp_path / "q/model.safetensors")
    if value:
        with pytest.raises(MatchError, match=r"q_proj.bias' has no place in the layout 'llama'"):
            converted(tmp_path / "q", base)
    else:
        converted(tmp_path / "q", base)


def test_autogptqs_older_config_is_read(tmp_path):
    model = tiny()
    base = base_of(model, tmp_path)
    save_gptq(model, tmp_path / "q")
    config = json.loads((tmp_path / "q/config.json").read_text())
    about = config.pop("quantization_config")
    del about["quant_method"]
    (tmp_path / "q/config.json").write_text(json.dumps(config))
    (tmp_path / "q/quantize_config.json").write_text(json.dumps(about))
    assert converted(tmp_path / "q", base).about["format"] == "gptq"


# ----------------------------------------------------------------------------------------- AWQ


def awq(model: Any, folder: Path, *, fold: bool, sd: float = 0.5, **about: Any) -> Any:
    """Scale as AWQ does, round, write; returns the model that the file is."""
    generator = torch.Generator().manual_seed(1)

    def scales(n: int) -> torch.Tensor:
        drawn = torch.exp2(sd * torch.randn(n, generator=generator))
        return drawn if fold else torch.ones(n)

    offset = 1.0 if model.config.model_type.startswith("gemma") else 0.0
    mlp_norm = "pre_feedforward_layernorm" if offset else "post_attention_layernorm"
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        for norm, readers in (
            (layer.input_layernorm, [attention.q_proj, attention.k_proj, attention.v_proj]),
            (getattr(layer, mlp_norm), [mlp.gate_proj, mlp.up_proj]),
        ):
            a = scales(len(norm.weight))
            norm.weight.data = ((norm.weight.data + offset) / a - offset).half().float()
            for reader in readers:
                reader.weight.data *= a
        for before, after in ((attention.v_proj, attention.o_proj), (mlp.up_proj, mlp.down_proj)):
            if before.weight.shape[0] == after.weight.shape[1]:
                t = scales(after.weight.shape[1])
                after.weight.data *= t
                before.weight.data /= t[:, None]
                if before.bias is not None:
                    before.bias.data = (before.bias.data / t).half().float()
    packed, weights = {}, {}
    for name, weight in linear_layers(model).items():
        groups = torch.arange(weight.shape[1]) // GROUP
        layer = rounded(weight, 4, sym=False, groups=groups)
        packed[name], weights[name] = awq_tensors(layer), layer.weight
    stated = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}
    save_packed(model, folder, packed, stated | about)
    return put(model, weights)


def halved(family: str, **changes: Any) -> Any:
    """A model whose numbers float16 holds, as published ones are."""
    model = tiny(family, **changes)
    for parameter in model.parameters():
        parameter.data = parameter.data.half().float()
    return model


def test_awq_holds_scale_times_integer_less_zero(tmp_path):
    base = base_of(halved("llama"), tmp_path)
    model = awq(halved("llama"), tmp_path / "q", fold=False)
    stored = converted(tmp_path / "q", base)
    for name, weight in linear_layers(model).items():
        role = name.rpartition(".")[2].removesuffix("_proj")
        found = stored.quantized(role, int(name.split(".")[2]))
        np.testing.assert_array_equal(found.weight, weight.numpy())
        assert found.type == f"awq-4-{GROUP}"
    assert stored.about["rows_fitted"] == {}
    q = stored.quantized("q", 0).ledger  # 4 bits, and 16 + 4 for each group of 32
    assert q.bpw_full == 4 + 20 / GROUP


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize(
    ("family", "changes", "fitted"),
    [
        ("llama", {}, {"up"}),
        ("llama", {"num_key_value_heads": 4}, {"up", "v"}),
        ("qwen2", {}, {"up"}),
        ("qwen2", {"num_key_value_heads": 4}, {"up"}),  # v has a bias, which tells
        ("gemma3", {"num_key_value_heads": 4}, {"up", "v"}),
    ],
)
def test_awqs_scales_are_undone_and_the_function_stays(family, changes, fitted, seed, tmp_path):
    base = base_of(halved(family, **changes), tmp_path, seed)
    model = awq(halved(family, **changes), tmp_path / "q", fold=True)
    stored = converted(tmp_path / "q", base, seed)
    for block in range(3):
        for role in base.roles:
            error = weight_error(base.matrix(role, block), stored.quantized(role, block).weight)
            # Scales that stay make 0.4; coarse steps for some channels remain.
            assert error.relative_frobenius < 0.25, (role, block)
    assert set(stored.about["rows_fitted"]) == fitted
    assert stored.about["scales_undone"]
    assert_same_function(running(base, stored), model)


def test_an_awq_file_of_another_model_is_refused(tmp_path):
    base = base_of(halved("llama"), tmp_path)
    awq(halved("llama", seed=1), tmp_path / "q", fold=True)
    with pytest.raises(MatchError, match=r"another model.*(norm.weight|of block 0) "):
        converted(tmp_path / "q", base)


def test_a_norm_channel_that_died_cannot_be_undone(tmp_path):
    base = base_of(halved("llama"), tmp_path)
    model = halved("llama")
    model.model.layers[1].input_layernorm.weight.data[3] = 0
    awq(model, tmp_path / "q", fold=False)
    with pytest.raises(
        ValueError, match=r"channel 3 of model.layers.1.input_layernorm.weight is 0"
    ):
        converted(tmp_path / "q", base)


# ----------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("about", "match"),
    [
        ({"quant_method": "bitsandbytes"}, r"is quantized by bitsandbytes; give a GGUF file"),
        ({"quant_method": "compressed-tensors"}, r"quantized by compressed-tensors"),
        ({"checkpoint_format": "marlin"}, r"is gptq in the format marlin"),
        ({"quant_method": "awq", "version": "gemv"}, r"is awq in the format gemv"),
        ({"quant_method": "awq", "version": "gemm", "bits": 3}, r"is awq of 3 bits, and its gemm"),
        (None, r"is not quantized"),
    ],
)
def test_what_is_not_known_is_refused(about, match, tmp_path):
    model = tiny()
    base = base_of(model, tmp_path)
    save_gptq(model, tmp_path / "q")
    config = json.loads((tmp_path / "q/config.json").read_text())
    if about is None:
        del config["quantization_config"]
    else:
        config["quantization_config"] |= about
    (tmp_path / "q/config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=match):
        converted(tmp_path / "q", base)


@pytest.mark.parametrize(
    ("tensor", "change", "match"),
    [
        ("qweight", lambda t: t[:-1], r"q_proj.weight has 7 rows of 32-bit words"),
        ("qweight", lambda t: t[:, :-1], r"qweight unpacks to shape \(64, 63\), not \(64, 64\)"),
        ("qzeros", lambda t: t[:, :-1], r"qzeros unpacks to shape \(2, 56\), not \(2, 64\)"),
        ("scales", lambda t: t[:1], r"q_proj.weight qzeros unpacks to shape \(2, 64\)"),
        ("scales", lambda t: None, r"q_proj.weight lacks its scales"),
        ("g_idx", lambda t: t + 1, r"names group 2 of 2"),
        ("qweight", lambda t: t.long(), r"packs its qweight into I64"),
    ],
)
def test_a_damaged_tensor_is_named(tensor, change, match, tmp_path):
    model = tiny()
    base = base_of(model, tmp_path)
    save_gptq(model, tmp_path / "q")
    tensors = load_file(tmp_path / "q/model.safetensors")
    name = f"model.layers.1.self_attn.q_proj.{tensor}"
    changed = change(tensors.pop(name))
    more = {} if changed is None else {name: changed.contiguous()}
    save_file(tensors | more, tmp_path / "q/model.safetensors")
    with pytest.raises(ValueError, match=match):
        converted(tmp_path / "q", base)
