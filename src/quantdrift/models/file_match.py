"""Whether a quantized file is one of its base: the same shapes, the same norms, similar weights."""

from dataclasses import fields

import numpy as np
from jaxtyping import Float32

from quantdrift.sensitivity.weight_error import weight_error

from .checkpoint import Checkpoint
from .gauge import Gauge, regauge
from .geometry import Geometry
from .layouts import Place, UnsupportedArchitectureError
from .quantized_tensor import ROUNDING, QuantizedFile, StoredVector

_REMEDY = "give the file of this base"
LARGEST_ERROR, SMALLEST_COSINE = 0.9, 0.5
"""Two bits reach 0.4 and 0.9; a random other model has 1.4 and 0."""
_ROUNDING_AT_ONE_BIT = 1.2
"""Types of b bits make errors of about this times 2^-b: 0.005 at 8 bits, 0.075 at 4, 0.3 at 2."""
_ROOM = 4.0
"""GPTQ and AWQ, which serve outputs and not weights, make two or three times the error."""
_HALF_PRECISION = 2.0**-8
_GAUGE_ROUNDING = 1e-6
"""Two float32 roundings of a norm that was moved to another gauge, with room to spare."""


class MatchError(ValueError):
    """The file is no file of the base; the message says by which number, and what to do."""


def check_shapes(file: QuantizedFile, base: Checkpoint) -> None:
    """Refuse another architecture, other sizes, and a tensor too few or too many."""
    if file.layout.name != base.layout.name:
        raise MatchError(
            f"{file.path} is of the architecture {file.layout.name}, its base "
            f"{base.directory.name} of {base.layout.name}: {_REMEDY}."
        )
    geometry = file.layout.geometry(file.config)
    for size in fields(Geometry):
        here, there = getattr(geometry, size.name), getattr(base.geometry, size.name)
        if here != there and size.name != "positions":
            raise MatchError(
                f"{file.path} has {size.name} {here}, its base {base.directory.name} {there}: "
                f"{_REMEDY}."
            )
    needed = [Place(part, b) for b in range(geometry.blocks) for part in measured_parts(base)]
    for place in needed:
        if place not in file.places:
            raise MatchError(
                f"{file.path} lacks {base.layout.tensor(place.part, place.block)}, which its base "
                f"{base.directory.name} has: {_REMEDY}, whole."
            )
    for place in file.places:
        if place.block is not None and place.block >= geometry.blocks:
            raise MatchError(
                f"{file.path} holds {base.layout.tensor(place.part, place.block)}, and says that "
                f"it has {geometry.blocks} blocks: it is damaged."
            )


def measured_parts(base: Checkpoint) -> list[str]:
    """The parts of a block that are compared: matrices, norms, biases."""
    return [part for part in base.layout.parts if base.layout.in_blocks(part)]


def check_shape(
    file: QuantizedFile, place: Place, shape: tuple[int, ...], base: Checkpoint
) -> None:
    """Refuse a tensor whose shape is not that of the base."""
    expected = base.layout.stored_shape(place.part, base.geometry)
    if shape != expected:
        raise MatchError(
            f"{file.path}: {base.layout.tensor(place.part, place.block)} has shape {shape}, in "
            f"its base {base.directory.name} {expected}: {_REMEDY}."
        )


def check_vector(
    file: QuantizedFile,
    place: Place,
    vector: StoredVector,
    base: Checkpoint,
    old: Gauge,
    new: Gauge,
) -> None:
    """Refuse a norm or bias that differs from the base's by more than rounding.

    Args:
        file: where `vector` stands.
        place: what it is.
        vector: in the gauge `old`.
        base: in the gauge `new`.
        old: the file's gauge.
        new: the base's gauge.
    """
    name = base.layout.tensor(place.part, place.block)
    entry = base.entries[name]
    offset = base.layout.norm_offset if place.part.endswith("norm") else 0.0
    expected = entry.float32().astype(np.float64) + offset
    moved = regauge(
        vector.values.astype(np.float64), place.part, place.block, old, new, norm_offset=offset
    )
    difference = np.abs(moved + offset - expected)
    rounding = vector.rounding + ROUNDING.get(entry.dtype.lower(), 0.0)
    allowed = rounding * np.abs(expected) + _GAUGE_ROUNDING * np.abs(expected).max()
    if not (difference <= allowed).all():  # NaN fails, too
        worst = int(np.argmax(difference - allowed))
        raise MatchError(
            f"{file.path} is another model than its base {base.directory.name}: channel {worst} of "
            f"{name} is {moved[worst] + offset:.6g} in the file and {expected[worst]:.6g} in the "
            f"base: {_REMEDY}."
        )


def check_matrix(
    file: QuantizedFile,
    name: str,
    weight: Float32[np.ndarray, "rows columns"],
    base: Checkpoint,
    base_weight: Float32[np.ndarray, "rows columns"],
    bits: float,
) -> None:
    """Refuse a matrix that no quantizer can have made of the base's.

    At eight bits that tells a fine-tune from its base; at four and fewer the error of the type is
    larger than what most fine-tuning changes, and norms are the better witness.

    Args:
        file: where it stands.
        name: of the tensor.
        weight: in the gauge of the base.
        base: in its gauge.
        base_weight: what `weight` should be.
        bits: a weight, by the name of its type.
    """
    try:
        error = weight_error(base_weight, weight)
    except ValueError as problem:
        raise MatchError(f"{file.path}: {name}: {problem}.") from problem
    allowed = largest_error(bits)
    if error.relative_frobenius > allowed or error.cosine < SMALLEST_COSINE:
        raise MatchError(
            f"{file.path} is another model than its base {base.directory.name}, or a fine-tune of "
            f"it: {name}, of {bits:g} bits, has a relative error of {error.relative_frobenius:.3g} "
            f"(at most {allowed:.2g}) and a cosine of {error.cosine:.2f} (at least "
            f"{SMALLEST_COSINE}) with the base's: {_REMEDY}."
        )


def largest_error(bits: float) -> float:
    """The largest relative Frobenius error that is put down to quantization to so many bits."""
    if bits >= 16:
        return _HALF_PRECISION
    return min(LARGEST_ERROR, _ROOM * _ROUNDING_AT_ONE_BIT * 2.0**-bits)


def open_refusal(path: object, error: UnsupportedArchitectureError, base: Checkpoint) -> MatchError:
    """A file of an unknown architecture, told as what it means for its base."""
    return MatchError(
        f"{path} cannot be a file of {base.directory.name} ({base.layout.name}): {error} "
        f"Or {_REMEDY}."
    )
