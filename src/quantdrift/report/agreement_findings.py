"""The logic that turns agreement into statements: plain functions of plain tables.

The rules are declared here, in words that the page repeats:

* A level *agrees* if its mean top-k IoU is at least `AGREES` on every data set, with BOS where that
  is measured. Each level is spoken for by its leading scheme.
* The *lowest* level is the one of fewest stored bits a weight among those that agree; the first to
  *break* is the one of most bits among those that do not.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .agreement_summary import policies
from .findings import Verdict, read, readings
from .names import THIRDS, Names, third

AGREES = 0.9


@dataclass(frozen=True)
class LevelAgreement:
    """How far attention under one level agrees, on the data set where it agrees least."""

    model: str
    level: str
    scheme: str
    bits: float
    dataset: str
    iou: float
    iou_se: float
    chance: float
    n_items: int

    @property
    def agrees(self) -> bool:
        """By the declared rule."""
        return self.iou >= AGREES

    @property
    def is_close(self) -> bool:
        """Two standard errors reach the mark."""
        return abs(self.iou - AGREES) <= 2 * self.iou_se


def primary(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows under the BOS policy that statements use."""
    return rows[rows["bos"] == policies(rows)[0]]


def level_agreements(
    table: pd.DataFrame, found: list[Verdict], names: Names
) -> list[LevelAgreement]:
    """One a model and level, in the study's order; bits are those of the weights' verdicts."""
    bits = {(one.model, one.level): one.bits for one in found}
    levels = []
    for model in names.models:
        rows = primary(table[table["model"] == model.id])
        for level, scheme in names.leading.items():
            its = rows[rows["scheme"] == scheme]
            if len(its):
                worst = its.iloc[int(its["iou"].argmin())]
                levels.append(
                    LevelAgreement(
                        model=model.id,
                        level=level,
                        scheme=scheme,
                        bits=bits[model.id, level],
                        dataset=str(worst["dataset"]),
                        iou=float(worst["iou"]),
                        iou_se=float(worst["iou_se"]),
                        chance=float(worst["chance_iou"]),
                        n_items=int(worst["n_items"]),
                    )
                )
    return levels


@dataclass(frozen=True)
class Outcome:
    """What follows for one model."""

    model: str
    lowest: LevelAgreement | None
    """Of those that agree, the one of fewest bits."""
    breaks: LevelAgreement | None
    """Of those that do not, the one of most bits."""
    gaps: tuple[str, ...]
    """Levels that do not agree though they have more bits than `lowest`."""
    is_finest: bool = False
    """No level has more bits than `lowest`."""


def outcome(levels: list[LevelAgreement]) -> Outcome:
    """Of the levels of one model, or the worst over models of each level."""
    yes = [one for one in levels if one.agrees]
    no = [one for one in levels if not one.agrees]
    lowest = min(yes, key=lambda one: (one.bits, -one.iou), default=None)
    return Outcome(
        model=levels[0].model,
        lowest=lowest,
        breaks=max(no, key=lambda one: (one.bits, -one.iou), default=None),
        gaps=tuple(one.level for one in no if lowest and one.bits > lowest.bits),
        is_finest=lowest is not None and all(one.bits <= lowest.bits for one in levels),
    )


def outcomes(levels: list[LevelAgreement]) -> list[Outcome]:
    """One a model."""
    models = dict.fromkeys(one.model for one in levels)
    return [outcome([one for one in levels if one.model == model]) for model in models]


def worst_by_level(levels: list[LevelAgreement]) -> list[LevelAgreement]:
    """Where models disagree the one that agrees least counts."""
    worst: dict[str, LevelAgreement] = {}
    for one in levels:
        if one.level not in worst or one.iou < worst[one.level].iou:
            worst[one.level] = one
    return list(worst.values())


@dataclass(frozen=True)
class Break:
    """Where in a model attention agrees least under one scheme; means over data sets."""

    block: int
    third: str
    iou: float
    thirds: dict[str, float]


def break_of(blocks: pd.DataFrame, model: str, scheme: str) -> Break:
    """Of the table `agreement_blocks`."""
    rows = primary(blocks[(blocks["model"] == model) & (blocks["scheme"] == scheme)])
    iou = rows.groupby("block")["iou"].mean()
    thirds = iou.groupby([third(int(block), len(iou)) for block in iou.index]).mean()
    block = int(iou.index[int(iou.argmin())])
    return Break(
        block=block,
        third=third(block, len(iou)),
        iou=float(iou.min()),
        thirds={name: float(thirds[name]) for name in THIRDS if name in thirds},
    )


def without_bos(table: pd.DataFrame, names: Names) -> pd.DataFrame:
    """For each model and level the lowest mean IoU over data sets, with and without BOS."""
    leading = table[table["scheme"].isin(list(names.leading.values()))]
    lowest = leading.groupby(["model", "level", "bos"], sort=False)["iou"].min().unstack("bos")
    return lowest.dropna().reset_index() if {"with", "without"} <= set(lowest) else lowest.iloc[:0]


def mean_iou(table: pd.DataFrame, model: str) -> pd.Series:
    """For each scheme of a model its IoU, mean over data sets."""
    return primary(table[table["model"] == model]).groupby("scheme")["iou"].mean()


def orders(
    table: pd.DataFrame, drift: pd.DataFrame, errors: pd.DataFrame, model: str, names: Names
) -> pd.DataFrame:
    """How drift, and weight error, order the levels against agreement: Spearman by role.

    -1: the more drift, the less agreement, without exception. Null where nothing varies.
    """
    iou = mean_iou(table, model)
    schemes = [scheme for scheme in names.leading.values() if scheme in iou]
    swd = read(drift, readings(drift))
    rows = []
    for role in dict.fromkeys(drift["role"]):
        row: dict[str, object] = {"role": role, "n_levels": len(schemes)}
        for name, values in (
            ("drift", _of(swd, model, role)["swd_mean"]),
            ("error", _of(errors, model, role)["relative_frobenius"]),
        ):
            row[name] = spearman(values[schemes].to_numpy(), iou[schemes].to_numpy())
        rows.append(row)
    return pd.DataFrame(rows)


def _of(rows: pd.DataFrame, model: str, role: str) -> pd.DataFrame:
    return rows[(rows["model"] == model) & (rows["role"] == role)].set_index("scheme")


def spearman(one: np.ndarray, other: np.ndarray) -> float | None:
    """Rank correlation, ties at their mean rank; None where either does not vary."""
    ranks = [pd.Series(values).rank() for values in (one, other)]
    if len(one) < 2 or any(rank.nunique() < 2 for rank in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
