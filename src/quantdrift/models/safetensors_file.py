"""Safetensors files tensor by tensor: memory-mapped reads as float32, bfloat16 included.

The format is eight bytes of length, a JSON header, and raw little-endian arrays. NumPy has no
bfloat16, and torch takes over a second to import, which every job would pay; reading the header
ourselves maps just the bytes of the tensor that is asked for.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}


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
        if self.dtype not in _DTYPES:
            raise ValueError(
                f"{self.file.name} stores {self.dtype}; known are {', '.join(_DTYPES)}. "
                "A quantized checkpoint is a scheme's weights, not a base model."
            )
        stored = self.raw().view(_DTYPES[self.dtype]).reshape(self.shape)
        if self.dtype == "BF16":  # the upper half of a float32
            return (stored.astype(np.uint32) << 16).view(np.float32)
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
        except ValueError as error:
            raise ValueError(f"{file} has no readable safetensors header.") from error
    header.pop("__metadata__", None)
    found = {}
    for name, about in header.items():
        begin, end = about["data_offsets"]
        if 8 + length + end > size:
            raise ValueError(f"{file} is cut short: {name} ends after the file; fetch it again.")
        found[name] = Entry(file, about["dtype"], tuple(about["shape"]), 8 + length + begin, end - begin)
    return found


def write(file: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write one file, whole: to a temporary name first, then renamed."""
    from safetensors.numpy import save_file

    temporary = file.with_suffix(".part")
    arrays = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    save_file(arrays, temporary, metadata={"format": "pt"})
    temporary.replace(file)
