"""The only reader and writer of result files.

A table is declared once (`Table`): what a row is, its key, its columns with types, meaning and
unit. `write` refuses what breaks the declaration, sorts by key, and writes whole files or none.
Meaning and unit travel in the Parquet field metadata, provenance in the file metadata.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_PROVENANCE = b"quantdrift"


def column(
    name: str, kind: pa.DataType, meaning: str, *, unit: str = "", null: bool = False
) -> pa.Field:
    """One column: nulls are refused unless `null`, and floats must be finite or null."""
    metadata = {"meaning": meaning} | ({"unit": unit} if unit else {})
    return pa.field(name, kind, nullable=null, metadata=metadata)


@dataclass(frozen=True)
class Table:
    """What a result file holds."""

    kind: str
    """Its name in paths: results/shards/{kind}/..."""
    row: str
    """What one row is."""
    key: tuple[str, ...]
    """The columns that name a row, in the order rows are sorted by."""
    schema: pa.Schema


class TableError(ValueError):
    """Rows that break the definition of their table; nothing was written."""


def from_rows(table: Table, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A checked, sorted Arrow table.

    Raises:
        TableError: a row lacks a column or has one too many, a value does not fit its type
            without loss, is NaN, infinite or a forbidden null, or two rows share a key.
    """
    rows = list(rows)
    names = set(table.schema.names)
    for row in rows:
        if row.keys() != names:
            raise TableError(
                f"{table.kind}: a row has columns {sorted(row.keys() - names)} too many and "
                f"lacks {sorted(names - row.keys())}: {_name(table, row)}"
            )
    arrays = []
    for field in table.schema:
        values = [row[field.name] for row in rows]
        for row, value in zip(rows, values, strict=True):
            if not _fits(field.type, value):
                raise TableError(
                    f"{table.kind}.{field.name} holds {field.type}, which {value!r} is not: "
                    f"{_name(table, row)}"
                )
        try:
            array = pa.array(values, field.type, from_pandas=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise TableError(f"{table.kind}.{field.name}: {error}") from error
        _check_values(table, field, array, rows)
        arrays.append(array)
    return _sorted(table, pa.Table.from_arrays(arrays, schema=table.schema))


def write(
    table: Table, rows: Iterable[Mapping[str, Any]], path: Path, provenance: Mapping[str, Any]
) -> pa.Table:
    """Check `rows`, sort them by key and write them whole; returns what was written.

    `provenance` (code, parameters, model hash, versions; never a time or a host, so that files of
    deterministic measures are byte-identical) goes into the file's metadata.
    """
    data = from_rows(table, rows)
    write_arrow(data, path, provenance)
    return data


def read(table: Table, path: Path) -> pa.Table:
    """One file of a table, its schema checked.

    Raises:
        TableError: the file's columns are not those of the table.
        FileNotFoundError: there is no such file.
    """
    try:
        data = pq.ParquetFile(path).read()
    except pa.ArrowInvalid as error:
        raise TableError(
            f"{path} is no readable Parquet file ({error}); delete it and run again."
        ) from error
    if not data.schema.remove_metadata().equals(table.schema.remove_metadata()):
        raise TableError(
            f"{path} does not hold {table.kind} as this version defines it; "
            "delete it and run again, and it is made anew."
        )
    return data.replace_schema_metadata(None).cast(table.schema)


def read_rows(table: Table, path: Path) -> list[dict[str, Any]]:
    """Like `read`, as one dict a row."""
    return read(table, path).to_pylist()


def provenance(path: Path) -> dict[str, Any]:
    """What `write` was told about how the file was made."""
    metadata = pq.read_schema(path).metadata or {}
    return json.loads(metadata.get(_PROVENANCE, b"{}"))


def merge(table: Table, shards: Iterable[Path], path: Path) -> pa.Table:
    """All shards of one kind as one file; its provenance holds what all shards agree on.

    Without a shard the file is an empty table.
    """
    shards = list(shards)
    data = pa.concat_tables([table.schema.empty_table(), *(read(table, s) for s in shards)])
    data = _sorted(table, data)
    common: dict[str, Any] | None = None
    for shard in shards:
        made = provenance(shard)
        common = made if common is None else {k: v for k, v in common.items() if made.get(k) == v}
    write_arrow(data, path, (common or {}) | {"shards": len(shards)})
    return data


def write_text(text: str, path: Path) -> None:
    """Write a text file whole or not at all (CSV, Markdown, HTML, SVG)."""
    write_bytes(text.encode(), path)


def write_bytes(content: bytes, path: Path) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    temporary.write_bytes(content)
    temporary.replace(path)


def write_arrow(data: pa.Table, path: Path, made: Mapping[str, Any]) -> None:
    """Write a table that is already checked, whole or not at all."""
    packed = json.dumps(made, sort_keys=True).encode()
    data = data.replace_schema_metadata({_PROVENANCE: packed})
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    pq.write_table(data, temporary, compression="zstd")
    temporary.replace(path)


def _check_values(table: Table, field: pa.Field, array: pa.Array, rows: list[Any]) -> None:
    if array.null_count and not field.nullable:
        where = pc.index(array.is_null(), value=True).as_py()
        raise TableError(f"{table.kind}.{field.name} is null in {_name(table, rows[where])}")
    flat = array.flatten() if pa.types.is_list(field.type) else array
    if pa.types.is_floating(flat.type) and not np.isfinite(flat.drop_null().to_numpy()).all():
        bad = next(row for row in rows if not _finite(row[field.name]))
        raise TableError(
            f"{table.kind}.{field.name} is NaN or infinite in {_name(table, bad)}; "
            "what is undefined must be null or refused."
        )


def _fits(kind: pa.DataType, value: Any) -> bool:
    """Whether Arrow keeps the value as it is: it would cut 2.5 to 2 and take True for 1.0."""
    if value is None:
        return True  # whether a null is allowed is another question
    if pa.types.is_list(kind):
        if isinstance(value, np.ndarray):
            return value.dtype.kind in ("iu" if pa.types.is_integer(kind.value_type) else "iuf")
        return hasattr(value, "__iter__") and all(
            entry is not None and _fits(kind.value_type, entry) for entry in value
        )
    if pa.types.is_integer(kind):
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if pa.types.is_floating(kind):
        return isinstance(value, int | float | np.integer | np.floating) and not isinstance(
            value, bool
        )
    return True


def _finite(value: Any) -> bool:
    values = value if hasattr(value, "__len__") else [value]
    return all(v is None or abs(v) < float("inf") for v in values)


def _sorted(table: Table, data: pa.Table) -> pa.Table:
    data = data.sort_by([(name, "ascending") for name in table.key])
    if data.num_rows == 0:
        return data
    groups = data.group_by(list(table.key)).aggregate([([], "count_all")])
    if groups.num_rows != data.num_rows:
        counts = groups["count_all"].to_pylist()
        twice = groups.slice(counts.index(max(counts)), 1).select(list(table.key)).to_pylist()[0]
        raise TableError(f"{table.kind}: rows repeat the key {twice}.")
    return data.combine_chunks()


def _name(table: Table, row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={row.get(name)}" for name in table.key)
