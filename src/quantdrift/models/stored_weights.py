"""Quantized weights that lie in a directory: one safetensors file a block, and a manifest.

What a quantizer cannot make on the fly is written so: the matrices of a quantized file, and later
those that are fitted. Each matrix is there dequantized, (outputs, inputs) in float32, under the
name of its role, in the gauge of the base; the manifest has its true type and every stored bit.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from quantdrift.quantizers.ledger import Entry, Ledger, Quantized

from . import safetensors_file
from .directory_source import read_json
from .whole_directory import whole_directory

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class StoredWeights:
    """A directory that `write_weights` made."""

    directory: Path

    @cached_property
    def about(self) -> dict[str, Any]:
        """What the maker of the weights noted, and `sha256` of matrices, types and bits."""
        return {key: value for key, value in self._manifest.items() if key != "matrices"}

    def quantized(self, role: str, block: int) -> Quantized:
        """One matrix with the bits it takes, read from the disk now.

        Raises:
            KeyError: the directory has no such matrix.
        """
        if (role, block) not in self._records:
            raise KeyError(f"{self.directory} holds no {role} of block {block}")
        record = self._records[role, block]
        weight = safetensors_file.entries(_file_of(block, self.directory))[role].float32()
        entries = tuple(Entry(**entry) for entry in record["entries"])
        return Quantized(
            weight, Ledger(entries, weight.size, record["bits_claimed"]), record["type"]
        )

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        return read_json(self.directory / MANIFEST)

    @cached_property
    def _records(self) -> dict[tuple[str, int], dict[str, Any]]:
        return {(one["role"], one["block"]): one for one in self._manifest["matrices"]}


def write_weights(
    directory: Path,
    blocks: Iterable[tuple[int, Mapping[str, Quantized]]],
    about: Callable[[], Mapping[str, Any]],
) -> dict[str, Any]:
    """Write the matrices of all blocks, whole or not at all; one block at a time is in memory.

    Args:
        directory: made anew; whatever stood there is removed first.
        blocks: (block, role to matrix), one after the other.
        about: what else the manifest says; asked when all blocks are written.

    Returns:
        The manifest.
    """
    with whole_directory(directory) as unfinished:
        records: list[dict[str, Any]] = []
        for block, matrices in blocks:
            weights = {role: matrix.weight for role, matrix in matrices.items()}
            safetensors_file.write(_file_of(block, unfinished), weights)
            records += [_record(role, block, matrix) for role, matrix in matrices.items()]
        digest = hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()
        manifest = dict(about()) | {"sha256": digest, "matrices": records}
        (unfinished / MANIFEST).write_text(json.dumps(manifest, indent=1))
    return manifest


def _record(role: str, block: int, matrix: Quantized) -> dict[str, Any]:
    return {
        "role": role,
        "block": block,
        "type": matrix.type,
        "bits_claimed": matrix.ledger.bits_claimed,
        "entries": [asdict(entry) for entry in matrix.ledger.entries],
        "sha256": hashlib.sha256(matrix.weight.tobytes()).hexdigest(),
    }


def _file_of(block: int, directory: Path) -> Path:
    return directory / f"block-{block:03d}.safetensors"
