"""What the paper and we say about drift, held against the results; a claim never fails a run."""

from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from .checks import Check
from .findings import readings, rises, same_bits
from .names import Names, role_label

FAMILIES = (("q8_0", "q5_0", "q4_0"), ("q6_k", "q5_k", "q4_k", "q3_k", "q2_k"))
"""Types of one construction, from fine to coarse."""
SPINE = ("Q8_0", "Q5_0", "Q4_0", "Q3_K", "Q2_K")
"""Levels that each store fewer bits than the one before."""


def claims(
    drift: pd.DataFrame, errors: pd.DataFrame, gauge: pd.DataFrame, names: Names
) -> list[Check]:
    """What the paper and we say about drift, held against the results of this study."""
    found: list[Check] = []
    for model in names.models:
        of_model = drift[drift["model"] == model.id]
        found += _levels_rise(of_model, names)
        found += _v_drifts_least(of_model, errors, names)
    found += _k_quants_win(drift, errors, names)
    found.append(_error_falls(errors))
    found += _gauges_agree(gauge, readings(drift), names)
    return found


def _levels_rise(drift: pd.DataFrame, names: Names) -> Iterator[Check]:
    spine = [level for level in SPINE if level in names.leading]
    filtration = "clip" if "clip" in set(drift["filtration"]) else drift["filtration"].iloc[0]
    rows = drift[drift["filtration"] == filtration].set_index(["scheme", "role"])["swd_mean"]
    subject = names.of_model(str(drift["model"].iloc[0]))
    for role in dict.fromkeys(drift["role"]):
        if role in ("q", "k") and len(spine) > 1:
            values = [float(rows[names.leading[level], role]) for level in spine]
            what = f"SWD of {role_label(role)} rises {' < '.join(spine)} ({filtration})"
            yield Check(
                subject + what,
                rises(values),
                " < ".join(f"{value:.3g}" for value in values),
            )


def _v_drifts_least(drift: pd.DataFrame, errors: pd.DataFrame, names: Names) -> Iterator[Check]:
    """At the last level, each projection at that very type where the study measures it."""
    if not {"q", "k", "v"} <= set(drift["role"]):
        return
    subject = names.of_model(str(drift["model"].iloc[0]))
    last = drift[drift["level"] == names.levels[-1]]
    last = last.merge(errors[["model", "scheme", "role", "type"]], on=["model", "scheme", "role"])
    last = last.assign(other=last["type"].str.upper() != last["level"])
    last = last.sort_values("other", kind="stable")
    for filtration, rows in last.groupby("filtration", sort=False):
        chosen = rows.drop_duplicates("role").set_index("role")
        values = chosen["swd_per_point"]
        yield Check(
            f"{subject}at {names.levels[-1]} V drifts least, per point ({filtration})",
            bool(values["v"] < min(values["q"], values["k"])),
            ", ".join(
                f"{role_label(role)} {values[role]:.3g} as {chosen['type'][role].upper()}"
                for role in ("q", "k", "v")
            ),
        )


def _k_quants_win(drift: pd.DataFrame, errors: pd.DataFrame, names: Names) -> Iterator[Check]:
    pairs = [
        pair
        for pair in same_bits(drift, errors)
        if (pair.less[-2:] == "_k") != (pair.more[-2:] == "_k")
    ]
    if pairs:
        wins = [pair for pair in pairs if pair.less.endswith("_k")]
        yield Check(
            "at equal stored bits a K-quant drifts less than the legacy type",
            len(wins) == len(pairs),
            f"in {len(wins)} of {len(pairs)} comparisons",
        )


def _gauges_agree(gauge: pd.DataFrame, chosen: dict[str, str], names: Names) -> Iterator[Check]:
    """The mean over gauges, and each single gauge, puts the levels in one order."""
    rows = names.described(gauge[gauge["filtration"] == gauge["role"].map(chosen)])
    for (model, role), group in rows.groupby(["model", "role"], sort=False):
        if group["scheme"].nunique() < 2:
            continue
        means = group.groupby(["gauge_seed", "scheme"])["swd"].mean().unstack("scheme")
        order = list(means.mean().sort_values(kind="stable").index)
        same = sum(
            list(row.sort_values(kind="stable").index) == order for _, row in means.iterrows()
        )
        home = group.loc[group["gauge_seed"] == group["home_seed"], "gauge_seed"]
        of_home = means.loc[home.iloc[0]].sort_values(kind="stable").index if len(home) else order
        yield Check(
            f"{names.of_model(str(model))}the mean over gauges orders the levels of "
            f"{role_label(str(role))} as the gauge measured here does",
            list(of_home) == order,
            f"{same} of {len(means)} gauges have the order of the mean",
        )


def _error_falls(errors: pd.DataFrame) -> Check:
    """Holds for any weights but those that lie on a format's own lattice."""
    by_type = errors.drop_duplicates(["model", "role", "type"]).pivot(
        index=["model", "role"], columns="type", values="relative_frobenius"
    )
    compared, wrong = 0, []
    for family in FAMILIES:
        there = [name for name in family if name in by_type]
        for fine, coarse in pairwise(there):
            pair = by_type[[fine, coarse]].dropna()
            compared += len(pair)
            bad = pair[pair[fine] >= pair[coarse]]
            wrong += [f"{fine} >= {coarse} in {index}" for index in bad.index]
    numbers = f"{compared} pairs, {len(wrong)} wrong" + (f"; first: {wrong[0]}" if wrong else "")
    return Check("weight error falls with bits within a family", not wrong, numbers)
