"""llama.cpp on a GGUF file: token ids in, logits out. The only door to `llama_cpp`.

`llama_cpp` must not share a process with libggml-python, which quantizes: both bring a
`libggml-base.so.0`, of different versions, and one would run with parts of the other. What opens a
model here is a script, or a process, of its own.
"""

import ctypes
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32

VERSION = "0.3.36"
"""The llama-cpp-python that our results were tested with."""

_CACHE_TYPES = {"f32": 0, "f16": 1}
_said: list[str] = []
_callback: Any = None  # llama.cpp keeps the pointer: collected, it would crash


class LlamaCppError(RuntimeError):
    """llama.cpp could not load or run a file; the message ends in what it said."""


def load_library() -> Any:
    """The module `llama_cpp`, silenced.

    Raises:
        ImportError: it is not installed, of another version, or libggml is in this process.
    """
    if _libggml_is_loaded():
        raise ImportError(
            "libggml-python is loaded in this process, and its libggml-base must not meet that of "
            "llama_cpp: run llama.cpp in a process of its own"
        )
    try:
        llama_cpp = importlib.import_module("llama_cpp")
    except ImportError as error:
        raise ImportError(
            f"llama-cpp-python {VERSION}, which runs GGUF files, is not installed ({error}): "
            "`make llamacpp` builds it in a few minutes (it was left out by LLAMA_CPP=0)"
        ) from error
    if llama_cpp.__version__ != VERSION:
        raise ImportError(
            f"llama-cpp-python is {llama_cpp.__version__}, not {VERSION}: `make llamacpp`"
        )
    global _callback
    if _callback is None:
        _callback = llama_cpp.llama_log_callback(_listen)
        llama_cpp.llama_log_set(_callback, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
    return llama_cpp


def _listen(_level: int, text: bytes, _data: Any) -> None:
    _said.append(text.decode(errors="replace"))
    del _said[:-20]


def _libggml_is_loaded() -> bool:
    """Whether libggml-python's library is mapped; without /proc, whether we loaded it."""
    maps = Path("/proc/self/maps")
    if maps.exists():
        return any(
            "/libggml/" in line and "ggml-base" in line for line in maps.read_text().splitlines()
        )
    ggml = sys.modules.get("quantdrift.quantizers.ggml")
    return ggml is not None and ggml._load.cache_info().currsize > 0


@dataclass(frozen=True)
class LlamaCppModel:
    """A loaded model and its context; see `open_model`."""

    library: Any
    model: Any
    context: Any
    path: Path
    n_context: int
    """Tokens that one text may have."""

    @property
    def n_vocabulary(self) -> int:
        """The width of the logits."""
        return self.library.llama_vocab_n_tokens(self._vocabulary)

    @property
    def _vocabulary(self) -> Any:
        return self.library.llama_model_get_vocab(self.model)

    def token_ids(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of a text; `special` adds BOS and EOS and reads `<|...|>` as the model says."""
        encoded = text.encode()
        ids = (ctypes.c_int32 * (len(encoded) + 8))()
        found = self.library.llama_tokenize(
            self._vocabulary, encoded, len(encoded), ids, len(ids), special, special
        )
        if found < 0:
            raise LlamaCppError(f"{self.path}: llama.cpp cannot tokenize: {_last_words()}")
        return ids[:found]

    def logits(self, token_ids: Sequence[int]) -> Float32[np.ndarray, "tokens vocabulary"]:
        """Logits after each token; nothing is remembered of the text before.

        Raises:
            ValueError: no token, more than `n_context`, or an id that is none.
            LlamaCppError: llama.cpp fails.
        """
        n_tokens, n_vocabulary = len(token_ids), self.n_vocabulary
        if not 0 < n_tokens <= self.n_context:
            raise ValueError(
                f"{self.path}: a text of {n_tokens} tokens; it must have 1 to {self.n_context}."
            )
        if not all(0 <= i < n_vocabulary for i in token_ids):
            raise ValueError(f"{self.path}: a token id is outside of 0 to {n_vocabulary - 1}.")
        lib = self.library
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        batch = lib.llama_batch_init(n_tokens, 0, 1)
        try:
            batch.n_tokens = n_tokens
            for i, token in enumerate(token_ids):
                batch.token[i], batch.pos[i], batch.logits[i] = int(token), i, 1
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            if (status := lib.llama_decode(self.context, batch)) != 0:
                raise LlamaCppError(f"{self.path}: llama_decode gives {status}: {_last_words()}")
            logits = lib.llama_get_logits(self.context)
            return np.ctypeslib.as_array(logits, (n_tokens, n_vocabulary)).copy()
        finally:
            lib.llama_batch_free(batch)


@contextmanager
def open_model(
    path: Path, *, context: int, threads: int = 1, cache: Literal["f32", "f16"] = "f32"
) -> Iterator[LlamaCppModel]:
    """Load a GGUF file on the CPU; it is freed at the end.

    Args:
        path: the file.
        context: tokens of the longest text.
        threads: of the CPU.
        cache: type in which keys and values are kept; f32 is exact, f16 what llama.cpp runs by
            default.

    Raises:
        ImportError: see `load_library`.
        ValueError: the file's own context is shorter.
        LlamaCppError: llama.cpp cannot load the file.
    """
    lib = load_library()
    about = lib.llama_model_default_params()
    about.n_gpu_layers = 0
    about.use_extra_bufts = False  # no repacking of weights into other layouts: one kernel a type
    _said.clear()
    model = lib.llama_model_load_from_file(str(path).encode(), about)
    if not model:
        raise LlamaCppError(f"{path} cannot be loaded by llama.cpp: {_last_words()}")
    running = None
    try:
        if context > (trained := lib.llama_model_n_ctx_train(model)):
            raise ValueError(f"{path} holds for texts of {trained} tokens, not of {context}.")
        settings = lib.llama_context_default_params()
        settings.n_ctx = settings.n_batch = context
        settings.n_ubatch = min(context, 512)
        settings.n_threads = settings.n_threads_batch = threads
        settings.type_k = settings.type_v = _CACHE_TYPES[cache]
        settings.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.swa_full = True
        running = lib.llama_init_from_model(model, settings)
        if not running:
            raise LlamaCppError(f"{path}: llama.cpp gives no context: {_last_words()}")
        yield LlamaCppModel(lib, model, running, path, context)
    finally:
        if running:
            lib.llama_free(running)
        lib.llama_model_free(model)


def _last_words() -> str:
    lines = "".join(_said[-4:]).split("\n")
    return "; ".join(filter(None, map(str.strip, lines))) or "it says nothing"
