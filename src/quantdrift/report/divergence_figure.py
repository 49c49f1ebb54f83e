"""How much the next-token distribution changes at each level: KL, perplexity, top token."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from .figure import Figure, choices, constants, csv_data, dropdown
from .level_figure import DECADES
from .names import Names

MEASURES = {
    "kl": "KL(base ‖ quantized), nats per token",
    "ppl_rise": "rise of perplexity, share of the base's",
    "top_lost": "share of tokens with another top token",
}
_KEYS = ["model", "protocol", "level", "variant"]


def plotted(table: pd.DataFrame, names: Names, labels: Mapping[str, str]) -> pd.DataFrame:
    """One row a scheme and text: each measure with the ends of its error bar (one error each way).

    A rise of perplexity that is not positive has no place on a logarithmic axis: it is left empty.
    """
    rows = names.described(table)
    found = rows[["level", "variant"]].copy()
    found["model"] = rows["model"].map(names.label)
    found["protocol"] = rows["protocol"].map(labels)
    error = {name: rows[f"{name}_se"].fillna(0).astype(float) for name in ("kl", "same_top")}
    log_error = rows["log_ratio_se"].fillna(0).astype(float)
    spans = {
        "kl": [rows["kl"] + sign * error["kl"] for sign in (0, -1, 1)],
        "ppl_rise": [np.expm1(rows["log_ratio"] + sign * log_error) for sign in (0, -1, 1)],
        "top_lost": [1 - rows["same_top"] + sign * error["same_top"] for sign in (0, -1, 1)],
    }
    for name, (value, low, high) in spans.items():
        positive = value > 0
        found[name] = value.where(positive)
        found[f"{name}_low"] = low.where(low > 0, value / 10).where(positive)
        found[f"{name}_high"] = high.where(positive)
    return found.reset_index(drop=True)


def divergence_figure(table: pd.DataFrame, names: Names, labels: Mapping[str, str]) -> Figure:
    """The figure.

    Args:
        table: the table `perplexity_table`.
        names: of the study.
        labels: of its protocols.
    """
    data = plotted(table, names, labels)
    params = [dropdown("measure", "Measure", MEASURES)]
    params += [
        dropdown(name, title, choices(data[name]))
        for name, title in (("protocol", "Text"), ("model", "Model"))
        if data[name].nunique() > 1
    ]
    return Figure(
        name="divergence",
        title="What the next token becomes",
        caption=(
            "Each mark is a scheme: what changes in the distribution of the next token on a text, "
            "± one standard error over windows, on a logarithmic axis. A value that is not "
            "positive, such as a perplexity that does not rise, has no mark."
        ),
        alt=(
            f"Marks of divergence from the base at {data['level'].nunique()} levels. The table of "
            "perplexity gives the values."
        ),
        spec=_chart(data, names, params),
        still=_chart(data, names, constants(params)),
        still_shows=f"{MEASURES['kl']}, on {data['protocol'].iloc[0]}",
        data=data,
    )


def _chart(data: pd.DataFrame, names: Names, params: list[dict[str, Any]]) -> dict[str, Any]:
    filters = [param["name"] for param in params if param["name"] != "measure"]
    variants = [one for one in names.variants if one in set(data["variant"])]
    x = {
        "field": "level",
        "type": "nominal",
        "sort": names.levels,
        "title": None,
        "axis": {"labelAngle": 0, "ticks": False},
    }
    colour = {
        "field": "variant",
        "type": "nominal",
        "scale": {"domain": variants, "range": [f"var(--s{n})" for n in range(1, 5)]},
        "legend": {"title": None} if len(variants) > 1 else None,
    }
    y = {
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "title": None,
        "axis": {"format": "~g", "labelOverlap": "greedy"} | DECADES,
    }
    offset = {"field": "variant", "type": "nominal", "sort": variants}
    number = {"type": "quantitative", "format": ".3~g"}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": csv_data(data),
        "params": params,
        "transform": [
            *({"filter": f"datum.{name} === {name}"} for name in filters),
            {"calculate": "datum[measure]", "as": "value"},
            {"calculate": "datum[measure + '_low']", "as": "low"},
            {"calculate": "datum[measure + '_high']", "as": "high"},
            {"filter": "datum.value > 0"},
        ],
        "width": 680,
        "height": 260,
        "encoding": {"x": x, "xOffset": offset, "color": colour},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1.4},
                "encoding": {"y": y | {"field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70},
                "encoding": {
                    "y": y | {"field": "value"},
                    "tooltip": [
                        {"field": "level", "type": "nominal", "title": "Level"},
                        {"field": "variant", "type": "nominal", "title": "Variant"},
                        {"field": "value", "title": "Value"} | number,
                        {"field": "low", "title": "Less one error"} | number,
                        {"field": "high", "title": "Plus one error"} | number,
                    ],
                },
            },
        ],
    }
