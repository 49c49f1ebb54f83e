"""TopoQuant's Figure 2: drift against quantization level, a panel each for Q, K and V."""

from typing import Any

import pandas as pd

from .figure import Figure, constants, csv_data, dropdown
from .names import DISTANCES, Names, listed, reading, role_label

_KEYS = ["model", "level", "variant", "scheme", "type", "role", "reading"]
_PER_POINT = "_per_point"
_TENFOLD = "abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) < 1e-6"
_MARKED = f"{_TENFOLD} || domain('y')[1] < 12 * domain('y')[0]"
DECADES = {
    name: {"condition": {"test": _MARKED, "value": 1}, "value": 0}
    for name in ("gridOpacity", "tickOpacity")
} | {"labelExpr": f"{_MARKED} ? datum.label : ''"}
"""Of a logarithmic axis show the powers of ten alone, unless it spans little more than one."""
_LEGEND = (
    "datum.label === 'paper' ? 'paper: V gets more bits'"
    " : datum.label === 'pure' ? 'pure: one type for all' : datum.label"
)


def plotted(
    blocks: pd.DataFrame, errors: pd.DataFrame, names: Names, threshold: float
) -> pd.DataFrame:
    """Mean over blocks (eq. 6) of every distance: one row a model, level, variant, role, reading.

    A variant's line runs over all levels: where the study does not measure a level in a variant, or
    measures the same type under another name, the scheme with that type stands for it.
    """
    keys = ["model", "scheme", "role"]
    means = blocks.groupby([*keys, "filtration", "distance"])[["value", "value_per_point"]].mean()
    wide = pd.concat(
        [
            means["value"].unstack("distance"),
            means["value_per_point"].unstack("distance").add_suffix(_PER_POINT),
        ],
        axis="columns",
    )
    rows = wide.reset_index().merge(errors[[*keys, "type"]], on=keys)
    rows = names.described(rows)
    rows["reading"] = [reading(name, threshold) for name in rows["filtration"]]
    rows["model"] = rows["model"].map(names.label)
    rows = _complete(rows)
    values = [name for name in DISTANCES if name in rows] + [
        name + _PER_POINT for name in DISTANCES if name in rows
    ]
    return rows[_KEYS + values].reset_index(drop=True)


def _complete(rows: pd.DataFrame) -> pd.DataFrame:
    """Lines of `pure` filled up from schemes with the very type; left out where nothing differs."""
    if "pure" not in set(rows["variant"]):
        return rows
    others, pure = rows[rows["variant"] != "pure"], rows[rows["variant"] == "pure"]
    key = ["model", "level", "role", "reading"]
    there = pd.MultiIndex.from_frame(pure[key])
    same_type = others[others["type"].str.upper() == others["level"]]
    absent = ~pd.MultiIndex.from_frame(same_type[key]).isin(there)
    lines = pd.concat([pure, same_type[absent].assign(variant="pure")])
    types = rows.groupby(["role", "level"])["type"].nunique()
    differing = types[types > 1].reset_index()["role"].unique()
    return pd.concat([others, lines[lines["role"].isin(differing)]])


def level_figure(
    blocks: pd.DataFrame, errors: pd.DataFrame, names: Names, threshold: float
) -> Figure:
    """The figure.

    Args:
        blocks: what `drift.by_block` gives.
        errors: the table `weight_error_table`.
        names: of the study.
        threshold: of the filtrations clip and drop.
    """
    data = plotted(blocks, errors, names, threshold)
    data["role"] = data["role"].map(role_label)
    distances = {name: label for name, label in DISTANCES.items() if name in data}
    params = [
        dropdown("distance", "Distance", distances),
        dropdown("scale", "Scale", {"": "as defined", _PER_POINT: "per point"}),
    ]
    readings = [reading(name, threshold) for name in ("clip", "full", "drop")]
    readings = [name for name in readings if name in set(data["reading"])]
    shown = [name for name in readings if not name.startswith("drop")] or readings
    return Figure(
        name="topoquant_figure_2",
        title="Drift of the weights' topology by level",
        caption=(
            "Distance between the persistence diagrams of a projection before and after "
            "quantization, mean over blocks (TopoQuant eq. 6, fig. 2), on a logarithmic axis. "
            f"Rows differ in what becomes of bars longer than the threshold {threshold:g}: cut "
            "there (clip), kept (full), or left out as Ripser does (drop). Means that are zero "
            "have no place on the axis."
        ),
        alt=(
            f"Line charts of drift against level, from {names.levels[0]} to {names.levels[-1]}, "
            f"one panel each for {listed(map(str, dict.fromkeys(data['role'])))}; rows: "
            f"{listed(readings)}. The table of drift gives the values."
        ),
        spec=_chart(data, names, readings, params),
        still=_chart(data[data["reading"].isin(shown)], names, shown, constants(params)),
        still_shows="sliced Wasserstein distance (SWD), mean over blocks",
        data=data,
        panels=data["role"].nunique(),
    )


def _chart(
    data: pd.DataFrame, names: Names, readings: list[str], params: list[dict[str, Any]]
) -> dict[str, Any]:
    many, variants = data["model"].nunique() > 1, list(dict.fromkeys(data["variant"]))
    colour = {"field": "model", "type": "nominal", "sort": None, "title": None}
    dash = {"field": "variant", "type": "nominal", "sort": None, "title": None}
    dash |= {"scale": {"domain": variants, "range": [[1, 0], [5, 4], [2, 2]][: len(variants)]}}
    dash |= {"legend": {"labelExpr": _LEGEND, "symbolType": "stroke", "symbolSize": 500}}
    dash["legend"] |= {"columns": 1}
    if len(variants) < 2:
        dash["legend"] = None
    tooltip = [
        {"field": name, "type": "nominal", "title": name.capitalize()}
        for name in ("model", "role", "level", "variant", "type", "reading")
    ] + [{"field": "drift", "type": "quantitative", "format": ".3~g", "title": "Drift"}]
    encoding = {
        "x": {
            "field": "level",
            "type": "ordinal",
            "sort": names.levels,
            "title": None,
            "axis": {"labelAngle": -90, "grid": False, "labelFontSize": 10},
        },
        "y": {
            "field": "drift",
            "type": "quantitative",
            "scale": {"type": "log", "nice": False, "padding": 8},
            "title": None,
            "axis": {"format": "~g", "labelOverlap": "greedy"} | DECADES,
        },
        "color": colour | {"legend": {"columns": 2}} if many else {"value": "var(--s1)"},
        "tooltip": tooltip,
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": csv_data(data),
        "params": params,
        "transform": [
            {"calculate": "datum[distance + scale]", "as": "drift"},
            {"filter": "datum.drift > 0"},
        ],
        "facet": {
            "row": {"field": "reading", "type": "nominal", "sort": readings, "title": None},
            "column": {
                "field": "role",
                "type": "nominal",
                "sort": list(dict.fromkeys(data["role"])),
                "title": None,
            },
        },
        "spacing": {"row": 14, "column": 12},
        "spec": {
            "width": 220,
            "height": 170,
            "encoding": encoding,
            "layer": [
                {"mark": {"type": "line"}, "encoding": {"strokeDash": dash}},
                {"mark": {"type": "point"}},
            ],
        },
    }
