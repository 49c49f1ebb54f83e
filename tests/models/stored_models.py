"""A model prepared as a base, and a quantized file or directory of it made into weights."""

from pathlib import Path
from typing import Any

from tiny_models import silent

from quantdrift.models.checkpoint import Checkpoint, prepare
from quantdrift.models.quantized_file import convert
from quantdrift.models.stored_weights import StoredWeights


def base_of(model: Any, folder: Path, seed: int | None = None) -> Checkpoint:
    model.save_pretrained(folder / "source")
    prepare(folder / "source", folder / "base", regauge_seed=seed, progress=silent)
    return Checkpoint(folder / "base")


def converted(path: Path, base: Checkpoint, seed: int | None = None) -> StoredWeights:
    directory = base.directory.with_name("stored")
    convert(path, base, directory, regauge_seed=seed, progress=silent)
    return StoredWeights(directory)
