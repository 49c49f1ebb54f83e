"""Perplexity by llama.cpp, a second engine beside PyTorch, on a model's GGUF file.

llama.cpp must run in a process of its own (see `models/llama_cpp.py`): call `logits` and
`negative_log_likelihoods` in a script, or `apart` from anywhere, which starts

    python -m quantdrift.behaviour.llama_cpp logits FILE.gguf ids.npy out.npy
    python -m quantdrift.behaviour.llama_cpp nll FILE.gguf windows.npy out.npy
    python -m quantdrift.behaviour.llama_cpp tokens FILE.gguf texts.json out.json
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32, Float64

from quantdrift.models.llama_cpp import LlamaCppError, open_model

from .windows import Window

Cache = Literal["f32", "f16"]


def logits(
    path: Path, token_ids: Sequence[int], *, threads: int = 1, cache: Cache = "f32"
) -> Float32[np.ndarray, "tokens vocabulary"]:
    """Logits after each token of one text; see `open_model` for what it raises."""
    with open_model(path, context=len(token_ids), threads=threads, cache=cache) as model:
        return model.logits(token_ids)


def negative_log_likelihoods(
    path: Path, cut: Sequence[Window], *, threads: int = 1, cache: Cache = "f32"
) -> Iterator[Float64[np.ndarray, " scored"]]:
    """-log p of the scored tokens of each window, nats; see `open_model` for what it raises."""
    longest = max(len(window.token_ids) for window in cut)
    with open_model(path, context=longest, threads=threads, cache=cache) as model:
        for window in cut:
            before = model.logits(window.token_ids)[window.first - 1 : -1]
            yield _nll(before, np.asarray(window.token_ids[window.first :]))


def perplexity(nll: Sequence[Float64[np.ndarray, " scored"]]) -> float:
    """E to the mean over all scored tokens."""
    return float(np.exp(np.concatenate(nll).mean()))


def apart(
    what: Literal["logits", "nll", "tokens"],
    path: Path,
    given: Any,
    *,
    threads: int = 1,
    cache: Cache = "f32",
) -> Any:
    """The same in a process of its own.

    Args:
        what: `logits` of token ids (tokens), (tokens, vocabulary); `nll` of windows of token ids
            (windows, tokens) but their first, (windows, tokens - 1); `tokens`, the ids of texts,
            special tokens read and added as the model says.
        path: the GGUF file.
        given: the ids, or a list of texts.
        threads: of the CPU.
        cache: see `open_model`.

    Raises:
        LlamaCppError: the process fails; the message ends in its last line.
    """
    with tempfile.TemporaryDirectory() as folder:
        end = "json" if what == "tokens" else "npy"
        question, answer = (Path(folder) / f"{name}.{end}" for name in ("question", "answer"))
        if what == "tokens":
            question.write_text(json.dumps(given))
        else:
            np.save(question, np.asarray(given, dtype=np.int64))
        how = ["--threads", str(threads), "--cache", cache]
        command = [sys.executable, "-m", __spec__.name, what, str(path), str(question), str(answer)]
        done = subprocess.run([*command, *how], capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise LlamaCppError(f"llama.cpp on {path} failed: {said[-1]}")
        return json.loads(answer.read_text()) if what == "tokens" else np.load(answer)


def _nll(
    before: Float32[np.ndarray, "scored vocabulary"], targets: np.ndarray
) -> Float64[np.ndarray, " scored"]:
    exact = before.astype(np.float64)
    top = exact.max(axis=1)
    total = np.log(np.exp(exact - top[:, None]).sum(axis=1)) + top
    return total - exact[np.arange(len(targets)), targets]


def _main() -> None:
    parser = argparse.ArgumentParser(description="Run llama.cpp on a GGUF file.")
    parser.add_argument("what", choices=("logits", "nll", "tokens"))
    parser.add_argument("gguf", type=Path)
    parser.add_argument("given", type=Path, help="ids: (tokens) or (windows, tokens); or texts")
    parser.add_argument("out", type=Path)
    parser.add_argument("--cache", choices=("f32", "f16"), default="f32")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    if asked.what == "tokens":
        texts = json.loads(asked.given.read_text())
        with open_model(asked.gguf, context=1) as model:
            ids = [model.token_ids(text, special=True) for text in texts]
        asked.out.write_text(json.dumps(ids))
        return
    how = {"threads": asked.threads, "cache": asked.cache}
    given = np.load(asked.given)
    if asked.what == "logits":
        np.save(asked.out, logits(asked.gguf, given.tolist(), **how))
    else:
        cut = [Window(i, tuple(ids), 1) for i, ids in enumerate(given.tolist())]
        np.save(asked.out, np.stack(list(negative_log_likelihoods(asked.gguf, cut, **how))))


if __name__ == "__main__":
    _main()
