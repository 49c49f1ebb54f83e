"""A GGUF file as a quantized file: any type that gguf dequantizes, each with its own bits."""

import re
from collections.abc import Collection
from pathlib import Path

import gguf

from quantdrift.quantizers.ledger import Entry
from quantdrift.quantizers.llamacpp import TYPES

from .gguf_source import GgufSource
from .layouts import Place
from .quantized_tensor import ROUNDING, QuantizedFile, StoredTensor, StoredVector

_FLOAT_BITS = {"f32": 32, "f16": 16, "bf16": 16}


class GgufFile(QuantizedFile):
    """An opened GGUF file; see `QuantizedFile`, and `GgufSource` for what is refused."""

    format = "gguf"

    def __init__(self, path: Path) -> None:
        self._source = GgufSource(path)
        super().__init__(path, self._source.layout, self._source.config)
        self._placed = self._source.placed  # an unknown tensor raises here

    @property
    def places(self) -> Collection[Place]:
        """What the file holds."""
        return self._placed.keys()

    def type_of(self, place: Place) -> str:
        """Ggml's name of the type, in lower case."""
        return self._placed[place].tensor_type.name.lower()

    def tensor(self, place: Place) -> StoredTensor:
        """Linear weights; see `QuantizedFile`."""
        stored, name = self._placed[place], self.type_of(place)
        return StoredTensor(
            self._source.values(place),
            name,
            _entries(stored.tensor_type, int(stored.n_elements)),
            _nominal_bits(name),
        )

    def vector(self, place: Place) -> StoredVector:
        """A norm or bias."""
        return StoredVector(self._source.values(place), ROUNDING.get(self.type_of(place), 0.0))


def _entries(kind: gguf.GGMLQuantizationType, n_weights: int) -> tuple[Entry, ...]:
    """All stored bits, itemised where the type's parts are known here."""
    name = kind.name.lower()
    block, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    n_blocks = n_weights // block  # GGUF has whole blocks in every row
    if name in TYPES:
        return tuple(Entry(part.name, part.bits * n_blocks) for part in TYPES[name].parts)
    what = "weights" if name in _FLOAT_BITS else "blocks"
    return (Entry(what, 8 * n_bytes * n_blocks),)


def _nominal_bits(name: str) -> int:
    """The number in the name: 4 in q4_k, 2 in iq2_xxs."""
    if name in TYPES:
        return TYPES[name].nominal_bits
    number = re.search(r"\d+", name)
    assert number is not None, name
    return int(number[0])
