"""Turn a quantized file that someone else made into weights that compare with its base.

Every matrix is dequantized, its rows are put in Hugging Face's order, and it is moved to the gauge
of the base. The model that runs with these matrices keeps the base's norms, biases, embedding and
head: norms and biases are the file's own (that is checked, or undone, see `folded_scales`), but
where the file quantizes embedding or head (`outside` in the manifest names their types), the file
as llama.cpp or vLLM runs it differs in those.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from quantdrift.quantizers.ledger import Quantized

from .checkpoint import Checkpoint
from .file_match import (
    check_matrix,
    check_shape,
    check_shapes,
    check_vector,
    measured_parts,
    open_refusal,
)
from .folded_scales import FoldedGauge, folded_gauge
from .gauge import Gauge, regauge
from .layouts import Place, UnsupportedArchitectureError
from .quantized_tensor import QuantizedFile, StoredVector
from .stored_weights import write_weights

Progress = Callable[[Iterable[Any], int, str], Iterator[Any]]


def convert(
    path: Path,
    base: Checkpoint,
    directory: Path,
    *,
    regauge_seed: int | None,
    progress: Progress,
) -> dict[str, Any]:
    """Write the matrices of a quantized file as `StoredWeights`; returns their manifest.

    Args:
        path: a GGUF file, or the directory of a GPTQ or AWQ checkpoint.
        base: what was quantized, as `prepare` made it.
        directory: made anew, whole or not at all.
        regauge_seed: the gauge that `base` was moved to.
        progress: wraps the loop over blocks: `progress(items, total, label)`.

    Raises:
        MatchError: it is no file of this base; the message names file, base, tensor and number.
        ValueError: it cannot be read; the message says why.
    """
    file = _opened(path, base)
    check_shapes(file, base)
    home = Gauge(regauge_seed, base.geometry)
    _check_outside(file, base, home)
    fitted: dict[str, list[int]] = {}

    def blocks() -> Iterator[tuple[int, Mapping[str, Quantized]]]:
        for block in range(base.geometry.blocks):
            yield block, _block(file, base, home, block, fitted)

    def about() -> dict[str, Any]:
        outside = {role: _outside_type(file, role) for role in ("embed", "head")}
        return {
            "file": str(path),
            "format": file.format,
            "outside": outside,
            "scales_undone": file.format == "awq",
            "rows_fitted": fitted,
        }

    total = base.geometry.blocks
    return write_weights(directory, progress(blocks(), total, "Dequantizing blocks"), about)


def _opened(path: Path, base: Checkpoint) -> QuantizedFile:
    from .gguf_file import GgufFile
    from .packed_directory import PackedDirectory

    try:
        return GgufFile(path) if path.suffix == ".gguf" else PackedDirectory(path)
    except UnsupportedArchitectureError as error:
        raise open_refusal(path, error, base) from error


def _outside_type(file: QuantizedFile, role: str) -> str | None:
    """The type of embedding or head; None where the file has none (a tied head)."""
    place = Place(role, None)
    return file.type_of(place) if place in file.places else None


def _check_outside(file: QuantizedFile, base: Checkpoint, home: Gauge) -> None:
    for part in base.layout.parts:
        place = Place(part, None)
        if "norm" in part and not base.layout.in_blocks(part) and place in file.places:
            check_vector(file, place, file.vector(place), base, home, home)


def _block(
    file: QuantizedFile, base: Checkpoint, home: Gauge, block: int, fitted: dict[str, list[int]]
) -> dict[str, Quantized]:
    """The matrices of a block in the gauge of the base, checked against it."""
    vectors: dict[str, StoredVector] = {}
    matrices: dict[str, Quantized] = {}
    for part in measured_parts(base):
        place = Place(part, block)
        if place.roles:
            tensor = file.tensor(place)
            check_shape(file, place, tensor.values.shape, base)
            matrices |= tensor.matrices(part, base.layout, base.geometry)
        else:
            vectors[part] = file.vector(place)
            check_shape(file, place, vectors[part].values.shape, base)
    gauge = _gauge_of(file, base, home, block, vectors, matrices)
    for role in gauge.fitted if isinstance(gauge, FoldedGauge) else ():
        fitted.setdefault(role, []).append(block)
    for part, vector in vectors.items():
        check_vector(file, Place(part, block), vector, base, gauge, home)
    moved = {}
    for role, matrix in matrices.items():
        weight = regauge(matrix.weight, role, block, gauge, home)
        name = f"{role} of block {block}"
        bits = matrix.ledger.bpw_claimed
        check_matrix(file, name, weight, base, base.matrix(role, block), bits)
        moved[role] = Quantized(weight, matrix.ledger, matrix.type)
    return moved


def _gauge_of(
    file: QuantizedFile,
    base: Checkpoint,
    home: Gauge,
    block: int,
    vectors: Mapping[str, StoredVector],
    matrices: Mapping[str, Quantized],
) -> Gauge:
    """The gauge of one block of the file: that of the base as it was published, or AWQ's."""
    if file.format != "awq":
        return Gauge(None, base.geometry)
    if not base.layout.regauged:
        raise ValueError(
            f"{file.path}: how AWQ scales a {base.layout.name} model is not known here; give a "
            "GGUF or GPTQ file."
        )
    try:
        return folded_gauge(block, vectors, matrices, base, home)
    except ValueError as error:
        raise ValueError(f"{file.path}: {error}.") from error
