"""A GPTQ or AWQ checkpoint as a quantized file: packed integers, scales and zero points.

A linear layer y = W x of such a directory is stored as (inputs, outputs): `qweight` and, for each
group of inputs, `qzeros` and `scales`; W = scale * (integer - zero). GPTQ's `g_idx` names the group
of each input, in any order (`desc_act`). The widely used GPTQ format stores zero - 1, modulo
2^bits; `gptq_v2` stores the zero itself. Layers that were left alone have an ordinary `weight`.
The bits are told from the shapes, so that a file may mix them (GPTQModel's `dynamic`).

Sources: AutoGPTQ's `QuantLinear.pack` and its `forward` without kernels; AutoAWQ's
`WQLinear_GEMM.from_linear` and `dequantize_gemm`; see `packed_integers`.
"""

import math
from collections.abc import Collection
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int32

from quantdrift.quantizers.ledger import Entry

from .directory_source import DirectorySource, entries_of, read_json
from .geometry import Geometry
from .layouts import Place, UnsupportedArchitectureError
from .packed_integers import unpack_awq, unpack_stream
from .quantized_tensor import ROUNDING, QuantizedFile, StoredTensor, StoredVector
from .safetensors_file import Entry as Stored

_PACKED = ("qweight", "qzeros", "scales", "g_idx")
_FORMATS = {"gptq": ("gptq", "gptq_v2"), "awq": ("gemm",)}
_GPTQ_BITS = (2, 3, 4, 8)
_ADVICE = "give a GGUF file, or a GPTQ (gptq, gptq_v2) or AWQ (gemm) checkpoint"


class PackedDirectory(QuantizedFile):
    """An opened directory; see `QuantizedFile`.

    Raises:
        UnsupportedArchitectureError: no layout knows the architecture, or a tensor of it.
        ValueError: the directory is not quantized, or in a way that is not known here.
    """

    def __init__(self, path: Path) -> None:
        self._source = DirectorySource(path, quantized=True)
        super().__init__(path, self._source.layout, self._source.config)
        self._about = self._source.quantization
        if not self._about and (path / "quantize_config.json").exists():  # AutoGPTQ's older place
            self._about = {"quant_method": "gptq"} | read_json(path / "quantize_config.json")
        self.format = str(self._about.get("quant_method"))
        if not self._about:
            raise ValueError(f"{path} is not quantized; {_ADVICE}.")
        if self.format not in _FORMATS:
            raise ValueError(f"{path} is quantized by {self.format}; {_ADVICE}.")
        self._variant = self._known_variant()
        if not self._source.files:
            raise ValueError(f"{path} holds no *.safetensors; convert its weights, or {_ADVICE}.")
        self._placed = self._find()

    @property
    def places(self) -> Collection[Place]:
        """What the directory holds."""
        return self._placed.keys()

    def type_of(self, place: Place) -> str:
        """`gptq-4-128` is 4 bits in groups of 128; `f16` and so on where nothing is packed."""
        stored = self._placed[place]
        if "qweight" not in stored:
            return stored["weight"].dtype.lower()
        bits = self._bits(place)
        groups = self._groups(place)
        return f"{self.format}-{bits}-{int(np.bincount(groups).max())}"

    def tensor(self, place: Place) -> StoredTensor:
        """Linear weights; see `QuantizedFile`."""
        stored = self._placed[place]
        if "qweight" not in stored:
            entry = stored["weight"]
            n_bits = 8 * entry.n_bytes
            nominal = n_bits // math.prod(entry.shape)
            entries = (Entry("weights", n_bits),)
            return StoredTensor(entry.float32(), self.type_of(place), entries, nominal)
        if absent := [what for what in ("qzeros", "scales") if what not in stored]:
            raise self._refusal(place, f"lacks its {absent[0]}")
        weight = self._unpacked(place)
        if not self.layout.transposed:
            weight = weight.T
        entries = (
            Entry("indices", 8 * stored["qweight"].n_bytes),
            Entry("scales", 8 * stored["scales"].n_bytes),
            Entry("zero_points", 8 * stored["qzeros"].n_bytes),
        )
        if "g_idx" in stored:
            entries += (Entry("g_idx", 8 * stored["g_idx"].n_bytes),)
        return StoredTensor(weight, self.type_of(place), entries, self._bits(place))

    def vector(self, place: Place) -> StoredVector:
        """A norm or bias."""
        entry = self._placed[place]["weight"]
        return StoredVector(entry.float32(), ROUNDING.get(entry.dtype.lower(), 0.0))

    def _known_variant(self) -> str:
        keys = ("checkpoint_format", "format") if self.format == "gptq" else ("version", "format")
        given = next((self._about[key] for key in keys if self._about.get(key)), None)
        known = _FORMATS[self.format]
        variant = str(given or known[0]).lower()
        if variant not in known:
            raise ValueError(f"{self.path} is {self.format} in the format {variant}; {_ADVICE}.")
        bits = self._about.get("bits", self._about.get("w_bit", 4))
        if self.format == "awq" and bits != 4:
            raise ValueError(f"{self.path} is awq of {bits} bits, and its gemm format has 4.")
        return variant

    def _find(self) -> dict[Place, dict[str, Stored]]:
        """Place to what is stored there: `weight` (a bias, too), or the packed tensors."""
        placed: dict[Place, dict[str, Stored]] = {}
        for stored_name, entry in entries_of(self._source.files).items():
            owner, _, last = stored_name.rpartition(".")
            suffix = last if last in _PACKED else "weight"
            name = f"{owner}.weight" if last in _PACKED else stored_name
            spelled = self._source.spelled(name)
            try:
                place = None if spelled is None else self.layout.place(spelled)
            except UnsupportedArchitectureError:
                # Old packers gave every linear layer a bias, of zeros.
                if last == "bias" and not entry.float32().any():
                    continue
                raise
            if place is not None:
                placed.setdefault(place, {})[suffix] = entry
        return placed

    @cached_property
    def _geometry(self) -> Geometry:
        return self.layout.geometry(self.config)

    def _unpacked(self, place: Place) -> Float32[np.ndarray, "inputs outputs"]:
        integers, zeros = self._integers(place)
        scales, groups = self._placed[place]["scales"].float32(), self._groups(place)
        outputs, inputs = self._geometry.shape(place.part)
        for what, shape, expected in (
            ("qweight", integers.shape, (inputs, outputs)),
            ("qzeros", zeros.shape, (len(scales), outputs)),
            ("scales", scales.shape, (len(scales), outputs)),
            ("g_idx", groups.shape, (inputs,)),
        ):
            if shape != expected:
                raise self._refusal(place, f"{what} unpacks to shape {shape}, not {expected}")
        if groups.min() < 0 or groups.max() >= len(scales):
            raise self._refusal(place, f"names group {groups.max()} of {len(scales)}")
        weight = integers.astype(np.float32)
        weight -= zeros.astype(np.float32)[groups]
        weight *= scales[groups]
        return weight

    def _integers(self, place: Place) -> tuple[np.ndarray, np.ndarray]:
        """(inputs, outputs) of the weights and (groups, outputs) of the zero points."""
        weights, zeros = (self._words(place, what) for what in ("qweight", "qzeros"))
        if self.format == "awq":
            return unpack_awq(weights), unpack_awq(zeros)
        bits = self._bits(place)
        unpacked = unpack_stream(np.ascontiguousarray(zeros.T), bits).T
        if self._variant == "gptq":
            unpacked = (unpacked + np.uint8(1)) & np.uint8(2**bits - 1)
        return unpack_stream(weights, bits), unpacked

    def _bits(self, place: Place) -> int:
        if self.format == "awq":
            return 4
        inputs = self._geometry.shape(place.part)[1]
        bits, rest = divmod(32 * self._placed[place]["qweight"].shape[0], inputs)
        if rest or bits not in _GPTQ_BITS:
            rows = self._placed[place]["qweight"].shape[0]
            raise self._refusal(
                place,
                f"has {rows} rows of 32-bit words, which are no 2, 3, 4 or 8 bits for each "
                f"of {inputs} inputs",
            )
        return bits

    def _groups(self, place: Place) -> Int32[np.ndarray, " inputs"]:
        """The group of each input."""
        if "g_idx" in self._placed[place]:
            return self._words(place, "g_idx")
        inputs = self._geometry.shape(place.part)[1]
        size = int(self._about.get("group_size", self._about.get("q_group_size", -1)))
        return (np.arange(inputs) // (inputs if size <= 0 else size)).astype(np.int32)

    def _words(self, place: Place, what: str) -> np.ndarray:
        stored = self._placed[place][what]
        if stored.dtype != "I32":
            raise self._refusal(place, f"packs its {what} into {stored.dtype}, not into I32")
        return np.asarray(stored.raw()).view("<i4").reshape(stored.shape)

    def _refusal(self, place: Place, what: str) -> ValueError:
        return ValueError(f"{self.path}: {self.layout.tensor(place.part, place.block)} {what}.")
