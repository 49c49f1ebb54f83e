"""llama.cpp as a second engine: its perplexity against transformers'."""

import importlib.util

import numpy as np
import pytest
import torch

from quantdrift.behaviour.llama_cpp import apart, perplexity
from quantdrift.models.causal_lm import load, load_tokenizer
from quantdrift.models.checkpoint import Checkpoint, prepare
from quantdrift.models.gguf_writer import write_gguf
from quantdrift.models.llama_cpp import LlamaCppError

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None,
    reason="llama-cpp-python is left out (LLAMA_CPP=0)",
)
TEXT = (
    "The sea was calm that morning, and the boats lay still in the harbour. " * 4
    + (
        "An old man mended his net in the sun; he had done so for forty years, and he would tell "
        "anyone who asked that a net is never finished. His daughter, who kept the books, thought "
        "otherwise. She had counted the knots once, in winter, and knew what each of them cost. "
    )
    * 4
)


@pytest.fixture(scope="module")
def demo(demo_gguf, tmp_path_factory) -> Checkpoint:
    directory = tmp_path_factory.mktemp("demo") / "model"
    prepare(demo_gguf, directory, regauge_seed=0, progress=lambda items, _n, _label: iter(items))
    return Checkpoint(directory)


@pytest.mark.demo_model
def test_perplexity_of_the_demo_model_agrees_with_transformers(demo, tmp_path):
    ids = np.array(load_tokenizer(demo)(TEXT).input_ids[:256]).reshape(2, 128)
    model = load(demo, device=torch.device("cpu"), dtype=torch.float32)
    with torch.inference_mode():
        logits = model(torch.from_numpy(ids)).logits[:, :-1]
    targets = torch.from_numpy(ids)[:, 1:, None]
    expected = -logits.double().log_softmax(-1).gather(-1, targets)[..., 0].numpy()
    write_gguf(demo, tmp_path / "f16.gguf")
    found = apart("nll", tmp_path / "f16.gguf", ids)
    assert found.shape == (2, 127)
    assert perplexity(list(found)) == pytest.approx(np.exp(expected.mean()), rel=0.01)
    # Token by token, too: float16 in weights and activations.
    assert np.abs(found - expected).max() < 0.1
    cached = apart("nll", tmp_path / "f16.gguf", ids, cache="f16")
    assert 0 < np.abs(cached - found).max() < 0.1
    # A window forgets the one before.
    np.testing.assert_array_equal(apart("nll", tmp_path / "f16.gguf", ids[1:]), found[1:])


def test_a_file_that_cannot_be_loaded_says_what_llama_cpp_said(tmp_path):
    (tmp_path / "not.gguf").write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(LlamaCppError, match=r"not\.gguf cannot be loaded by llama\.cpp: \S"):
        apart("logits", tmp_path / "not.gguf", [1, 2])
