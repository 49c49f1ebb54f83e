"""Two matrices up close: their persistence diagrams before and after quantization."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .figure import Figure, csv_data
from .names import Names, role_label

MOST_BARS = 800
"""Bars drawn of one diagram; larger ones are thinned evenly by rank."""


@dataclass(frozen=True)
class Matrix:
    """One cloud of points of one model under one scheme."""

    model: str
    scheme: str
    role: str
    block: int
    part: int

    @property
    def label(self) -> str:
        """As people call it."""
        part = f", part {self.part}" if self.part else ""
        return f"{role_label(self.role)} of block {self.block}{part}"


def hardest_hit(distances: pd.DataFrame, names: Names) -> Matrix:
    """The matrix with the largest drift at the last level: SWD under clip, where there is clip."""
    rows = _swd_at_last_level(distances, names)
    return _matrix(rows.iloc[int(rows["value"].argmax())])


def most_hidden(distances: pd.DataFrame, names: Names, beside: Matrix) -> Matrix:
    """Of the same block the matrix whose base has the fewest bars within the threshold."""
    rows = _swd_at_last_level(distances, names)
    rows = rows[(rows["model"] == beside.model) & (rows["block"] == beside.block)]
    share = rows["n_finite_base"] / rows["n_points"]
    return _matrix(rows.iloc[int(share.argmin())])


def _swd_at_last_level(distances: pd.DataFrame, names: Names) -> pd.DataFrame:
    scheme = names.leading[names.levels[-1]]
    rows = distances[(distances["scheme"] == scheme) & (distances["distance"] == "swd")]
    there = list(dict.fromkeys(rows["filtration"]))
    return rows[rows["filtration"] == ("clip" if "clip" in there else there[0])]


def _matrix(row: pd.Series) -> Matrix:
    return Matrix(row["model"], row["scheme"], row["role"], int(row["block"]), int(row["part"]))


def plotted(diagrams: pd.DataFrame, matrix: Matrix, level: str, threshold: float) -> pd.DataFrame:
    """Bars of both diagrams: death, fate at the threshold, components left from there on."""
    its = diagrams[
        (diagrams["model"] == matrix.model)
        & (diagrams["role"] == matrix.role)
        & (diagrams["block"] == matrix.block)
        & (diagrams["part"] == matrix.part)
    ]
    both = []
    for scheme, label in (("base", "base"), (matrix.scheme, level)):
        deaths = np.asarray(its[its["scheme"] == scheme]["deaths"].iloc[0])
        left = np.arange(len(deaths), 0, -1)
        ranks = np.linspace(0, len(deaths) - 1, min(MOST_BARS, len(deaths))).round().astype(int)
        fate = np.where(deaths <= threshold, "finite", "beyond the threshold")
        columns = {"death": deaths[ranks], "left": left[ranks], "fate": fate[ranks]}
        both.append(pd.DataFrame({"matrix": matrix.label, "diagram": label} | columns))
    return pd.concat(both, ignore_index=True)


def diagram_figure(
    diagrams: pd.DataFrame, distances: pd.DataFrame, names: Names, threshold: float
) -> Figure:
    """The figure.

    Args:
        diagrams: the table `diagrams`.
        distances: the table `distances`.
        names: of the study.
        threshold: of the filtrations clip and drop.
    """
    level, worst = names.levels[-1], hardest_hit(distances, names)
    hidden = most_hidden(distances, names, worst)
    shown = list(dict.fromkeys([worst, hidden]))
    data = pd.concat([plotted(diagrams, one, level, threshold) for one in shown])
    where = f"{worst.label}, {names.label(worst.model)}"
    beside = (
        f" Below it: {hidden.label}, of which the threshold hides most." if hidden != worst else ""
    )
    chart = _chart(data, ["base", level], [one.label for one in shown], threshold)
    return Figure(
        name="topoquant_figure_2_diagram",
        title=f"The matrix that drifts most at {level}: {where}",
        caption=(
            "H0 persistence: every point of the cloud is born as a component at 0 and dies "
            "when it merges. Left: the diagrams; a tick is a bar, at the distance of its death, "
            "and the triangle is the component that never dies. Right: how many components are "
            "left at "
            f"a distance. The dashed line is the threshold {threshold:g}: bars that end beyond it "
            f"are cut by clip and left out by drop.{beside} {_beyond(data)}"
        ),
        alt=(
            f"Persistence diagrams and number of components by distance for {where}, base against "
            f"{level}, with the threshold {threshold:g}.{beside}"
        ),
        spec=chart,
        still=chart,
        data=data,
        panels=2,
    )


def _beyond(data: pd.DataFrame) -> str:
    """How many bars end beyond the threshold, in words."""
    shares = data.assign(beyond=data["fate"] != "finite")
    shares = shares.groupby(["matrix", "diagram"], sort=False)["beyond"].mean().unstack(sort=False)
    told = [
        f"{name}: {', '.join(f'{share:.0%} ({diagram})' for diagram, share in row.items())}"
        for name, row in shares.iterrows()
    ]
    return f"Bars beyond it, {'; '.join(told)}."


def _chart(
    data: pd.DataFrame, labels: list[str], matrices: list[str], threshold: float
) -> dict[str, Any]:
    top = float(max(data["death"].max(), threshold)) * 1.06
    distance = {"type": "quantitative", "scale": {"domain": [0, top], "nice": False}}
    colour = {
        "field": "diagram",
        "type": "nominal",
        "sort": labels,
        "title": None,
        "scale": {"domain": labels, "range": ["var(--s1)", "var(--s2)"]},
    }
    panels = []
    for matrix in matrices:
        its = [{"filter": f"datum.matrix === {matrix!r}"}]
        size = {"width": 330, "height": 230, "transform": its}
        panels.append(size | {"layer": _strip(matrix, labels, distance, colour, top, threshold)})
        panels.append(size | {"layer": _survival(distance, colour, threshold)})
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": csv_data(data),
        "columns": 2,
        "concat": panels,
        "spacing": 30,
    }


def _limit(channel: str, distance: dict[str, Any], threshold: float) -> dict[str, Any]:
    dashed = {"type": "rule", "stroke": "var(--ink)", "strokeDash": [4, 3], "strokeWidth": 1}
    at = {"values": [{"at": threshold}]}
    return {"data": at, "mark": dashed, "encoding": {channel: {"field": "at"} | distance}}


def _strip(
    matrix: str,
    labels: list[str],
    distance: dict[str, Any],
    colour: dict[str, Any],
    top: float,
    threshold: float,
) -> list[dict[str, Any]]:
    column = {"field": "diagram", "type": "nominal", "sort": labels}
    column |= {"title": f"{matrix}, born at 0", "axis": {"labelAngle": 0, "ticks": False}}
    fate = {"condition": {"test": "datum.fate === 'finite'", "value": 0.55}, "value": 0.25}
    ever = {"values": [{"diagram": label, "death": top} for label in labels]}
    tooltip = [
        {"field": "diagram", "type": "nominal"},
        {"field": "death", "type": "quantitative", "format": ".4f"},
        {"field": "fate", "type": "nominal"},
    ]
    bars = {
        "mark": {"type": "tick", "thickness": 1, "bandSize": 70},
        "encoding": {
            "x": column,
            "y": {"field": "death", "title": "death (cosine distance)"} | distance,
            "color": colour,
            "opacity": fate,
            "tooltip": tooltip,
        },
    }
    essential = {
        "data": ever,
        "mark": {"type": "point", "shape": "triangle-up", "size": 70, "yOffset": 5},
        "encoding": {"x": column, "y": {"field": "death"} | distance, "color": colour},
    }
    return [bars, essential, _limit("y", distance, threshold)]


def _survival(
    distance: dict[str, Any], colour: dict[str, Any], threshold: float
) -> list[dict[str, Any]]:
    line = {
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "death", "title": "cosine distance"} | distance,
            "y": {"field": "left", "type": "quantitative", "title": "components left"},
            "color": colour,
        },
    }
    return [line, _limit("x", distance, threshold)]
