"""Chapter of the page on prediction: what drift foresees, and where it says to stop."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from . import findings, prediction_findings
from .agreement_findings import mean_iou, primary, spearman
from .answer import Point, number
from .chapter import Chapter, HtmlTable
from .names import Names, listed, role_label
from .prediction_figure import FEATURES, FOLDS
from .prediction_findings import Found, rule_label, spread
from .text_chapter import TextResults, divergences

_LEAD = (
    "How far attention agrees takes running the model; how far weights drift does not. Can the "
    "second stand for the first? Regressors answer for every block; they are judged on what they "
    "did not see. A regressor that saw other blocks of the same scheme need only know how bad that "
    "scheme is: so whole levels are kept from it, and whole models where several were measured."
)


@dataclass(frozen=True)
class Prediction:
    """All that the chapter is made of."""

    found: Found
    figures: list[dict[str, Any]]


def answer(results: Prediction, names: Names) -> list[Point]:
    """The honest number, and where to stop."""
    return [
        Point.of("Foreseen from the weights", prediction_findings.honest_number(results.found)),
        Point.of("Where to stop", prediction_findings.stops(results.found, names)),
    ]


def chapter(
    results: Prediction,
    table: pd.DataFrame,
    drift: pd.DataFrame,
    errors: pd.DataFrame,
    text: TextResults | None,
    names: Names,
) -> Chapter:
    """The chapter.

    Args:
        results: of this chapter.
        table: `agreement_table`.
        drift: `drift_table`.
        errors: `weight_error_table`.
        text: of the chapter on text, where there is one.
        names: of the study.
    """
    found = results.found
    return Chapter(
        id="prediction",
        title="Prediction and stopping points",
        lead=_LEAD,
        figures=results.figures,
        points=questions(found, table, drift, errors, text, names),
        claims=list(prediction_findings.claims(found, names)),
        tables=[
            stopping_table(found, names),
            r2_table(found, names),
            importance_table(found, names),
        ],
        notes=[
            "TopoQuant's questions are asked of this study's models and data: where these are not "
            "the paper's, the answers check its conclusions and not its numbers.",
            f"Over all models and marks: {'; '.join(prediction_findings.outcomes(found))}.",
        ],
    )


def questions(
    found: Found,
    table: pd.DataFrame,
    drift: pd.DataFrame,
    errors: pd.DataFrame,
    text: TextResults | None,
    names: Names,
) -> list[Point]:
    """TopoQuant's five questions, answered from this study's tables, which are named."""
    asked: list[tuple[str, Iterable[str], str]] = [
        (
            "RQ1: topology and attention, level by level",
            _rq1(table, drift, errors, names),
            "drift_table, agreement_table",
        ),
        (
            "RQ2: does topology find the stopping point?",
            prediction_findings.stops(found, names),
            "stopping, foreseen",
        ),
        (
            "RQ3: does it detect the shift in behaviour?",
            _rq3(found, table, text, names),
            "regressors, perplexity_table",
        ),
        (
            "RQ4: which projections tell most?",
            [_rq4(found)],
            "regressors, feature_importance, projection_sensitivity",
        ),
        ("RQ5: what does each set of features add?", [_rq5(found)], "regressors"),
    ]
    return [Point.of(label, [*lines, f"Tables: {tables}."]) for label, lines, tables in asked]


def _rq1(
    table: pd.DataFrame, drift: pd.DataFrame, errors: pd.DataFrame, names: Names
) -> Iterator[str]:
    lowest = primary(table).groupby(["model", "scheme"])["iou"].min()
    for one in names.models:
        ends = [
            f"{level} {lowest[one.id, scheme]:.2f}"
            for level, scheme in names.leading.items()
            if (one.id, scheme) in lowest
        ]
        knees = {
            role: at
            for (model, role), at in findings.knees(drift, errors).items()
            if model == one.id and at
        }
        bent = listed(f"{role_label(role)} from {at.upper()}" for role, at in knees.items())
        yield (
            f"{names.of_model(one.id)}Lowest mean IoU by level: {', '.join(ends)}. Drift grows "
            f"faster than the weight error {f'in {bent}' if bent else 'nowhere'}."
        )


def _rq3(
    found: Found, table: pd.DataFrame, text: TextResults | None, names: Names
) -> Iterator[str]:
    said = [
        f"{FOLDS[split]}: {spread(found.r2('combined', found.choice.matrices, split))}"
        for split in ("random", found.split)
    ]
    yield f"R² of combined features ({found.choice.regressor}), {'; '.join(said)}."
    for model in names.models if text is not None else ():
        assert text is not None
        kl, iou = divergences(text, model.id), mean_iou(table, model.id)
        schemes = [one for one in names.leading.values() if one in kl and one in iou]
        order = spearman(iou[schemes].to_numpy(), pd.Series(kl)[schemes].to_numpy())
        if order is not None and len(schemes) > 2:
            yield (
                f"{names.of_model(model.id)}Over {len(schemes)} levels agreement and the "
                f"divergence of the next token (KL) have a rank correlation of {order:.2f}."
            )


def _rq4(found: Found) -> str:
    said = [f"{name} {spread(found.r2('tda', name))}" for name in ("Q", "K", "V", "KQ", "KQV")]
    there = set(found.importance["regressor"])
    name = "forest" if "forest" in there else found.choice.regressor
    its = found.importance[
        found.importance["split"].eq(found.split)
        & found.importance["regressor"].eq(name)
        & found.importance["feature"].str.startswith("all of ")
    ]
    loss = its.groupby("feature")["loss"].mean()
    lost = listed(
        f"{str(name).removeprefix('all of ')} {value:.2f}" for name, value in loss.items()
    )
    return (
        f"R² of drift alone, {FOLDS[found.split]}: {', '.join(said)}. Shuffling all distances of a "
        f"projection beside the others costs R² ({name}): {lost}."
    )


def _rq5(found: Found) -> str:
    said = []
    for split in ("random", found.split):
        its = [
            f"{FEATURES[features]} {spread(found.r2(features, matrices, split))}"
            for features, matrices in (
                ("llm5", "all"),
                ("tda", found.choice.matrices),
                ("combined", found.choice.matrices),
                ("weight_error", "KQV"),
            )
        ]
        said.append(f"{FOLDS[split]}: {', '.join(its)}")
    return f"R² ({found.choice.regressor}), {'; '.join(said)}."


def stopping_table(found: Found, names: Names) -> HtmlTable:
    """What every rule names, at every mark."""
    many = len(names.models) > 1
    rows = [
        [
            *([names.label(row["model"])] if many else []),
            number(row["mark"]),
            rule_label(row["rule"]),
            _named(row["level"]),
            "–" if pd.isna(row["bits"]) else number(row["bits"], 3),
            "–" if pd.isna(row["iou"]) else f"{row['iou']:.3f}",
            _named(row["best_level"]),
            row["outcome"],
        ]
        for row in found.stopping.to_dict("records")
    ]
    head = [
        "Mark",
        "Rule",
        "Names",
        "Bits",
        "Its IoU, measured",
        "Best",
        "Verdict",
    ]
    return HtmlTable(
        caption=(
            "Stopping rules that never run the model: the level that each names as the cheapest "
            "safe one. A level is safe if its mean IoU reaches the mark on every data set; a "
            "regressor calls it so if the value it foresees does, or the lower end of its "
            "interval. Early: a cheaper level would have done; late: the level named is not safe. "
            "No regressor saw the level, or model, that it speaks of."
        ),
        head=[*(["Model"] if many else []), *head],
        rows=rows,
        text_columns=(0, 1, 2, 3, 6, 7) if many else (1, 2, 5, 6),
    )


def _named(level: object) -> str:
    return str(level) if isinstance(level, str) else "none"


def r2_table(found: Found, names: Names) -> HtmlTable:
    """R2 of every regressor on the features that matter, by every kind of folds."""
    asked = [*found.choice.questions, ("combined", found.choice.matrices), ("llm5", "all")]
    asked = list(dict.fromkeys(asked))
    rows = []
    splits = [split for split in FOLDS if split in set(found.regressors["split"])]
    for regressor in dict.fromkeys(found.regressors["regressor"]):
        for features, matrices in asked:
            cells = [spread(found.r2(features, matrices, split, regressor)) for split in splits]
            rows.append([regressor, FEATURES[features], matrices, *cells])
    return HtmlTable(
        caption=(
            "R² of out-of-fold predictions of a block's IoU, pooled; on the worst and the best "
            "data set. Random folds and folds by scheme leak."
        ),
        head=["Regressor", "From", "Projections", *(FOLDS[split] for split in splits)],
        rows=rows,
        text_columns=(0, 1, 2),
    )


def importance_table(found: Found, names: Names) -> HtmlTable:
    """What is lost when groups of features are shuffled; mean over data sets."""
    its = found.importance[
        found.importance["split"].eq(found.split) & found.importance["n_columns"].gt(1)
    ]
    mean = its.groupby(["feature", "regressor"])["loss"].mean().unstack("regressor")
    sizes = its.groupby("feature")["n_columns"].first()
    mean = mean.sort_values(str(mean.columns[-1]), ascending=False)
    rows = [
        [str(name), str(sizes[name]), *(f"{row[regressor]:.2f}" for regressor in mean)]
        for name, row in zip(mean.index, mean.to_dict("records"), strict=True)
    ]
    return HtmlTable(
        caption=(
            f"Permutation importance ({FOLDS[found.split]}): by how much R² falls when these "
            "columns are shuffled together in rows that were not seen; mean over data sets. "
            "Distances say much the same, and a linear regressor sets them against each other: a "
            "loss above 1 means that shuffling broke such a balance. Single columns: the table "
            "feature_importance."
        ),
        head=["Shuffled", "Columns", *map(str, mean.columns)],
        rows=rows,
        summary="What the regressors lean on",
    )
