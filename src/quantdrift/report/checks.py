"""Tests of the produced results, so that a finished run is a checked run.

Integrity checks must pass, or the job fails and names what did not. Claims about the science are
evaluated and reported, and never fail a run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from .drift import MATRIX
from .findings import readings, rises, same_bits
from .names import DISTANCES, Names, role_label

FAMILIES = (("q8_0", "q5_0", "q4_0"), ("q6_k", "q5_k", "q4_k", "q3_k", "q2_k"))
"""Types of one construction, from fine to coarse."""
GAUGE_TOLERANCE = 1e-6
"""The home gauge moves nothing, so both rules measure one matrix; float64 sums differ by less."""


class IntegrityError(ValueError):
    """A result is not what the study promises; the message names every failed check."""


@dataclass(frozen=True)
class Check:
    """One line of checks.md."""

    name: str
    passed: bool
    numbers: str


@dataclass(frozen=True)
class Expected:
    """What must be there: models with their blocks, schemes, roles, filtrations."""

    blocks: Mapping[str, int]
    schemes: Sequence[str]
    roles: Sequence[str]
    filtrations: Sequence[str]
    gauge_schemes: Sequence[str] = ()
    gauge_seeds: Sequence[int] = ()
    gauge_step: int = 1

    def matrices(self, schemes: Sequence[str]) -> pd.DataFrame:
        """Every matrix under each of `schemes`."""
        rows = [
            (model, scheme, role, block)
            for model, count in self.blocks.items()
            for scheme in schemes
            for role in self.roles
            for block in range(count)
        ]
        return pd.DataFrame(rows, columns=MATRIX)


def integrity(tables: Mapping[str, pd.DataFrame], expected: Expected) -> list[Check]:
    """Every integrity check.

    Args:
        tables: weight_error, ledger, diagrams, distances, gauge_drift by name.
        expected: by the configuration of the study.
    """
    return [
        *_complete(tables, expected),
        *_base(tables),
        *_bars(tables["diagrams"], tables["distances"]),
        *_bits(tables["weight_error"], tables["ledger"]),
        *_home_gauge(tables["distances"], tables["gauge_drift"]),
    ]


def _complete(tables: Mapping[str, pd.DataFrame], expected: Expected) -> Iterator[Check]:
    quantized = expected.matrices(expected.schemes)
    for kind, wanted in (
        ("weight_error", quantized),
        ("ledger", quantized),
        ("diagrams", expected.matrices(["base", *expected.schemes])),
        ("distances", _crossed(quantized, filtration=expected.filtrations, distance=DISTANCES)),
        ("gauge_drift", _gauge_rows(expected)),
    ):
        columns = list(wanted.columns)
        there = tables[kind][columns].drop_duplicates()
        both = wanted.merge(there, how="outer", indicator=True)
        missing = both[both["_merge"] == "left_only"]
        extra = both[both["_merge"] == "right_only"]
        numbers = f"{len(wanted)} expected, {len(missing)} missing, {len(extra)} too many"
        for label, rows in (("missing", missing), ("too many", extra)):
            if len(rows):
                first = rows.iloc[0][columns].to_dict()
                numbers += f"; first {label}: {first}"
        yield Check(f"{kind} is complete", not len(missing) and not len(extra), numbers)


def _crossed(rows: pd.DataFrame, **columns: object) -> pd.DataFrame:
    for name, values in columns.items():
        rows = rows.merge(pd.DataFrame({name: list(values)}), how="cross")  # type: ignore[call-overload]
    return rows


def _gauge_rows(expected: Expected) -> pd.DataFrame:
    rows = expected.matrices(expected.gauge_schemes)
    rows = rows[rows["block"] % expected.gauge_step == 0]
    return _crossed(rows, gauge_seed=expected.gauge_seeds, filtration=expected.filtrations)


def _base(tables: Mapping[str, pd.DataFrame]) -> Iterator[Check]:
    compared = sum(
        (tables[kind]["scheme"] == "base").sum() for kind in ("weight_error", "distances")
    )
    yield Check("base is not compared with itself", not compared, f"{compared} rows")
    distances = tables["distances"]
    counts = distances.groupby(["model", "role", "block", "part"])["n_finite_base"].nunique()
    odd = int((counts > 1).sum())
    yield Check(
        "all schemes of a matrix share one base diagram", not odd, f"{odd} of {len(counts)} do not"
    )


def _bars(diagrams: pd.DataFrame, distances: pd.DataFrame) -> Iterator[Check]:
    for name in ("_base", ""):
        sums = distances[f"n_finite{name}"] + distances[f"n_essential{name}"]
        wrong = int((sums != distances["n_points"]).sum())
        label = f"n_finite{name} + n_essential{name} = n_points"
        yield Check(label, not wrong, f"{wrong} of {len(distances)} rows differ")
    wrong = int((diagrams["deaths"].map(len) != diagrams["n_points"] - 1).sum())
    yield Check("a diagram of n points has n - 1 bars", not wrong, f"{wrong} of {len(diagrams)}")
    deaths = [np.asarray(one) for one in diagrams["deaths"]]
    wrong = sum(bool(len(d) and (d[0] < 0 or d[-1] > 2 or (np.diff(d) < 0).any())) for d in deaths)
    yield Check("deaths are sorted and lie in [0, 2]", not wrong, f"{wrong} of {len(deaths)}")
    negative = int((distances["value"] < 0).sum())
    yield Check("no distance is negative", not negative, f"{negative} of {len(distances)} rows")
    whole = distances[(distances["n_essential_base"] == 1) & (distances["n_essential"] == 1)]
    values = whole[whole["distance"] == "swd"].groupby([*MATRIX, "part"])["value"]
    spread = float((values.max() - values.min()).max()) if len(whole) else 0.0
    yield Check(
        "all filtrations agree on SWD where no bar crosses the threshold",
        spread <= 1e-9,
        f"{values.ngroups} such matrices, largest difference {spread:.1e}",
    )


def _bits(errors: pd.DataFrame, ledger: pd.DataFrame) -> Iterator[Check]:
    less = int((errors["bpw_full"] < errors["bpw_claimed"]).sum())
    yield Check("bpw_full >= bpw_claimed", not less, f"{less} of {len(errors)} matrices are below")
    stored = ledger.groupby(MATRIX, as_index=False)["bits"].sum().merge(errors, on=MATRIX)
    off = (stored["bits"] - stored["bpw_full"] * stored["n_weights"]).abs()
    wrong = int((off > 0.5).sum())
    yield Check("the ledger adds up to bpw_full", not wrong, f"{wrong} of {len(stored)} matrices")


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


def _home_gauge(distances: pd.DataFrame, gauge: pd.DataFrame) -> Iterator[Check]:
    """The drift in the gauge that a model is measured in is the drift itself."""
    home = gauge[gauge["gauge_seed"] == gauge["home_seed"]] if len(gauge) else gauge
    if not len(home):
        return
    swd = distances[distances["distance"] == "swd"]
    both = home.merge(swd, on=[*MATRIX, "part", "filtration"])
    off = float(((both["swd"] - both["value"]).abs() / both["value"].clip(lower=1e-12)).max())
    yield Check(
        "drift in the home gauge is the drift of the study",
        off <= GAUGE_TOLERANCE,
        f"{len(both)} rows, largest relative difference {off:.1e}",
    )


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
    spine = [level for level in ("Q8_0", "Q5_0", "Q4_0", "Q3_K", "Q2_K") if level in names.leading]
    filtration = "clip" if "clip" in set(drift["filtration"]) else drift["filtration"].iloc[0]
    rows = drift[drift["filtration"] == filtration].set_index(["scheme", "role"])["swd_mean"]
    for role in dict.fromkeys(drift["role"]):
        if role in ("q", "k") and len(spine) > 1:
            values = [float(rows[names.leading[level], role]) for level in spine]
            what = f"SWD of {role_label(role)} rises {' < '.join(spine)} ({filtration})"
            yield Check(
                _of(drift, names) + what,
                rises(values),
                " < ".join(f"{value:.3g}" for value in values),
            )


def _v_drifts_least(drift: pd.DataFrame, errors: pd.DataFrame, names: Names) -> Iterator[Check]:
    """At the last level, each projection at that very type where the study measures it."""
    if not {"q", "k", "v"} <= set(drift["role"]):
        return
    last = drift[drift["level"] == names.levels[-1]]
    last = last.merge(errors[["model", "scheme", "role", "type"]], on=["model", "scheme", "role"])
    last = last.assign(other=last["type"].str.upper() != last["level"])
    last = last.sort_values("other", kind="stable")
    for filtration, rows in last.groupby("filtration", sort=False):
        chosen = rows.drop_duplicates("role").set_index("role")
        values = chosen["swd_per_point"]
        yield Check(
            f"{_of(drift, names)}at {names.levels[-1]} V drifts least, per point ({filtration})",
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
    for (_, role), group in rows.groupby(["model", "role"], sort=False):
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
            f"{_of(group, names)}the mean over gauges orders the levels of "
            f"{role_label(str(role))} as the gauge measured here does",
            list(of_home) == order,
            f"{same} of {len(means)} gauges have the order of the mean",
        )


def _of(rows: pd.DataFrame, names: Names) -> str:
    """The model a claim is about, where there is more than one."""
    return f"{names.label(str(rows['model'].iloc[0]))}: " if len(names.models) > 1 else ""


def raise_for(found: Sequence[Check]) -> None:
    """Stop if an integrity check failed.

    Raises:
        IntegrityError: its message names each failed check with its numbers.
    """
    failed = [check for check in found if not check.passed]
    if failed:
        lines = [f"{check.name}: {check.numbers}" for check in failed]
        raise IntegrityError("results fail their checks:\n  " + "\n  ".join(lines))


def markdown(study: str, found: Sequence[Check], claimed: Sequence[Check]) -> str:
    """checks.md: one line a check."""
    passed = sum(check.passed for check in found)
    lines = [
        f"# Checks of study {study}",
        "",
        f"{passed} of {len(found)} integrity checks pass.",
        "",
    ]
    lines += [f"- {_mark(c, 'pass', 'FAIL')}: {c.name} ({c.numbers})" for c in found]
    lines += ["", "## Claims, held against these results", ""]
    lines += [f"- {_mark(c, 'holds', 'does not hold')}: {c.name} ({c.numbers})" for c in claimed]
    if not claimed:
        lines.append("No claim applies to a study of this shape.")
    return "\n".join(lines) + "\n"


def _mark(check: Check, yes: str, no: str) -> str:
    return yes if check.passed else no
