"""Which blocks are hurt most: a heat map of block x level for each projection."""

import json
from typing import Any

import pandas as pd

from .drift import MATRIX
from .figure import Figure, choices, constants, csv_data, dropdown
from .names import DISTANCES, Names, listed, reading, role_label, third

_KEYS = ["model", "level", "variant", "role", "block", "third"]
_FIRST = len(_KEYS)
_RATIOS = [0.5, 2]
"""Shades from half the mean of a level to twice it; what lies beyond looks like the end."""


def plotted(blocks: pd.DataFrame, names: Names) -> pd.DataFrame:
    """One row a matrix and scheme; a column for each distance under each filtration."""
    wide = blocks.set_index([*MATRIX, "distance", "filtration"])["value"].unstack(
        ["distance", "filtration"]
    )
    wide.columns = [f"{distance}_{filtration}" for distance, filtration in wide.columns]
    rows = names.described(wide.reset_index())
    n_blocks = rows.groupby("model")["block"].transform("max") + 1
    rows["third"] = [third(b, n) for b, n in zip(rows["block"], n_blocks, strict=True)]
    rows["model"] = rows["model"].map(names.label)
    return rows[_KEYS + [name for name in wide.columns if name in rows]].reset_index(drop=True)


def block_figure(blocks: pd.DataFrame, names: Names, threshold: float) -> Figure:
    """The figure.

    Args:
        blocks: what `drift.by_block` gives.
        names: of the study.
        threshold: of the filtrations clip and drop.
    """
    data = plotted(blocks, names)
    data["role"] = data["role"].map(role_label)
    data = spread_variants(data)
    present = set(blocks["distance"])
    filtrations = [name for name in ("clip", "full", "drop") if name in set(blocks["filtration"])]
    params = [
        dropdown("distance", "Distance", {k: v for k, v in DISTANCES.items() if k in present}),
        dropdown("reading", "Reading", {name: reading(name, threshold) for name in filtrations}),
        dropdown("shade", "Shade", {"ratio": "block / mean of its level", "value": "distance"}),
    ]
    for name in ("variant", "model"):
        options = choices(data[name])
        if len(options) > 1:
            params.append(dropdown(name, name.capitalize(), options))
    roles = list(dict.fromkeys(data["role"]))
    return Figure(
        name="block_drift",
        title="Drift by block and level",
        caption=(
            "Each cell is one weight matrix at one level. Shaded by how much its drift exceeds the "
            "mean of its level and projection, from half to twice the mean and no further; or by "
            "the distance itself, which compares levels and projections too. An empty cell has a "
            "drift of exactly zero: no bar below the threshold moved."
        ),
        alt=(
            f"Heat maps of drift over {data['block'].nunique()} blocks and {len(names.levels)} "
            f"levels, one each for {listed(roles)}. The answer names the blocks hurt most."
        ),
        spec=_chart(data, names, params, roles),
        still=_chart(data, names, constants(params), roles),
        data=data,
    )


def spread_variants(data: pd.DataFrame) -> pd.DataFrame:
    """Levels that the study measures in one variant only stand in every variant's map."""
    variants = list(dict.fromkeys(data["variant"]))
    maps = []
    for variant in variants:
        own = data[data["variant"] == variant]
        rest = data[~data["level"].isin(set(own["level"]))]
        maps.append(pd.concat([own, rest.assign(variant=variant)]))
    return pd.concat(maps)


def _bounds(data: pd.DataFrame) -> str:
    """The smallest positive and the largest value of each distance, as a Vega expression."""
    found = {}
    for name in data.columns[_FIRST:]:
        values = data.loc[data[name] > 0, name]
        found[name] = [float(values.min()), float(values.max())] if len(values) else [1.0, 2.0]
    return json.dumps(found)


def _chart(
    data: pd.DataFrame, names: Names, params: list[dict[str, Any]], roles: list[str]
) -> dict[str, Any]:
    chosen = [param["name"] for param in params if param["name"] in ("variant", "model")]
    same_level = ["role", "level", "variant", "model"]
    domain = {
        "expr": f"shade === 'ratio' ? {_RATIOS} : ({_bounds(data)})[distance + '_' + reading]"
    }
    scale = {"type": "log", "domain": domain, "range": [0.06, 1], "clamp": True}
    legend = {"title": None, "format": ".2~g", "symbolType": "square", "symbolSize": 180}
    legend |= {"symbolFillColor": "var(--heat)", "symbolStrokeWidth": 0, "tickCount": 4}
    shade = {"field": "shown", "type": "quantitative", "scale": scale, "legend": legend}
    number = {"type": "quantitative", "format": ".3~g"}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": csv_data(data),
        "params": params,
        "transform": [
            *({"filter": f"datum.{name} === {name}"} for name in chosen),
            {"calculate": "datum[distance + '_' + reading]", "as": "drift"},
            {
                "joinaggregate": [{"op": "mean", "field": "drift", "as": "level_mean"}],
                "groupby": same_level,
            },
            {"calculate": "datum.drift / datum.level_mean", "as": "ratio"},
            {"filter": "datum.drift > 0"},
            {"calculate": "shade === 'ratio' ? datum.ratio : datum.drift", "as": "shown"},
        ],
        "facet": {
            "row": {
                "field": "role",
                "type": "nominal",
                "sort": roles,
                "title": None,
                "header": {"labelAngle": 0, "labelAlign": "left"},
            }
        },
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
                    "sort": names.levels,
                    "title": None,
                    "axis": {"labelFontSize": 10, "ticks": False, "domain": False},
                },
                "opacity": shade,
                "tooltip": [
                    {"field": "role", "type": "nominal", "title": "Projection"},
                    {"field": "block", "type": "ordinal", "title": "Block"},
                    {"field": "third", "type": "nominal", "title": "Third"},
                    {"field": "level", "type": "nominal", "title": "Level"},
                    {"field": "drift", "title": "Drift"} | number,
                    {"field": "ratio", "title": "Block / mean"} | number,
                ],
            },
        },
    }
