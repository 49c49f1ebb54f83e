"""GGUF files of our own: read back by our reader, and run by llama.cpp against transformers."""

import importlib.util
import subprocess
import sys

import gguf
import numpy as np
import pytest
import torch
from stored_models import base_of
from test_gguf_tokenizer import TEXTS, byte_level, fields_of, model_with, sentencepiece
from tiny_models import CONFIGS, silent, tiny
from transformers import AutoTokenizer

from quantdrift.behaviour.llama_cpp import apart
from quantdrift.models import gguf_writer
from quantdrift.models.causal_lm import load, load_tokenizer
from quantdrift.models.checkpoint import Checkpoint, prepare
from quantdrift.models.gguf_source import GgufSource
from quantdrift.models.gguf_vocabulary import VocabularyError
from quantdrift.models.gguf_writer import write_gguf

llama_cpp = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None,
    reason="llama-cpp-python is left out (LLAMA_CPP=0)",
)
READ = [family for family in CONFIGS if not family.startswith("gpt")]
# Gemma: one block of full attention among windows. llama.cpp takes the GELU of these families from
# a table of float16.
CHANGES = {"gemma3": {"num_hidden_layers": 7}}
GELU = ("gemma3", "gpt2", "gpt_neox")
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
PARTIAL = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}


def checkpoint_of(family, folder, **changes) -> Checkpoint:
    return base_of(tiny(family, **CHANGES.get(family, {}) | changes), folder)


def ids_of(length=24):
    return np.random.default_rng(7).integers(0, 128, length)


def logits_of(checkpoint, ids, change=None) -> np.ndarray:
    model = load(checkpoint, device=torch.device("cpu"), dtype=torch.float32, change=change)
    with torch.no_grad():
        return model(torch.from_numpy(ids)[None]).logits[0].numpy()


def off(checkpoint, path, ids=None, change=None) -> float:
    """Largest difference of llama.cpp's logits to transformers', in their standard deviations."""
    ids = ids_of() if ids is None else ids
    expected = logits_of(checkpoint, ids, change)
    return float(np.abs(apart("logits", path, ids) - expected).max() / expected.std())


@pytest.mark.parametrize("family", READ)
def test_what_is_written_is_read_back(family, tmp_path):
    checkpoint = checkpoint_of(family, tmp_path)
    write_gguf(checkpoint, tmp_path / "t.gguf", kind="f32")
    found = {tensor.name: tensor.values for tensor in GgufSource(tmp_path / "t.gguf").tensors()}
    assert found.keys() == checkpoint.entries.keys()
    for name, values in found.items():
        expected = checkpoint.entries[name].float32()
        if family == "gemma3" and name.endswith("norm.weight"):
            # GGUF holds 1 + w, rounded.
            assert np.abs(values - expected).max() <= np.spacing(np.float32(4)) / 2
        else:
            np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("family", READ)
def test_the_config_is_read_back(family, tmp_path):
    checkpoint = checkpoint_of(family, tmp_path)
    write_gguf(checkpoint, tmp_path / "t.gguf")
    prepare(tmp_path / "t.gguf", tmp_path / "again", regauge_seed=None, progress=silent)
    again = Checkpoint(tmp_path / "again")
    assert again.geometry == checkpoint.geometry
    half = {name: entry.float32() for name, entry in again.entries.items()}
    for name, entry in checkpoint.entries.items():
        np.testing.assert_allclose(half[name], entry.float32(), rtol=2**-11, atol=2**-20)
    np.testing.assert_allclose(
        logits_of(again, ids_of()), logits_of(checkpoint, ids_of()), atol=0.05
    )


def test_vectors_stay_in_float32_and_a_tied_head_is_not_written(tmp_path):
    checkpoint = checkpoint_of("llama", tmp_path, tie_word_embeddings=True)
    write_gguf(checkpoint, tmp_path / "t.gguf")
    kinds = {t.name: t.tensor_type.name for t in gguf.GGUFReader(tmp_path / "t.gguf").tensors}
    assert "output.weight" not in kinds
    assert {kinds.pop(name) for name in list(kinds) if "norm" in name} == {"F32"}
    assert set(kinds.values()) == {"F16"}


@llama_cpp
@pytest.mark.parametrize("family", CONFIGS)
def test_llama_cpp_computes_the_same_logits(family, tmp_path):
    checkpoint = checkpoint_of(family, tmp_path)
    for kind in ("f32", "f16"):
        write_gguf(checkpoint, tmp_path / f"{kind}.gguf", kind=kind)
    # float32 in another order of sums; float16's half unit is 5e-4, in weights and activations.
    assert off(checkpoint, tmp_path / "f32.gguf") < (5e-3 if family in GELU else 1e-4)
    assert off(checkpoint, tmp_path / "f16.gguf") < 2e-2


@llama_cpp
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", {"tie_word_embeddings": True}),
        ("llama", {"head_dim": 32}),
        ("llama", {"num_key_value_heads": 4}),
        ("llama", {"num_key_value_heads": 1}),
        ("llama", {"rope_parameters": LLAMA3}),
        ("llama", {"rope_parameters": LINEAR}),
        ("qwen3", {"rope_parameters": LINEAR}),
        ("gemma3", {"tie_word_embeddings": True, "final_logit_softcapping": 5.0}),
        ("phi3", {"sliding_window": 24}),
        ("phi3", {"rope_parameters": PARTIAL}),
        ("gpt_neox", {"use_parallel_residual": False}),
    ],
)
def test_variants_of_a_family_compute_the_same_logits(family, changes, tmp_path):
    checkpoint = checkpoint_of(family, tmp_path, **changes)
    write_gguf(checkpoint, tmp_path / "f32.gguf", kind="f32")
    assert off(checkpoint, tmp_path / "f32.gguf") < (5e-3 if family in GELU else 1e-4)


@llama_cpp
def test_other_weights_are_written_and_wrong_rows_would_be_seen(tmp_path, monkeypatch):
    checkpoint = checkpoint_of("llama", tmp_path)

    def rounded(role, block, weight):
        return np.round(weight, 1) if role in ("q", "down") else weight

    write_gguf(checkpoint, tmp_path / "t.gguf", kind="f32", change=rounded)
    assert off(checkpoint, tmp_path / "t.gguf", change=rounded) < 1e-4
    assert off(checkpoint, tmp_path / "t.gguf") > 0.1
    # One head count for both, as in huggingface/transformers#31766.
    right = gguf_writer.permute_heads
    monkeypatch.setattr(gguf_writer, "permute_heads", lambda weight, _: right(weight, 4))
    write_gguf(checkpoint, tmp_path / "t.gguf", kind="f32")
    assert off(checkpoint, tmp_path / "t.gguf") > 0.1


@llama_cpp
def test_texts_longer_than_an_ignored_window_are_refused(tmp_path):
    checkpoint = checkpoint_of("mistral", tmp_path, sliding_window=16)
    write_gguf(checkpoint, tmp_path / "t.gguf", kind="f32")
    assert off(checkpoint, tmp_path / "t.gguf", ids_of(16)) < 1e-4
    with pytest.raises(RuntimeError, match="holds for texts of 16 tokens, not of 17"):
        apart("logits", tmp_path / "t.gguf", ids_of(17))


@pytest.mark.parametrize(
    ("family", "changes", "named"),
    [
        ("llama", {"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ("llama", {"rope_parameters": {**LINEAR, "rope_type": "dynamic"}}, "'dynamic'"),
        ("qwen2", {"rope_parameters": LLAMA3}, "'llama3' is not written for qwen2"),
        ("gemma3", {"query_pre_attn_scalar": 16}, "query_pre_attn_scalar = 16"),
        ("gemma3", {"layer_types": ["full_attention"] * 7}, "layer_types"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
    ],
)
def test_what_llama_cpp_does_not_do_is_refused_by_name(family, changes, named, tmp_path):
    checkpoint = checkpoint_of(family, tmp_path, **changes)
    with pytest.raises(ValueError, match=named):
        write_gguf(checkpoint, tmp_path / "t.gguf")
    assert not list(tmp_path.glob("*t.gguf*"))


def test_a_value_beyond_float16_leaves_no_file(tmp_path):
    checkpoint = checkpoint_of("llama", tmp_path)
    (tmp_path / "t.gguf").write_text("the old one")
    with pytest.raises(ValueError, match=r"blk\.1\.ffn_up\.weight .* kind='f32'"):
        write_gguf(
            checkpoint,
            tmp_path / "t.gguf",
            change=lambda role, block, w: w * 1e6 if (role, block) == ("up", 1) else w,
        )
    assert (tmp_path / "t.gguf").read_text() == "the old one"
    assert not list(tmp_path.glob(".t.gguf*"))


def same_vocabulary(source, folder) -> Checkpoint:
    prepare(source, folder / "out", regauge_seed=None, progress=silent)
    checkpoint = Checkpoint(folder / "out")
    write_gguf(checkpoint, folder / "again.gguf")
    before, after = fields_of(source), fields_of(folder / "again.gguf")
    for key in ("model", "tokens", "token_type", "bos_token_id", "eos_token_id"):
        assert after[f"ggml.{key}"] == before[f"ggml.{key}"], key
    return checkpoint


@pytest.mark.parametrize("split", ["gpt-2", "smollm", "llama-bpe", "tekken", "qwen2", "gpt-4o"])
def test_byte_level_vocabularies_are_read_back(split, tmp_path):
    add, size = byte_level(split)
    same_vocabulary(model_with(tmp_path, add, size=size), tmp_path)
    fields = fields_of(tmp_path / "again.gguf")
    assert fields["ggml.pre"] == split
    assert fields["ggml.merges"] == ["1 2", "a b", "Ġ a"]
    assert fields["ggml.add_bos_token"] == (split in ("llama-bpe", "tekken"))


@llama_cpp
@pytest.mark.parametrize("family", ["llama", "phi3", "gemma3"])
def test_sentencepiece_vocabularies_cut_the_same(family, tmp_path):
    checkpoint = same_vocabulary(model_with(tmp_path, sentencepiece, family), tmp_path)
    tokenizer = load_tokenizer(checkpoint)
    texts = ["abc 1🙂", "ab abc  ab", "1abab", "a"]
    expected = [tokenizer(text).input_ids for text in texts]
    assert apart("tokens", tmp_path / "again.gguf", texts) == expected


def test_rows_without_a_token_are_unused_tokens(tmp_path):
    add, size = byte_level("gpt-2")
    prepare(
        model_with(tmp_path, add, size=size),
        tmp_path / "small",
        regauge_seed=None,
        progress=silent,
    )
    model = tiny("llama", vocab_size=size + 2)
    model.save_pretrained(tmp_path / "source")
    AutoTokenizer.from_pretrained(tmp_path / "small").save_pretrained(tmp_path / "source")
    prepare(tmp_path / "source", tmp_path / "large", regauge_seed=None, progress=silent)
    write_gguf(Checkpoint(tmp_path / "large"), tmp_path / "t.gguf")
    fields = fields_of(tmp_path / "t.gguf")
    assert fields["ggml.tokens"][-2:] == [f"[PAD{size}]", f"[PAD{size + 1}]"]
    assert fields["ggml.token_type"][-2:] == [5, 5]


def test_a_split_without_a_name_is_refused(tmp_path):
    from tokenizers import Regex, pre_tokenizers

    add, size = byte_level("gpt-2")
    prepare(
        model_with(tmp_path, add, size=size), tmp_path / "out", regauge_seed=None, progress=silent
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("x"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.save_pretrained(tmp_path / "out")
    with pytest.raises(VocabularyError, match="no name here"):
        write_gguf(Checkpoint(tmp_path / "out"), tmp_path / "t.gguf")


@llama_cpp
@pytest.mark.demo_model
def test_llama_cpp_cuts_the_demo_models_texts_as_transformers_does(demo_regauged, tmp_path):
    checkpoint = Checkpoint(demo_regauged.directory)
    write_gguf(checkpoint, tmp_path / "demo.gguf")
    tokenizer = load_tokenizer(checkpoint)
    chat = "<|im_start|>user\nHi<|im_end|>\n"
    texts = [*filter(None, TEXTS), chat, "A\u0301 \u200b x\u00a0y\r\n\r\n'S we'll ǅ ﬁ"]
    expected = [tokenizer(text).input_ids for text in texts]
    assert apart("tokens", tmp_path / "demo.gguf", texts) == expected


def in_a_new_process(code) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@llama_cpp
def test_llama_cpp_and_libggml_refuse_each_other():
    ours, theirs = (
        "from quantdrift.quantizers.ggml import library; library()",
        ("from quantdrift.models.llama_cpp import load_library; load_library()"),
    )
    for order in (f"{ours}; {theirs}", f"{theirs}; {ours}"):
        assert "process of its own" in in_a_new_process(order)
    assert in_a_new_process(ours) == in_a_new_process(theirs) == ""


def test_a_missing_llama_cpp_says_how_it_is_had():
    said = in_a_new_process(
        "import sys; sys.modules['llama_cpp'] = None\n"
        "from quantdrift.models.llama_cpp import load_library; load_library()"
    )
    assert "is not installed" in said
    assert "make llamacpp" in said
