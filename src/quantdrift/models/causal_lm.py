"""A prepared checkpoint as a transformers model, with its own weights or with others in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from .checkpoint import Checkpoint

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")

Change = Callable[[str, int, np.ndarray], np.ndarray]
"""(role, block, weight of shape (outputs, inputs)) to the weight that takes its place."""


class LoadError(ValueError):
    """A prepared directory and transformers disagree; the message names the tensor."""


def device_of(wanted: str) -> torch.device:
    """`auto` is the first GPU, or the CPU where there is none.

    Raises:
        ValueError: a GPU is asked for by name, and there is none.
    """
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"behaviour.device is {wanted}, and PyTorch sees no GPU here: install a CUDA build of "
            "torch, or set behaviour.device=cpu."
        )
    return torch.device(wanted)


def dtype_of(wanted: str, device: torch.device) -> torch.dtype:
    """`auto` is float32 on the CPU and bfloat16 elsewhere: float16 overflows in some families."""
    if wanted == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[wanted]


def load(
    checkpoint: Checkpoint,
    *,
    device: torch.device,
    dtype: torch.dtype,
    change: Change | None = None,
) -> Any:
    """The model in evaluation mode; `change` replaces each linear weight of the blocks.

    Beside the model, one tensor at a time is in memory.

    Raises:
        LoadError: transformers misses a tensor, finds one too many or of another shape (it would
            fill it at random and go on), or lacks a parameter that is to be replaced.
    """
    bars, noise = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            checkpoint.directory, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    finally:
        logging.set_verbosity(noise)
        if bars:
            logging.enable_progress_bar()
    model, found = loaded
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if names := sorted(map(str, found.get(what, ()))):
            raise LoadError(
                f"{checkpoint.directory}: transformers reports {what.replace('_', ' ')}: "
                f"{names[0]} ({len(names)} in all). Its config.json does not fit its weights."
            )
    model = model.eval().to(device)
    if change is not None:
        replace_weights(model, checkpoint, change)
    return model


def replace_weights(model: Any, checkpoint: Checkpoint, change: Change) -> None:
    """Put changed weights in place of all linear weights of the blocks."""
    parameters = dict(model.named_parameters())
    prefix = f"{model.base_model_prefix}."
    for name in checkpoint.linear_tensors():
        own_name = name if name in parameters else prefix + name
        if own_name not in parameters:
            raise LoadError(f"{checkpoint.directory}: transformers' model has no parameter {name}.")
        values = torch.from_numpy(checkpoint.replaced(name, change))
        parameters[own_name].data.copy_(values)  # which casts and moves


def load_tokenizer(checkpoint: Checkpoint) -> Any:
    """The checkpoint's tokenizer.

    Raises:
        LoadError: the directory holds none that transformers can read.
    """
    remedy = (
        "Put tokenizer.json (or the files of the slow tokenizer) beside the source's weights and "
        "run again."
    )
    # Without a file transformers makes up an empty tokenizer for some families, and goes on.
    if not any((checkpoint.directory / name).exists() for name in _TOKENIZERS):
        raise LoadError(f"{checkpoint.directory} has no tokenizer. {remedy}")
    try:
        return AutoTokenizer.from_pretrained(checkpoint.directory, local_files_only=True)
    except (OSError, ValueError, TypeError, KeyError, ImportError) as error:
        raise LoadError(
            f"{checkpoint.directory} has no tokenizer that transformers can read "
            f"({str(error).splitlines()[0]}). {remedy}"
        ) from error
