"""Numbers that papers print, as config/published/ keeps them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

LOST = "lost"


class PublishedError(ValueError):
    """A file of published numbers is not what its layout promises."""


@dataclass(frozen=True)
class Published:
    """A printed grid of metric x level by model x data set."""

    source: str
    decimals: int
    top: int
    """Positions in the sets whose overlap is printed."""
    models: dict[str, str]
    """Our model id: its name in the paper."""
    datasets: dict[str, str]
    """Schema of our data sets: the paper's name."""
    cells: pd.DataFrame
    """metric, level, model, schema, published; null where the print is lost."""

    @property
    def last_digit(self) -> float:
        """Half a unit of the last digit: how far rounding may have moved a number."""
        return 0.5 * 10**-self.decimals


def read_grid(path: Path) -> Published:
    """Read a grid.

    Raises:
        PublishedError: a row holds neither `lost` nor one share for each column.
    """
    raw: dict[str, Any] = yaml.safe_load(path.read_text())
    columns = [(model, schema) for model in raw["models"] for schema in raw["datasets"]]
    cells = []
    for metric, levels in raw["values"].items():
        for level, printed in levels.items():
            values = [None] * len(columns) if printed == LOST else printed
            if not _is_row(values, len(columns)):
                raise PublishedError(
                    f"{path}: values.{metric}.{level} is {printed!r}; it must be `{LOST}` or "
                    f"{len(columns)} numbers from 0 to 1, one for each model and data set."
                )
            cells += [
                [metric, level.upper(), model, schema, value]
                for (model, schema), value in zip(columns, values, strict=True)
            ]
    names = ["metric", "level", "model", "schema", "published"]
    frame = pd.DataFrame(cells, columns=names).astype({"published": float})
    about = {name: raw[name] for name in ("source", "decimals", "top", "models", "datasets")}
    return Published(**about, cells=frame)


def _is_row(values: Any, length: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == length
        and all(v is None or (isinstance(v, int | float) and 0 <= v <= 1) for v in values)
    )
