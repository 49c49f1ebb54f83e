"""Maps of block x level, one above the other: what the figures of drift and agreement share."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from .figure import csv_data
from .names import Names, third


def with_thirds(rows: pd.DataFrame, names: Names) -> pd.DataFrame:
    """Rows of one block each, with the third of the model it lies in and the model's label."""
    n_blocks = rows.groupby("model")["block"].transform("max") + 1
    thirds = [third(b, n) for b, n in zip(rows["block"], n_blocks, strict=True)]
    return rows.assign(third=thirds, model=rows["model"].map(names.label))


def spread_variants(data: pd.DataFrame) -> pd.DataFrame:
    """Levels that the study measures in one variant only stand in every variant's map."""
    variants = list(dict.fromkeys(data["variant"]))
    maps = []
    for variant in variants:
        own = data[data["variant"] == variant]
        rest = data[~data["level"].isin(set(own["level"]))]
        maps.append(pd.concat([own, rest.assign(variant=variant)]))
    return pd.concat(maps)


def heat_map(
    data: pd.DataFrame,
    *,
    params: list[dict[str, Any]],
    filters: Sequence[str],
    transform: Sequence[dict[str, Any]],
    row: dict[str, Any],
    levels: Sequence[str],
    shade: tuple[str, dict[str, Any], dict[str, Any]],
    before: Sequence[dict[str, Any]] = (),
    values: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """A Vega-Lite chart whose cells are blocks at levels, shaded by a number.

    Args:
        data: one row a cell, with columns block, third and level.
        params: what can be chosen.
        filters: columns that must equal the parameter of their name.
        transform: what is computed before anything is drawn.
        row: what the maps are split by.
        levels: top to bottom.
        shade: the field, its scale, and what the legend adds.
        before: what a tooltip says first.
        values: what it says after block, third and level.
    """
    shown, scale, legend = shade
    squares = {"symbolType": "square", "symbolSize": 180, "symbolFillColor": "var(--heat)"}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": csv_data(data),
        "params": params,
        "transform": [*({"filter": f"datum.{name} === {name}"} for name in filters), *transform],
        "facet": {"row": {"type": "nominal", "title": None} | row},
        "spacing": 12,
        "spec": {
            "width": 680,
            "height": {"step": 17},
            "mark": {"type": "rect", "fill": "var(--heat)", "stroke": "var(--grid)"},
            "encoding": {
                "x": {
                    "field": "block",
                    "type": "ordinal",
                    "title": "block",
                    "axis": {"labelAngle": 0, "labelOverlap": "greedy", "labelFontSize": 10},
                },
                "y": {
                    "field": "level",
                    "type": "ordinal",
                    "sort": list(levels),
                    "title": None,
                    "axis": {"labelFontSize": 10, "ticks": False, "domain": False},
                },
                "opacity": {
                    "field": shown,
                    "type": "quantitative",
                    "scale": scale | {"clamp": True},
                    "legend": {"title": None, "symbolStrokeWidth": 0} | squares | legend,
                },
                "tooltip": [
                    *before,
                    {"field": "block", "type": "ordinal", "title": "Block"},
                    {"field": "third", "type": "nominal", "title": "Third"},
                    {"field": "level", "type": "nominal", "title": "Level"},
                    *values,
                ],
            },
        },
    }
