"""How much of drift is convention: the same weights in several gauges."""

from typing import Any

import pandas as pd

from .figure import Figure, choices, constants, csv_data, dropdown
from .names import Names, listed, reading, role_label

_SIGNED = "datum.value === 0 ? 'mean' : format(datum.value, '+.0%')"


def plotted(gauge: pd.DataFrame, names: Names, threshold: float) -> pd.DataFrame:
    """Mean drift over blocks in each gauge, and its deviation from the mean over the gauges."""
    keys = ["model", "scheme", "role", "filtration"]
    rows = gauge.groupby([*keys, "gauge_seed"])["swd"].mean().reset_index()
    mean = rows.groupby(keys)["swd"].transform("mean")
    rows["deviation"] = (rows["swd"] / mean - 1).fillna(0.0)
    rows = names.described(rows)
    rows["reading"] = [reading(name, threshold) for name in rows["filtration"]]
    rows["model"] = rows["model"].map(names.label)
    columns = ["model", "level", "variant", "role", "reading", "gauge_seed", "swd", "deviation"]
    return rows[columns].reset_index(drop=True)


def gauge_figure(gauge: pd.DataFrame, names: Names, threshold: float) -> Figure:
    """The figure.

    Args:
        gauge: the table `gauge_drift`; it may have no rows, where a study asks for no gauges.
        names: of the study.
        threshold: of the filtrations clip and drop.
    """
    data = plotted(gauge, names, threshold)
    data["role"] = data["role"].map(role_label)
    found = set(data["reading"])
    readings = [reading(name, threshold) for name in ("clip", "full", "drop")]
    params = [dropdown("reading", "Reading", {name: name for name in readings if name in found})]
    models = choices(data["model"])
    if len(models) > 1:
        params.append(dropdown("model", "Model", models))
    roles = list(dict.fromkeys(data["role"]))
    return Figure(
        name="gauge_drift_figure",
        title="Drift of one model in several gauges",
        caption=(
            f"The model is rewritten by {data['gauge_seed'].nunique()} seeded rescalings of its "
            "channels that leave its function as it is, and each is quantized. A dot is the mean "
            "drift (SWD) over the sampled blocks in one gauge, as a deviation from the mean over "
            "the gauges. What the model computes does not depend on the gauge; drift does, this "
            "much."
        ),
        alt=(
            f"Dot plots of the relative deviation of drift over gauge seeds by level, one panel "
            f"each for {listed(roles)}. The answer gives the largest spread."
        ),
        spec=_chart(data, names, params, roles),
        still=_chart(data, names, constants(params), roles),
        data=data,
        panels=len(roles),
    )


def _chart(
    data: pd.DataFrame, names: Names, params: list[dict[str, Any]], roles: list[str]
) -> dict[str, Any]:
    x = {
        "field": "level",
        "type": "ordinal",
        "sort": [level for level in names.levels if level in set(data["level"])],
        "title": None,
        "axis": {"labelAngle": -90, "grid": False, "labelFontSize": 10},
    }
    axis = {"format": "+.0%", "tickCount": 5, "labelExpr": _SIGNED}
    y = {"field": "deviation", "type": "quantitative", "title": None, "axis": axis}
    dots = {
        "mark": {"type": "point", "size": 46, "opacity": 0.75},
        "encoding": {
            "y": y,
            "tooltip": [
                {"field": "role", "type": "nominal", "title": "Projection"},
                {"field": "level", "type": "nominal", "title": "Level"},
                {"field": "gauge_seed", "type": "ordinal", "title": "Gauge seed"},
                {"field": "swd", "type": "quantitative", "format": ".3~g", "title": "SWD"},
                {"field": "deviation", "type": "quantitative", "format": "+.1%", "title": "Off"},
            ],
        },
    }
    span = {
        "mark": {"type": "rule", "stroke": "var(--muted)", "strokeWidth": 1},
        "encoding": {
            "y": y | {"aggregate": "min"},
            "y2": {"field": "deviation", "aggregate": "max"},
        },
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": csv_data(data),
        "params": params,
        "transform": [{"filter": f"datum.{param['name']} === {param['name']}"} for param in params],
        "facet": {"column": {"field": "role", "type": "nominal", "sort": roles, "title": None}},
        "spacing": 12,
        "spec": {"width": 220, "height": 210, "encoding": {"x": x}, "layer": [span, dots]},
    }
