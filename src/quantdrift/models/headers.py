"""How many blocks a checkpoint has, from its header alone: what the workflow asks while it plans.

Neither torch nor gguf is imported here; a GGUF's metadata is read only as far as the answer.
"""

import json
import os
import re
import struct
from pathlib import Path
from typing import BinaryIO

# Sizes of GGUF's metadata value types; 8 is a string, 9 an array.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def count_blocks(path: Path) -> int:
    """The number of transformer blocks of a Hugging Face directory or a GGUF file.

    Raises:
        ValueError: there is no such number in the header.
        FileNotFoundError: the path or its config.json does not exist.
    """
    return _blocks_of_gguf(path) if path.suffix == ".gguf" else _blocks_of_directory(path)


def _blocks_of_directory(path: Path) -> int:
    file = path / "config.json"
    try:
        config = json.loads(file.read_text())
        text = config.get("text_config", config)
        return int(text["n_layer" if "n_layer" in text else "num_hidden_layers"])  # GPT-2's name
    except KeyError:
        raise ValueError(f"{file} has no num_hidden_layers.") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} cannot be read ({error}).") from error


def _blocks_of_gguf(path: Path) -> int:
    with path.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise ValueError(f"{path} is no GGUF file.")
        try:
            blocks = _block_count(stream)
        except (struct.error, ValueError) as error:
            raise ValueError(f"{path} cannot be read as GGUF ({error}); fetch it again.") from error
    if blocks is None:
        raise ValueError(f"{path} has no block_count in its metadata.")
    return blocks


def _block_count(stream: BinaryIO) -> int | None:
    version, _tensors, n_fields = struct.unpack("<IQQ", stream.read(20))
    if version not in (2, 3):
        raise ValueError(f"version {version}, where 2 and 3 are known")
    for _ in range(n_fields):
        key = stream.read(_length(stream))
        (kind,) = struct.unpack("<I", stream.read(4))
        if re.fullmatch(rb"[^.]+\.block_count", key) and kind in (4, 5, 10, 11):
            size = _SIZES[kind]
            (blocks,) = struct.unpack("<I" if size == 4 else "<Q", stream.read(size))
            return blocks
        _skip(stream, kind)
    return None


def _length(stream: BinaryIO) -> int:
    """The length that stands before a string; no file holds a string longer than itself."""
    (length,) = struct.unpack("<Q", stream.read(8))
    if length > os.fstat(stream.fileno()).st_size:
        raise ValueError(f"a string of {length} bytes")
    return length


def _skip(stream: BinaryIO, kind: int) -> None:
    if kind == 8:
        stream.seek(_length(stream), 1)
    elif kind == 9:
        inner, count = struct.unpack("<IQ", stream.read(12))
        if inner == 8:
            _skip_strings(stream, count)
        elif inner in _SIZES:
            stream.seek(_SIZES[inner] * count, 1)
        else:
            for _ in range(count):
                _skip(stream, inner)
    elif kind in _SIZES:
        stream.seek(_SIZES[kind], 1)
    else:
        raise ValueError(f"metadata of the unknown type {kind}")


def _skip_strings(stream: BinaryIO, count: int) -> None:
    """A vocabulary: a tight loop, since there are a hundred thousand of them and more."""
    read, unpack = stream.read, struct.Struct("<Q").unpack
    size = os.fstat(stream.fileno()).st_size
    for _ in range(count):
        (length,) = unpack(read(8))
        if length > size:
            raise ValueError(f"a string of {length} bytes")
        read(length)
