"""A summary table as three files: Parquet for programs, CSV for sheets, Markdown for people."""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    text = [at for at, dtype in enumerate(rows.dtypes) if not pd.api.types.is_numeric_dtype(dtype)]
    cells = ([_cell(value) for value in row] for row in rows.itertuples(index=False))
    lines = [f"One row: {table.row}.", "", *markdown_lines(list(rows.columns), cells, text), ""]
    for field in table.schema:
        about = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        unit = f" ({about['unit']})" if "unit" in about else ""
        lines.append(f"- `{field.name}`: {about.get('meaning', '')}{unit}")
    return "\n".join(lines) + "\n"


def markdown_lines(
    head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Collection[int]
) -> list[str]:
    """A Markdown table; all but the text columns are set flush right."""
    sides = ["---" if at in text_columns else "---:" for at in range(len(head))]
    return [_line(cells) for cells in (head, sides, *rows)]


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _line(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
