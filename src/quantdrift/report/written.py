"""A summary table as three files: Parquet for programs, CSV for sheets, Markdown for people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..tables.io import Table, write, write_text
from .figure import rounded


def save_table(
    table: Table,
    rows: pd.DataFrame,
    *,
    parquet: Path,
    csv: Path,
    markdown: Path,
    provenance: Mapping[str, Any],
) -> None:
    """Write all three; CSV and Markdown keep the order of `rows`, Parquet sorts by key."""
    rows = rows[table.schema.names]
    records: Any = rows.astype(object).where(rows.notna(), None).to_dict("records")
    write(table, records, parquet, provenance)
    write_text(rows.to_csv(index=False), csv)
    write_text(as_markdown(table, rows), markdown)


def as_markdown(table: Table, rows: pd.DataFrame) -> str:
    """The rows as a Markdown table, and below it what each column means."""
    rows = rounded(rows)
    lines = [f"One row: {table.row}.", "", _line(rows.columns)]
    lines += [_line("---:" if kind != "str" else "---" for kind in map(_kind, rows.dtypes))]
    lines += [_line(map(_cell, row)) for row in rows.itertuples(index=False)]
    lines += [""]
    for field in table.schema:
        about = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        unit = f" ({about['unit']})" if "unit" in about else ""
        lines.append(f"- `{field.name}`: {about.get('meaning', '')}{unit}")
    return "\n".join(lines) + "\n"


def _kind(dtype: Any) -> str:
    return "number" if pd.api.types.is_numeric_dtype(dtype) else "str"


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"
