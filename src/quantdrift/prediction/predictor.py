"""A fitted predictor of attention agreement, with what it was fitted on; it never runs a model.

It carries its *envelope*, the range of every feature over the blocks it was fitted on: outside it a
linear regressor extrapolates and a forest repeats its last answer, so rows outside are marked. Its
intervals are conformal, from what honest folds got wrong (`stopping.half_width`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from .features import TARGET, columns_of, design
from .regressors import regressor
from .stopping import half_width

SCHEMA = 1
"""Of saved predictors; another number means other columns or another sense of them."""
_HERE = ["model", "scheme", "block"]
FEW_MODELS = 5


class PredictorError(ValueError):
    """A predictor does not fit what it is asked; the message says what differs and what to do."""


@dataclass(frozen=True)
class Part:
    """One regressor, for one data set and one set of features."""

    dataset: str
    features: str
    matrices: str
    fitted: Any
    """A scikit-learn regressor or pipeline."""
    block_width: float
    """Half the interval of one block."""
    level_width: float
    """Half the interval of a mean over blocks."""
    coverage: float
    """That the interval of a mean can promise."""


@dataclass(frozen=True)
class Predictor:
    """Regressors by data set and features, and what is needed to refuse what they do not fit."""

    parts: Sequence[Part]
    envelope: Mapping[str, tuple[float, float]]
    """Column to its smallest and largest value."""
    settings: Mapping[str, Any]
    """How drift and agreement were taken: filtration, distances, points, threshold, ..."""
    models: Sequence[Mapping[str, Any]]
    """id, label, parameters and blocks of what it was fitted on."""
    regressor: str
    schema: int = SCHEMA
    labels: Mapping[str, str] = field(default_factory=dict)
    """Data set to its label."""


def fit(
    found: pd.DataFrame,
    predictions: pd.DataFrame,
    questions: Sequence[tuple[str, str]],
    name: str,
    coverage: float,
    **about: Any,
) -> Predictor:
    """Fit every part on all rows.

    Args:
        found: what `features.rows` gives.
        predictions: of the table `predictions`, those of this regressor and one honest split.
        questions: features and matrices of each part.
        name: of the regressor.
        coverage: of the intervals.
        about: settings, models and labels of the predictor.
    """
    parts = []
    for dataset, rows in found.groupby("dataset", sort=False):
        y = rows[TARGET].to_numpy(dtype=float)
        for features, matrices in questions:
            its = predictions[
                predictions["dataset"].eq(dataset)
                & predictions["features"].eq(features)
                & predictions["matrices"].eq(matrices)
            ]
            error = (its["predicted"].clip(0, 1) - its["measured"]).groupby(
                [its["model"], its["scheme"], its["fold"]]
            )
            level_width, promised = half_width(error.mean().to_numpy(), coverage)
            parts.append(
                Part(
                    dataset=str(dataset),
                    features=features,
                    matrices=matrices,
                    fitted=regressor(name).fit(design(rows, features, matrices), y),
                    block_width=half_width(np.concatenate([e for _, e in error]), coverage)[0],
                    level_width=level_width,
                    coverage=promised,
                )
            )
    columns = dict.fromkeys(
        name for features, matrices in questions for name in numeric(features, matrices)
    )
    envelope = {name: (float(found[name].min()), float(found[name].max())) for name in columns}
    return Predictor(parts=parts, envelope=envelope, regressor=name, **about)


def numeric(features: str, matrices: str) -> list[str]:
    """Columns of a set of features that have a range."""
    return [name for name in columns_of(features, matrices) if not name.startswith("is_")]


def check(predictor: Predictor, settings: Mapping[str, Any]) -> None:
    """Refuse to predict from drift that was taken in another way.

    Raises:
        PredictorError: another schema, or a setting differs; the message names the first.
    """
    if predictor.schema != SCHEMA:
        raise PredictorError(
            f"the predictor has schema {predictor.schema}, and this version reads {SCHEMA}: fit it "
            "again with `snakemake predictor`."
        )
    for name in [*predictor.settings, *settings]:
        theirs, here = predictor.settings.get(name), settings.get(name)
        if theirs != here:
            raise PredictorError(
                f"the predictor was fitted with {name} {theirs}, and this study has {here}: use "
                "the same, or fit a predictor on this study's settings."
            )


def predict(predictor: Predictor, inputs: pd.DataFrame) -> pd.DataFrame:
    """Agreement of every block, for every data set and set of features.

    Args:
        predictor: that was fitted.
        inputs: what `features.inputs` gives.

    Returns:
        model, scheme, block, dataset, features, `predicted` (cut to [0, 1]), `lower`, `upper`, and
        `outside`: the first column that leaves the envelope, or None.
    """
    found = []
    for part in predictor.parts:
        values = part.fitted.predict(design(inputs, part.features, part.matrices))
        values = np.clip(np.asarray(values, dtype=float), 0, 1)
        found.append(
            inputs[_HERE].assign(
                dataset=part.dataset,
                features=part.features,
                predicted=values,
                lower=np.clip(values - part.block_width, 0, 1),
                upper=np.clip(values + part.block_width, 0, 1),
                outside=outside(predictor, inputs, numeric(part.features, part.matrices)),
            )
        )
    return pd.concat(found, ignore_index=True)


def outside(predictor: Predictor, inputs: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """For each row the first of the columns that leaves the envelope; None if all are inside."""
    beyond = pd.DataFrame(
        {
            name: (inputs[name] < low) | (inputs[name] > high)
            for name in columns
            for low, high in [predictor.envelope[name]]
        }
    )
    first = [str(row.idxmax()) if row.any() else None for _, row in beyond.iterrows()]
    return pd.Series(first, index=inputs.index, dtype=object)


def levels(predictor: Predictor, blocks: pd.DataFrame) -> pd.DataFrame:
    """Means over blocks with their intervals.

    Args:
        predictor: that made `blocks`.
        blocks: what `predict` gives.

    Returns:
        model, scheme, dataset, features, `predicted`, `lower`, `upper`, `coverage`,
        `worst_blocks` (the three of least agreement, least first) and `share_outside`.
    """
    widths = {(one.dataset, one.features): one for one in predictor.parts}
    found = []
    for key, rows in blocks.groupby(["model", "scheme", "dataset", "features"], sort=False):
        model, scheme, dataset, features = map(str, key)
        part, mean = widths[dataset, features], float(rows["predicted"].mean())
        worst = rows.sort_values(["predicted", "block"])["block"].head(3)
        found.append(
            {
                "model": model,
                "scheme": scheme,
                "dataset": dataset,
                "features": features,
                "predicted": mean,
                "lower": max(mean - part.level_width, 0.0),
                "upper": min(mean + part.level_width, 1.0),
                "coverage": part.coverage,
                "worst_blocks": [int(block) for block in worst],
                "share_outside": float(rows["outside"].notna().mean()),
            }
        )
    return pd.DataFrame(found)


def warnings(
    predictor: Predictor, levels: pd.DataFrame, parameters: Mapping[str, Any]
) -> list[str]:
    """What must be read before a prediction is trusted.

    Args:
        predictor: that made it.
        levels: what the function of that name gives.
        parameters: of each model that is predicted; None where unknown.
    """
    labels = [str(model["label"]) for model in predictor.models]
    largest = max((model["parameters"] or 0 for model in predictor.models), default=0)
    trained = f"{len(labels)} model{'s' if len(labels) > 1 else ''} ({', '.join(labels)})"
    said = []
    if len(labels) < FEW_MODELS:
        said.append(f"Trained on {trained}: not yet to be trusted on others.")
    known = {str(model["id"]) for model in predictor.models}
    for model in dict.fromkeys(levels["model"]):
        size = parameters.get(model)
        if model in known:
            said.append(f"{model} is one of the models it was trained on: this is no forecast.")
        elif size and largest and size > 2 * largest:
            said.append(
                f"{model} has {size / 1e9:.2g} billion weights, the largest model it was trained "
                f"on {largest / 1e9:.2g}."
            )
        share = levels.loc[levels["model"] == model, "share_outside"].max()
        if share > 0:
            said.append(
                f"{model}: up to {share:.0%} of the blocks of a scheme lie outside what it was "
                "trained on; their predictions extrapolate."
            )
    return said
