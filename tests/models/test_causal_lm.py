"""A prepared directory as a transformers model: with its own weights, with changed ones."""

import json
import shutil
from copy import deepcopy

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
)

from quantdrift.behaviour.attention import last_rows, watched
from quantdrift.models.causal_lm import LoadError, device_of, dtype_of, load, load_tokenizer
from quantdrift.models.checkpoint import Checkpoint, prepare
from quantdrift.quantizers.schemes import quantizer

TINY = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}
WITHOUT_GQA = {name: value for name, value in TINY.items() if name != "num_key_value_heads"}
CONFIGS = {
    "llama": LlamaConfig(**TINY, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**TINY),
    "qwen3": Qwen3Config(**TINY, head_dim=32),
    "gemma3": Gemma3TextConfig(**TINY, head_dim=32, sliding_window=7),
    "phi3": Phi3Config(**TINY, pad_token_id=0),
    "gpt2": GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=128),
    "gpt_neox": GPTNeoXConfig(**WITHOUT_GQA),
}
CPU = {"device": torch.device("cpu"), "dtype": torch.float32}
IDS = torch.randint(0, 128, (2, 12), generator=torch.Generator().manual_seed(1))


def logits(model) -> torch.Tensor:
    with torch.inference_mode():
        return model(IDS).logits


@pytest.fixture(scope="module", params=CONFIGS)
def prepared(request, tmp_path_factory):
    """A tiny random model of each family: the original and its prepared directory."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp(request.param)
    original = AutoModelForCausalLM.from_config(deepcopy(CONFIGS[request.param])).eval()
    for weight in original.parameters():
        weight.data += 0.05 * torch.randn_like(weight)
    original.save_pretrained(folder / "source")
    prepare(
        folder / "source",
        folder / "prepared",
        regauge_seed=None,
        progress=lambda items, total, label: iter(items),
    )
    return original, Checkpoint(folder / "prepared")


def test_base_equals_the_model_as_it_came(prepared):
    original, checkpoint = prepared
    assert torch.equal(logits(load(checkpoint, **CPU)), logits(original))


def test_the_identity_in_place_of_every_weight_changes_nothing(prepared):
    original, checkpoint = prepared
    base = quantizer("base", None)
    seen = set()

    def change(role: str, block: int, weight: np.ndarray) -> np.ndarray:
        seen.add((role, block))
        return base(weight).weight

    assert torch.equal(logits(load(checkpoint, **CPU, change=change)), logits(original))
    assert seen == {(role, block) for role in checkpoint.roles for block in range(2)}


def test_quantized_weights_are_those_of_the_quantizer(prepared):
    """Each role's matrix, read back from the running model, is the quantized one."""
    original, checkpoint = prepared
    q4_0 = quantizer("q4_0", "flat")
    model = load(checkpoint, **CPU, change=lambda role, block, weight: q4_0(weight).weight)
    assert not torch.equal(logits(model), logits(original))
    folder = checkpoint.directory.parent / "again"
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    again = Checkpoint(folder)
    for role in checkpoint.roles:
        expected = q4_0(checkpoint.matrix(role, 1)).weight
        np.testing.assert_array_equal(again.matrix(role, 1), expected)


def test_attention_of_the_quantized_model_is_measured(prepared):
    original, checkpoint = prepared
    q2_k = quantizer("q2_k", "flat")
    model = load(checkpoint, **CPU, change=lambda role, block, weight: q2_k(weight).weight)
    with watched(model), watched(original):
        moved = (last_rows(model, IDS).weights - last_rows(original, IDS).weights).abs().max()
    assert moved > 1e-3


def test_embedding_and_head_stay_base_even_where_they_are_one(prepared):
    """R24: a tied head is the embedding, and no scheme here touches either."""
    original, checkpoint = prepared
    model = load(checkpoint, **CPU, change=lambda role, block, weight: 0 * weight)
    before, after = original.get_input_embeddings(), model.get_input_embeddings()
    assert torch.equal(before.weight, after.weight)
    assert torch.equal(
        original.get_output_embeddings().weight, model.get_output_embeddings().weight
    )


@pytest.mark.parametrize("prepared", ["llama"], indirect=True)
def test_a_config_that_promises_more_than_there_is_is_refused(prepared, tmp_path):
    """transformers alone would fill the missing block at random and go on."""
    _, checkpoint = prepared
    shutil.copytree(checkpoint.directory, tmp_path / "longer")
    config = json.loads((tmp_path / "longer/config.json").read_text())
    (tmp_path / "longer/config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(LoadError, match=r"missing keys: model\.layers\.2"):
        load(Checkpoint(tmp_path / "longer"), **CPU)


def test_a_directory_without_tokenizer_says_so(prepared):
    """transformers alone would make up an empty one for some families."""
    with pytest.raises(LoadError, match=r"no tokenizer.*tokenizer\.json"):
        load_tokenizer(prepared[1])


@pytest.mark.parametrize("prepared", ["llama"], indirect=True)
def test_a_broken_tokenizer_says_so(prepared, tmp_path):
    shutil.copytree(prepared[1].directory, tmp_path / "broken")
    (tmp_path / "broken" / "tokenizer.json").write_text("{")
    with pytest.raises(LoadError, match=r"no tokenizer that transformers can read"):
        load_tokenizer(Checkpoint(tmp_path / "broken"))


def test_devices_and_dtypes():
    cpu = device_of("cpu")
    assert dtype_of("auto", cpu) is torch.float32
    assert dtype_of("bfloat16", cpu) is torch.bfloat16
    assert dtype_of("auto", torch.device("cuda")) is torch.bfloat16
    if not torch.cuda.is_available():
        assert device_of("auto") == cpu
        with pytest.raises(ValueError, match=r"no GPU here.*behaviour\.device=cpu"):
            device_of("cuda")
