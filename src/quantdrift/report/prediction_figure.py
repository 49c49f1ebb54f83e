"""Agreement as a regressor foresees it against what was measured: leaking and honest folds."""

from typing import Any

import pandas as pd

from .figure import Figure, choices, constants, csv_data, dropdown
from .names import Names
from .stopping_summary import Choice, honest
from .trajectory_figure import SHAPES

FEATURES = {
    "tda": "drift",
    "combined": "drift, bits and place",
    "weight_error": "plain weight error",
    "level": "bits alone",
    "llm5": "bits and place",
    "llm7": "bits, place and model",
}
FOLDS = {
    "random": "random folds, as the paper",
    "by_scheme": "folds by scheme",
    "by_level": "folds by level",
    "by_model": "folds by model",
}


def plotted(predictions: pd.DataFrame, choice: Choice, names: Names) -> pd.DataFrame:
    """Of the chosen regressor: its features and the baselines, by random and by honest folds."""
    splits = ["random", honest(predictions)]
    rows = predictions[
        predictions["regressor"].eq(choice.regressor) & predictions["split"].isin(splits)
    ]
    asked = pd.DataFrame(choice.questions, columns=["features", "matrices"])
    rows = names.described(rows.merge(asked, on=["features", "matrices"]))
    rows["model"] = rows["model"].map(names.label)
    rows["dataset"] = rows["dataset"].map(names.dataset_label)
    rows["features"] = rows["features"].map(FEATURES)
    rows["folds"] = rows["split"].map(FOLDS)
    kept = ["model", "level", "variant", "block", "dataset", "features", "folds"]
    return rows[[*kept, "measured", "predicted"]].reset_index(drop=True)


def prediction_figure(predictions: pd.DataFrame, choice: Choice, names: Names) -> Figure:
    """The figure.

    Args:
        predictions: the table of that name.
        choice: regressor and features.
        names: of the study.
    """
    data = plotted(predictions, choice, names)
    folds = [name for name in FOLDS.values() if name in set(data["folds"])]
    order = [FEATURES[features] for features, _ in choice.questions]
    params = [
        dropdown("features", "From", {name: name for name in order}),
        dropdown("dataset", "Data set", choices(data["dataset"])),
    ]
    return Figure(
        name="predicted_measured",
        title="Agreement foreseen and measured",
        caption=(
            f"Each mark is one block under one scheme: its top-{names.top} IoU as a regressor "
            f"({choice.regressor}) foresees it that did not see its fold, against what was "
            "measured. On the line they are equal. Random folds show the regressor other blocks "
            "of the same scheme; honest folds do not show it the level, or the model, at all."
        ),
        alt=(
            f"Scatter of predicted against measured agreement of {data['block'].nunique()} blocks "
            f"and {data['level'].nunique()} levels, a panel each for {' and '.join(folds)}."
        ),
        spec=_chart(data, names, params, folds),
        still=_chart(data, names, constants(params), folds),
        still_shows=f"From {order[0]}, on {params[1]['value']}",
        data=data,
        panels=len(folds),
    )


def _chart(
    data: pd.DataFrame, names: Names, params: list[dict[str, Any]], folds: list[str]
) -> dict[str, Any]:
    levels = [level for level in names.levels if level in set(data["level"])]
    axis = {"format": ".1f", "tickCount": 5}
    ends = [0, 1]
    x, y = (
        {"field": name, "type": "quantitative", "title": f"IoU {name}"}
        | {"scale": {"domain": ends, "clamp": True}, "axis": axis}
        for name in ("measured", "predicted")
    )
    tooltip = [
        {"field": name, "type": "nominal", "title": name.capitalize()}
        for name in ("model", "level", "variant", "block")
    ] + [
        {"field": name, "type": "quantitative", "format": ".3f", "title": name.capitalize()}
        for name in ("measured", "predicted")
    ]
    many = data["model"].nunique() > 1
    colour: dict[str, Any] = {"value": "var(--s1)"}
    if many:
        colour = {"field": "model", "type": "nominal", "sort": None, "title": None}
    legend = {"title": None, "columns": 4, "symbolSize": 70, "symbolStrokeWidth": 0}
    diagonal = {"data": {"values": [{"at": 0}, {"at": 1}]}, "mark": {"type": "line"}}
    diagonal["mark"] |= {"color": "var(--muted)", "strokeWidth": 1, "strokeDash": [4, 4]}
    diagonal["encoding"] = {side: {"field": "at", "type": "quantitative"} for side in ("x", "y")}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": csv_data(data),
        "params": params,
        "transform": [{"filter": f"datum.{param['name']} === {param['name']}"} for param in params],
        "facet": {"column": {"field": "folds", "type": "nominal", "sort": folds, "title": None}},
        "spacing": 12,
        "spec": {
            "width": 320,
            "height": 320,
            "layer": [
                diagonal,
                {
                    "mark": {"type": "point", "size": 36, "opacity": 0.7},
                    "encoding": {
                        "x": x,
                        "y": y,
                        "shape": {
                            "field": "level",
                            "type": "nominal",
                            "scale": {
                                "domain": levels,
                                "range": [SHAPES[at % len(SHAPES)] for at in range(len(levels))],
                            },
                            "legend": legend | {"symbolFillColor": "var(--muted)"},
                        },
                        "color": colour,
                        "tooltip": tooltip,
                    },
                },
            ],
        },
    }
