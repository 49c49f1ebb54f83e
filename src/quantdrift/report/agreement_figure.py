"""Where attention breaks first: a heat map of block x level for each BOS policy."""

from math import floor
from typing import Any

import pandas as pd

from .block_figure import spread_variants
from .figure import Figure, choices, constants, csv_data, dropdown
from .names import BOS, Names, listed, third

_KEYS = ["model", "level", "variant", "dataset", "bos", "block", "third"]


def plotted(blocks: pd.DataFrame, names: Names) -> pd.DataFrame:
    """The rows of `agreement_blocks` in the words of the page."""
    rows = names.described(blocks)
    n_blocks = rows.groupby("model")["block"].transform("max") + 1
    rows["third"] = [third(b, n) for b, n in zip(rows["block"], n_blocks, strict=True)]
    rows["model"] = rows["model"].map(names.label)
    rows["dataset"] = rows["dataset"].map(names.dataset_label)
    rows["bos"] = rows["bos"].map(BOS)
    values = [name for metric in names.metrics for name in (metric, f"{metric}_se")]
    return rows[_KEYS + values].reset_index(drop=True)


def agreement_figure(blocks: pd.DataFrame, names: Names) -> Figure:
    """The figure.

    Args:
        blocks: the table `agreement_blocks`.
        names: of the study.
    """
    data = spread_variants(plotted(blocks, names))
    params = [
        dropdown("dataset", "Data set", choices(data["dataset"])),
        dropdown("metric", "Agreement", dict(reversed(names.metrics.items()))),
    ]
    params += [
        dropdown(name, name.capitalize(), choices(data[name]))
        for name in ("variant", "model")
        if data[name].nunique() > 1
    ]
    policies = [name for name in BOS.values() if name in set(data["bos"])]
    return Figure(
        name="agreement_blocks",
        title="Attention agreement by block and level",
        caption=(
            "Each cell is one block at one level: mean over the items of a data set. The stronger "
            "the shade, the less of what the base's last token attends to is still attended to; "
            f"blank means full agreement. Maps: {listed(policies)}."
        ),
        alt=(
            f"Heat maps of attention agreement over {data['block'].nunique()} blocks and "
            f"{len(names.levels)} levels, {listed(policies)}. The answer names the block where it "
            "breaks first."
        ),
        spec=_chart(data, names, params, policies),
        still=_chart(data, names, constants(params), policies),
        still_shows=f"Top-{names.top} IoU on {params[0]['value']}",
        data=data,
    )


def _chart(
    data: pd.DataFrame, names: Names, params: list[dict[str, Any]], policies: list[str]
) -> dict[str, Any]:
    filters = [param["name"] for param in params if param["name"] != "metric"]
    lowest = min(0.8, floor(5 * data["iou"].min()) / 5)
    scale = {"domain": [1, lowest], "range": [0.03, 1], "clamp": True}
    legend = {"title": None, "format": ".2~f", "symbolType": "square", "symbolSize": 180}
    legend |= {"symbolFillColor": "var(--heat)", "symbolStrokeWidth": 0}
    legend |= {"values": [1, (1 + lowest) / 2, lowest]}
    number = {"type": "quantitative", "format": ".3f"}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": csv_data(data),
        "params": params,
        "transform": [
            *({"filter": f"datum.{name} === {name}"} for name in filters),
            {"calculate": "datum[metric]", "as": "agreement"},
            {"calculate": "datum[metric + '_se']", "as": "error"},
        ],
        "facet": {"row": {"field": "bos", "type": "nominal", "sort": policies, "title": None}},
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
                "opacity": {
                    "field": "agreement",
                    "type": "quantitative",
                    "scale": scale,
                    "legend": legend,
                },
                "tooltip": [
                    {"field": "block", "type": "ordinal", "title": "Block"},
                    {"field": "third", "type": "nominal", "title": "Third"},
                    {"field": "level", "type": "nominal", "title": "Level"},
                    {"field": "agreement", "title": "Agreement"} | number,
                    {"field": "error", "title": "Standard error"} | number,
                ],
            },
        },
    }
