"""What attention agreement says, in plain words: sentences made of findings."""

from collections.abc import Iterable, Iterator

import pandas as pd

from . import agreement_findings as findings
from .agreement_findings import AGREES, LevelAgreement, Outcome
from .answer import Point, number
from .names import Names, listed, role_label


def headline(levels: list[LevelAgreement]) -> str:
    """One sentence: down to which level attention agrees."""
    found = findings.outcome(findings.worst_by_level(levels))
    if found.lowest is None:
        return "Attention agrees with the base at none of these levels."
    if found.breaks is None:
        return "Attention agrees with the base at every level."
    if found.gaps:
        gaps = listed(found.gaps, "or")
        return f"Attention agrees with the base down to {found.lowest.level}, but not at {gaps}."
    return (
        f"Attention agrees with the base down to {found.lowest.level}; it breaks first at "
        f"{found.breaks.level}."
    )


def rule(names: Names) -> Point:
    """The declared rule."""
    return Point.of(
        "Agrees",
        f"the {names.top} positions that the last token of a prompt attends to most, compared with "
        f"the base's, have a mean intersection over union (IoU) of at least {number(AGREES)} on "
        "every data set, with a BOS token where that is measured.",
    )


def answer(
    table: pd.DataFrame,
    blocks: pd.DataFrame,
    drift: pd.DataFrame,
    errors: pd.DataFrame,
    levels: list[LevelAgreement],
    names: Names,
) -> list[Point]:
    """The statements on attention.

    Args:
        table: `agreement_table`.
        blocks: `agreement_blocks`.
        drift: `drift_table`.
        errors: `weight_error_table`.
        levels: what `agreement_findings.level_agreements` gives.
        names: of the study.
    """
    found = findings.outcomes(levels)
    points = [
        Point.of("Lowest level that agrees", (_lowest(one, names) for one in found)),
        Point.of("Where it breaks first", (_breaks(one, blocks, names) for one in found)),
        Point.of("Without BOS", _without_bos(table, names)),
        Point.of("By chance", _chance(table, names)),
        Point.of("Drift and attention", _connects(table, drift, errors, names)),
        Point.of("Whose items", whose_items(names)),
    ]
    return [point for point in points if point.lines]


def _lowest(found: Outcome, names: Names) -> str:
    model, one = names.of_model(found.model), found.lowest
    if one is None:
        return f"{model}None: no level reaches a mean IoU of {number(AGREES)} on every data set."
    finer = (
        f"; {listed(found.gaps)}, though finer, {'does' if len(found.gaps) == 1 else 'do'} not"
        if found.gaps
        else ("" if found.is_finest else "; every finer level agrees too")
    )
    return (
        f"{model}{one.level}, at {number(one.bits, 4)} bits a weight. Its mean IoU is "
        f"{_measured(one)} on {names.dataset_label(one.dataset)}{_where_least(names)} "
        f"({one.n_items} items){finer}.{_close(one)}"
    )


def _breaks(found: Outcome, blocks: pd.DataFrame, names: Names) -> str:
    one = found.breaks
    if one is None:
        return f"{names.of_model(found.model)}Nowhere in this study: every level agrees."
    at = findings.break_of(blocks, found.model, one.scheme)
    thirds = ", ".join(f"{name} {value:.2f}" for name, value in at.thirds.items())
    return (
        f"{names.of_model(found.model)}{one.level}, at {number(one.bits, 4)} bits: mean IoU "
        f"{_measured(one)} on {names.dataset_label(one.dataset)}{_where_least(names)}, "
        f"{AGREES - one.iou:.3f} short.{_close(one)} There block {at.block} ({at.third}) agrees "
        f"least, with {at.iou:.2f}; by thirds: {thirds}."
    )


def _measured(one: LevelAgreement) -> str:
    return f"{one.iou:.3f} ± {one.iou_se:.3f}"


def _where_least(names: Names) -> str:
    return ", where it is lowest" if len(names.datasets) > 1 else ""


def _close(one: LevelAgreement) -> str:
    return " That is within two standard errors of the mark." if one.is_close else ""


def _without_bos(table: pd.DataFrame, names: Names) -> Iterator[str]:
    both = findings.without_bos(table, names)
    if not len(both):
        return
    change = both["without"] - both["with"]
    turned = both[(both["without"] >= AGREES) != (both["with"] >= AGREES)]
    verdicts = [
        f"{names.of_model(row['model'])}{row['level']} "
        f"{'agrees' if row['without'] >= AGREES else 'does not agree'} without it"
        for row in turned.to_dict("records")
    ]
    low, high = f"{change.min():+.3f}", f"{change.max():+.3f}"
    span = low if low == high else f"{low} to {high}"
    yield (
        f"The lowest IoU of a level changes by {span} when no "
        f"BOS token stands first: {listed(verdicts) if verdicts else 'no verdict changes'}."
    )


def _chance(table: pd.DataFrame, names: Names) -> str:
    rows = findings.primary(table)
    top1, iou = (rows.groupby("dataset")[f"chance_{name}"].mean() for name in ("top1", "iou"))
    its = [
        f"{iou[one.id]:.3f} on {one.label} (top-1 {top1[one.id]:.3f})"
        for one in names.datasets
        if one.id in iou
    ]
    return f"Positions drawn at random would have a mean IoU of {listed(its)}."


def _connects(
    table: pd.DataFrame, drift: pd.DataFrame, errors: pd.DataFrame, names: Names
) -> Iterable[str]:
    for model in names.models:
        found = pd.concat(
            findings.orders(rows, drift, errors, model.id, names)
            for _, rows in table.groupby("dataset", sort=False)
        ).dropna()
        if not len(found) or found["n_levels"].iloc[0] < 3:
            continue
        by_drift, by_error = (_by_role(found, name) for name in ("drift", "error"))
        where = ", each data set by itself," if len(names.datasets) > 1 else ""
        yield (
            f"{names.of_model(model.id)}Over {found['n_levels'].iloc[0]} levels{where} the rank "
            f"correlation of IoU with drift is {by_drift} (-1: the more drift, the less agreement, "
            f"without exception); with weight error alone it is {by_error}."
        )


def _by_role(found: pd.DataFrame, name: str) -> str:
    said = []
    for role, values in found.groupby("role", sort=False)[name]:
        low, high = f"{values.min():.2f}", f"{values.max():.2f}"
        span = low if low == high else f"{low} to {high}"
        said.append(f"{span} in {role_label(str(role))}")
    return listed(said)


def whose_items(names: Names) -> str:
    """Plainly, where the items were written for this project."""
    ours = [one.label for one in names.datasets if one.is_ours]
    if not ours:
        return ""
    return (
        f"The items of {listed(ours)} were written for this project in the layout of the public "
        "data sets: they are not the paper's, and no number here is to be compared with a "
        "published one."
    )
