"""How many blocks a checkpoint has, from its header alone: what the workflow asks while it plans.

Neither torch nor gguf is imported here; a GGUF's metadata is read only as far as the answer.
"""

import json
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
    config = json.loads((path / "config.json").read_text())
    config = config.get("text_config", config)
    try:
        return int(config["num_hidden_layers"])
    except KeyError:
        raise ValueError(f"{path}/config.json has no num_hidden_layers.") from None


def _blocks_of_gguf(path: Path) -> int:
    with path.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise ValueError(f"{path} is no GGUF file.")
        _version, _tensors, n_fields = struct.unpack("<IQQ", stream.read(20))
        for _ in range(n_fields):
            key = _string(stream)
            (kind,) = struct.unpack("<I", stream.read(4))
            if key.endswith(b".block_count") and kind in (4, 5, 10, 11):
                return int.from_bytes(stream.read(_SIZES[kind]), "little")
            _skip(stream, kind, path)
    raise ValueError(f"{path} has no block_count in its metadata.")


def _string(stream: BinaryIO) -> bytes:
    (length,) = struct.unpack("<Q", stream.read(8))
    return stream.read(length)


def _skip(stream: BinaryIO, kind: int, path: Path) -> None:
    if kind == 8:
        _string(stream)
    elif kind == 9:
        inner, count = struct.unpack("<IQ", stream.read(12))
        if inner in _SIZES:
            stream.seek(_SIZES[inner] * count, 1)
        else:
            for _ in range(count):
                _skip(stream, inner, path)
    elif kind in _SIZES:
        stream.seek(_SIZES[kind], 1)
    else:
        raise ValueError(f"{path} has metadata of the unknown type {kind}.")
