"""What a chapter of the page is made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .answer import Point
from .checks import Check


@dataclass(frozen=True)
class HtmlTable:
    """A table of the page, cells as text."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Sequence[int] = (0,)
    """Columns set flush left; numbers stand flush right."""
    marks: Sequence[str] = ()
    """A class for each row, for its colour."""
    summary: str = ""
    """Under these words the table is folded away; without them it stands open."""


@dataclass(frozen=True)
class Chapter:
    """One part of the evidence; later chapters of the pipeline append theirs."""

    id: str
    title: str
    lead: str
    figures: Sequence[dict[str, Any]] = ()
    points: Sequence[Point] = ()
    """Statements below the figures, each under a word."""
    claims: Sequence[Check] = ()
    tables: Sequence[HtmlTable] = ()
    notes: Sequence[str] = field(default=())
