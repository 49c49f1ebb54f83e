"""TopoQuant's Figure 3: agreement against drift, level by level, a panel each for Q, K and V."""

from typing import Any

import pandas as pd

from .figure import Figure, choices, constants, csv_data, dropdown
from .names import BOS, DISTANCES, Names, listed, reading, role_label

SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "M0,-1.4L0.31,-0.43L1.33,-0.43L0.5,0.17L0.83,1.13L0,0.53L-0.83,1.13L-0.5,0.17L-1.33,-0.43"
    "L-0.31,-0.43Z",  # a star
    "M-1,-0.6L-0.6,-1L0,-0.4L0.6,-1L1,-0.6L0.4,0L1,0.6L0.6,1L0,0.4L-0.6,1L-1,0.6L-0.4,0Z",  # an x
    "triangle-left",
    "triangle-right",
)
_KEYS = ["model", "level", "rank", "role", "reading", "dataset", "bos"]
_VALUES = ["top1", "iou", "chance_top1", "chance_iou"]


def plotted(
    blocks: pd.DataFrame, table: pd.DataFrame, names: Names, threshold: float
) -> pd.DataFrame:
    """One row a model, level, role, reading, data set and BOS policy; a column for each distance.

    Levels are spoken for by their leading schemes; both axes are means over blocks.
    """
    keys = ["model", "scheme", "role", "filtration"]
    drift = blocks.groupby([*keys, "distance"])["value"].mean().unstack("distance").reset_index()
    drift = drift[drift["scheme"].isin(list(names.leading.values()))]
    agreement = table[["model", "scheme", "dataset", "bos", *_VALUES]]
    rows = names.described(drift.merge(agreement, on=["model", "scheme"]))
    rows["rank"] = rows["level"].map(names.levels.index)
    rows["role"] = rows["role"].map(role_label)
    rows["reading"] = [reading(name, threshold) for name in rows["filtration"]]
    rows["model"] = rows["model"].map(names.label)
    rows["dataset"] = rows["dataset"].map(names.dataset_label)
    rows["bos"] = rows["bos"].map(BOS)
    distances = [name for name in DISTANCES if name in rows]
    return rows[_KEYS + _VALUES + distances].reset_index(drop=True)


def trajectory_figure(
    blocks: pd.DataFrame, table: pd.DataFrame, names: Names, threshold: float
) -> Figure:
    """The figure.

    Args:
        blocks: what `drift.by_block` gives.
        table: `agreement_table`.
        names: of the study.
        threshold: of the filtrations clip and drop.
    """
    data = plotted(blocks, table, names, threshold)
    readings = [reading(name, threshold) for name in ("clip", "full", "drop")]
    params = [
        dropdown("dataset", "Data set", choices(data["dataset"])),
        dropdown("metric", "Agreement", dict(reversed(names.metrics.items()))),
        dropdown("distance", "Drift", {k: v for k, v in DISTANCES.items() if k in data}),
        dropdown("reading", "Reading", {r: r for r in readings if r in set(data["reading"])}),
    ]
    policies = {name: name for name in BOS.values() if name in set(data["bos"])}
    if len(policies) > 1:
        params.insert(1, dropdown("bos", "Token", policies))
    roles = list(dict.fromkeys(data["role"]))
    chosen = params[0]["value"]
    return Figure(
        name="topoquant_figure_3",
        title="Attention agreement against drift",
        caption=(
            "Each curve joins the levels of a model in the study's order (TopoQuant fig. 3). "
            "Across: drift of a projection's weights, mean over blocks, on a logarithmic axis. Up: "
            "agreement of the positions that the last token attends to, mean over blocks and "
            "items. The dashed line is what positions drawn at random would reach. The same "
            "agreement stands in every panel; only the drift is the projection's own."
        ),
        alt=(
            f"Curves of agreement against drift over {data['level'].nunique()} levels, one panel "
            f"each for {listed(roles)}. The table of agreement gives the values."
        ),
        spec=_chart(data, names, params, roles),
        still=_chart(data, names, constants(params), roles),
        still_shows=(
            f"Top-{names.top} IoU on {chosen}{', ' + next(iter(policies)) if policies else ''}, "
            "against SWD"
        ),
        data=data,
        panels=len(roles),
    )


def _chart(
    data: pd.DataFrame, names: Names, params: list[dict[str, Any]], roles: list[str]
) -> dict[str, Any]:
    filters = [p["name"] for p in params if p["name"] in ("dataset", "bos", "reading")]
    many = data["model"].nunique() > 1
    levels = [level for level in names.levels if level in set(data["level"])]
    shapes = [SHAPES[at % len(SHAPES)] for at in range(len(levels))]
    x = {
        "field": "drift",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 10},
        "title": None,
        "axis": {"format": "~g", "tickCount": 3, "labelOverlap": "greedy"}
        | {"grid": False, "ticks": False, "labelSeparation": 8},
    }
    y = {
        "field": "agreement",
        "type": "quantitative",
        "scale": {"domain": [0, 1]},
        "title": None,
        "axis": {"format": ".1f", "tickCount": 5},
    }
    model = {"field": "model", "type": "nominal", "sort": None, "title": None}
    model["legend"] = {"columns": 2, "symbolType": "stroke"}
    colour = model if many else {"value": "var(--s1)"}
    legend = {"title": None, "columns": 4, "symbolSize": 70, "symbolStrokeWidth": 0}
    shape = {
        "field": "level",
        "type": "nominal",
        "scale": {"domain": levels, "range": shapes},
        "legend": legend | {"symbolFillColor": "var(--muted)"},
    }
    tooltip = [
        {"field": name, "type": "nominal", "title": title}
        for name, title in (("model", "Model"), ("role", "Projection"), ("level", "Level"))
    ] + [
        {"field": name, "type": "quantitative", "format": ".3~g", "title": name.capitalize()}
        for name in ("drift", "agreement", "chance")
    ]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": csv_data(data),
        "params": params,
        "transform": [
            *({"filter": f"datum.{name} === {name}"} for name in filters),
            {"calculate": "datum[distance]", "as": "drift"},
            {"calculate": "datum[metric]", "as": "agreement"},
            {"calculate": "datum['chance_' + metric]", "as": "chance"},
            {"filter": "datum.drift > 0"},
        ],
        "facet": {"column": {"field": "role", "type": "nominal", "sort": roles, "title": None}},
        "spacing": 12,
        "resolve": {"scale": {"x": "independent"}},
        "spec": {
            "width": 220,
            "height": 260,
            "layer": [
                {
                    "mark": {"type": "rule", "strokeDash": [4, 4], "strokeWidth": 1},
                    "encoding": {
                        "y": y | {"field": "chance", "aggregate": "mean"},
                        "color": colour if many else {"value": "var(--muted)"},
                    },
                },
                {
                    "mark": {"type": "line", "strokeWidth": 1.4},
                    "encoding": {
                        "x": x,
                        "y": y,
                        "color": colour,
                        "order": {"field": "rank", "type": "quantitative"},
                    },
                },
                {
                    "mark": {"type": "point", "size": 80},
                    "encoding": {
                        "x": x,
                        "y": y,
                        "shape": shape,
                        "color": colour,
                        "tooltip": tooltip,
                    },
                },
            ],
        },
    }
