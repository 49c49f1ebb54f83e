"""Safetensors files tensor by tensor: memory-mapped reads as float32, bfloat16 included.

The format is eight bytes of length, a JSON header, and raw little-endian arrays. NumPy has no
bfloat16, and torch takes over a second to import, which every job would pay; reading the header
ourselves maps just the bytes of the tensor that is asked for.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}


_CHUNK = 1 << 22
"""Values that are float32 at a time, where a whole tensor need not be."""


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: where its bytes lie and what they are."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int
    n_bytes: int

    def raw(self) -> np.ndarray:
        """The stored bytes, mapped, not read."""
        if self.n_bytes == 0:
            return np.empty(0, np.uint8)
        return np.memmap(self.file, np.uint8, "r", self.offset, (self.n_bytes,))

    def float32(self) -> np.ndarray:
        """The tensor as a fresh float32 array.

        Raises:
            ValueError: the tensor is not stored as floating point numbers.
        """
        return _as_float32(self._stored(), self.dtype).reshape(self.shape)

    def is_finite(self) -> bool:
        """Whether no value is NaN or infinite in float32, told a few MB at a time."""
        return all(np.isfinite(_as_float32(c, self.dtype)).all() for c in self._chunks())

    def _chunks(self) -> Iterator[np.ndarray]:
        stored = self._stored()
        for start in range(0, stored.size, _CHUNK):
            yield stored[start : start + _CHUNK]

    def _stored(self) -> np.ndarray:
        """All values in a row, mapped, as NumPy can hold them."""
        if self.dtype not in _DTYPES:
            raise ValueError(
                f"{self.file.name} stores {self.dtype}; known are {', '.join(_DTYPES)}. "
                "A quantized checkpoint is a scheme's weights, not a base model."
            )
        return self.raw().view(_DTYPES[self.dtype])


def _as_float32(stored: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "BF16":  # the upper half of a float32
        wide = stored.astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32)
    # What float32 cannot hold becomes infinite, and a NaN stays one.
    with np.errstate(over="ignore", invalid="ignore"):
        return stored.astype(np.float32)


def entries(file: Path) -> dict[str, Entry]:
    """The tensors of one safetensors file, by name.

    Raises:
        ValueError: the file is cut short or is no safetensors file.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError(f"{file} is cut short or is no safetensors file; fetch it again.")
        try:
            header = json.loads(stream.read(length))
            header.pop("__metadata__", None)
            found = {
                name: _entry(file, 8 + length, **about) for name, about in sorted(header.items())
            }
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{file} has no readable safetensors header ({error}).") from error
    for name, entry in found.items():
        if entry.offset + entry.n_bytes > size:
            raise ValueError(f"{file} is cut short: {name} ends after the file; fetch it again.")
        known = _DTYPES.get(entry.dtype)
        if known is not None and entry.n_bytes != math.prod(entry.shape) * known.itemsize:
            raise ValueError(
                f"{file} is damaged: {name} has {entry.n_bytes} bytes, which are no "
                f"{entry.dtype} of shape {entry.shape}."
            )
    return found


def _entry(file: Path, start: int, dtype: str, shape: list[int], data_offsets: list[int]) -> Entry:
    begin, end = data_offsets
    return Entry(file, dtype, tuple(shape), start + begin, end - begin)


def write(file: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write one file, whole: to a temporary name first, then renamed."""
    from safetensors.numpy import save_file

    temporary = file.with_suffix(".part")
    arrays = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    save_file(arrays, temporary, metadata={"format": "pt"})
    temporary.replace(file)
