"""Rows of a data set as plain dicts: ours, or those of a file on this machine.

Nothing here knows what a row means (`quantdrift.behaviour.items` does), runs code of a data set, or
asks the network. The workflow imports this module when it is parsed, so pyarrow waits until a
Parquet file is read.
"""

import bz2
import gzip
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

_OPENERS = {".bz2": bz2.open, ".gz": gzip.open}
_READABLE = ".jsonl (also .jsonl.bz2, .jsonl.gz), .json, .parquet"


class DataError(ValueError):
    """A data set cannot be found or read; the message names the file and what is wrong."""


def own_rows(name: str) -> list[dict[str, Any]]:
    """The rows of `name`, one of the data sets written for this project.

    Raises:
        DataError: there is none of that name.
    """
    folder = resources.files("quantdrift.data")
    file = folder / f"{name}.jsonl"
    if not file.is_file():
        known = sorted(
            entry.name.removesuffix(".jsonl")
            for entry in folder.iterdir()
            if entry.name.endswith(".jsonl")
        )
        raise DataError(f"There are no items of ours called {name!r}; there are {_some(known)}.")
    return _lines(file.read_text(encoding="utf-8"), f"{name}.jsonl")


def file_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file: JSON lines, packed or not, one JSON list, or Parquet.

    Raises:
        DataError: the file is missing, broken, empty, or of another kind.
    """
    if not path.is_file():
        raise DataError(f"{path} is not there, or is no file.")
    if path.suffix == ".parquet":
        rows = _parquet_rows(path)
    elif path.suffix == ".json":
        rows = _listed_rows(read_text(path), path)
    elif ".jsonl" in path.suffixes[-2:] and path.suffix in {".jsonl", *_OPENERS}:
        rows = _lines(read_text(path), path)
    else:
        raise DataError(f"{path}: its name ends like none of {_READABLE}.")
    if not rows:
        raise DataError(f"{path} has no rows.")
    return rows


def local_file(folder: Path, names: Sequence[str]) -> Path:
    """The first of `names`, file names or patterns, that is there in `folder` (`data.dir`).

    Raises:
        DataError: none is there, or a pattern fits several files.
    """
    if not folder.is_dir():
        raise DataError(f"data.dir: {folder} is not there, or is no folder.")
    for name in names:
        found = _fitting(folder, name)
        if len(found) > 1:
            raise DataError(
                f"data.dir: {name} fits {len(found)} files in {folder} "
                f"({_some([file.relative_to(folder).as_posix() for file in found])}). "
                "Leave one of them there."
            )
        if found:
            return found[0]
    has = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in folder.iterdir())
    raise DataError(
        f"data.dir: {folder} has none of {', '.join(names) or 'no names'}; it has "
        f"{_some(has)}. Name the file so, or take data.dir away to fetch the data set from the hub."
    )


def matching(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The files in `folder` that fit `patterns`: in their order, by name within each, none twice.

    Raises:
        DataError: a pattern fits none.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        files = _fitting(folder, pattern)
        if not files:
            raise DataError(f"{folder} has no file like {pattern}.")
        found |= dict.fromkeys(files)
    return list(found)


def _fitting(folder: Path, pattern: str) -> list[Path]:
    return sorted(file for file in folder.glob(pattern) if file.is_file())


def read_text(path: Path) -> str:
    """A file of UTF-8 text, packed (.gz, .bz2) or not.

    Raises:
        DataError: it cannot be read, or holds something else.
    """
    opener = _OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rb") as stream:
            return stream.read().decode("utf-8-sig")
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error}.") from error


def _lines(text: str, where: object) -> list[dict[str, Any]]:
    # Not splitlines(): JSON strings may hold the other line separators of Unicode as they are.
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(
                f"{where}, line {number}: no JSON ({error.msg} at column {error.colno}): "
                f"{line[:60]!r}."
            ) from error
        rows.append(_object(row, f"{where}, line {number}"))
    return rows


def _listed_rows(text: str, path: Path) -> list[dict[str, Any]]:
    try:
        listed = json.loads(text)
    except json.JSONDecodeError as error:
        lines = " JSON lines need a name that ends in .jsonl." if error.msg == "Extra data" else ""
        raise DataError(
            f"{path}, line {error.lineno}: no JSON ({error.msg} at column {error.colno}).{lines}"
        ) from error
    if not isinstance(listed, list):
        raise DataError(f"{path} holds one {_kind(listed)}, not a list of rows.")
    return [_object(row, f"{path}, entry {n}") for n, row in enumerate(listed, start=1)]


def _parquet_rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Not read_table(path), which makes columns of a path like `split=test/`.
        with pq.ParquetFile(path) as file:
            return file.read().to_pylist()
    except (pa.ArrowException, OSError) as error:
        cause = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read as Parquet: {cause}") from error


def _object(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError(f"{where}: {_kind(row)}, where an object with named fields should be.")
    return row


def _kind(value: Any) -> str:
    kinds = {dict: "object", list: "list", str: "string", bool: "truth value", type(None): "null"}
    return kinds.get(type(value), "number")


def _some(names: Sequence[str], count: int = 12) -> str:
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return (", ".join(names[:count]) + more) or "nothing"
