"""Where attention breaks first: a heat map of block x level for each BOS policy."""

from math import floor
from typing import Any

import pandas as pd

from .figure import Figure, choices, constants, dropdown
from .heat_map import heat_map, spread_variants, with_thirds
from .names import BOS, Names, listed

_KEYS = ["model", "level", "variant", "dataset", "bos", "block", "third"]


def plotted(blocks: pd.DataFrame, names: Names) -> pd.DataFrame:
    """The rows of `agreement_blocks` in the words of the page."""
    rows = with_thirds(names.described(blocks), names)
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
    lowest = min(0.8, floor(5 * data["iou"].min()) / 5)
    number = {"type": "quantitative", "format": ".3f"}
    return heat_map(
        data,
        params=params,
        filters=[param["name"] for param in params if param["name"] != "metric"],
        transform=[
            {"calculate": "datum[metric]", "as": "agreement"},
            {"calculate": "datum[metric + '_se']", "as": "error"},
        ],
        row={"field": "bos", "sort": policies},
        levels=names.levels,
        shade=(
            "agreement",
            {"domain": [1, lowest], "range": [0.03, 1]},
            {"format": ".2~f", "values": [1, (1 + lowest) / 2, lowest]},
        ),
        values=[
            {"field": "agreement", "title": "Agreement"} | number,
            {"field": "error", "title": "Standard error"} | number,
        ],
    )
