"""A study small enough to know its answers by heart.

Model `tiny` has 6 blocks of q, k and v. Its weight error is 1, 4, 10 and 30 % at q8_0, q5_0, q4_0
and q2_k (q5_k stores q5_0's bits at 3 %). The variant `paper` gives v the type q4_0 at q2_k, `pure`
does not. Drift follows the error to the power 0.8 down to a role's knee, then to the power 2, and v
drifts half as much. Block 4 is hit twice as hard as the others.

Attention agrees as `IOU` says; `hella` is `LESS` below `arc`, and without BOS `NO_BOS` more goes.
Half of the `ITEMS` items agree by `SPREAD` more than the mean and half by as much less, so that the
standard error is known; block 4 agrees by `DEEP` less than the others, with the mean kept.
"""

import copy
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from quantdrift.report.agreement_grid import grid_rows
from quantdrift.report.agreement_summary import summaries
from quantdrift.report.drift import bar_shifts, by_block, drift_rows, error_rows, with_home
from quantdrift.report.names import DISTANCES, Names
from quantdrift.report.published import read_grid

ERRORS = {"q8_0": 0.01, "q5_k": 0.03, "q5_0": 0.04, "q4_0": 0.1, "q2_k": 0.3}
BITS = {"q8_0": (8, 8.5), "q5_0": (5, 5.5), "q5_k": (5, 5.5), "q4_0": (4, 4.5), "q2_k": (2, 2.625)}
KNEES = {"q": 0.04, "k": 0.1, "v": 0.1}
"""The error up to which drift grows gently."""
POINTS, FINITE = 40, {"q": 30, "k": 30, "v": 4}
BLOCKS, HARD_BLOCK, THRESHOLD = 6, 4, 0.8
LEVELS = [
    ["q8_0-paper", "q8_0", "paper"],
    ["q5_0-paper", "q5_0", "paper"],
    ["q5_k-paper", "q5_k", "paper"],
    ["q4_0-paper", "q4_0", "paper"],
    ["q2_k-paper", "q2_k", "paper"],
    ["q2_k-pure", "q2_k", "pure"],
]
FILTRATIONS = {"clip": 1.0, "drop": 1.5, "full": 1.2}
PUBLISHED = read_grid(Path(__file__).parents[2] / "config/published/topoquant_table_1.yaml")
IOU = {"q8_0": 0.982, "q5_k": 0.96, "q5_0": 0.95, "q4_0": 0.92, "q2_k": 0.5}
LESS, NO_BOS, SPREAD, DEEP, ITEMS = 0.03, 0.015, 0.008, 0.054, 16
CHANCE = {"chance_top1": 0.1, "chance_iou": 0.2}
DATASETS = [
    ["arc", "Own ARC", "arc", "CC0-1.0", True],
    ["hella", "HellaSwag", "hellaswag", "MIT", False],
]
_STUDIES: dict[str, SimpleNamespace] = {}
FACTS = ["tiny", "Tiny-1M", "MIT", 0, "local tiny"]


def type_of(scheme: str, role: str) -> str:
    level = scheme.partition("-")[0]
    return "q4_0" if (scheme, role) == ("q2_k-paper", "v") else level


def drift_of(error: float, role: str) -> float:
    knee = KNEES[role]
    gentle = min(error, knee) ** 0.8 * (0.5 if role == "v" else 1)
    return gentle * (max(error, knee) / knee) ** 2


def shift_of(error: float, role: str) -> float:
    """How far bars move, as a share of the mean bar: 1 % in q where the error is 10 %."""
    return drift_of(error, role) / drift_of(0.1, "q") * 0.012


def hardness(block: int) -> float:
    return 2.0 if block == HARD_BLOCK else 1.0


def iou_of(level: str, dataset: str, bos: str = "with") -> float:
    return IOU[level] - LESS * (dataset == "hella") - NO_BOS * (bos == "without")


def study(**shape: Any) -> SimpleNamespace:
    """A fresh copy of the study of that shape: tests may spoil it."""
    name = repr(shape)
    if name not in _STUDIES:
        _STUDIES[name] = _study(**shape)
    return copy.deepcopy(_STUDIES[name])


def _study(
    levels: list[list[str]] = LEVELS,
    roles: tuple[str, ...] = ("q", "k", "v"),
    models: tuple[str, ...] = ("tiny",),
    parts: int = 1,
    gauges: bool = True,
    datasets: list[list[Any]] = DATASETS,
    policies: tuple[str, ...] = ("with", "without"),
    heads: int = 0,
) -> SimpleNamespace:
    """Every table of a study of that shape, and what the report makes of them."""
    names = Names.of(levels, [[model, *_facts(model)] for model in models], datasets)
    rows: dict[str, list[dict[str, Any]]] = {
        kind: [] for kind in ("weight_error", "ledger", "diagrams", "distances", "gauge_drift")
    }
    for model in models:
        for role in roles:
            for block in range(BLOCKS):
                key = {"model": model, "role": role, "block": block}
                for part in range(parts):
                    rows["diagrams"].append(_diagram(key | {"part": part}, "base", 0.0))
                for scheme, _, _ in levels:
                    _scheme_rows(rows, key | {"scheme": scheme}, parts, gauges)
    tables = {kind: pd.DataFrame(its) for kind, its in rows.items()}
    if not gauges:
        columns = ["model", "scheme", "role", "block", "part", "filtration", "gauge_seed", "swd"]
        tables["gauge_drift"] = pd.DataFrame(columns=columns)
    tables["gauge_drift"] = with_home(tables["gauge_drift"], names)
    tables["agreement"] = _agreement(levels, models, datasets, policies, heads)
    blocks = by_block(tables["distances"])
    agreed = SimpleNamespace(blocks=None, table=None, grid=None)
    if datasets:
        found = summaries(tables["agreement"], names, np.random.default_rng(0))
        agreed = SimpleNamespace(blocks=found.blocks, table=found.table)
        agreed.grid = grid_rows(found.table, PUBLISHED, names)
    shifts = bar_shifts(tables["diagrams"])
    return SimpleNamespace(
        names=names,
        tables=tables,
        blocks=blocks,
        errors=error_rows(tables["weight_error"], names),
        drift=drift_rows(blocks, shifts, names),
        agreed=agreed,
    )


def _facts(model: str) -> list[Any]:
    return FACTS[1:] if model == "tiny" else [f"{model.capitalize()}-1M", *FACTS[2:]]


def _diagram(key: dict[str, Any], scheme: str, shift: float) -> dict[str, Any]:
    n_finite = FINITE[key["role"]]
    within = np.linspace(0.2, 0.7, n_finite)
    beyond = np.linspace(0.85, 0.95, POINTS - 1 - n_finite)
    base = np.concatenate([within, beyond])
    return key | {
        "scheme": scheme,
        "n_points": POINTS,
        "n_rows": POINTS,
        "deaths": np.sort(base + shift * base.mean()),
    }


def _scheme_rows(
    rows: dict[str, list[dict[str, Any]]], key: dict[str, Any], parts: int, gauges: bool
) -> None:
    role, kind = key["role"], type_of(key["scheme"], key["role"])
    error, (claimed, full) = ERRORS[kind], BITS[kind]
    rows["weight_error"].append(
        key
        | {"type": kind, "n_weights": 1000, "relative_frobenius": error, "mae": error / 2}
        | {"cosine": 1 - error**2, "bpw_claimed": float(claimed), "bpw_full": full}
    )
    for entry, bits in (("indices", claimed * 1000), ("scales", (full - claimed) * 1000)):
        rows["ledger"].append(key | {"entry": entry, "bits": int(bits)})
    swd = drift_of(error, role) * hardness(key["block"])
    for part in range(parts):
        shift = shift_of(error, role) * hardness(key["block"])
        rows["diagrams"].append(_diagram(key | {"part": part}, key["scheme"], shift))
        for filtration, factor in FILTRATIONS.items():
            for at, distance in enumerate(DISTANCES):
                value = swd * factor * (at + 1)
                rows["distances"].append(
                    key
                    | {"part": part, "filtration": filtration, "distance": distance}
                    | {"value": value, "value_per_point": value / POINTS, "n_points": POINTS}
                    | {"n_finite_base": FINITE[role], "n_finite": FINITE[role]}
                    | {f"n_essential{end}": POINTS - FINITE[role] for end in ("_base", "")}
                )
    if gauges and key["block"] % 3 == 0:
        for seed, factor in enumerate((1.0, 1.02, 0.98)):
            for filtration, scale in FILTRATIONS.items():
                row = {"filtration": filtration, "gauge_seed": seed, "swd": swd * scale * factor}
                rows["gauge_drift"] += [key | row | {"part": part} for part in range(parts)]


def _agreement(
    levels: list[list[str]],
    models: tuple[str, ...],
    datasets: list[list[Any]],
    policies: tuple[str, ...],
    heads: int,
) -> pd.DataFrame:
    """Rows of `agreement`; of `heads` heads each, their mean is what one row would hold."""
    rows = []
    runs = product(models, levels, [dataset for dataset, *_ in datasets], policies)
    for (model, (scheme, _, _), dataset, bos), item, block in product(
        runs, range(ITEMS), range(BLOCKS)
    ):
        iou = iou_of(scheme.partition("-")[0], dataset, bos) + (SPREAD if item % 2 else -SPREAD)
        iou += DEEP / BLOCKS - DEEP * (block == HARD_BLOCK)
        key = {"model": model, "scheme": scheme, "dataset": dataset, "bos": bos}
        key |= {"short_rows": "flat", "seed": None, "preset": "last", "n_tokens": 20 + item}
        key |= {"item": f"item-{item:02d}", "block": block, "n_eligible": 18 + item}
        for head in range(max(heads, 1)):
            off = 0.001 * (head - (max(heads, 1) - 1) / 2)
            rows.append(
                key
                | {"head": head if heads else None, "iou": iou + off, "iou_tokens": iou + off}
                | {"top1": iou + off - 0.005}
                | CHANCE
            )
    return pd.DataFrame(rows)
