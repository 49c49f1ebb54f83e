"""From the rows of the measures to numbers a block and a role: means, and no new measure."""

import numpy as np
import pandas as pd

from .names import Names

MATRIX = ["model", "scheme", "role", "block"]
_BARS = ["n_points", "n_finite_base", "n_finite", "n_essential_base", "n_essential"]


def by_block(distances: pd.DataFrame) -> pd.DataFrame:
    """Distances a matrix: where its points are heads, their mean over the parts."""
    keys = [*MATRIX, "filtration", "distance"]
    values = ["value", "value_per_point", *_BARS]
    return distances.groupby(keys)[values].mean().reset_index()


def bar_shifts(diagrams: pd.DataFrame) -> pd.DataFrame:
    """How far the sorted bars of a matrix moved: mean |change| over the base's mean bar.

    Of the uncensored deaths, so no threshold enters; all births are 0 and a matrix keeps its
    number of points, so the k-th longest bar before has one partner after.
    """
    cloud = ["model", "role", "block", "part"]
    base = diagrams[diagrams["scheme"] == "base"].set_index(cloud)["deaths"]
    rows = []
    for row in diagrams[diagrams["scheme"] != "base"].to_dict("records"):
        before = np.asarray(base[tuple(row[name] for name in cloud)])
        moved = np.abs(np.asarray(row["deaths"]) - before).mean()
        shift = moved / before.mean() if before.any() else float(moved > 0)
        rows.append({name: row[name] for name in MATRIX} | {"bar_shift": float(shift)})
    shifts = pd.DataFrame(rows, columns=[*MATRIX, "bar_shift"])
    return shifts.groupby(MATRIX)["bar_shift"].mean().reset_index()


def drift_rows(blocks: pd.DataFrame, shifts: pd.DataFrame, names: Names) -> pd.DataFrame:
    """The rows of `drift_table`: SWD, bar shifts and bars over the blocks of a role.

    Args:
        blocks: what `by_block` gives.
        shifts: what `bar_shifts` gives.
        names: of the study.
    """
    keys = ["model", "scheme", "role", "filtration"]
    swd = blocks[blocks["distance"] == "swd"].merge(shifts, on=MATRIX, validate="many_to_one")
    rows = swd.groupby(keys, as_index=False).agg(
        n_blocks=("block", "nunique"),
        swd_mean=("value", "mean"),
        swd_sd=("value", "std"),
        swd_per_point=("value_per_point", "mean"),
        bar_shift_mean=("bar_shift", "mean"),
        bar_shift_max=("bar_shift", "max"),
        **{name: (name, "mean") for name in _BARS},
    )
    return names.described(rows)


def error_rows(errors: pd.DataFrame, names: Names) -> pd.DataFrame:
    """The rows of `weight_error_table`: means over the blocks of a role, bits over its weights."""
    bits = ["bpw_claimed", "bpw_full"]
    weighted = errors.assign(**{name: errors[name] * errors["n_weights"] for name in bits})
    rows = weighted.groupby(["model", "scheme", "role"], as_index=False).agg(
        type=("type", lambda types: ", ".join(sorted(set(types)))),
        n_blocks=("block", "nunique"),
        n_weights=("n_weights", "sum"),
        **{name: (name, "mean") for name in ("relative_frobenius", "mae", "cosine")},
        **{name: (name, "sum") for name in bits},
    )
    rows[bits] = rows[bits].div(rows["n_weights"], axis=0)
    return names.described(rows)


def with_home(gauge: pd.DataFrame, names: Names) -> pd.DataFrame:
    """`gauge_drift` with the seed of the gauge that each model is measured in; -1 for none."""
    home = {
        model.id: -1 if model.regauge_seed is None else model.regauge_seed for model in names.models
    }
    return gauge.assign(home_seed=gauge["model"].map(home))
