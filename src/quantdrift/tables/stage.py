"""Finished pieces of a long job, kept beside its outputs so that a killed job resumes.

The folder is named by a hash of everything that shapes the job's result, so pieces of other
parameters or other code are never taken up.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from .io import Table, from_rows, write_arrow

Rows = list[dict[str, Any]]


class Stage:
    """Rows of one job, piece by piece.

    Args:
        root: the stage folder of all jobs, results/.stage.
        table: the table whose rows the pieces hold.
        job: what shapes the result: wildcards, parameters, code digest, hashes of inputs.
    """

    def __init__(self, root: Path, table: Table, job: Mapping[str, Any]) -> None:
        packed = json.dumps({"kind": table.kind} | dict(job), sort_keys=True, default=str)
        self.folder = root / hashlib.sha256(packed.encode()).hexdigest()[:16]
        self.table = table

    def rows(self, piece: str, compute: Callable[[], Iterable[Mapping[str, Any]]]) -> Rows:
        """The rows of one piece: from the stage if they are there, else computed and staged."""
        path = self.folder / f"{piece}.parquet"
        if path.exists():
            return pq.ParquetFile(path).read().to_pylist()
        data = from_rows(self.table, compute())
        write_arrow(data, path, {})
        return data.to_pylist()

    def clear(self) -> None:
        """Remove the pieces, once their job's output stands."""
        shutil.rmtree(self.folder, ignore_errors=True)
