"""What a quantized file holds: tensors with their true types and every bit they take."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from quantdrift.quantizers.ledger import Entry, Ledger, Quantized

from .geometry import Geometry
from .layouts import Layout, Place

ROUNDING = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
"""The largest relative error of a number that is stored so."""


@dataclass(frozen=True)
class StoredTensor:
    """One stored tensor of linear weights, dequantized."""

    values: Float32[np.ndarray, "..."]
    """As the layout stores it: fused or transposed where that is so."""
    type: str
    entries: tuple[Entry, ...]
    nominal_bits: int
    """Bits a weight by the name of the type."""

    def matrices(self, part: str, layout: Layout, geometry: Geometry) -> dict[str, Quantized]:
        """The matrix of each role, and its share of the bits: as its share of the rows."""
        views = layout.views(part, self.values, geometry)
        ends = np.cumsum([geometry.shape(role)[0] for role in views])
        bits = {
            entry.name: np.diff([0, *(entry.bits * int(end) // int(ends[-1]) for end in ends)])
            for entry in self.entries
        }
        found = {}
        for number, (role, view) in enumerate(views.items()):
            weight = np.ascontiguousarray(view).reshape(geometry.shape(role))
            entries = tuple(Entry(name, int(parts[number])) for name, parts in bits.items())
            ledger = Ledger(entries, weight.size, float(self.nominal_bits * weight.size))
            found[role] = Quantized(weight, ledger, self.type)
        return found


@dataclass(frozen=True)
class StoredVector:
    """A norm or a bias, and how far the file's float type may have rounded it."""

    values: Float32[np.ndarray, " n"]
    rounding: float


class QuantizedFile(ABC):
    """An opened file; it is read tensor by tensor."""

    format: str
    """`gguf`, `gptq` or `awq`."""

    def __init__(self, path: Path, layout: Layout, config: dict[str, Any]) -> None:
        self.path, self.layout, self.config = path, layout, config

    @property
    @abstractmethod
    def places(self) -> Collection[Place]:
        """What the file holds."""

    @abstractmethod
    def type_of(self, place: Place) -> str:
        """The true type of a tensor."""

    @abstractmethod
    def tensor(self, place: Place) -> StoredTensor:
        """A tensor of linear weights.

        Raises:
            ValueError: it cannot be read; the message names it.
        """

    @abstractmethod
    def vector(self, place: Place) -> StoredVector:
        """A norm or bias."""
