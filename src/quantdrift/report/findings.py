"""The logic that turns tables into statements: plain functions of plain tables.

The rules are declared here, in words that the page repeats:

* A level is *quiet* if in no matrix the average bar moves by more than `NEARLY_ALONE` of the mean
  bar, and no projection is past its knee. It *reshapes* if that shift exceeds `NEARLY_ALONE` in the
  mean over the blocks of some projection. Between the two it *moves*.
* The *knee* of a projection is the first type, from fine to coarse, from which on to the coarsest
  the drift grows faster than the weight error: the slope of log drift over log error exceeds 1.
* A projection is read under `clip` as the paper does, unless fewer than `ENOUGH_FINITE` of the
  base's bars are finite at the threshold: then a threshold hides most of it, and `full` is read.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from .names import THIRDS, Names, third

NEARLY_ALONE = 0.01
ENOUGH_FINITE = 0.5
VERDICTS = ("quiet", "moves", "reshapes")


def finite_shares(drift: pd.DataFrame) -> dict[str, float]:
    """For each role the share of the base's points whose bars are finite at the threshold."""
    sums = drift.groupby("role", sort=False)[["n_finite_base", "n_points"]].sum()
    return {
        str(role): float(row["n_finite_base"] / row["n_points"]) for role, row in sums.iterrows()
    }


def readings(drift: pd.DataFrame) -> dict[str, str]:
    """For each role the filtration that statements about it use."""
    there = list(dict.fromkeys(drift["filtration"]))

    def choose(share: float) -> str:
        wanted = ("clip", "full") if share >= ENOUGH_FINITE else ("full", "clip")
        return next((name for name in wanted if name in there), there[0])

    return {role: choose(share) for role, share in finite_shares(drift).items()}


def read(rows: pd.DataFrame, chosen: dict[str, str]) -> pd.DataFrame:
    """The rows of each role under its own filtration."""
    return rows[rows["filtration"] == rows["role"].map(chosen)]


def curves(drift: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
    """Drift and weight error of each type a role really had, from fine to coarse.

    Two schemes that give a role the same type are one point of its curve.
    """
    chosen = read(drift, readings(drift))
    keys = ["model", "role", "scheme"]
    facts = errors[[*keys, "type", "relative_frobenius", "bpw_full"]]
    both = chosen[[*keys, "filtration", "swd_mean", "bar_shift_mean"]].merge(facts, on=keys)
    both = both.drop_duplicates(["model", "role", "type"])
    groups = both.groupby(["model", "role"], sort=False)
    ordered = [group.sort_values("relative_frobenius", kind="stable") for _, group in groups]
    return pd.concat(ordered, ignore_index=True)


def slopes(curve: pd.DataFrame) -> np.ndarray:
    """Slope d log drift / d log error on the way to each type but the first, fine to coarse."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(curve[["swd_mean", "relative_frobenius"]].to_numpy())
        steps = np.diff(log, axis=0)
        return steps[:, 0] / steps[:, 1]


def knee(curve: pd.DataFrame) -> str | None:
    """The type at the knee of one curve; None if drift never outgrows the error to the end."""
    steep = slopes(curve) > 1
    if not len(steep) or not steep[-1]:
        return None
    gentle = np.flatnonzero(~steep)
    first = int(gentle[-1]) + 1 if len(gentle) else 0
    return str(curve["type"].iloc[first + 1])


def knees(drift: pd.DataFrame, errors: pd.DataFrame) -> dict[tuple[str, str], str | None]:
    """The knee of each model and role."""
    groups = curves(drift, errors).groupby(["model", "role"], sort=False)
    return {(str(model), str(role)): knee(curve) for (model, role), curve in groups}


@dataclass(frozen=True)
class Verdict:
    """What a level does to the topology of a model's weights."""

    model: str
    level: str
    verdict: str
    worst_shift: float
    """Largest shift of the average bar in any matrix."""
    worst_role: str
    mean_shift: float
    """Largest mean over the blocks of a projection."""
    mean_role: str
    past_knee: tuple[str, ...]
    bits: float
    """Bits a weight in full, over the weights of the roles measured."""


def verdicts(drift: pd.DataFrame, errors: pd.DataFrame, names: Names) -> list[Verdict]:
    """One verdict a model and level, in the study's order."""
    return [
        _verdict(drift[drift["model"] == model.id], errors[errors["model"] == model.id], *level)
        for model in names.models
        for level in names.leading.items()
    ]


def _verdict(drift: pd.DataFrame, errors: pd.DataFrame, level: str, scheme: str) -> Verdict:
    model = str(errors["model"].iloc[0])
    shifts = drift[drift["scheme"] == scheme].drop_duplicates("role").set_index("role")
    of_scheme = errors[errors["scheme"] == scheme].set_index("role")
    past = []
    for (_, role), at in knees(drift, errors).items():
        its = errors[errors["role"] == role]
        if at is not None:
            edge = its.loc[its["type"] == at, "relative_frobenius"].min()
            if of_scheme.loc[role, "relative_frobenius"] >= edge:
                past.append(role)
    worst, mean = shifts["bar_shift_max"], shifts["bar_shift_mean"]
    verdict = "quiet" if worst.max() <= NEARLY_ALONE and not past else "moves"
    return Verdict(
        model=model,
        level=level,
        verdict="reshapes" if mean.max() > NEARLY_ALONE else verdict,
        worst_shift=float(worst.max()),
        worst_role=str(worst.idxmax()),
        mean_shift=float(mean.max()),
        mean_role=str(mean.idxmax()),
        past_knee=tuple(past),
        bits=float(np.average(of_scheme["bpw_full"], weights=of_scheme["n_weights"])),
    )


def by_verdict(found: list[Verdict]) -> dict[str, list[str]]:
    """Levels under each verdict; where models disagree the worst verdict counts."""
    worst: dict[str, int] = {}
    for one in found:
        worst[one.level] = max(worst.get(one.level, 0), VERDICTS.index(one.verdict))
    return {
        verdict: [level for level, index in worst.items() if index == rank]
        for rank, verdict in enumerate(VERDICTS)
    }


def block_ratios(blocks: pd.DataFrame, chosen: dict[str, str]) -> pd.DataFrame:
    """How hard each block is hit: its SWD over the mean of all blocks, averaged over schemes.

    Args:
        blocks: what `drift.by_block` gives.
        chosen: the filtration of each role.
    """
    swd = read(blocks[blocks["distance"] == "swd"], chosen).copy()
    mean = swd.groupby(["model", "scheme", "role"])["value"].transform("mean")
    swd["ratio"] = (swd["value"] / mean).where(mean > 0)
    ratios = swd.groupby(["model", "role", "block"])["ratio"].mean().reset_index()
    n_blocks = ratios.groupby("model")["block"].transform("max") + 1
    ratios["third"] = [third(b, n) for b, n in zip(ratios["block"], n_blocks, strict=True)]
    return ratios[ratios["ratio"].notna()]


def worst_blocks(ratios: pd.DataFrame, count: int = 3) -> dict[tuple[str, str], list[int]]:
    """The hardest-hit blocks of each model and role, hardest first."""
    ordered = ratios.sort_values(["ratio", "block"], ascending=[False, True])
    groups = ordered.groupby(["model", "role"])
    return {
        (str(model), str(role)): [int(block) for block in group["block"].head(count)]
        for (model, role), group in groups
    }


def third_means(ratios: pd.DataFrame) -> dict[tuple[str, str], dict[str, float]]:
    """For each model and role the mean ratio of its early, middle and late blocks."""
    means = ratios.groupby(["model", "role", "third"])["ratio"].mean()
    found: dict[tuple[str, str], dict[str, float]] = {}
    for (model, role, name), ratio in means.items():  # type: ignore[misc]
        found.setdefault((model, role), {})[name] = float(ratio)
    return {key: {name: one[name] for name in THIRDS if name in one} for key, one in found.items()}


@dataclass(frozen=True)
class SameBits:
    """Two types of one size: which drifts less."""

    model: str
    role: str
    bits: float
    less: str
    more: str
    drift_ratio: float
    """Drift of `less` over that of `more`."""
    error_ratio: float


def same_bits(drift: pd.DataFrame, errors: pd.DataFrame) -> list[SameBits]:
    """Every pair of types that store the same bits a weight, the one that drifts less first."""
    found = []
    keys = ["model", "role", "bpw_full"]
    for (model, role, bits), group in curves(drift, errors).groupby(keys, sort=False):
        rows = group.sort_values("swd_mean").to_dict("records")
        for less, more in pairwise(rows):
            if more["swd_mean"] > 0 and more["relative_frobenius"] > 0:
                found.append(
                    SameBits(
                        model=str(model),
                        role=str(role),
                        bits=float(str(bits)),
                        less=less["type"],
                        more=more["type"],
                        drift_ratio=less["swd_mean"] / more["swd_mean"],
                        error_ratio=less["relative_frobenius"] / more["relative_frobenius"],
                    )
                )
    return found


def gauge_spreads(gauge: pd.DataFrame) -> pd.DataFrame:
    """Drift over gauges: mean over blocks in each gauge, then mean and spread over the gauges.

    The spread is (largest - smallest) / mean over the gauge seeds.
    """
    keys = ["model", "scheme", "role", "filtration"]
    means = gauge.groupby([*keys, "gauge_seed"])["swd"].mean().reset_index()
    spreads = means.groupby(keys, as_index=False)["swd"].agg(["mean", "min", "max", "count"])
    spreads["spread"] = ((spreads["max"] - spreads["min"]) / spreads["mean"]).fillna(0.0)
    return spreads


def rises(values: list[float]) -> bool:
    """Each value exceeds the one before."""
    return all(a < b for a, b in pairwise(values))
