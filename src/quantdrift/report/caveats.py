"""What the answer does not say, with the numbers that show it."""

from collections.abc import Iterable, Mapping

import pandas as pd

from . import findings
from .answer import Point, number, percent
from .names import Names, listed, role_label

SHORT_ROWS = {
    "flat": (
        "Where rows do not divide into a format's blocks of 256, the matrix is quantized as one "
        "row-major run of numbers, at the format's nominal bits: right for studying a format, but "
        "llama.cpp cannot store such rows and would fall back to another type."
    ),
    "fallback": (
        "Rows that a format's blocks do not divide get the type llama.cpp falls back to; the "
        "column `type` names it, and a level's name may promise fewer bits than it uses."
    ),
    "error": "Every row divides into the formats' blocks; a model whose rows do not is refused.",
}


def caveats(
    drift: pd.DataFrame,
    errors: pd.DataFrame,
    gauge: pd.DataFrame,
    names: Names,
    threshold: float,
    short_rows: str,
) -> list[Point]:
    """Every caveat that applies to a study."""
    points = [
        Point.of(
            "Weights, not behaviour",
            "Drift is measured on the weights alone. It does not say what the model writes: a "
            "quiet format may still change answers, and a reshaped one may not.",
        ),
        Point.of("Attention, not answers", _attention(names)),
        Point.of("What the threshold hides", _censoring(drift, names, threshold)),
        Point.of("The gauge", gauge_sentence(gauge, drift, names)),
        Point.of("Bits", _bits(errors, names)),
        Point.of("Rows", SHORT_ROWS[short_rows]),
        Point.of("Lattice", _lattice(names)),
    ]
    return [point for point in points if point.lines]


def _attention(names: Names) -> str:
    if not names.datasets:
        return "This study names no data sets: what the model attends to is not measured."
    return (
        "Agreement tells where the last token of a prompt looks, over heads in the mean, and "
        f"compares the first {names.top} positions only. A model may look elsewhere and answer "
        "the same, or look there and answer otherwise."
    )


def _censoring(drift: pd.DataFrame, names: Names, threshold: float) -> str:
    shares = findings.finite_shares(drift)
    told = [f"{percent(share)} in {role_label(role)}" for role, share in shares.items()]
    text = (
        f"TopoQuant stops the filtration at distance {threshold:g}. In the base model the bars "
        f"that end by then are {listed(told)}."
    )
    hidden = [role for role, share in shares.items() if share < findings.ENOUGH_FINITE]
    if not hidden:
        return text
    scheme = names.leading[names.levels[-1]]
    for role in hidden:
        rows = drift[(drift["scheme"] == scheme) & (drift["role"] == role)]
        means = rows.groupby("filtration", sort=False)["swd_mean"].mean()
        read = [f"{number(value)} ({name})" for name, value in means.items()]
        label = role_label(role)
        text += (
            f" So {label} is nearly empty at the threshold, and a small drift of it may be "
            f"censoring: its SWD at {names.levels[-1]} is {listed(read)}."
        )
        if "full" in means.index:
            text += f" Statements on {label} alone use full."
    return text


def gauge_sentence(gauge: pd.DataFrame, drift: pd.DataFrame, names: Names) -> str:
    """How much drift depends on the gauge, or that the study does not measure it."""
    if not len(gauge):
        return (
            "Drift depends on how the model's channels happen to be scaled, which behaviour does "
            "not. This study measures one gauge only (gauge.schemes is empty), so the figure of "
            "drift over gauges is left out."
        )
    spreads = findings.read(findings.gauge_spreads(gauge), findings.readings(drift))
    largest = spreads.sort_values("spread").iloc[-1]
    level = next(level for scheme, level, _ in names.schemes if scheme == largest["scheme"])
    return (
        "Drift depends on how the model's channels happen to be scaled, which behaviour does not. "
        f"Over {int(spreads['count'].max())} such gauges the mean drift spreads by "
        f"{percent(float(spreads['spread'].median()))} (median over levels and projections) and by "
        f"at most {percent(float(largest['spread']))} ({role_label(str(largest['role']))} at "
        f"{level.upper()}): differences smaller than that are convention."
    )


def _bits(errors: pd.DataFrame, names: Names) -> str:
    more = errors[errors["bpw_full"] > errors["bpw_claimed"]]
    if not len(more):
        return ""
    excess = (more["bpw_full"] / more["bpw_claimed"] - 1).max()
    row = more.iloc[int((more["bpw_full"] / more["bpw_claimed"]).argmax())]
    text = (
        "A level's name counts the bits of its indices; scales and minima come on top, up to "
        f"{percent(float(excess))} ({row['type'].upper()}: {number(row['bpw_claimed'])} by name, "
        f"{number(row['bpw_full'], 4)} stored)."
    )
    differing = errors[errors["type"].str.upper() != errors["level"].str.upper()]
    raised = list(dict.fromkeys(differing["role"]))
    if raised:
        roles = listed(role_label(role) for role in raised)
        levels = listed(dict.fromkeys(differing["level"]))
        text += (
            f" Some schemes give {roles} another type than the level names ({levels}): compare "
            "a projection at its own type."
        )
    return text


def on_lattice(
    tensors: Mapping[str, pd.DataFrame], roles: Iterable[str], names: Names
) -> list[str]:
    """A warning for each model whose measured weights lie on the lattice of a quantized source."""
    found = []
    for model in names.models:
        rows = tensors[model.id]
        # A fused tensor holds several roles: "q k v".
        held = rows.loc[rows["on_lattice"], "role"].str.split().explode()
        hit = held[held.isin(list(roles))]
        if len(hit):
            roles_hit = listed(role_label(role) for role in dict.fromkeys(hit))
            found.append(
                f"{roles_hit} of {model.label} were quantized before. A format that fits their "
                "grid finds nothing to round, so levels cannot be compared here. Set "
                "regauge_seed and run again: that takes the weights off the grid and changes "
                "nothing that the model computes."
            )
    return found


def _lattice(names: Names) -> list[str]:
    return [
        f"{model.label} is measured in another gauge (seed {model.regauge_seed}): its channels "
        "were rescaled without changing what it computes, so that no format finds a grid that the "
        "weights were rounded to before."
        for model in names.models
        if model.regauge_seed is not None
    ]
