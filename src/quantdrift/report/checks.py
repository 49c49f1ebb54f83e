"""Tests of the produced results, so that a finished run is a checked run.

Integrity checks must pass, or the job fails and names what did not. Claims about the science are
evaluated and reported, and never fail a run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .drift import MATRIX
from .names import DISTANCES

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
    """What must be there: models with their blocks, schemes, roles, filtrations, data sets."""

    blocks: Mapping[str, int]
    schemes: Sequence[str]
    roles: Sequence[str]
    filtrations: Sequence[str]
    gauge_schemes: Sequence[str] = ()
    gauge_seeds: Sequence[int] = ()
    gauge_step: int = 1
    datasets: Sequence[str] = ()
    bos: Sequence[str] = ()

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
        ("distances", crossed(quantized, filtration=expected.filtrations, distance=DISTANCES)),
        ("gauge_drift", _gauge_rows(expected)),
    ):
        yield presence(f"{kind} is complete", wanted, tables[kind])


def presence(name: str, wanted: pd.DataFrame, rows: pd.DataFrame) -> Check:
    """Whether `rows` hold each combination in `wanted` and no other."""
    columns = list(wanted.columns)
    both = wanted.merge(rows[columns].drop_duplicates(), how="outer", indicator=True)
    missing = both[both["_merge"] == "left_only"]
    extra = both[both["_merge"] == "right_only"]
    numbers = f"{len(wanted)} expected, {len(missing)} missing, {len(extra)} too many"
    for label, its in (("missing", missing), ("too many", extra)):
        if len(its):
            first = its.iloc[0][columns].to_dict()
            numbers += f"; first {label}: {first}"
    return Check(name, not len(missing) and not len(extra), numbers)


def crossed(rows: pd.DataFrame, **columns: Iterable[object]) -> pd.DataFrame:
    """Every row with every combination of the values of further columns."""
    for name, values in columns.items():
        rows = rows.merge(pd.DataFrame({name: list(values)}), how="cross")
    return rows


def _gauge_rows(expected: Expected) -> pd.DataFrame:
    rows = expected.matrices(expected.gauge_schemes)
    rows = rows[rows["block"] % expected.gauge_step == 0]
    return crossed(rows, gauge_seed=expected.gauge_seeds, filtration=expected.filtrations)


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
