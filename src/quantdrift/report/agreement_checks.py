"""Attention agreement checked: rows that must be there, and claims held against them."""

from collections.abc import Iterator, Mapping

import pandas as pd

from .agreement_findings import orders, primary
from .agreement_grid import top1_exceeds
from .agreement_summary import CELL
from .checks import Check, Expected, crossed, presence
from .claims import SPINE
from .findings import rises
from .names import Names, listed, role_label

Q8_0_AGREES = 0.95
"""What a format of 8 bits should keep; the paper says that from Q8_0 to Q5_K most exceed 0.98."""
_SHARES = ["top1", "iou", "iou_tokens", "chance_top1", "chance_iou"]
_PROMPT = ["n_tokens", "n_eligible"]


def integrity(rows: pd.DataFrame, expected: Expected) -> Iterator[Check]:
    """Every integrity check of the table `agreement`; none where the study has no data sets."""
    if not expected.datasets:
        return
    runs = crossed(
        pd.DataFrame({"model": list(expected.blocks)}),
        scheme=expected.schemes,
        dataset=expected.datasets,
        bos=expected.bos,
    )
    yield presence("agreement: runs are complete", runs, rows)
    yield _whole(rows, expected.blocks)
    yield _one_number_of_items(rows)
    compared = int((rows["scheme"] == "base").sum())
    yield Check("agreement: base is not compared with itself", not compared, f"{compared} rows")
    outside = int(((rows[_SHARES] < 0) | (rows[_SHARES] > 1)).any(axis=1).sum())
    yield Check("agreement lies in [0, 1]", not outside, f"{outside} of {len(rows)} rows do not")
    prompts = rows.groupby(["model", "dataset", "bos", "item", "block"], sort=False)[_PROMPT]
    odd = int((prompts.max() != prompts.min()).any(axis=1).sum())
    yield Check(
        "agreement: all schemes see the same prompts",
        not odd,
        f"{odd} of {prompts.ngroups} prompts and blocks differ in tokens",
    )


def _whole(rows: pd.DataFrame, blocks: Mapping[str, int]) -> Check:
    """Each item of each run has each block of its model."""
    counts = rows.groupby([*CELL, "item"], sort=False)["block"].nunique()
    wanted = counts.index.get_level_values("model").map(blocks)
    short = counts[counts.to_numpy() != wanted.to_numpy()]
    numbers = f"{len(short)} of {len(counts)} do not"
    if len(short):
        numbers += f"; first: {dict(zip(counts.index.names, short.index[0], strict=True))}"
    return Check("agreement: every item has every block", not len(short), numbers)


def _one_number_of_items(rows: pd.DataFrame) -> Check:
    """Of a data set every model, scheme and BOS policy has the same items."""
    items = rows.groupby(CELL, sort=False)["item"].agg(lambda its: frozenset(its))
    differing = items.groupby("dataset").nunique()
    sizes = items.map(len).groupby("dataset").agg(["min", "max"])
    numbers = [f"{name} {row['min']} to {row['max']}" for name, row in sizes.iterrows()]
    return Check(
        "agreement: every run of a data set has the same items",
        bool((differing == 1).all()),
        f"items a run: {', '.join(numbers)}",
    )


def claims(
    table: pd.DataFrame, drift: pd.DataFrame, errors: pd.DataFrame, names: Names
) -> Iterator[Check]:
    """What the paper and we say about agreement, under the BOS policy that statements use.

    Args:
        table: `agreement_table`.
        drift: `drift_table`.
        errors: `weight_error_table`.
        names: of the study.
    """
    leading = table[table["scheme"].isin(list(names.leading.values()))]
    rows = primary(leading)
    for (model, dataset), its in rows.groupby(["model", "dataset"], sort=False):
        yield from _falls(its, names.of_model(str(model)), names.dataset_label(str(dataset)), names)
    yield from _fine_level_agrees(rows, names)
    above = rows["iou"] - rows["chance_iou"]
    least = rows.iloc[int(above.argmin())]
    yield Check(
        f"top-{names.top} IoU is above chance at every level",
        bool((above > 2 * rows["iou_se"]).all()),
        f"least at {least['level']} on {names.dataset_label(least['dataset'])}: "
        f"{least['iou']:.3f} ± {least['iou_se']:.3f}, chance {least['chance_iou']:.3f}",
    )
    exceeds, cells = top1_exceeds(rows)
    yield Check(
        f"top-1 agreement is more sensitive than top-{names.top} IoU: the lower in most cells",
        2 * exceeds < cells,
        f"top-1 exceeds top-{names.top} IoU in {exceeds} of {cells} cells",
    )
    for model in names.models:
        yield from _monotone(leading, drift, errors, model.id, names)


def _falls(rows: pd.DataFrame, subject: str, dataset: str, names: Names) -> Iterator[Check]:
    iou = rows.set_index("level")["iou"]
    spine = [level for level in SPINE if level in iou]
    if len(spine) > 1:
        values = [float(iou[level]) for level in spine]
        yield Check(
            f"{subject}top-{names.top} IoU falls {' > '.join(spine)} on {dataset}",
            rises(values[::-1]),
            " > ".join(f"{value:.3f}" for value in values),
        )


def _fine_level_agrees(rows: pd.DataFrame, names: Names) -> Iterator[Check]:
    its = rows[rows["level"] == "Q8_0"]
    if len(its):
        yield Check(
            f"top-{names.top} IoU at Q8_0 is at least {Q8_0_AGREES:g} everywhere",
            bool((its["iou"] >= Q8_0_AGREES).all()),
            _by_dataset(its, names),
        )


def _by_dataset(rows: pd.DataFrame, names: Names) -> str:
    return ", ".join(
        f"{names.of_model(row['model'])}{row['iou']:.3f} on {names.dataset_label(row['dataset'])}"
        for row in rows.to_dict("records")
    )


def _monotone(
    table: pd.DataFrame, drift: pd.DataFrame, errors: pd.DataFrame, model: str, names: Names
) -> Iterator[Check]:
    """The paper's inverse relation, on each data set."""
    datasets = list(dict.fromkeys(table["dataset"]))
    found: dict[str, list[str]] = {}
    holds: dict[str, bool] = {}
    for dataset in datasets:
        rows = orders(table[table["dataset"] == dataset], drift, errors, model, names)
        for row in rows.dropna().to_dict("records"):
            if row["n_levels"] > 2:
                told = f"{row['drift']:.2f} on {names.dataset_label(dataset)}"
                found.setdefault(row["role"], []).append(told)
                holds[row["role"]] = holds.get(row["role"], True) and row["drift"] < -1 + 1e-9
    for role, told in found.items():
        yield Check(
            f"{names.of_model(model)}the more {role_label(role)} drifts, the less attention "
            "agrees, without exception",
            holds[role],
            f"rank correlation of SWD and IoU over levels {listed(told)}",
        )
