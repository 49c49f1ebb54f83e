"""Checkpoints: turn any source into one directory with a manifest, and open its matrices by role.

`prepare` writes a Hugging Face directory (config.json, safetensors a block, index) whatever the
source is; safetensors that need no change are linked, not copied. `Checkpoint` maps just the
tensors that are asked for.
"""

import hashlib
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from . import safetensors_file
from .gauge import Gauge, regauge
from .layouts import Geometry, Layout, Place, layout_of

# Beside the weights, what a Hugging Face directory needs to be loaded elsewhere.
_SMALL_FILES = ("tokenizer", "special_tokens", "generation_config", "vocab", "merges", "added_tokens")
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class TensorRecord:
    """One line of the manifest."""

    tensor: str
    role: str | None
    block: int | None
    shape: tuple[int, ...]
    dtype: str
    file: str
    sha256: str
    on_lattice: bool


@dataclass(frozen=True)
class Checkpoint:
    """A prepared directory."""

    directory: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        """The Hugging Face config; `text_config` of a multimodal one."""
        config = json.loads((self.directory / "config.json").read_text())
        return config.get("text_config", config)

    @cached_property
    def layout(self) -> Layout:
        """Where this architecture keeps its roles."""
        return layout_of(self.config)

    @cached_property
    def geometry(self) -> Geometry:
        """Head counts and widths."""
        return Geometry.of(self.config)

    @cached_property
    def entries(self) -> dict[str, safetensors_file.Entry]:
        """Every tensor of the directory, by name."""
        return _entries(self.directory)

    def matrix(self, role: str, block: int | None = None) -> Float32[np.ndarray, "outputs inputs"]:
        """The weight matrix of a role, float32, read from the disk now.

        Raises:
            KeyError: the checkpoint has no such matrix (a tied model has no `head`).
        """
        return self.entries[self.layout.tensor(role, block)].float32()


def prepare(
    source: Path,
    directory: Path,
    *,
    regauge_seed: int | None,
    progress: Callable[[Iterable[Any], int, str], Iterator[Any]],
) -> list[TensorRecord]:
    """Make `directory` from a GGUF file or a Hugging Face directory; return its manifest.

    Args:
        source: what was fetched.
        directory: made anew; whatever stood there is removed first.
        regauge_seed: seed of the gauge to move to; None keeps the weights bit for bit.
        progress: wraps the loop over tensors: `progress(items, total, label)`.

    Raises:
        UnsupportedArchitectureError: an unknown architecture or tensor.
        ValueError: a matrix is missing, has a wrong shape, or holds NaN or infinity.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    if source.suffix == ".gguf":
        lattice = _write_from_gguf(source, directory, regauge_seed, progress)
    else:
        lattice = _write_from_directory(source, directory, regauge_seed, progress)
    checkpoint = Checkpoint(directory)
    _check_complete(checkpoint, source)
    _write_index(checkpoint)
    names = sorted(checkpoint.entries)
    return [
        _record(checkpoint, name, name in lattice)
        for name in progress(names, len(names), "Hashing tensors")
    ]


def model_sha256(records: Iterable[TensorRecord]) -> str:
    """One hash of all tensors: names and contents, whatever files they are in."""
    lines = sorted(f"{record.tensor} {record.dtype} {record.sha256}" for record in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _record(checkpoint: Checkpoint, name: str, on_lattice: bool) -> TensorRecord:
    entry = checkpoint.entries[name]
    place = checkpoint.layout.place(name)
    if place is not None and not np.isfinite(entry.float32()).all():
        raise ValueError(f"{name} holds NaN or infinity: the checkpoint is damaged.")
    return TensorRecord(
        tensor=name,
        role=place.role if place else None,
        block=place.block if place else None,
        shape=entry.shape,
        dtype=entry.dtype.lower(),
        file=entry.file.name,
        sha256=hashlib.sha256(memoryview(entry.raw())).hexdigest(),
        on_lattice=on_lattice,
    )


def _write_from_gguf(source: Path, directory: Path, seed: int | None, progress: Any) -> set[str]:
    from .gguf_source import GgufSource

    opened = GgufSource(source)
    (directory / "config.json").write_text(json.dumps(opened.config, indent=1))
    lattice: set[str] = set()

    def tensors() -> Iterator[tuple[str, Place, np.ndarray]]:
        for tensor in opened.tensors():
            if tensor.on_lattice:
                lattice.add(tensor.name)
            yield tensor.name, tensor.place, tensor.values

    places = [opened.layout.gguf_place(tensor.name) for tensor in opened.reader.tensors]
    reading = progress(tensors(), len(places), "Reading tensors")
    moved = _write_blocks(directory, reading, places, seed)
    return lattice - moved


def _write_from_directory(
    source: Path, directory: Path, seed: int | None, progress: Any
) -> set[str]:
    if not (source / "config.json").exists():
        raise ValueError(f"{source} has no config.json, so it is no Hugging Face directory.")
    for file in source.iterdir():
        if file.name == "config.json" or file.name.startswith(_SMALL_FILES):
            shutil.copyfile(file, directory / file.name)
    config = Checkpoint(directory).config
    if "quantization_config" in config:
        raise ValueError(
            f"{source} is already quantized ({config['quantization_config'].get('quant_method')}); "
            "give the unquantized checkpoint as the base."
        )
    layout = layout_of(config)
    if not sorted(source.glob("*.safetensors")):
        _convert_pickles(source, directory, layout, progress)
    else:
        for file in sorted(source.glob("*.safetensors")):
            (directory / file.name).symlink_to(file.resolve())
    if seed is None:
        return set()
    found = _entries(directory)
    linked = {entry.file for entry in found.values()}

    def tensors() -> Iterator[tuple[str, Place, np.ndarray]]:
        for name, entry in found.items():
            if (place := layout.place(name)) is not None:
                yield name, place, entry.float32()

    places = [layout.place(name) for name in found]
    moving = progress(tensors(), len(places), "Moving the gauge")
    _write_blocks(directory, moving, places, seed)
    for file in linked:
        file.unlink()
    return set()


def _write_blocks(
    directory: Path,
    tensors: Iterable[tuple[str, Place, np.ndarray]],
    places: Iterable[Place | None],
    seed: int | None,
) -> set[str]:
    """One file a block, one for the rest, each written as soon as it is whole.

    `places` are those of all tensors to come. Returns the names that the gauge moved.
    """
    geometry = Geometry.of(Checkpoint(directory).config)
    old, new = Gauge(None, geometry), Gauge(seed, geometry)
    expected = Counter(place.block for place in places if place is not None)
    pending: dict[int | None, dict[str, np.ndarray]] = defaultdict(dict)
    moved: set[str] = set()
    for name, place, values in tensors:
        scaled = regauge(values, place.part, place.block, old, new)
        if scaled is not values:
            moved.add(name)
        pending[place.block][name] = scaled
        if len(pending[place.block]) == expected[place.block]:
            file = "outside" if place.block is None else f"block-{place.block:03d}"
            safetensors_file.write(
                directory / f"{file}.safetensors", pending.pop(place.block)
            )
    assert not pending, f"tensors of blocks {sorted(map(str, pending))} were announced, not given"
    return moved


def _convert_pickles(source: Path, directory: Path, layout: Layout, progress: Any) -> None:
    """PyTorch's own files, one at a time, to safetensors of the same dtype."""
    import torch
    from safetensors.torch import save_file

    files = sorted(source.glob("pytorch_model*.bin"))
    if not files:
        raise ValueError(f"{source} holds neither *.safetensors nor pytorch_model*.bin.")
    for file in progress(files, len(files), "Converting pytorch_model files"):
        loaded = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        kept = {n: t.contiguous().clone() for n, t in loaded.items() if layout.place(n) is not None}
        save_file(kept, directory / f"{file.stem}.safetensors", metadata={"format": "pt"})


def _entries(directory: Path) -> dict[str, safetensors_file.Entry]:
    found: dict[str, safetensors_file.Entry] = {}
    for file in sorted(directory.glob("*.safetensors")):
        found |= safetensors_file.entries(file)
    return found


def _write_index(checkpoint: Checkpoint) -> None:
    weight_map = {name: entry.file.name for name, entry in sorted(checkpoint.entries.items())}
    total = sum(entry.n_bytes for entry in checkpoint.entries.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (checkpoint.directory / _INDEX).write_text(json.dumps(index, indent=1))


def _check_complete(checkpoint: Checkpoint, source: Path) -> None:
    """Every matrix of every block is there, in the shape the config promises."""
    config, layout, geometry = checkpoint.config, checkpoint.layout, checkpoint.geometry
    for name in checkpoint.entries:
        layout.place(name)  # an unknown tensor raises here
    wanted: list[tuple[str, int | None]] = [("embed", None)]
    if not config.get("tie_word_embeddings", False):
        wanted.append(("head", None))
    roles = ("q", "k", "v", "o", "gate", "up", "down")
    wanted += [(role, block) for block in range(geometry.blocks) for role in roles]
    for role, block in wanted:
        name = layout.tensor(role, block)
        if name not in checkpoint.entries:
            raise ValueError(f"{source} lacks {name}, which its config promises.")
        shape = checkpoint.entries[name].shape
        expected = geometry.shape(role, int(config["vocab_size"]))
        if shape != expected:
            raise ValueError(f"{source}: {name} has shape {shape}; its config says {expected}.")
