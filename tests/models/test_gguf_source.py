import gguf
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import (
    BF16,
    BLOCKS,
    F16,
    F32,
    HEADS,
    HIDDEN,
    KV_HEADS,
    Q4_0,
    Q8_0,
    as_stored,
    converter_permute,
    load_as_transformers,
    logits_of,
    reading_of_transformers,
    silent,
    tiny,
    weights_of,
    write_gguf,
)
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from quantdrift.models.checkpoint import Checkpoint, prepare
from quantdrift.models.families import LAYOUTS
from quantdrift.models.gguf_source import GgufSource
from quantdrift.models.layouts import (
    UnsupportedArchitectureError,
    permute_heads,
    unpermute_heads,
)


@given(
    heads=st.integers(1, 8),
    half=st.integers(1, 8),
    columns=st.one_of(st.none(), st.integers(1, 4)),
)
def test_unpermuting_inverts_permuting(heads, half, columns):
    shape = (heads * half * 2,) if columns is None else (heads * half * 2, columns)
    weight = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    there = permute_heads(weight, heads)
    np.testing.assert_array_equal(unpermute_heads(there, heads), weight)
    np.testing.assert_array_equal(permute_heads(unpermute_heads(weight, heads), heads), weight)
    np.testing.assert_array_equal(there, converter_permute(weight, heads, heads))


def test_permutation_needs_the_heads_of_its_own_matrix():
    """R22: query and key heads differ in number."""
    # Why it exists: k un-permuted with the number of query heads is a different matrix (GQA).
    k = np.arange(KV_HEADS * 16, dtype=np.float32)[:, None]
    stored = converter_permute(k, HEADS, KV_HEADS)
    np.testing.assert_array_equal(unpermute_heads(stored, KV_HEADS), k)
    assert not np.array_equal(unpermute_heads(stored, HEADS), k)
    # One pair after the other in llama.cpp: row 1 of a head is the partner of its row 0.
    np.testing.assert_array_equal(stored[:4, 0], [0, 8, 1, 9])


@pytest.mark.parametrize("stored", [F32, F16, BF16, Q8_0, Q4_0], ids=lambda kind: kind.name)
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_round_trip_and_transformers_reading(tmp_path, family, tied, stored):
    model = tiny(family, tie_word_embeddings=tied)
    path = write_gguf(model, tmp_path / "tiny.gguf", stored)
    records = prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)
    read = {name: entry.float32() for name, entry in Checkpoint(tmp_path / "out").entries.items()}

    expected = {
        name: as_stored(values, stored) if values.ndim == 2 else values
        for name, values in weights_of(model).items()
    }
    assert read.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(read[name], values, err_msg=name)

    quantized = stored in (Q8_0, Q4_0)
    assert {record.on_lattice for record in records if record.role} == {quantized}
    assert not any(record.on_lattice for record in records if record.role is None)

    ours, loading = AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    theirs = reading_of_transformers(path)
    for name, parameter in theirs.named_parameters():
        assert torch.equal(parameter, ours.get_parameter(name)), name
    assert torch.equal(logits_of(ours), logits_of(theirs))
    trivial = {"architectures", "dtype", "_name_or_path", "transformers_version"}
    want, have = theirs.config.to_dict(), ours.config.to_dict()
    assert {k: have[k] for k in want.keys() - trivial} == {
        k: want[k] for k in want.keys() - trivial
    }


def test_head_width_that_is_not_hidden_by_heads(tmp_path):
    """R25: shapes come of the weights."""
    model = tiny(head_dim=24)
    assert HEADS * 24 != HIDDEN
    path = write_gguf(model, tmp_path / "wide.gguf")
    prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)
    checkpoint = Checkpoint(tmp_path / "out")
    assert checkpoint.geometry.head_dim == 24
    np.testing.assert_array_equal(
        checkpoint.matrix("q", 1), weights_of(model)["model.layers.1.self_attn.q_proj.weight"]
    )
    ours = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert torch.equal(logits_of(ours), logits_of(model))


def llama3_factors(factor: float, head_dim: int, theta: float, low=1.0, high=4.0, positions=8192):
    """rope_freqs.weight as convert_hf_to_gguf.py computes it, loop and all."""
    factors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * np.pi * theta ** (i / head_dim)
        if wavelength < positions / high:
            factors.append(1.0)
        elif wavelength > positions / low:
            factors.append(factor)
        else:
            smooth = (positions / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


@pytest.mark.parametrize(("factor", "head_dim"), [(8.0, 128), (32.0, 64)])
def test_rope_factors_of_llama_3_become_a_config(tmp_path, factor, head_dim):
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    model = tiny(head_dim=head_dim, rope_parameters=rope, num_hidden_layers=1)
    factors = llama3_factors(factor, head_dim, 500000.0)
    assert len(set(factors.tolist())) > 3  # all three branches are there
    path = write_gguf(model, tmp_path / "3.gguf", extra={"rope_freqs.weight": factors})
    config = LlamaConfig(**GgufSource(path).config)
    assert config.rope_parameters["rope_type"] == "llama3"
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = 500000.0 ** (-np.arange(0, head_dim, 2) / head_dim)
    # The factors are stored in float32.
    np.testing.assert_allclose(plain / scaled.numpy(), factors, rtol=1e-6)


@pytest.mark.parametrize("change", [{"low": 2.0}, {"high": 3.0}, {"positions": 4096}])
def test_other_rope_factors_are_refused(tmp_path, change):
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    model = tiny(head_dim=64, rope_parameters=rope, num_hidden_layers=1)
    factors = llama3_factors(8.0, 64, 500000.0, **change)
    path = write_gguf(model, tmp_path / "3.gguf", extra={"rope_freqs.weight": factors})
    with pytest.raises(ValueError, match=r"rope_freqs.weight is not the scaling of Llama 3.1"):
        GgufSource(path)


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (
            lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN),
            r"llama.rope.scaling.type is 'yarn'",
        ),
        (lambda w: w.add_float32("llama.rope.scale_linear", 0.25), r"scales its rotary embedding"),
        (lambda w: w.add_rope_dimension_count(8), r"rotates 8 of the 16 channels of a head"),
        (lambda w: w.add_uint16("split.count", 3), r"one of 3 parts.*llama-gguf-split --merge"),
        (lambda w: w.add_head_count_kv([2, 2, 4]), r"head_count_kv differs between blocks"),
    ],
)
def test_what_would_be_another_model_is_refused(tmp_path, add, message):
    left_out = ("dimension_count", "head_count_kv")
    path = write_gguf(tiny(), tmp_path / "odd.gguf", metadata=add, left_out=left_out)
    with pytest.raises(ValueError, match=message):
        GgufSource(path)


def test_head_counts_may_be_listed_block_by_block(tmp_path):
    path = write_gguf(
        tiny(),
        tmp_path / "list.gguf",
        left_out=("head_count_kv",),
        metadata=lambda w: w.add_head_count_kv([KV_HEADS] * BLOCKS),
    )
    assert GgufSource(path).config["num_key_value_heads"] == KV_HEADS


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("block_count", r"llama.block_count"),
        ("context_length", r"llama.context_length"),
        ("head_count", r"llama.attention.head_count"),
        ("rms_eps", r"llama.attention.layer_norm_rms_epsilon"),
        ("token_embd.weight", r"token_embd.weight"),
        ("blk.1.attn_k.weight", r"lacks model.layers.1.self_attn.k_proj.weight"),
        ("blk.2.ffn_norm.weight", r"lacks model.layers.2.post_attention_layernorm.weight"),
        ("output_norm.weight", r"lacks model.norm.weight"),
    ],
)
def test_what_is_missing_is_named(tmp_path, left_out, message):
    path = write_gguf(tiny(), tmp_path / "less.gguf", left_out=[left_out])
    with pytest.raises(ValueError, match=message):
        prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)
    assert not (tmp_path / "out").exists()


def test_missing_biases_of_qwen2_are_named(tmp_path):
    path = write_gguf(tiny("qwen2"), tmp_path / "q.gguf", left_out=["blk.0.attn_v.bias"])
    with pytest.raises(ValueError, match=r"lacks model.layers.0.self_attn.v_proj.bias"):
        prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)


@pytest.mark.parametrize(
    "name", ["blk.0.ffn_gate_inp.weight", "blk.0.attn_q.bias", "blk.0.attn_q_norm.weight"]
)
def test_tensors_without_a_place_are_refused(tmp_path, name):
    # A Llama of transformers would drop the bias without a word, and be another model.
    path = write_gguf(tiny(), tmp_path / "more.gguf", extra={name: np.ones(64)})
    with pytest.raises(UnsupportedArchitectureError, match=name) as error:
        prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)
    assert "blk.{b}.attn_q.weight" in str(error.value)


def test_unknown_architectures_list_the_known(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(UnsupportedArchitectureError, match="'mamba'") as error:
        GgufSource(tmp_path / "m.gguf")
    for layout in LAYOUTS:
        assert layout.gguf_architecture is None or layout.gguf_architecture in str(error.value)


def test_other_files_are_refused(tmp_path):
    for content in (b"", b"GG", b"not a model at all", b"GGUF", b"GGUF" + bytes(40)):
        (tmp_path / "x.gguf").write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.gguf"):
            GgufSource(tmp_path / "x.gguf")
    with pytest.raises(ValueError, match=r"nowhere\.gguf"):
        GgufSource(tmp_path / "nowhere.gguf")


def test_a_file_cut_anywhere_is_refused(tmp_path):
    whole = write_gguf(tiny(num_hidden_layers=1), tmp_path / "whole.gguf", Q8_0).read_bytes()
    cut = tmp_path / "cut.gguf"
    # In the header, in the metadata, among the tensor infos, in the data, one byte short.
    for length in [5, 20, 24, *range(30, len(whole), len(whole) // 40), len(whole) - 1]:
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.gguf"):
            prepare(cut, tmp_path / "out", regauge_seed=None, progress=silent)
        assert not (tmp_path / "out").exists()


def test_types_that_gguf_cannot_dequantize_are_named(tmp_path):
    model = tiny(num_hidden_layers=1)

    def integers(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.int32))

    path = write_gguf(
        model, tmp_path / "i.gguf", metadata=integers, left_out=["output_norm.weight"]
    )
    with pytest.raises(ValueError, match=r"output_norm.weight of type I32"):
        prepare(path, tmp_path / "out", regauge_seed=None, progress=silent)


@pytest.mark.demo_model
def test_the_demo_model_reads_as_in_transformers(demo_gguf, demo_as_it_came):
    ours, loading = AutoModelForCausalLM.from_pretrained(
        demo_as_it_came.directory, output_loading_info=True
    )
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    # Its config in our words: parsing the metadata once more would cost another ten seconds.
    theirs = AutoModelForCausalLM.from_config(ours.config).eval()
    load_as_transformers(demo_gguf, theirs)
    for name, parameter in theirs.named_parameters():
        assert torch.equal(parameter, ours.get_parameter(name)), name
    assert torch.equal(logits_of(ours, 16), logits_of(theirs, 16))
