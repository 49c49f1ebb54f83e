"""Pages of synthetic studies of several shapes, in which no two views look alike."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
from report_tables import LEVELS, PUBLISHED, THRESHOLD, study
from test_figures import figures
from test_page import results

from quantdrift.report.agreement_chapter import Agreement
from quantdrift.report.agreement_figure import agreement_figure
from quantdrift.report.figure import Figure
from quantdrift.report.page import page
from quantdrift.report.trajectory_figure import trajectory_figure

SHAPES: dict[str, dict[str, Any]] = {
    "two models": {"models": ("tiny", "other")},
    "one model": {"policies": ("with",)},
    "least": {"levels": LEVELS[:1], "roles": ("q",), "gauges": False, "datasets": []},
}
LONG_NAMES = ("SmolLM2-135M-Instruct", "Qwen2.5-0.5B-Instruct")


@cache
def made_of(name: str) -> Any:
    """The study of that name, each of its numbers moved by its own few percent.

    As the tables stand, models are equal and distances are multiples of each other, so that to
    choose another one may rightly change nothing.
    """
    shape = SHAPES[name]
    made, rng = study(**shape), np.random.default_rng(0)
    agreed = [made.agreed.blocks, made.agreed.table] if shape.get("datasets", True) else []
    for rows, columns in (
        (made.blocks, ["value", "value_per_point"]),
        (made.tables["gauge_drift"], ["swd"]),
        *((rows, ["top1", "iou"]) for rows in agreed),
    ):
        for column in columns:
            rows[column] = rows[column] * rng.uniform(0.9, 1.0, len(rows))
    if len(made.names.models) > 1:
        named = zip(made.names.models, LONG_NAMES, strict=True)
        models = tuple(dataclasses.replace(model, label=label) for model, label in named)
        made.names = dataclasses.replace(made.names, models=models)
    return made


def agreement_figures(made: Any) -> list[Figure]:
    """Those of the chapter on attention."""
    agreed = made.agreed
    return [
        trajectory_figure(made.blocks, agreed.table, made.names, THRESHOLD),
        agreement_figure(agreed.blocks, made.names),
    ]


def every_figure(name: str) -> list[Figure]:
    """All figures of the study of that name, which must have gauges and data sets."""
    made = made_of(name)
    return [*figures(made), *agreement_figures(made)]


def html_of(name: str) -> str:
    """The page of the study of that name."""
    made = made_of(name)
    its = results(made)
    if SHAPES[name].get("datasets", True):
        agreed = made.agreed
        packed = [figure.packed() for figure in agreement_figures(made)]
        attention = Agreement(agreed.table, agreed.blocks, agreed.grid, PUBLISHED, packed)
        its = dataclasses.replace(its, agreement=attention)
    return page(its)
