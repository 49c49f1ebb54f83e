"""The library: refused where it would give other numbers, and cheap to load."""

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest

from quantdrift.quantizers import ggml


@pytest.fixture
def unloaded():
    ggml._load.cache_clear()
    yield
    ggml._load.cache_clear()


def test_llama_cpp_must_not_be_in_the_process(monkeypatch):
    ggml.library()
    monkeypatch.setitem(sys.modules, "llama_cpp", ModuleType("llama_cpp"))
    with pytest.raises(ImportError, match="llama_cpp is loaded in this process"):
        ggml.library()


@pytest.mark.usefixtures("unloaded")
def test_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(ggml, "VERSION", "0.0.1")
    with pytest.raises(ImportError, match=r"is ggml 0\.20\.2, not 0\.0\.1: pip install libggml"):
        ggml.library()


@pytest.mark.usefixtures("unloaded")
def test_a_missing_library_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"not found: pip install libggml-python==0\.20\.2"):
        ggml.library()


def test_importing_the_quantizers_brings_nothing_heavy():
    code = (
        "import sys; import quantdrift.quantizers.llamacpp;"
        " print([m for m in ('torch', 'pandas', 'scipy', 'numba', 'libggml') if m in sys.modules])"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    job = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert job.stdout.strip() == "[]"
