"""Checkpoints: turn any source into one directory with a manifest, and open its matrices by role.

`prepare` writes a Hugging Face directory (config.json, safetensors a block, index) whatever the
source is; safetensors that need no change are linked, not copied. `Checkpoint` maps just the
tensors that are asked for.
"""

import hashlib
import json
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from . import safetensors_file
from .gauge import Gauge, regauge
from .layouts import Geometry, Layout, Place, layout_of

# Beside the weights, what a Hugging Face directory needs to be loaded elsewhere.
_SMALL_FILES = (
    "tokenizer",
    "special_tokens",
    "added_tokens",
    "vocab",
    "merges",
    "chat_template",
    "generation_config",
)
_SINGLE = "model.safetensors"
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


class _Tensor(NamedTuple):
    """A tensor on its way from one directory to the other."""

    name: str
    place: Place
    values: np.ndarray


@dataclass(frozen=True)
class Checkpoint:
    """A prepared directory."""

    directory: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        """The Hugging Face config; `text_config` of a multimodal one."""
        config = _json(self.directory / "config.json")
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
        """Every tensor of the directory, by name; a tied model has no head, stored or not."""
        found = _entries(sorted(self.directory.glob("*.safetensors")))
        if self.tied:
            found.pop(self.layout.tensor("head"), None)
        return found

    @property
    def tied(self) -> bool:
        """The embedding serves as the head, too."""
        return bool(self.config.get("tie_word_embeddings", False))

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

    It appears when it is whole: until then the work is done in a hidden directory beside it.

    Args:
        source: what was fetched.
        directory: made anew; whatever stood there is removed first.
        regauge_seed: seed of the gauge to move to; None keeps the weights bit for bit.
        progress: wraps the loop over tensors: `progress(items, total, label)`.

    Raises:
        UnsupportedArchitectureError: an unknown architecture or tensor.
        ValueError: a tensor is missing, has a wrong shape, or holds NaN or infinity.
    """
    if directory.resolve() in (source.resolve(), *source.resolve().parents):
        raise ValueError(f"{directory} is the source itself and would be removed.")
    shutil.rmtree(directory, ignore_errors=True)
    unfinished = directory.with_name(f".{directory.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        if source.suffix == ".gguf":
            lattice = _write_from_gguf(source, unfinished, regauge_seed, progress)
        else:
            lattice = _write_from_directory(source, unfinished, regauge_seed, progress)
        checkpoint = Checkpoint(unfinished)
        _check_complete(checkpoint, source)
        _write_index(checkpoint)
        names = sorted(checkpoint.entries)
        records = [
            _record(checkpoint, name, name in lattice)
            for name in progress(names, len(names), "Hashing tensors")
        ]
        unfinished.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return records


def model_sha256(records: Iterable[TensorRecord]) -> str:
    """One hash of all tensors: names and contents, whatever files they are in."""
    lines = sorted(f"{record.tensor} {record.dtype} {record.sha256}" for record in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _record(checkpoint: Checkpoint, name: str, on_lattice: bool) -> TensorRecord:
    entry = checkpoint.entries[name]
    place = checkpoint.layout.place(name)
    if place is not None and not entry.is_finite():
        raise ValueError(f"{name} holds NaN or infinity: the checkpoint is damaged.")
    return TensorRecord(
        tensor=name,
        role=place.role if place else None,
        block=place.block if place else None,
        shape=entry.shape,
        dtype=entry.dtype.lower(),
        file=entry.file.name,
        sha256=_sha256(entry),
        on_lattice=on_lattice,
    )


def _sha256(entry: safetensors_file.Entry) -> str:
    return hashlib.sha256(entry.raw().data).hexdigest()


def _write_from_gguf(source: Path, directory: Path, seed: int | None, progress: Any) -> set[str]:
    from .gguf_source import GgufSource

    opened = GgufSource(source)
    (directory / "config.json").write_text(json.dumps(opened.config, indent=1))
    lattice: set[str] = set()

    def tensors() -> Iterator[_Tensor]:
        for tensor in opened.tensors():
            if tensor.on_lattice:
                lattice.add(tensor.name)
            yield _Tensor(tensor.name, tensor.place, tensor.values)

    reading = progress(tensors(), len(opened.reader.tensors), "Reading tensors")
    moved = _write_blocks(directory, reading, seed)
    return lattice - moved


def _write_from_directory(
    source: Path, directory: Path, seed: int | None, progress: Any
) -> set[str]:
    if not (source / "config.json").exists():
        raise ValueError(f"{source} has no config.json, so it is no Hugging Face directory.")
    for file in source.iterdir():
        if file.name == "config.json" or file.name.startswith(_SMALL_FILES):
            shutil.copyfile(file, directory / file.name)
    whole, config = _json(source / "config.json"), Checkpoint(directory).config
    if about := whole.get("quantization_config") or config.get("quantization_config"):
        raise ValueError(
            f"{source} is already quantized ({about.get('quant_method')}); "
            "give the unquantized checkpoint as the base."
        )
    layout = layout_of(config)
    files = _weight_files(source)
    if seed is None:
        if not files:
            _convert_pickles(source, directory, layout, progress)
        for file in files:
            (directory / file.name).symlink_to(file.resolve())
        return set()
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        found = _entries(files or _convert_pickles(source, Path(scratch), layout, progress))
        places = {name: place for name in found if (place := layout.place(name)) is not None}

        def tensors() -> Iterator[_Tensor]:
            for name in sorted(places, key=lambda name: places[name].order):
                yield _Tensor(name, places[name], found[name].float32())

        _write_blocks(directory, progress(tensors(), len(places), "Moving the gauge"), seed)
    _declare_float32(directory / "config.json")
    return set()


def _write_blocks(directory: Path, tensors: Iterable[_Tensor], seed: int | None) -> set[str]:
    """One file a block, one for the rest; returns the names that the gauge moved.

    `tensors` come block by block, so that one block at a time is in memory.
    """
    geometry = Geometry.of(Checkpoint(directory).config)
    old, new = Gauge(None, geometry), Gauge(seed, geometry)
    moved: set[str] = set()
    for block, members in groupby(tensors, key=lambda tensor: tensor.place.block):
        arrays: dict[str, np.ndarray] = {}
        for name, place, values in members:
            expected = geometry.shape(place.part)
            if values.shape != expected:  # before it meets the scales
                raise _shape_error(name, values.shape, expected)
            arrays[name] = regauge(values, place.part, block, old, new)
            if arrays[name] is not values:
                moved.add(name)
        file = "outside" if block is None else f"block-{block:03d}"
        safetensors_file.write(directory / f"{file}.safetensors", arrays)
    return moved


def _shape_error(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> ValueError:
    return ValueError(f"{name} has shape {shape}; the config says {expected}.")


def _declare_float32(file: Path) -> None:
    """Who loads the directory must not round the gauge away."""
    config = _json(file)
    for about in (config, config.get("text_config", {})):
        about.pop("torch_dtype", None)  # the older name
        about["dtype"] = "float32"
    file.write_text(json.dumps(config, indent=1))


def _weight_files(source: Path) -> list[Path]:
    """The safetensors that make up the model; others may lie beside them (adapters, originals)."""
    if (source / _SINGLE).exists():
        return [source / _SINGLE]
    if not (source / _INDEX).exists():
        return sorted(source.glob("*.safetensors"))
    try:
        names = sorted(set(_json(source / _INDEX)["weight_map"].values()))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{source / _INDEX} has no weight_map.") from error
    for name in names:
        if not (source / name).exists():
            raise ValueError(f"{source} lacks {name}, which its index names; fetch it again.")
    return [source / name for name in names]


def _convert_pickles(source: Path, directory: Path, layout: Layout, progress: Any) -> list[Path]:
    """PyTorch's own files, one at a time, to safetensors of the same dtype."""
    import torch
    from safetensors.torch import save_file

    files = sorted(source.glob("pytorch_model*.bin"))
    if not files:
        raise ValueError(f"{source} holds neither *.safetensors nor pytorch_model*.bin.")
    converted = []
    for file in progress(files, len(files), "Converting pytorch_model files"):
        try:
            # A file in PyTorch's oldest format cannot be mapped and is read whole.
            loaded = torch.load(file, "cpu", weights_only=True, mmap=_is_zip(file))
        except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise ValueError(f"{file} cannot be read ({error}); fetch it again.") from error
        kept, storages = {}, set()
        for name, tensor in loaded.items():
            if layout.place(name) is not None:
                storage = tensor.untyped_storage().data_ptr()
                shared = storage in storages  # as a tied head is; safetensors store it twice
                storages.add(storage)
                kept[name] = tensor.clone() if shared else tensor.contiguous()
        converted.append(directory / f"{file.stem}.safetensors")
        save_file(kept, converted[-1], metadata={"format": "pt"})
    return converted


def _is_zip(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(4) == b"PK\x03\x04"


def _entries(files: Iterable[Path]) -> dict[str, safetensors_file.Entry]:
    found: dict[str, safetensors_file.Entry] = {}
    for file in files:
        for name, entry in safetensors_file.entries(file).items():
            if name in found:
                raise ValueError(f"{name} is both in {found[name].file.name} and in {file.name}.")
            found[name] = entry
    return found


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file} is no JSON ({error}); fetch it again.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds no JSON object; fetch it again.")
    return content


def _write_index(checkpoint: Checkpoint) -> None:
    weight_map = {name: entry.file.name for name, entry in sorted(checkpoint.entries.items())}
    total = sum(entry.n_bytes for entry in checkpoint.entries.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (checkpoint.directory / _INDEX).write_text(json.dumps(index, indent=1))


def _check_complete(checkpoint: Checkpoint, source: Path) -> None:
    """All that the config promises is there in its shape, and nothing else that is a weight."""
    layout, geometry = checkpoint.layout, checkpoint.geometry
    wanted = {
        layout.tensor(part, block): geometry.shape(part)
        for part in layout.parts
        for block in (range(geometry.blocks) if layout.in_blocks(part) else [None])
    }
    entries = checkpoint.entries
    if checkpoint.tied:
        del wanted[layout.tensor("head")]
        _check_tied(checkpoint, source)
    for name, entry in entries.items():
        if layout.place(name) is None:  # an unknown tensor raises here
            continue
        if name not in wanted:
            raise ValueError(f"{source} holds {name}; its config has {geometry.blocks} blocks.")
        if entry.shape != wanted[name]:
            raise _shape_error(name, entry.shape, wanted[name])
    if missing := [name for name in wanted if name not in entries]:
        raise ValueError(
            f"{source} lacks {missing[0]}, which its config promises ({len(missing)} missing)."
        )


def _check_tied(checkpoint: Checkpoint, source: Path) -> None:
    """A head that is stored though the config ties it must be the embedding."""
    stored = _entries(sorted(checkpoint.directory.glob("*.safetensors")))
    names = [checkpoint.layout.tensor(part) for part in ("head", "embed")]
    head, embed = (stored.get(name) for name in names)
    if head is not None and embed is not None and _sha256(head) != _sha256(embed):
        raise ValueError(
            f"{source} ties head and embedding (tie_word_embeddings), but {names[0]} differs from "
            f"{names[1]}: its config.json is wrong."
        )
