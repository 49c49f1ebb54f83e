"""Which blocks are hurt most: a heat map of block x level for each projection."""

import json
from typing import Any

import pandas as pd

from .drift import MATRIX
from .figure import Figure, choices, constants, dropdown
from .heat_map import heat_map, spread_variants, with_thirds
from .names import DISTANCES, Names, listed, reading, role_label

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
    rows = with_thirds(names.described(wide.reset_index()), names)
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
    domain = {
        "expr": f"shade === 'ratio' ? {_RATIOS} : ({_bounds(data)})[distance + '_' + reading]"
    }
    number = {"type": "quantitative", "format": ".3~g"}
    return heat_map(
        data,
        params=params,
        filters=[param["name"] for param in params if param["name"] in ("variant", "model")],
        transform=[
            {"calculate": "datum[distance + '_' + reading]", "as": "drift"},
            {
                "joinaggregate": [{"op": "mean", "field": "drift", "as": "level_mean"}],
                "groupby": ["role", "level", "variant", "model"],
            },
            {"calculate": "datum.drift / datum.level_mean", "as": "ratio"},
            {"filter": "datum.drift > 0"},
            {"calculate": "shade === 'ratio' ? datum.ratio : datum.drift", "as": "shown"},
        ],
        row={
            "field": "role",
            "sort": roles,
            "header": {"labelAngle": 0, "labelAlign": "left"},
        },
        levels=names.levels,
        shade=(
            "shown",
            {"type": "log", "domain": domain, "range": [0.06, 1]},
            {"format": ".2~g", "tickCount": 4},
        ),
        before=[{"field": "role", "type": "nominal", "title": "Projection"}],
        values=[
            {"field": "drift", "title": "Drift"} | number,
            {"field": "ratio", "title": "Block / mean"} | number,
        ],
    )
