"""Checkpoints: turn any source into one directory with a manifest, and open its matrices by role.

`prepare` writes a Hugging Face directory (config.json, safetensors a block, index, tokenizer)
whatever the source is; safetensors that need no change are linked, not copied. `Checkpoint` maps
just the tensors that are asked for.
"""

import hashlib
import json
import logging
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
from .directory_source import INDEX, DirectorySource, entries_of, read_json, write_respelled
from .families import layout_of
from .gauge import Gauge, regauge_stored
from .geometry import Geometry
from .layouts import Layout, Place
from .whole_directory import whole_directory

log = logging.getLogger("quantdrift")


class RoleError(ValueError):
    """The model has no matrix of this role; the message says which it has."""


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
        """The Hugging Face config of the language model."""
        return read_json(self.directory / "config.json")

    @cached_property
    def layout(self) -> Layout:
        """Where this architecture keeps its roles."""
        return layout_of(self.config)

    @cached_property
    def geometry(self) -> Geometry:
        """Head counts and widths."""
        return self.layout.geometry(self.config)

    @property
    def roles(self) -> tuple[str, ...]:
        """The linear roles of a block, out of q k v o gate up down."""
        return self.layout.roles

    @cached_property
    def entries(self) -> dict[str, safetensors_file.Entry]:
        """Every tensor of the directory, by name; a tied model has no head, stored or not."""
        found = entries_of(sorted(self.directory.glob("*.safetensors")))
        if self.tied:
            found.pop(self.layout.tensor("head"), None)
        return found

    @property
    def tied(self) -> bool:
        """The embedding serves as the head, too."""
        return bool(self.config.get("tie_word_embeddings", self.layout.tied))

    def matrix(self, role: str, block: int | None = None) -> Float32[np.ndarray, "outputs inputs"]:
        """The weight matrix of a role, float32, read from the disk now.

        It is (outputs, inputs) whether the checkpoint stores it so, transposed, or fused.

        Raises:
            RoleError: the checkpoint has no such matrix (GPT-2 no `gate`, a tied model no `head`).
            KeyError: there is no such block.
        """
        part = self.layout.part_of(role)
        if part is None or (role == "head" and self.tied):
            why = " (it is tied to embed)" if role == "head" else ""
            outside = ("embed",) if self.tied else ("embed", "head")
            raise RoleError(
                f"{self.directory.name} ({self.layout.name}) has no matrix of role {role!r}{why}; "
                f"it has {', '.join((*self.roles, *outside))}."
            )
        stored = self.entries[self.layout.tensor(part, block)].float32()
        view = self.layout.views(part, stored, self.geometry)[role]
        return np.ascontiguousarray(view).reshape(self.geometry.shape(role))

    def linear_tensors(self) -> list[str]:
        """Names of the stored tensors that hold the linear roles, block by block, each once."""
        parts = list(dict.fromkeys(self.layout.part_of(role) for role in self.roles))
        blocks = range(self.geometry.blocks)
        return [self.layout.tensor(part, b) for b in blocks for part in parts if part is not None]

    def replaced(
        self, name: str, change: Callable[[str, int, np.ndarray], np.ndarray]
    ) -> Float32[np.ndarray, "..."]:
        """A stored tensor, in its stored shape, with other matrices in it.

        Args:
            name: one of `linear_tensors`.
            change: (role, block, W) to the matrix that takes the place of W, (outputs, inputs).

        Raises:
            ValueError: the tensor holds no linear role, or a matrix of another shape comes back.
        """
        place = self.layout.place(name)
        if place is None or place.block is None or not place.roles:
            raise ValueError(f"{name} holds no linear weights of a block.")
        stored = self.entries[name].float32()
        for role, view in self.layout.views(place.part, stored, self.geometry).items():
            before = np.ascontiguousarray(view).reshape(self.geometry.shape(role))
            after = change(role, place.block, before)
            if after.shape != before.shape:
                raise ValueError(
                    f"{role} of block {place.block} has shape {before.shape}; "
                    f"what should replace it has {after.shape}."
                )
            view[...] = after.reshape(view.shape)
        return stored


def prepare(
    source: Path,
    directory: Path,
    *,
    regauge_seed: int | None,
    progress: Callable[[Iterable[Any], int, str], Iterator[Any]],
) -> list[TensorRecord]:
    """Make `directory` from a GGUF file or a Hugging Face directory; return its manifest.

    It appears when it is whole: until then the work is done in a hidden directory beside it. Of a
    multimodal checkpoint (`text_config`) it holds the language model alone, named as a text-only
    checkpoint names it. A GGUF file's tokenizer comes along where transformers can convert it as
    llama.cpp reads it; the log says where not.

    Args:
        source: what was fetched.
        directory: made anew; whatever stood there is removed first.
        regauge_seed: seed of the gauge to move to; None keeps the weights bit for bit.
        progress: wraps the loop over tensors: `progress(items, total, label)`.

    Raises:
        UnsupportedArchitectureError: an unknown architecture or tensor.
        ValueError: a tensor is missing, has a wrong shape, or holds NaN or infinity; or the family
            has no gauge to move to.
    """
    if directory.resolve() in (source.resolve(), *source.resolve().parents):
        raise ValueError(f"{directory} is the source itself and would be removed.")
    with whole_directory(directory) as unfinished:
        if source.suffix == ".gguf":
            lattice = _write_from_gguf(source, unfinished, regauge_seed, progress)
        else:
            lattice = _write_from_directory(source, unfinished, regauge_seed, progress)
        checkpoint = Checkpoint(unfinished)
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
    from .gguf_tokenizer import write_tokenizer

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
    if problem := write_tokenizer(source, directory):
        log.warning("%s comes without a tokenizer: %s", source, problem)
    return lattice - moved


def _write_from_directory(
    source: Path, directory: Path, seed: int | None, progress: Any
) -> set[str]:
    opened = DirectorySource(source)
    layout = opened.layout
    if seed is not None and not layout.regauged:
        raise ValueError(
            f"{source}: a {layout.name} model cannot be moved to another gauge (its MLP has no "
            "gate beside the nonlinearity); set regauge_seed: null for this model."
        )
    opened.write_small_files(directory)
    if seed is None:
        if not opened.files:
            opened.convert_pickles(directory, progress)
        else:
            _link(opened, directory)
        return set()
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        files = opened.files or opened.convert_pickles(Path(scratch), progress)
        found = _respelled(opened, entries_of(files))
        places = {name: place for name in found if (place := layout.place(name)) is not None}

        def tensors() -> Iterator[_Tensor]:
            for name in sorted(places, key=lambda name: places[name].order):
                yield _Tensor(name, places[name], found[name].float32())

        _write_blocks(directory, progress(tensors(), len(places), "Moving the gauge"), seed)
    _declare_float32(directory / "config.json")
    return set()


def _link(opened: DirectorySource, directory: Path) -> None:
    """The source's files themselves; copies, block by block, where tensors need other names."""
    stored = entries_of(opened.files)
    found = _respelled(opened, stored)
    if found.keys() == stored.keys():
        for file in opened.files:
            (directory / file.name).symlink_to(file.resolve())
        return
    places = {name: place for name in found if (place := opened.layout.place(name)) is not None}
    names = sorted(places, key=lambda name: places[name].order)
    for block, members in groupby(names, key=lambda name: places[name].block):
        write_respelled(_file_of(block, directory), {name: found[name] for name in members})


def _respelled(
    opened: DirectorySource, stored: dict[str, safetensors_file.Entry]
) -> dict[str, safetensors_file.Entry]:
    found: dict[str, safetensors_file.Entry] = {}
    for stored_name, entry in stored.items():
        name = opened.spelled(stored_name)
        if name in found:
            raise ValueError(f"{opened.path} holds {name} under two names, {stored_name} is one.")
        if name is not None:
            found[name] = entry
    return found


def _write_blocks(directory: Path, tensors: Iterable[_Tensor], seed: int | None) -> set[str]:
    """One file a block, one for the rest; returns the names that the gauge moved.

    `tensors` come block by block, so that one block at a time is in memory.
    """
    checkpoint = Checkpoint(directory)
    layout, geometry = checkpoint.layout, checkpoint.geometry
    old, new = Gauge(None, geometry), Gauge(seed, geometry)
    moved: set[str] = set()
    for block, members in groupby(tensors, key=lambda tensor: tensor.place.block):
        arrays: dict[str, np.ndarray] = {}
        for name, place, values in members:
            expected = layout.stored_shape(place.part, geometry)
            if values.shape != expected:  # before it meets the scales
                raise _shape_error(name, values.shape, expected)
            arrays[name] = regauge_stored(values, place, layout, old, new)
            if arrays[name] is not values:
                moved.add(name)
        safetensors_file.write(_file_of(block, directory), arrays)
    return moved


def _file_of(block: int | None, directory: Path) -> Path:
    file = "outside" if block is None else f"block-{block:03d}"
    return directory / f"{file}.safetensors"


def _shape_error(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> ValueError:
    return ValueError(f"{name} has shape {shape}; the config says {expected}.")


def _declare_float32(file: Path) -> None:
    """Who loads the directory must not round the gauge away."""
    config = read_json(file)
    config.pop("torch_dtype", None)  # the older name
    config["dtype"] = "float32"
    file.write_text(json.dumps(config, indent=1))


def _write_index(checkpoint: Checkpoint) -> None:
    weight_map = {name: entry.file.name for name, entry in sorted(checkpoint.entries.items())}
    total = sum(entry.n_bytes for entry in checkpoint.entries.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (checkpoint.directory / INDEX).write_text(json.dumps(index, indent=1))


def _check_complete(checkpoint: Checkpoint, source: Path) -> None:
    """All that the config promises is there in its shape, and nothing else that is a weight."""
    layout, geometry = checkpoint.layout, checkpoint.geometry
    wanted = {
        layout.tensor(part, block): layout.stored_shape(part, geometry)
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
    stored = entries_of(sorted(checkpoint.directory.glob("*.safetensors")))
    names = [checkpoint.layout.tensor(part) for part in ("head", "embed")]
    head, embed = (stored.get(name) for name in names)
    if head is not None and embed is not None and _sha256(head) != _sha256(embed):
        raise ValueError(
            f"{source} ties head and embedding (tie_word_embeddings), but {names[0]} differs from "
            f"{names[1]}: its config.json is wrong."
        )
